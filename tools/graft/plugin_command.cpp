// SPDX-License-Identifier: Apache-2.0
// graft plugin: kernels for other engines.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file.h"
#include "base/parse_json.h"
#include "base/spelling.h"
#include "commands.h"
#include "console.h"
#include "json_output.h"
#include "model_options.h"
#include "output.h"
#include "plugin/generate.h"

namespace graft {
namespace {

using nlohmann::json;

struct PluginCommand {
  std::string model, region, name, names, folder, parser, consumer = "tensorrt", tensorrt = "10";
  std::vector<std::string> nodes, types, dims, targets, ops;
  std::string precision = "fp32", tune = "fast", device = "cuda", batch, record;
  bool unsupported = false;
  ModelOptions limits;
  JsonOutput json_output;

  int run() const;
  plugin::Request request() const;
  std::map<std::string, std::string> read_names() const;
  plugin::Consumer chosen_consumer() const;
};

plugin::Consumer PluginCommand::chosen_consumer() const {
  if (consumer != "tensorrt" && unsupported) {
    throw UsageError(fmt::format("--all-unsupported: what {} lacks is not known, only what TensorRT does", consumer));
  }
  if (consumer == "cuda") return plugin::Consumer::kCuda;
  if (consumer == "torch") return plugin::Consumer::kTorch;
  if (consumer == "tensorflow") return plugin::Consumer::kTensorFlow;
  if (consumer != "tensorrt") {
    const std::map<std::string, std::string> others = {{"pytorch", "torch"}, {"trt", "tensorrt"}, {"tf", "tensorflow"}};
    const auto other = others.find(consumer);
    throw UsageError(fmt::format("--for: '{}' is not tensorrt, torch, tensorflow or cuda, for which plugins can be "
                                 "made{}", consumer,
                                 other != others.end()
                                     ? fmt::format("; did you mean '{}'?", other->second)
                                     : did_you_mean(consumer, {"tensorrt", "torch", "tensorflow", "cuda"})));
  }
  if (tensorrt == "8.6") return plugin::Consumer::kTensorRT8;
  if (tensorrt != "10" && tensorrt != "11") {
    throw UsageError(fmt::format("--tensorrt: '{}' is not 10, 11 or 8.6; those for 10 and 11 are the same", tensorrt));
  }
  return plugin::Consumer::kTensorRT;
}

/// `{"node": "plugin"}`
std::map<std::string, std::string> PluginCommand::read_names() const {
  if (names.empty()) return {};
  const std::string text = read_text_file(names);
  try {
    return parse_json(text, ErrorKind::kInvalidArgument, names).get<std::map<std::string, std::string>>();
  } catch (const std::exception&) {
    throw UsageError(fmt::format("--names: {} is not an object of JSON with the plugin's name by that of a node, such "
                                 "as {}", names, R"({"node": "MyPlugin"})"));
  }
}

plugin::Request PluginCommand::request() const {
  std::vector<std::vector<std::string>> groups;
  for (const std::string& text : nodes) {
    groups.emplace_back();
    for (const std::string_view word : split(text, ',')) {
      if (!word.empty()) groups.back().emplace_back(word);
    }
    if (groups.back().empty()) throw UsageError("--nodes: name a node");
  }
  plugin::Request request{.model = model,
                          .selection = {.nodes = groups, .types = types, .region = region, .unsupported = unsupported},
                          .name = name,
                          .names = read_names(),
                          .consumer = chosen_consumer(),
                          .batch = batch,
                          .parser = parser,
                          .options = limits.time_limit(),
                          .folder = folder};
  const auto set = [&](const char* key, const std::string& value) {
    try {
      set_option(request.options, {key, value});
    } catch (const Error& error) {
      throw UsageError(std::string("--") + error.what());
    }
  };
  for (const std::string& dim : dims) set("dim", dim);
  for (const std::string& target : targets) set("target", target);
  for (const std::string& file : ops) set("ops", file);
  set("precision", precision);
  set("tune", tune);
  set("device", device);
  if (!record.empty()) set("record", record);
  return request;
}

std::string sizes_text(const plugin::Definition& made) {
  std::vector<std::string> names;
  for (const plugin::Dimension& dimension : made.dimensions) {
    if (dimension.input >= 0) names.push_back(dimension.symbol);
  }
  return names.empty() ? "of fixed sizes" : fmt::format("of any {}", fmt::join(names, ", "));
}

json json_of(const plugin::Generated& made) {
  json plugins = json::array(), nodes = json::array();
  for (const plugin::Definition& each : made.plugins) {
    json targets = json::array();
    for (const plugin::Variant& variant : each.variants) {
      targets.push_back({{"target", variant.target.architecture},
                         {"kernels", variant.kernels.size()},
                         {"launches", variant.launches.size()},
                         {"measured", variant.measured},
                         {"ms", variant.milliseconds > 0 ? json(variant.milliseconds) : json()},
                         {"compiled", variant.kernels.empty() || !variant.cubin.empty()}});
    }
    json counted = json::array();
    for (const plugin::CountedAxis& axis : each.counted) {
      counted.push_back({{"output", axis.output}, {"axis", axis.axis}, {"told_by", axis.count}});
    }
    plugins.push_back({{"name", each.name},
                       {"nodes", each.nodes},
                       {"inputs", each.inputs.size()},
                       {"outputs", each.outputs.size()},
                       {"counted", counted},
                       {"targets", targets}});
  }
  for (const plugin::PlacedPlugin& node : made.nodes) {
    nodes.push_back({{"node", node.node}, {"plugin", made.plugins[node.plugin].name}});
  }
  json left = json::array();
  for (const plugin::LeftNode& node : made.left) left.push_back({{"node", node.node}, {"why", node.why}});
  return {{"plugins", plugins}, {"nodes", nodes}, {"left", left}, {"model", made.model}};
}

int PluginCommand::run() const {
  refuse_plan(model);
  const int chosen = static_cast<int>(!nodes.empty()) + static_cast<int>(!types.empty()) +
                     static_cast<int>(!region.empty()) + static_cast<int>(unsupported);
  if (chosen != 1) throw UsageError("say what becomes a plugin: --nodes, --types or --region, or --all-unsupported");
  json_output.check({model});
  const auto start = std::chrono::steady_clock::now();
  const plugin::Generated made = plugin::generate(request());
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  clear_progress();
  if (json_output.leaves_text()) {
    for (const plugin::Definition& each : made.plugins) {
      const auto users = std::count_if(made.nodes.begin(), made.nodes.end(), [&](const plugin::PlacedPlugin& node) {
        return &made.plugins[node.plugin] == &each;
      });
      print_to(stdout, "{}: {}, {}, {}\n", each.name, fmt::format("{}", fmt::join(each.operators, ", ")),
               sizes_text(each), users == 1 ? "at one place" : fmt::format("at {} places", users));
    }
    for (const plugin::LeftNode& node : made.left) print_to(stdout, "{}: no plugin: {}\n", node.node, node.why);
    print_to(stdout, "{}: {} plugin{}; {:.2f} s; README.md says how they are built\n", folder, made.plugins.size(),
             made.plugins.size() == 1 ? "" : "s", elapsed.count());
  }
  json_output.write(json_of(made));
  return 0;
}

}  // namespace

void add_plugin(Command app, Action& action) {
  Command sub = app.add_command(
      "plugin", "generate plugins for TensorRT, PyTorch or TensorFlow, or CUDA C++, from parts of a model");
  const auto command = std::make_shared<PluginCommand>();
  sub.add_option("MODEL", command->model, "an ONNX file").required().type_name("FILE");
  const auto list = [&](const char* flag, std::vector<std::string>& names, const char* help) {
    return sub.add_option(flag, names, help).type_name("NAME,...").delimiter(',').expected(1).take_all();
  };
  sub.add_option("--nodes", command->nodes, "these nodes, as one plugin; may be repeated for further plugins")
      .expected(1).take_all().type_name("NAME,...");
  list("--types", command->types, "each node of these operators; equal nodes share a plugin");
  sub.add_option("--region", command->region,
                  "all nodes that compute the tensors OUT from the tensors IN and weights, as one plugin;\n"
                  "commas separate several tensors: y..x").type_name("OUT..IN");
  sub.add_flag("--all-unsupported", command->unsupported,
                "each node that TensorRT refuses, as listed by `graft check --for tensorrt`");
  sub.add_option("--parser", command->parser,
                  "for --all-unsupported: the folder of TensorRT's or TensorRT-RTX's libraries, whose parser\n"
                  "decides, or `none` (as of graft check)").type_name("FOLDER");
  sub.add_option("--name", command->name,
                  "name of the plugin, and of its operator in the rewritten model (graft_NODE)").type_name("NAME");
  sub.add_option("--names", command->names,
                  "a JSON file with names of several plugins, each by the name of one of its nodes:\n"
                  "{\"/layer.3/Mod\": \"MyMod\"}").excludes("--name").type_name("FILE");
  sub.add_option("--for", command->consumer,
                  "tensorrt, torch, tensorflow, or cuda: only kernels and their launches")
      .show_default().type_name("ENGINE");
  sub.add_option("--tensorrt", command->tensorrt,
                  "its version: 10 or 11 (IPluginV3, the same sources), or 8.6 (IPluginV2DynamicExt)")
      .show_default().type_name("VERSION");
  sub.add_option("--dim", command->dims,
                  "set a dynamic dimension: batch=8, batch=MIN:MAX or batch=MIN:OPT:MAX; may be\n"
                  "repeated for other dimensions")
      .expected(1).take_all().type_name("TEXT");
  sub.add_option("--batch", command->batch, "the same for the first axis of each input: 1:8:64")
      .type_name("TEXT");
  sub.add_option("--target", command->targets,
                  "the GPUs: sm_80, sm_86, sm_89, sm_90a, sm_100, sm_120 (sm_80,sm_90a)")
      .delimiter(',').expected(1).take_all().type_name("NAME,...");
  sub.add_option("--ops", command->ops,
                  "define operators of your own: a file of definitions (docs/OWN_OPERATORS.md), or\n"
                  "an ONNX file of functions; may be repeated")
      .expected(1).take_all().type_name("FILE");
  sub.add_option("--precision", command->precision, "fp32, fp16 or bf16: precision of an f32 part")
      .show_default().type_name("NAME");
  sub.add_option("--tune", command->tune,
                  "off, fast or full: how long candidates are measured, for the target of the local GPU; the cost\n"
                  "model chooses for other targets and without a GPU")
      .show_default().type_name("HOW");
  sub.add_option("--device", command->device, "the GPU to measure on: cuda, cuda:NUMBER, or cpu for none")
      .show_default().type_name("NAME");
  sub.add_option("--record", command->record,
                  "reuse the choices of a plan of the parts, or of a record as text, measured elsewhere\n"
                  "(the choices of the replaced folder)").type_name("FILE");
  sub.add_option("-o,--output", command->folder, "the folder to make; a folder of an earlier call is replaced")
      .required().type_name("DIR");
  command->limits.add_deadline(sub);
  command->json_output.add_to(sub);
  sub.footer(R"(
Kernels are generated for all sizes within the given ranges, and compiled if NVRTC is available; no GPU is needed.
The folder holds their CUDA C++, the plugins, a CMake project that makes one library of them, for TensorRT the
model that calls the plugins, and a README.
Examples:
  graft plugin model.onnx --region y..x --name LayerNorm --dim batch=1:8:64 -o plugins
  graft plugin model.onnx --types BitShift,Det -o plugins --target sm_90a
  graft plugin model.onnx --all-unsupported -o plugins
  graft plugin model.onnx --nodes /layer.3/Mod --for torch -o kernels)");
  sub.on_chosen([command, &action] { action = [command] { return command->run(); }; });
}

}  // namespace graft
