// SPDX-License-Identifier: Apache-2.0
// graft opt, ops, env, cache: the tables of passes, operators, variables and cached kernels.
#include <CLI/CLI.hpp>

#include <ctime>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/cuda_library.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/spelling.h"
#include "commands.h"
#include "console.h"
#include "device/cuda/describe_gpus.h"
#include "driver/compile.h"
#include "graph/op_def.h"
#include "library/libraries.h"
#include "model_options.h"
#include "modules/kernel_source.h"
#include "modules/library_source.h"
#include "operators_json.h"
#include "passes/pass.h"
#include "runtime/kernel_cache.h"
#include "target/target.h"

namespace graft {
namespace {

int list_passes() {
  Table table("ll");
  table.add({"pass", "purpose"});
  for (const Pass& pass : pipeline()) table.add({std::string(pass.name), std::string(pass.purpose)});
  print_to(stdout, "{}", table);
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
  const CompileOptions options = model.compile_options();
  Graph graph = import_model({.path = model.path()}, options);
  clear_progress();
  const PassContext context{.cancelled = interrupted};
  run_pass(graph, *find_pass("infer"), context);
  for (const std::string& name : names) {
    const bool changed = run_pass(graph, *find_pass(name), context);
    print_to(stderr, "{}{}\n", name, changed ? "" : " (unchanged)");
  }
  print_text(stdout, print(graph));
  return 0;
}

int list_operators(const std::string& part) {
  Table table("lrl");
  table.add({"operator", "opset", "what it computes"});
  int count = 0;
  for (const OpDef& op : all_ops()) {
    const std::string name = op.domain.empty() ? std::string(op.name) : fmt::format("{}.{}", op.domain, op.name);
    if (name.find(part) == name.npos) continue;
    table.add({name, std::to_string(op.since), std::string(op.doc)});
    ++count;
  }
  print_to(stdout, "{}{} operators\n", table, count);
  return count > 0 ? 0 : 1;
}

/// The GPUs with what compiles for them, or in one sentence why there are none.
void print_gpus() {
  print_to(stdout, "GPU driver       {}\n", describe_cuda_driver());
  for (const std::string& gpu : describe_gpus()) print_to(stdout, "GPU              {}\n", gpu);
  const Target target = find_target("sm_90a");
  const std::string missing = why_no_generator(target);
  const CudaLibrary compiler = open_cuda_library("nvrtc", {13, 12});  // the generator looks in the same places
  const std::string where = compiler.handle ? compiler.path : compiler.missing;
  print_to(stdout, "CUDA generator   {}\n",
           missing.empty() ? fmt::format("{} ({})", generator_version(target), where) : "none: " + missing);
}

int print_environment() {
  Table table("lll");
  table.add({"variable", "value", "meaning"});
  for (const VariableInfo& row : all_variables()) {
    table.add({std::string(row.name), value_of(row.variable), std::string(row.meaning)});
  }
  print_to(stdout, "graft {}\n\n{}\n", GRAFT_VERSION, table);
  const Target machine = host_cpu();
  const std::string missing = why_no_generator(machine);
  const KernelCache cache;
  print_to(stdout, "machine          {}\n", print(machine));
  print_to(stdout, "code generator   {}\n", missing.empty() ? generator_version(machine) : "none: " + missing);
  for (const LibraryInfo& library : all_libraries()) {
    const std::string name(library.name), no_library = why_no_library(name);
    print_to(stdout, "{:<16} {}\n", name, no_library.empty() ? library_version(name) : "none: " + no_library);
  }
  print_to(stdout, "kernel cache     {}{}\n", cache.directory(),
           cache.problem().empty() ? "" : fmt::format(" (not used: {})", cache.problem()));
  print_gpus();
  return 0;
}

/// The cache, or the reason why there is none.
void check_cache(const KernelCache& cache) {
  if (!cache.problem().empty()) throw Error(ErrorKind::kDevice, cache.problem(), cache.directory());
}

int list_cache() {
  const KernelCache cache;
  check_cache(cache);
  Table table("lrl");
  table.add({"entry", "bytes", "last used"});
  for (const CacheEntry& entry : cache.list()) {
    const std::time_t seconds = entry.last_used;
    std::tm local{};
    char text[32] = "";
    if (localtime_r(&seconds, &local)) std::strftime(text, sizeof text, "%F %T", &local);
    table.add({entry.name, std::to_string(entry.bytes), text});
  }
  print_to(stdout, "{}{}: {}\n", table, cache.directory(), bytes_text(static_cast<double>(cache.size())));
  return 0;
}

}  // namespace

void add_opt(CLI::App& app, Action& action) {
  CLI::App* sub = app.add_subcommand("opt", "run single passes and print the graph; without MODEL, list the passes");
  const auto model = std::make_shared<ModelOptions>();
  const auto names = std::make_shared<std::vector<std::string>>();
  model->add_to(*sub, "an ONNX file");
  sub->get_option("MODEL")->required(false);
  sub->add_option("--pass", *names, "a pass to run; may be repeated")->type_name("NAME");
  sub->footer("\nExample: graft opt model.onnx --pass fold_constants --pass recognise_gelu");
  sub->callback([=, &action] {
    action = [=] { return model->path().empty() ? list_passes() : run_passes_on(*model, *names); };
  });
}

void add_ops(CLI::App& app, Action& action) {
  CLI::App* sub = app.add_subcommand("ops", "list the operators");
  const auto part = std::make_shared<std::string>();
  const auto as_json = std::make_shared<bool>(false);
  const auto filter = sub->add_option("PART", *part, "only those whose name contains this");
  sub->add_flag("--json", *as_json, "all that is known of every operator, for tools")->excludes(filter);
  sub->callback([=, &action] {
    action = [=] {
      if (!*as_json) return list_operators(*part);
      print_text(stdout, operators_json());
      return 0;
    };
  });
}

void add_env(CLI::App& app, Action& action) {
  CLI::App* sub = app.add_subcommand("env", "show the variables for debugging, the machine and the code generator");
  sub->callback([&action] { action = print_environment; });
}

void add_cache(CLI::App& app, Action& action) {
  CLI::App* sub = app.add_subcommand("cache", "the cache of compiled kernels: list, size, clear, export, import");
  sub->require_subcommand(1);
  add_kernel_archives(*sub, action);
  sub->add_subcommand("list", "its entries, the least recently used first")->callback([&action] {
    action = list_cache;
  });
  sub->add_subcommand("size", "its size and its folder")->callback([&action] {
    action = [] {
      const KernelCache cache;
      check_cache(cache);
      print_to(stdout, "{} in {}\n", bytes_text(static_cast<double>(cache.size())), cache.directory());
      return 0;
    };
  });
  sub->add_subcommand("clear", "remove all entries; kernels are compiled again when needed")->callback([&action] {
    action = [] {
      KernelCache cache;
      check_cache(cache);
      print_to(stdout, "removed {} entries\n", cache.clear());
      return 0;
    };
  });
}

}  // namespace graft
