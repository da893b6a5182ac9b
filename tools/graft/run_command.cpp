// SPDX-License-Identifier: Apache-2.0
// graft run: one run on files or random inputs, and whether its results are right.
#include <CLI/CLI.hpp>

#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/compare.h"
#include "base/environment.h"
#include "commands.h"
#include "console.h"
#include "model_options.h"
#include "output.h"
#include "tensor_set.h"

namespace graft {
namespace {

struct RunCommand {
  ModelOptions model;
  InputOptions inputs;
  std::string output, reference, reference_model;
  std::vector<std::string> outputs;
  ToleranceOptions tolerance;
  double deadline = 0;

  int run() const;
  std::vector<std::string> files_read() const;
  FindTensor find_reference(const Engine& engine, const std::vector<TensorData>& given, size_t results) const;
};

/// Range and first elements of a result.
std::string summary(const TensorData& tensor) {
  if (tensor.element_count() == 0 || kind_of(tensor.type()) == DTypeKind::kOpaque) return "";
  std::vector<std::string> first;
  for (int64_t i = 0; i < std::min<int64_t>(tensor.element_count(), 4); ++i) first.push_back(show_element(tensor, i));
  const std::string text = fmt::format("{}{}", fmt::join(first, " "), tensor.element_count() > 4 ? " ..." : "");
  if (kind_of(tensor.type()) == DTypeKind::kComplex) return text;
  double low = tensor.read_double(0), high = low;
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    if (i % (1 << 20) == 0) stop_if_interrupted();
    const double value = tensor.read_double(i);
    low = std::min(low, value), high = std::max(high, value);
  }
  return fmt::format("{:.5g} to {:.5g}: {}", low, high, text);
}

/// What may not be replaced by the results.
std::vector<std::string> RunCommand::files_read() const {
  std::vector<std::string> files = inputs.files();
  for (const std::string& file : {model.path(), reference, reference_model}) files.push_back(file);
  return files;
}

FindTensor RunCommand::find_reference(const Engine& engine, const std::vector<TensorData>& given,
                                      size_t results) const {
  if (reference != "onnxruntime") return open_reference(reference, results);
  if (model.is_plan() && reference_model.empty()) {
    throw UsageError("--reference onnxruntime needs the model behind the plan: add --reference-model MODEL.onnx");
  }
  NamedTensors named;
  for (size_t i = 0; i < given.size(); ++i) named.emplace_back(engine.tensors[engine.inputs[i]].name, given[i]);
  return run_onnxruntime(reference_model.empty() ? model.path() : reference_model, named);
}

int RunCommand::run() const {
  check_output("--output", output, files_read());
  check_no_terminal("--output", output, "an .npz file");
  const auto engine = model.load_engine();
  check_output_unread("--output", output);
  OutputBuffers buffers(*engine->engine);
  if (!outputs.empty()) buffers.select(outputs);
  if (!output.empty()) check_path_for_tensors(output, buffers.count());
  std::vector<TensorData> given = inputs.read(*engine->engine);
  Session session(engine);
  session.set_validating(environment().validate);
  session.set_deadline(deadline);
  {
    const InterruptibleSession interruptible(session);
    buffers.run(session, given);
  }
  stop_if_interrupted();
  const NamedTensors results = buffers.tensors();
  if (!output.empty()) write_tensors(output, results);
  if (!reference.empty()) {
    return compare_tensors(results, find_reference(*engine->engine, given, results.size()), tolerance) ? 0 : 1;
  }
  for (const auto& [name, tensor] : results) {
    print_to(message_stream(output), "{}  {}  {}\n", name, describe(tensor), summary(tensor));
  }
  return 0;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  CLI::App* sub = app.add_subcommand("run", "run a plan or a model once");
  const auto command = std::make_shared<RunCommand>();
  command->model.add_to(*sub, "a plan, or an ONNX file, which is compiled first");
  command->inputs.add_to(*sub);
  sub->add_option("-o,--output", command->output,
                  "where the results go: FILE.npz, or FILE.npy for one output; - is standard output, as .npz")
      ->type_name("FILE");
  sub->add_option("--outputs", command->outputs,
                  "which results to print, save and compare, by name: logits,hidden (all of them)")
      ->type_name("NAME,...")->delimiter(',')->expected(1)->take_all();
  sub->add_option("--reference", command->reference,
                  "compare the results with FILE.npz, or with what `onnxruntime` gives; the exit status\n"
                  "is 1 when they differ: --rtol and --atol say how much they may")->type_name("FILE|onnxruntime");
  sub->add_option("--reference-model", command->reference_model, "the ONNX file for ONNX Runtime, when MODEL is a plan")
      ->type_name("FILE");
  command->tolerance.add_to(*sub);
  sub->add_option("--deadline", command->deadline, "the most seconds that a run may take before it is ended")
      ->check(CLI::PositiveNumber)->type_name("S");
  sub->footer(R"(
Examples:
  graft run model.graft --input image=cat.npy --output result.npz
  graft run model.graft --outputs logits -o logits.npy
  graft run model.onnx --size batch=4 --seed 7 --reference onnxruntime
  graft run model.graft --input inputs.npz --reference expected.npz --rtol 1e-5 --atol 1e-6)");
  sub->callback([command, &action] { action = [command] { return command->run(); }; });
}

}  // namespace graft
