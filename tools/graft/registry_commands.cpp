// SPDX-License-Identifier: Apache-2.0
// graft opt, ops, env, cache: the tables of passes, operators, variables and cached kernels.

#include <ctime>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/cuda_library.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/spelling.h"
#include "commands.h"
#include "console.h"
#include "device/cuda/describe_gpus.h"
#include "driver/compile.h"
#include "graph/host_operator.h"
#include "graph/op_def.h"
#include "import/onnx/contrib_operators.h"
#include "import/onnx/import.h"
#include "json_output.h"
#include "library/libraries.h"
#include "model_options.h"
#include "modules/kernel_source.h"
#include "modules/library_source.h"
#include "operator_listing.h"
#include "operators_json.h"
#include "output.h"
#include "passes/pass.h"
#include "runtime/kernel_cache.h"
#include "target/target.h"

namespace graft {
namespace {

using nlohmann::json;

int list_passes(const JsonOutput& output) {
  Table table("ll");
  table.add({"pass", "purpose"});
  json rows = json::array();
  for (const Pass& pass : pipeline()) {
    table.add({std::string(pass.name), std::string(pass.purpose)});
    rows.push_back({{"name", pass.name}, {"purpose", pass.purpose}});
  }
  if (output.leaves_text()) print_to(stdout, "{}", table);
  output.write(rows);
  return 0;
}

int run_passes_on(const ModelOptions& model, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (find_pass(name)) continue;
    std::vector<std::string> known;
    for (const Pass& pass : pipeline()) known.emplace_back(pass.name);
    const std::string meant = did_you_mean(name, known);
    throw UsageError(
        fmt::format("--pass: there is no pass '{}'{} `graft opt` lists them", name, meant.empty() ? ";" : meant));
  }
  refuse_plan(model.path());
  Graph graph;
  run_by_deadline(model.compile_options(), [&](const CompileOptions& options) {
    graph = import_model({.path = model.path()}, options);
    const PassContext context{.cancelled = options.cancelled};
    run_pass(graph, *find_pass("infer"), context);
    for (const std::string& name : names) {
      report(options, name_of(Stage::kPasses), name);
      const bool changed = run_pass(graph, *find_pass(name), context);
      clear_progress();
      print_to(stderr, "{}{}\n", name, changed ? "" : " (unchanged)");
    }
  });
  clear_progress();
  print_text(stdout, print(graph));
  return 0;
}

int list_operators(const std::string& part, const std::vector<std::string>& own) {
  Table table("lrl");
  table.add({"operator", "opset", "what it computes"});
  int count = 0;
  const auto add = [&](std::string_view domain, std::string_view op, const std::string& opset, std::string_view doc) {
    const std::string name = domain.empty() ? std::string(op) : fmt::format("{}.{}", domain, op);
    if (name.find(part) == name.npos) return;
    table.add({name, opset, std::string(doc)});
    ++count;
  };
  const OperatorLibrary library = read_operator_library(own);
  for (const CustomOperator& op : library.definitions) add(op.domain, op.name, "own", op.doc);
  for (const auto& file : library.functions) {
    for (const OnnxFunction& function : functions_of(*file)) add(function.domain, function.name, "own", function.doc);
  }
  for (const OpDef& op : all_ops()) add(op.domain, op.name, std::to_string(op.since), op.doc);
  for (const HostOp& op : host_ops()) {
    if (!op.when) add(op.domain, op.name, std::to_string(op.since), op.doc);
  }
  for (const ContribOperator& op : contrib_operators()) add(op.domain, op.name, "1", op.doc);
  print_to(stdout, "{}{} operators\n", table, count);
  return count > 0 ? 0 : 1;
}

/// Something that is there, or why it is not.
struct Component {
  std::string name;
  std::string version;  ///< or what else is said of it
  std::string missing;  ///< why it is not there; empty when it is

  std::string text() const { return missing.empty() ? version : "none: " + missing; }
};

/// What generates kernels and what does regions in their place.
std::vector<Component> find_components() {
  const Target machine = host_cpu(), gpu = find_target("sm_90a");
  const auto generator = [](const std::string& name, const Target& target, const std::string& place) {
    const std::string missing = why_no_generator(target);
    return Component{name, missing.empty() ? generator_version(target) + place : "", missing};
  };
  const CudaLibrary compiler = open_cuda_library("nvrtc", {13, 12});  // the generator looks in the same places
  const std::string where = compiler.handle ? compiler.path : compiler.missing;
  std::vector<Component> components = {generator("code generator", machine, "")};
  for (const LibraryInfo& library : all_libraries()) {
    const std::string name(library.name), missing = why_no_library(name);
    components.push_back({name, missing.empty() ? library_version(name) : "", missing});
  }
  components.push_back(generator("CUDA generator", gpu, fmt::format(" ({})", where)));
  return components;
}

/// All that a report of a fault should say about this machine.
int print_environment(const JsonOutput& output) {
  Table table("lll");
  table.add({"variable", "value", "meaning"});
  json variables = json::array(), listed = json::array();
  for (const VariableInfo& row : all_variables()) {
    table.add({std::string(row.name), value_of(row.variable), std::string(row.meaning)});
    variables.push_back({{"name", row.name}, {"value", value_of(row.variable)}, {"meaning", row.meaning}});
  }
  const Target machine = host_cpu();
  const auto cache = KernelCache::look();
  const std::vector<Component> components = find_components();
  for (const Component& component : components) {
    listed.push_back({{"name", component.name}, {"version", component.version}, {"missing", component.missing}});
  }
  output.write({{"version", GRAFT_VERSION},
                {"variables", variables},
                {"machine", print(machine)},
                {"components", listed},
                {"kernel_cache", {{"folder", cache->directory()}, {"problem", cache->problem()}}},
                {"gpu_driver", describe_cuda_driver()},
                {"gpus", describe_gpus()}});
  if (!output.leaves_text()) return 0;
  print_to(stdout, "graft {}\n\n{}\n", GRAFT_VERSION, table);
  print_to(stdout, "machine          {}\n", print(machine));
  for (const Component& component : components) print_to(stdout, "{:<16} {}\n", component.name, component.text());
  print_to(stdout, "kernel cache     {}{}\n", cache->directory(),
           cache->problem().empty() ? "" : fmt::format(" (not used: {})", cache->problem()));
  print_to(stdout, "GPU driver       {}\n", describe_cuda_driver());
  for (const std::string& gpu : describe_gpus()) print_to(stdout, "GPU              {}\n", gpu);
  return 0;
}

/// The cache, or the reason why there is none.
void check_cache(const KernelCache& cache) {
  if (!cache.problem().empty()) throw Error(ErrorKind::kDevice, cache.problem(), cache.directory());
}

int list_cache(const JsonOutput& output) {
  const auto opened = KernelCache::look();
  const KernelCache& cache = *opened;
  check_cache(cache);
  Table table("lrl");
  table.add({"entry", "bytes", "last used"});
  json entries = json::array();
  for (const CacheEntry& entry : cache.list()) {
    const std::time_t seconds = entry.last_used;
    std::tm local{};
    char text[32] = "";
    if (localtime_r(&seconds, &local)) std::strftime(text, sizeof text, "%F %T", &local);
    table.add({entry.name, std::to_string(entry.bytes), text});
    entries.push_back({{"name", entry.name}, {"bytes", entry.bytes}, {"last_used", entry.last_used}});
  }
  if (output.leaves_text()) {
    print_to(stdout, "{}{}: {}\n", table, cache.directory(), bytes_text(static_cast<double>(cache.size())));
  }
  output.write({{"folder", cache.directory()}, {"bytes", cache.size()}, {"entries", entries}});
  return 0;
}

int print_cache_size(const JsonOutput& output) {
  const auto opened = KernelCache::look();
  const KernelCache& cache = *opened;
  check_cache(cache);
  if (output.leaves_text()) {
    print_to(stdout, "{} in {}\n", bytes_text(static_cast<double>(cache.size())), cache.directory());
  }
  output.write({{"folder", cache.directory()}, {"bytes", cache.size()}});
  return 0;
}

int clear_cache(const JsonOutput& output) {
  const auto opened = KernelCache::look();
  KernelCache& cache = *opened;
  check_cache(cache);
  const auto removed = cache.clear();
  if (output.leaves_text()) print_to(stdout, "removed {} entries\n", removed);
  output.write({{"folder", cache.directory()}, {"removed", removed}});
  return 0;
}

/// Adds a command whose one option is where its JSON goes.
void add_listing(Command app, const char* name, const char* help, int (*run)(const JsonOutput&), Action& action) {
  Command sub = app.add_command(name, help);
  const auto output = std::make_shared<JsonOutput>();
  output->add_to(sub);
  sub.on_chosen([=, &action] {
    action = [=] {
      output->check({});
      return run(*output);
    };
  });
}

}  // namespace

void add_opt(Command app, Action& action) {
  Command sub = app.add_command("opt", "run single passes and print the graph; without MODEL, list all passes");
  const auto model = std::make_shared<ModelOptions>();
  const auto names = std::make_shared<std::vector<std::string>>();
  model->add_to(sub, "a model, as of graft compile");
  model->add_deadline(sub);
  sub.option("MODEL").required(false);
  sub.add_option("--pass", *names, "a pass to run; may be repeated").type_name("NAME");
  const auto output = std::make_shared<JsonOutput>();
  output->add_to(sub);
  sub.option("--json").description("write the list of passes as JSON (docs/schemas); - is standard output")
      .excludes("MODEL");
  sub.footer("\nExample: graft opt model.onnx --pass fold_constants --pass recognise_gelu");
  sub.on_chosen([=, &action] {
    action = [=] { return model->path().empty() ? list_passes(*output) : run_passes_on(*model, *names); };
  });
}

void add_ops(Command app, Action& action) {
  Command sub = app.add_command("ops", "list the operators");
  const auto part = std::make_shared<std::string>();
  const auto output = std::make_shared<JsonOutput>();
  const auto filter = sub.add_option("PART", *part, "list only names that contain this");
  const auto own = std::make_shared<std::vector<std::string>>();
  const auto ops = sub.add_option("--ops", *own,
                                   "list operators of a file of definitions (docs/OWN_OPERATORS.md), or\n"
                                   "functions of an ONNX file, first; may be repeated");
  ops.expected(1).take_all().type_name("FILE");
  const auto front_end = std::make_shared<std::string>(), precision = std::make_shared<std::string>();
  const auto source = sub.add_option("--front-end", *front_end,
                                      "list the converted operators of a framework: aten, mxnet or tensorflow");
  source.excludes(ops).type_name("NAME");
  const auto libraries = std::make_shared<std::vector<std::string>>();
  const auto rows = sub.add_option("--converters", *libraries,
                                    "with --front-end: also list converters of a shared library\n"
                                    "(docs/ADDING_A_CONVERTER.md); may be repeated");
  rows.needs(source).expected(1).take_all().type_name("FILE");
  const auto lists = sub.add_option("--precision", *precision,
                                     "list the default rule of each operator in mixed precision (`graft convert`);\n"
                                     "with --front-end mxnet for MXNet's operators instead of ONNX's");
  lists.excludes(ops).one_of({"fp16", "bf16"}).type_name("TYPE");
  output->add_to(sub);
  sub.option("--json").excludes(ops).excludes(source).excludes(lists);
  sub.option("--json").description("write all facts about the operators as JSON (docs/schemas); - is\n"
                                         "standard output").excludes(filter);
  sub.on_chosen([=, &action] {
    action = [=] {
      output->check({});
      if (!precision->empty()) return list_precision(*precision, *front_end, *part);
      if (!front_end->empty()) return list_front_end(*front_end, *part, *libraries);
      if (!output->wanted()) return list_operators(*part, *own);
      output->write(operators_json());
      return 0;
    };
  });
}

void add_env(Command app, Action& action) {
  add_listing(app, "env", "show the variables for debugging, the machine and the code generator", print_environment,
              action);
}

void add_cache(Command app, Action& action) {
  Command sub = app.add_command("cache", "the cache of compiled kernels: list, size, clear, export, import");
  sub.require_command();
  add_kernel_archives(sub, action);
  add_listing(sub, "list", "list the entries, least recently used first", list_cache, action);
  add_listing(sub, "size", "print its size and its folder", print_cache_size, action);
  add_listing(sub, "clear", "remove all entries", clear_cache, action);
}

}  // namespace graft
