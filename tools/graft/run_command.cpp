// SPDX-License-Identifier: Apache-2.0
// graft run: one run on files or random inputs, and whether its results are right.

#include <cmath>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/compare.h"
#include "base/environment.h"
#include "base/file.h"
#include "base/log.h"
#include "commands.h"
#include "comparison_report.h"
#include "console.h"
#include "json_output.h"
#include "model_options.h"
#include "output.h"
#include "roundings.h"
#include "tensor_set.h"
#include "value_json.h"

namespace graft {
namespace {

struct RunCommand {
  ModelOptions model;
  InputOptions inputs;
  std::string output, reference, reference_model;
  std::vector<std::string> outputs;
  ToleranceOptions tolerance;
  JsonOutput json;
  double run_deadline = 0;  ///< seconds, 0 for none

  int run() const;
  void check(const Engine& engine) const;
  OutputBuffers buffers_for(const Engine& engine) const;
  void write_values(const std::vector<std::pair<std::string, DynamicValue>>& values) const;
  void report(const NamedTensors& results, const std::optional<std::vector<ComparedTensor>>& compared) const;
  std::vector<std::string> files_read() const;
  bool is_reference_file() const;
  void check_reference() const;
  FindTensor find_reference(const Engine& engine, std::vector<TensorData>& given, size_t results) const;
};

/// What of a result is shown.
struct Summary {
  std::vector<std::string> first;  ///< elements
  std::optional<std::pair<double, double>> range;  ///< of the finite elements
  int64_t nans = 0, infinities = 0;
};

Summary summarize(const TensorData& tensor) {
  Summary summary;
  if (tensor.element_count() == 0 || kind_of(tensor.type()) == DTypeKind::kOpaque) return summary;
  const int64_t shown = std::min<int64_t>(tensor.element_count(), 4);
  for (int64_t i = 0; i < shown; ++i) summary.first.push_back(show_element(tensor, i));
  if (kind_of(tensor.type()) == DTypeKind::kComplex) return summary;
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    if (i % (1 << 20) == 0) stop_if_interrupted();
    const double value = tensor.read_double(i);
    summary.nans += std::isnan(value), summary.infinities += std::isinf(value);
    if (!std::isfinite(value)) continue;
    auto& range = summary.range;
    range = range ? std::pair(std::min(range->first, value), std::max(range->second, value)) : std::pair(value, value);
  }
  return summary;
}

std::string text_of(const Summary& summary, const TensorData& tensor) {
  if (summary.first.empty()) return "";
  const std::string text = fmt::format("{}{}", fmt::join(summary.first, " "), tensor.element_count() > 4 ? " ..." : "");
  std::vector<std::string> facts;
  if (summary.range) facts.push_back(fmt::format("{:.5g} to {:.5g}", summary.range->first, summary.range->second));
  if (summary.nans > 0) facts.push_back(fmt::format("{} NaN", summary.nans));
  if (summary.infinities > 0) facts.push_back(fmt::format("{} infinite", summary.infinities));
  return facts.empty() ? text : fmt::format("{}: {}", fmt::join(facts, ", "), text);
}

nlohmann::json json_of(const std::string& name, const TensorData& tensor, const Summary& summary) {
  nlohmann::json row = {{"name", name},
                        {"dtype", name_of(tensor.type())},
                        {"shape", tensor.shape()},
                        {"first", summary.first}};
  row["min"] = summary.range ? nlohmann::json(summary.range->first) : nlohmann::json(nullptr);
  row["max"] = summary.range ? nlohmann::json(summary.range->second) : nlohmann::json(nullptr);
  row["nan"] = summary.nans;
  return row;
}

/// The precision that an engine was compiled in, which its results of f32 do not tell.
Precision precision_of(const Engine& engine) {
  CompileOptions options;
  for (const auto& [key, value] : engine.options) {
    if (key == "precision") set_option(options, {key, value});
  }
  return options.precision;
}

/// What may not be replaced by the results.
std::vector<std::string> RunCommand::files_read() const {
  std::vector<std::string> files = inputs.files();
  for (const std::string& file : {model.path(), reference, reference_model}) files.push_back(file);
  return files;
}

bool RunCommand::is_reference_file() const {
  return !reference.empty() && reference != "interpreter" && reference != "onnxruntime";
}

FindTensor RunCommand::find_reference(const Engine& engine, std::vector<TensorData>& given, size_t results) const {
  if (reference == "interpreter") {
    const auto interpreter = model.load_interpreter();
    OutputBuffers buffers(*interpreter->engine);
    Session session(interpreter);
    const InterruptibleSession interruptible(session);
    buffers.run(session, given);
    return reference_of(buffers.tensors());
  }
  if (is_reference_file()) return open_reference(reference, results);
  NamedTensors named;
  for (size_t i = 0; i < given.size(); ++i) named.emplace_back(engine.tensors[engine.inputs[i]].name, given[i]);
  return run_onnxruntime(reference_model.empty() ? model.path() : reference_model, named);
}

/// Buffers for the results that were asked for, which are refused where they cannot be written or compared.
OutputBuffers RunCommand::buffers_for(const Engine& engine) const {
  OutputBuffers buffers(engine);
  if (!outputs.empty()) buffers.select(outputs);
  const bool in_json = output.ends_with(".json");
  GRAFT_USER_CHECK(in_json || output.empty() || !buffers.has_values(), kInvalidArgument,
                   "strings, sequences and other values that are no arrays of numbers go into FILE.json, or are left "
                   "out with --outputs", output);
  GRAFT_USER_CHECK(reference.empty() || !buffers.has_values(), kUnsupported,
                   "strings, sequences and other values that are no arrays of numbers are not compared: leave them out "
                   "with --outputs", "--reference");
  if (!output.empty() && !in_json) check_path_for_tensors(output, buffers.count());
  return buffers;
}

/// Refuses before compiling what cannot be read, or is not of this model.
void RunCommand::check(const Engine& engine) const {
  const OutputBuffers buffers = buffers_for(engine);
  inputs.check(engine);
  if (!is_reference_file()) return;
  open_reference(reference, buffers.count());
  if (reference.ends_with(".npy")) open_npy(reference, std::nullopt);
}

/// What of a reference can be said before anything is read.
void RunCommand::check_reference() const {
  if (reference == "onnxruntime" && model.is_plan() && reference_model.empty()) {
    throw UsageError("--reference onnxruntime needs the model behind the plan: add --reference-model MODEL.onnx");
  }
  if (!reference_model.empty()) MappedFile::open(reference_model);
}

int RunCommand::run() const {
  check_output("--output", output, files_read());
  check_no_terminal("--output", output, "an .npz file");
  json.check(files_read());
  json.check_apart("--output", output);
  check_reference();
  const auto engine = model.load_engine([this](const Engine& signature) { check(signature); });
  check_output_unread("--output", output);
  OutputBuffers buffers = buffers_for(*engine->engine);
  const bool in_json = output.ends_with(".json");
  std::vector<TensorData> given = inputs.read(*engine->engine);
  Session session(engine);
  session.set_validating(environment().validate);
  session.set_deadline(run_deadline);
  inputs.hold(session, given);
  {
    const InterruptibleSession interruptible(session, run_deadline);
    buffers.run(session, given);
  }
  stop_if_interrupted();
  const NamedTensors results = buffers.tensors();
  if (!output.empty() && !in_json) write_tensors(output, results);
  if (in_json || buffers.has_values()) write_values(buffers.values(session));
  std::optional<std::vector<ComparedTensor>> compared;
  if (!reference.empty()) {
    ToleranceOptions allowed = tolerance;
    allowed.choice.rounds_to = rounding_of(precision_of(*engine->engine));
    compared = compare_tensors(results, find_reference(*engine->engine, given, results.size()), allowed);
  }
  report(results, compared);
  return !compared || all_agree(*compared) ? 0 : 1;
}

/// All results into a JSON file, or those that are no arrays of numbers onto the screen.
void RunCommand::write_values(const std::vector<std::pair<std::string, DynamicValue>>& values) const {
  nlohmann::json all = nlohmann::json::object();
  for (const auto& [name, value] : values) {
    all[name] = value_json(value);
    const bool is_array = value.kind() == DynamicValue::Kind::kTensor && value.tensor().type() != DType::kString;
    if (is_array || !json.leaves_text()) continue;
    constexpr size_t kShown = 200;  // characters
    const std::string text = all[name].dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    print_to(message_stream(output), "{}  {}  {}{}\n", name, describe(value), text.substr(0, kShown),
             text.size() > kShown ? " ..." : "");
  }
  if (!output.ends_with(".json")) return;
  OutputFile file(output);
  file.write(all.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  file.commit();
}

void RunCommand::report(const NamedTensors& results, const std::optional<std::vector<ComparedTensor>>& compared) const {
  nlohmann::json outputs_json = nlohmann::json::array();
  std::FILE* stream = json.leaves_text() ? message_stream(output) : stderr;
  for (const auto& [name, tensor] : results) {
    if (compared && !json.wanted()) break;
    const Summary summary = summarize(tensor);
    outputs_json.push_back(json_of(name, tensor, summary));
    if (summary.nans > 0) {
      log(LogLevel::kWarning, "{} of {} elements of the result '{}' are NaN", summary.nans, tensor.element_count(),
          name);
    }
    if (!compared && json.leaves_text()) {
      print_to(stream, "{}  {}  {}\n", name, describe(tensor), text_of(summary, tensor));
    }
  }
  if (compared && json.leaves_text()) print_comparison(*compared, "output");
  nlohmann::json all = {{"model", model.path()}, {"outputs", outputs_json}};
  if (compared) {
    all["reference"] = reference;
    all["agrees"] = all_agree(*compared);
    all["compared"] = comparison_json(*compared);
  }
  json.write(all);
}

}  // namespace

void add_run(Command app, Action& action) {
  Command sub = app.add_command("run", "run a plan or a model once");
  const auto command = std::make_shared<RunCommand>();
  command->model.add_to(sub, "a plan, or a model (as of graft compile), which is compiled first");
  command->model.add_deadline(sub);
  command->inputs.add_to(sub);
  command->inputs.take_values();
  sub.add_option("-o,--output", command->output,
                  "write the results: FILE.npz, or FILE.npy for one output; - is standard output, as .npz;\n"
                  "FILE.json can hold strings, sequences and maps, too")
      .type_name("FILE");
  sub.add_option("--outputs", command->outputs,
                  "names of the results to print, save and compare: logits,hidden (all)")
      .type_name("NAME,...").delimiter(',').expected(1).take_all();
  sub.add_option("--reference", command->reference,
                  "compare the results with FILE.npz, or with those of `onnxruntime` or of Graft's own\n"
                  "`interpreter`; exit status 1 if they differ by more than --rtol and --atol allow")
      .type_name("FILE|onnxruntime|interpreter");
  sub.add_option("--reference-model", command->reference_model, "the ONNX file for ONNX Runtime, if MODEL is a plan")
      .type_name("FILE");
  command->tolerance.add_to(sub);
  command->json.add_to(sub);
  sub.add_option("--run-deadline", command->run_deadline, "limit of the run in seconds")
      .positive().type_name("S");
  sub.footer(R"(
Examples:
  graft run model.graft --input image=cat.npy --output result.npz
  graft run model.graft --outputs logits -o logits.npy
  graft run model.onnx --size batch=4 --seed 7 --reference onnxruntime
  graft run model.graft --input inputs.npz --reference expected.npz --rtol 1e-5 --atol 1e-6)");
  sub.on_chosen([command, &action] { action = [command] { return command->run(); }; });
}

}  // namespace graft
