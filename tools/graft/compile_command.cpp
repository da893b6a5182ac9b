// SPDX-License-Identifier: Apache-2.0
// graft compile: from a model to a plan, or to the text of a stage.

#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/describe.h"
#include "base/error.h"
#include "base/file.h"
#include "calibration_options.h"
#include "commands.h"
#include "console.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "driver/precision_error.h"
#include "driver/record_use.h"
#include "json_output.h"
#include "model_options.h"
#include "npy.h"
#include "onnx_output.h"
#include "output.h"

namespace graft {
namespace {

struct CompileCommand {
  ModelOptions model;
  std::string output, compile_to, compile_from;
  double error_limit = 60;  ///< seconds
  CalibrationOptions calibration;
  OnnxOutput onnx;
  JsonOutput json;

  int run() const;
  std::string destination() const;
  bool has_weights_beside() const;
  bool writes_onnx() const;
  void compile(CompileOptions options) const;
  Graph read_graph(const CompileOptions& options, Stage& done) const;
  void write_stage(Graph graph, Stage done, Stage last, const CompileOptions& options) const;
  void check_outputs(const std::string& destination) const;
};

Stage stage_of(const std::string& flag, const std::string& name) {
  const std::optional<Stage> stage = parse_stage(name);
  if (!stage) throw UsageError(fmt::format("{}: '{}' is not import, passes, fuse or plan", flag, name));
  return *stage;
}

/// Large constants of a stage's text are beside it.
std::string weights_path(const std::string& text_path) { return text_path + ".npz"; }

/// What was said; else a plan gets the model's name, in the current folder, and a text goes to standard output.
std::string CompileCommand::destination() const {
  if (!output.empty()) return output;
  if (model.is_standard_input()) throw UsageError("--output: say where what is made of standard input goes");
  const std::filesystem::path path(model.path());
  const auto name = path.has_filename() ? path : path.parent_path();  // a folder's name may end with a slash
  std::string stem = name.stem().string();
  const std::string_view symbol = "-symbol";  // as MXNet calls the graph beside the parameters
  if (name.extension() == ".json" && stem.ends_with(symbol)) stem.resize(stem.size() - symbol.size());
  return compile_to.empty() ? stem + ".graft" : "-";
}

/// Whether the graph of a stage goes into an ONNX file rather than a text.
bool CompileCommand::writes_onnx() const { return !compile_to.empty() && output.ends_with(".onnx"); }

bool CompileCommand::has_weights_beside() const {
  return !output.empty() && !writes_onnx() && message_stream(output) == stdout &&
         (compile_to == name_of(Stage::kImport) || compile_to == name_of(Stage::kPasses));
}

/// The graph to start from: the model, or the edited text of a stage with its weights.
Graph CompileCommand::read_graph(const CompileOptions& options, Stage& done) const {
  if (compile_from.empty()) return import_model({.path = model.path()}, options);
  if (model.has("ops")) throw UsageError("--ops: definitions join a model that is imported; a text has them already");
  done = stage_of("--compile-from", compile_from);
  if (done > Stage::kPasses) throw UsageError("--compile-from: only the text of import and passes can be read back");
  std::map<std::string, TensorData, std::less<>> weights;
  if (std::filesystem::exists(weights_path(model.path()))) {
    for (auto& [name, tensor] : read_npz(weights_path(model.path()))) weights[name] = std::move(tensor);
  }
  Graph graph = parse_graph(read_text_file(model.path()), &weights);
  verify(graph, false);
  return graph;
}

/// Nothing that is read may be replaced, and what cannot be written is known before the work. A record may be: the
/// choices that it holds are in the new plan.
void CompileCommand::check_outputs(const std::string& destination) const {
  std::vector<std::string> inputs = calibration.paths();
  inputs.insert(inputs.end(), {model.path(), weights_path(model.path())});
  if (writes_onnx()) return OnnxOutput::check(destination, inputs);
  check_output("--output", destination, inputs);
  if (compile_to.empty()) return check_no_terminal("--output", destination, "a plan");
  if (has_weights_beside()) check_output("--output", weights_path(destination), inputs);
}

void CompileCommand::write_stage(Graph graph, Stage done, Stage last, const CompileOptions& options) const {
  if (last >= Stage::kPasses && done < Stage::kPasses) rewrite(graph, options);
  if (last <= Stage::kPasses) {
    if (writes_onnx()) return export_onnx(graph, output, onnx.weights());
    const auto constants = large_constants(graph);
    if (has_weights_beside()) write_npz(weights_path(output), {constants.begin(), constants.end()});
    return write_output(destination(), print(graph));
  }
  if (writes_onnx()) throw UsageError("--output: only the graphs of import and passes can be written as ONNX");
  FusedProgram program = fuse(std::move(graph), options);
  if (last == Stage::kFuse) return write_output(destination(), print(program));
  const Target target = targets_of(options)[0];
  const Plan known = read_known_choices(options, {&target, 1});
  const Record record = plan(std::move(program), target, options, &known).record;
  check_use(known, {&record, 1}, options);
  write_output(destination(), print(record));
}

nlohmann::json json_of(const PrecisionError& error) {
  nlohmann::json outputs = nlohmann::json::array();
  for (const OutputError& row : error.outputs) {
    const nlohmann::json largest = std::isfinite(row.largest) ? nlohmann::json(row.largest) : nlohmann::json(nullptr);
    outputs.push_back({{"name", row.output},
                       {"max_error", largest},
                       {"range", row.range},
                       {"differing", row.differing},
                       {"elements", row.elements}});
  }
  return {{"outputs", outputs}, {"not_measured", error.not_measured}};
}

nlohmann::json json_of(const Engine& engine, const std::string& path, double seconds) {
  int64_t weights = 0;
  for (const TensorData& constant : engine.constants) weights += constant.byte_count();
  return {{"plan", path},
          {"version", GRAFT_VERSION},
          {"target", engine.target},
          {"threads", engine.threads},
          {"steps", engine.steps.size()},
          {"ways", count_ways(engine)},
          {"kernels", engine.kernels.size()},
          {"units", engine.objects.size()},
          {"constant_bytes", weights},
          {"seconds", seconds},
          {"precision_error", nullptr}};
}

/// What was made, in one line.
void print_summary(std::FILE* stream, const nlohmann::json& facts) {
  std::string ways;
  for (const auto& [way, count] : facts.at("ways").items()) {
    if (count != 0 && way != "none" && way != "folded") ways += fmt::format(", {} {}", count.dump(), way);
  }
  clear_progress();
  print_to(stream, "{}: {} steps{}; {} kernels in {} units; weights {}; {:.2f} s\n",
           facts.at("plan").get<std::string>(), facts.at("steps").dump(), ways, facts.at("kernels").dump(),
           facts.at("units").dump(), bytes_text(facts.at("constant_bytes").get<double>()),
           facts.at("seconds").get<double>());
}

int CompileCommand::run() const {
  refuse_plan(model.path());
  calibration.check(model.quantised_precision());
  run_by_deadline(model.compile_options(), [&](const CompileOptions& options) { compile(options); });
  return 0;
}

void CompileCommand::compile(CompileOptions options) const {
  const auto start = std::chrono::steady_clock::now();
  const std::string path = destination();
  std::optional<Stage> last;
  if (!compile_to.empty()) last = stage_of("--compile-to", compile_to);
  json.check({model.path(), weights_path(model.path())});
  calibration.check_apart(path, json);
  check_outputs(path);
  calibration.check_page({model.path(), weights_path(model.path())});
  Stage done = Stage::kImport;
  Graph graph = read_graph(options, done);
  check_output_unread("--output", path);
  std::optional<QuantisedModel> quantised;
  if (const std::string precision = model.quantised_precision(); !precision.empty()) {
    if (done != Stage::kImport) throw UsageError(fmt::format("--precision {}: the passes have run already", precision));
    quantised = calibration.quantise(graph, precision, options, !last);
    graph = quantised->graph;
  }
  if (last) {
    if (quantised) options.precision = quantised->floats;
    write_stage(std::move(graph), done, *last, options);
    if (quantised) calibration.write_page(model.path(), *quantised), write_calibration(*quantised);
    return;
  }
  const bool rounds = options.precision != Precision::kFp32;
  if (quantised) options.precision = quantised->floats;  // of which the report has the error
  const std::optional<Graph> imported = rounds ? std::optional(graph) : std::nullopt;
  CompileOptions of_source = options;
  add_origin(of_source.metadata, {.path = model.path()});
  const Compiled compiled = graft::compile_from(std::move(graph), done, of_source);
  report(options, "save", path);
  save(compiled.plan, output_path(path));
  if (quantised) calibration.write_page(model.path(), *quantised), write_calibration(*quantised);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  std::FILE* stream = json.leaves_text() ? message_stream(path) : stderr;
  nlohmann::json facts = json_of(compiled.engine, path == "-" ? "standard output" : path, elapsed.count());
  print_summary(stream, facts);
  if (quantised) CalibrationOptions::print_report(stream, *quantised);
  if (quantised) facts["quantization"] = CalibrationOptions::json_of(*quantised);
  if (imported) {  // what the precision costs, in one line
    report(options, "error", fmt::format("{} against fp32", name_of(options.precision)));
    const PrecisionError error = measure_precision_error(*imported, done, compiled.engine, options, error_limit);
    clear_progress();
    print_to(stream, "{} against fp32: {}\n", name_of(options.precision), print(error));
    facts["precision_error"] = json_of(error);
  }
  json.write(facts);
}

}  // namespace

void add_compile(Command app, Action& action) {
  Command sub = app.add_command("compile", "compile a model into a plan");
  sub.alias("build");
  const auto command = std::make_shared<CompileCommand>();
  command->model.add_to(sub, "an ONNX file, a SavedModel's folder, a frozen GraphDef (.pb), a program of\n"
                              "torch.export (.pt2), or a symbol of MXNet (NET-symbol.json); - is an\n"
                              "ONNX file from standard input");
  command->model.add_outputs(sub);
  command->model.add_deadline(sub);
  command->model.add_metadata(sub);
  command->model.take_quantised();
  command->calibration.add_to(sub);
  sub.add_option("-o,--output", command->output,
                  "the plan to write (the model's name with .graft, in this folder); - is standard output")
      .type_name("FILE");
  sub.add_option("--compile-to", command->compile_to,
                  "stop after import, passes, fuse or plan and print the result (plan: the record of\n"
                  "choices, for --record); -o FILE writes it, with the weights of import and\n"
                  "passes in FILE.npz; -o FILE.onnx writes an ONNX model").type_name("STAGE");
  command->onnx.add_weights_option(sub);
  command->json.add_to(sub);
  sub.option("--json").excludes("--compile-to");
  sub.add_option("--compile-from", command->compile_from,
                  "MODEL is the (edited) text of import or passes: continue from there").type_name("STAGE");
  sub.add_option("--error-limit", command->error_limit,
                  "limit in seconds for measuring the error of a --precision other than fp32: the network\n"
                  "is also compiled in fp32, both run on the same random inputs, and a line prints the\n"
                  "difference; 0 skips it")
      .in_range(0.0, 86400.0).show_default().type_name("SECONDS");
  sub.footer(R"(
Examples:
  graft compile model.onnx -o model.graft --dim batch=1:8:64 --dim length=1:128:256
  graft compile saved_model --signature serving_default -o model.graft
  graft compile frozen.pb --outputs softmax -o model.graft
  graft compile net-symbol.json --params net-0000.params --shapes data:1x3x224x224
  graft compile model.onnx --shapes image:1x3x224x224 --threads 2 --tune full
  graft compile model.onnx --precision fp16 --device cuda        prints the error against fp32
  graft compile model.onnx --precision int8 --calibrate samples/ --max-error 0.02
  graft compile model.onnx --precision int8 --activations dynamic        without samples
  graft compile model.onnx --precision int4 --block 128                  weights alone
  graft compile model.onnx --precision auto --max-error 0.01             the fastest within the bound
  graft compile model.onnx --compile-to passes -o model.txt     edit the graph, and
  graft compile model.txt --compile-from passes -o model.graft  compile it
  graft compile model.onnx --compile-to plan -o choices.txt     edit a schedule, and
  graft compile model.onnx --record choices.txt                 compile with it)");
  sub.on_chosen([command, &action] { action = [command] { return command->run(); }; });
}

}  // namespace graft
