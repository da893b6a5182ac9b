// SPDX-License-Identifier: Apache-2.0
// graft extract: a part of a model as a model of its own.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commands.h"
#include "console.h"
#include "driver/compile.h"
#include "export/onnx/model_file.h"
#include "json_output.h"
#include "model_options.h"
#include "onnx_output.h"
#include "output.h"

namespace graft {
namespace {

struct ExtractCommand {
  std::string model;
  std::vector<std::string> inputs, outputs, nodes;
  ModelOptions limits;
  OnnxOutput output;
  JsonOutput json;

  int run() const;
  ModelFile part_of(const ModelFile& whole) const;
};

/// The names, each once.
std::vector<std::string> once(const std::vector<std::string>& names) {
  std::vector<std::string> result;
  for (const std::string& name : names) {
    if (std::find(result.begin(), result.end(), name) == result.end()) result.push_back(name);
  }
  return result;
}

/// `f32[batch, 4]`
std::vector<std::string> sizes_of(const ModelInput& input) {
  std::vector<std::string> sizes;
  for (const std::string& size : *input.shape) sizes.push_back(size.empty() ? "?" : size);
  return sizes;
}

std::string type_text(const ModelInput& input) {
  if (input.type == DType::kUndefined) return "";
  if (!input.shape) return std::string(name_of(input.type));
  return fmt::format("{}[{}]", name_of(input.type), fmt::join(sizes_of(input), ", "));
}

nlohmann::json json_of(const ModelInput& input) {
  const bool typed = input.type != DType::kUndefined;
  return {{"name", input.name},
          {"dtype", typed ? nlohmann::json(name_of(input.type)) : nlohmann::json(nullptr)},
          {"shape", input.shape ? nlohmann::json(sizes_of(input)) : nlohmann::json(nullptr)}};
}

ModelFile ExtractCommand::part_of(const ModelFile& whole) const {
  if (nodes.empty()) return whole.cut(whole.between(once(inputs), once(outputs)));
  return whole.cut(whole.around(once(nodes)));
}

int ExtractCommand::run() const {
  refuse_plan(model);
  if (inputs.empty() && outputs.empty() && nodes.empty()) {
    throw UsageError("say what to extract: --outputs, --inputs, or --nodes");
  }
  OnnxOutput::check(output.path(), {model});
  json.check({model});
  std::optional<ModelFile> opened, cut;
  run_by_deadline(limits.time_limit(), [&](const CompileOptions& options) {
    report(options, name_of(Stage::kImport), model);
    opened = ModelFile::open(model, options.cancelled);
    report(options, "extract", model);
    cut = part_of(*opened);
  });
  clear_progress();
  const ModelFile &whole = *opened, &part = *cut;
  check_output_unread("--output", output.path());
  part.save(output.path(), output.weights());
  int64_t bytes = 0;
  for (const auto& [name, weight] : part.weights()) bytes += weight.byte_count();
  nlohmann::json given = nlohmann::json::array();
  if (json.leaves_text()) {
    print_to(stdout, "{}: {} of {} nodes, weights {}\n", output.path(), part.nodes().size(), whole.nodes().size(),
             bytes_text(static_cast<double>(bytes)));
  }
  for (const ModelInput& input : part.inputs()) {
    if (json.leaves_text()) print_to(stdout, "input   {}  {}\n", input.name, type_text(input));
    given.push_back(json_of(input));
  }
  if (json.leaves_text()) {
    for (const std::string& name : part.outputs()) print_to(stdout, "output  {}\n", name);
  }
  json.write({{"file", output.path()},
              {"nodes", part.nodes().size()},
              {"of_nodes", whole.nodes().size()},
              {"constant_bytes", bytes},
              {"inputs", given},
              {"outputs", part.outputs()}});
  return 0;
}

}  // namespace

void add_extract(Command app, Action& action) {
  Command sub = app.add_command("extract", "write a part of a model file as a model of its own");
  const auto command = std::make_shared<ExtractCommand>();
  sub.add_option("MODEL", command->model, "an ONNX file").required().type_name("FILE");
  const auto list = [&](const char* flag, std::vector<std::string>& names, const char* help) {
    return sub.add_option(flag, names, help).type_name("NAME,...").delimiter(',').expected(1).take_all();
  };
  list("--inputs", command->inputs,
       "tensors that become inputs: the part begins behind them; other inputs and weights that it\n"
       "needs are included");
  list("--outputs", command->outputs, "tensors that become outputs: the part ends there (the model's outputs)");
  list("--nodes", command->nodes, "only these nodes; their operands and results become inputs and outputs")
      .excludes("--inputs").excludes("--outputs");
  command->output.add_to(sub, "the model to write");
  command->limits.add_deadline(sub);
  command->json.add_to(sub);
  sub.footer(R"(
Nodes, names, opsets and functions stay unchanged. Tensors that become inputs get the inferred types and shapes.
Examples:
  graft extract model.onnx --inputs hidden --outputs logits -o head.onnx
  graft extract model.onnx --nodes /layer.3/MatMul -o one.onnx)");
  sub.on_chosen([command, &action] { action = [command] { return command->run(); }; });
}

}  // namespace graft
