// SPDX-License-Identifier: Apache-2.0
#include "plugin/generate.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/spelling.h"
#include "driver/compile.h"
#include "graph/symbols.h"
#include "plugin/plugin_name.h"
#include "plugin/write_definition.h"
#include "plugin/write_project.h"

namespace graft::plugin {
namespace {

/// Names in the sizes of inputs, as the compiler calls them.
std::set<std::string> dimensions_of(const ModelFile& model) {
  std::set<std::string> names;
  for (const ModelInput& input : model.inputs()) {
    for (const std::string& size : input.shape.value_or(std::vector<std::string>())) {
      if (size.empty()) continue;
      names.insert(dimension_symbol(size));
      std::string word;
      for (const char c : size + " ") {
        if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
          word += c;
        } else if (!word.empty()) {
          names.insert(std::exchange(word, ""));
        }
      }
    }
  }
  return names;
}

/// The descriptions of the targets, without the instructions whose kernels copy by descriptors of tensors that the host
/// makes for each launch: TMA comes with wgmma.
std::vector<std::string> targets_of(const Request& request) {
  std::vector<std::string> names = request.options.targets;
  if (names.empty()) names = {"sm_80", "sm_90a"};
  std::vector<std::string> texts;
  std::set<std::string> seen;
  for (const std::string& name : names) {
    Target target = find_target(name);
    GRAFT_USER_CHECK(target.kind == TargetKind::kCuda, kInvalidArgument,
                     fmt::format("'{}' is no GPU; there are sm_80, sm_86, sm_89, sm_90a, sm_100 and sm_120", name),
                     "--target");
    GRAFT_USER_CHECK(seen.insert(target.architecture).second, kInvalidArgument,
                     fmt::format("'{}' was given twice", name), "--target");
    target.features.clear();
    texts.push_back(print(target));
  }
  return texts;
}

class Generator {
 public:
  explicit Generator(const Request& request)
      : request_(request),
        options_(request.options),
        targets_(targets_of(request)),
        folder_(request.folder, kMark),
        model_(ModelFile::open(request.model)) {}

  Generated run() {
    if (!request_.name.empty()) check_name(request_.name, model_);
    check_names();
    check_dimensions();
    if (!request_.batch.empty()) set_batch();
    const std::vector<ModelCut> parts = select_parts(model_, request_.selection);
    std::vector<ModelCall> calls;
    for (size_t p = 0; p < parts.size(); ++p) {
      report(request_.options, "plugin", node_of(parts[p]).name, static_cast<int>(p), static_cast<int>(parts.size()));
      calls.push_back(place(parts[p]));
    }
    if (request_.consumer != Consumer::kCuda) {
      const std::string name = std::filesystem::path(request_.model).filename().string();
      model_.with_calls(calls).save(folder_.place(name));
      made_.model = (std::filesystem::path(request_.folder) / name).string();
    }
    write_project(made_, request_, folder_);
    folder_.commit();
    return std::move(made_);
  }

 private:
  void check_dimensions() const {
    const std::set<std::string> known = dimensions_of(model_);
    for (const auto& [name, range] : request_.options.dims) {
      if (known.count(name)) continue;
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("no input of the model has a size named '{}'{}", name,
                              did_you_mean(name, {known.begin(), known.end()})), "--dim");
    }
  }

  void set_batch() {
    bool found = false;
    for (const ModelInput& input : model_.inputs()) {
      if (!input.shape || input.shape->empty() || input.shape->front().empty()) continue;
      const std::string name = dimension_symbol(input.shape->front());
      if (std::isdigit(static_cast<unsigned char>(input.shape->front()[0])) || options_.dims.count(name)) continue;
      set_option(options_, {"dim", fmt::format("{}={}", name, request_.batch)});
      found = true;
    }
    GRAFT_USER_CHECK(found, kInvalidArgument,
                     "the first axes of the model's inputs have fixed sizes, or ones that --dim gives: leave it out",
                     "--batch");
  }

  void check_names() const {
    std::vector<std::string> known;
    for (const ModelNode& node : model_.nodes()) known.push_back(node.name);
    for (const auto& [node, name] : request_.names) {
      check_name(name, model_);
      if (std::find(known.begin(), known.end(), node) != known.end()) continue;
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the model has no node '{}', for which a name is given{}", node,
                              did_you_mean(node, known)), "--names");
    }
  }

  /// The name that the caller gives to a part; empty where it gives none.
  std::string given_name(const ModelCut& part) const {
    for (size_t n = 0; n < part.nodes.size(); ++n) {
      const auto named = part.nodes[n] ? request_.names.find(model_.nodes()[n].name) : request_.names.end();
      if (named != request_.names.end()) return named->second;
    }
    return request_.name;
  }

  /// The last node of a part, whose name the call takes.
  const ModelNode& node_of(const ModelCut& part) const {
    size_t last = 0;
    for (size_t n = 0; n < part.nodes.size(); ++n) {
      if (part.nodes[n] && model_.nodes()[n].op != "Constant") last = n;
    }
    return model_.nodes()[last];
  }

  ModelCall place(const ModelCut& part) {
    const std::string given = given_name(part), name = given.empty() ? free_name(part) : given;
    Definition definition = define_with_weights(part, name);
    const ModelFile cut = model_.cut(chosen_);
    const std::string identity = identity_of(definition) + given;
    const auto known = plugin_of_.find(identity);
    size_t number = made_.plugins.size();
    if (known != plugin_of_.end()) {
      number = known->second;
    } else {
      check_free(name, part);
      plugin_of_[identity] = number;
      cut.save(folder_.place(fmt::format("parts/{}.onnx", name)));
      made_.plugins.push_back(std::move(definition));
    }
    made_.nodes.push_back({node_of(part).name, number});
    ModelCall call{.nodes = chosen_.nodes,
                   .name = node_of(part).name,
                   .domain = "graft",
                   .op = made_.plugins[number].name,
                   .inputs = {},
                   .outputs = cut.outputs(),
                   .attributes = {{"plugin_version", "1"}, {"plugin_namespace", ""}}};
    for (const ModelInput& input : cut.inputs()) call.inputs.push_back(input.name);
    return call;
  }

  /// Throws where another plugin has the name.
  void check_free(const std::string& name, const ModelCut& part) const {
    for (const Definition& plugin : made_.plugins) {
      GRAFT_USER_CHECK(plugin.name != name, kInvalidArgument,
                       fmt::format("nodes '{}' and '{}' need plugins of their own, which cannot have the one name "
                                   "'{}': leave the name out, or give each its own with --names",
                                   plugin.nodes.back(), node_of(part).name, name), "--name");
    }
  }

  std::string free_name(const ModelCut& part) const {
    std::set<std::string> taken;
    for (const Definition& plugin : made_.plugins) taken.insert(plugin.name);
    for (const auto& [node, name] : request_.names) taken.insert(name);
    for (const ModelNode& node : model_.nodes()) taken.insert(node.op);
    return default_name(model_, part, taken);
  }

  /// With weights handed in, or, where an operator has to know them, inside.
  Definition define_with_weights(const ModelCut& part, const std::string& name) {
    const auto is_weight = [&](const std::string& input) { return model_.weights().count(input) != 0; };
    chosen_ = part;
    try {
      return define(model_.cut(part), name);
    } catch (const Error& error) {
      const bool refused = error.kind() == ErrorKind::kUnsupported || error.kind() == ErrorKind::kInvalidModel;
      if (!refused || std::none_of(part.inputs.begin(), part.inputs.end(), is_weight)) throw;
    }
    std::erase_if(chosen_.inputs, is_weight);
    return define(model_.cut(chosen_), name);
  }

  Definition define(const ModelFile& part, const std::string& name) {
    const std::string path = folder_.place("part.onnx");
    part.save(path);
    CompileOptions options = options_;
    options.device = "cpu";  // nothing is measured
    options.tuning = Tuning::kOff;
    options.source_only = true;
    const std::set<std::string> known = dimensions_of(part);
    std::erase_if(options.dims, [&](const auto& dim) { return known.count(dim.first) == 0; });
    Definition definition;
    for (const std::string& target : targets_) {
      options.targets = {target};
      const Engine engine = compile({.path = path}, options).engine;
      if (definition.variants.empty()) definition = describe(name, engine);
      check_types(definition);
      add_variant(definition, engine);
    }
    for (size_t n = 0; n < chosen_.nodes.size(); ++n) {
      const ModelNode& node = model_.nodes()[n];
      if (!chosen_.nodes[n] || node.op == "Constant") continue;
      definition.nodes.push_back(node.name);
      definition.operators.push_back(node.op);
    }
    std::filesystem::remove(path);
    std::filesystem::remove(path + ".data");
    return definition;
  }

  void check_types(const Definition& definition) const {
    if (request_.consumer == Consumer::kCuda) return;
    std::set<DType> known = {DType::kFloat32, DType::kFloat16, DType::kInt8, DType::kInt32, DType::kBool};
    const bool old = request_.consumer == Consumer::kTensorRT8;
    if (!old) known.insert({DType::kBFloat16, DType::kInt64});
    for (const auto* tensors : {&definition.inputs, &definition.outputs}) {
      for (const Tensor& tensor : *tensors) {
        GRAFT_USER_CHECK(known.count(tensor.type), kUnsupported,
                         fmt::format("TensorRT{} has no tensors of {} for plugins: choose nodes that begin and end at "
                                     "other types, such as the Casts around these", old ? " 8.6" : "",
                                     name_of(tensor.type)),
                         fmt::format("tensor '{}'", tensor.name));
      }
    }
  }

  const Request& request_;
  CompileOptions options_;
  std::vector<std::string> targets_;
  OutputFolder folder_;
  ModelFile model_;
  Generated made_;
  std::map<std::string, size_t> plugin_of_;  ///< by identity
  ModelCut chosen_;                          ///< the part, with weights handed in or inside
};

}  // namespace

Generated generate(const Request& request) { return Generator(request).run(); }

}  // namespace graft::plugin
