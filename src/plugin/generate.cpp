// SPDX-License-Identifier: Apache-2.0
#include "plugin/generate.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file.h"
#include "base/spelling.h"
#include "device/cuda/cuda_device.h"
#include "driver/compile.h"
#include "engine/record.h"
#include "graph/op_def.h"
#include "graph/symbols.h"
#include "import/onnx/contrib_operators.h"
#include "import/onnx/import.h"
#include "import/operator_library.h"
#include "plugin/plugin_name.h"
#include "plugin/write_definition.h"
#include "plugin/write_project.h"
#include "target/cpus.h"

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

/// Throws where it is no GPU that there is a description of.
Target gpu_of_name(const std::string& name) {
  std::vector<std::string> gpus = target_names();
  std::erase_if(gpus, [](const std::string& each) { return gpu_generation(each) == 0; });
  Target target;
  try {
    target = find_target(name);
  } catch (const Error& error) {
    const bool is_name = name.find(' ') == name.npos;  // and no description in words
    if (error.kind() != ErrorKind::kInvalidArgument || !is_name) throw;
  }
  GRAFT_USER_CHECK(target.kind == TargetKind::kCuda, kInvalidArgument,
                   fmt::format("'{}' is no GPU that kernels can be made for; there are {}", name,
                               fmt::join(gpus, ", ")), "--target");
  return target;
}

/// The descriptions of the targets, without the instructions whose kernels copy by descriptors of tensors that the host
/// makes for each launch: TMA comes with wgmma.
std::vector<std::string> targets_of(const Request& request) {
  std::vector<std::string> names = request.options.targets;
  if (names.empty()) names = {"sm_80", "sm_90a"};
  std::vector<std::string> texts;
  std::set<std::string> seen;
  for (const std::string& name : names) {
    Target target = gpu_of_name(name);
    GRAFT_USER_CHECK(seen.insert(target.architecture).second, kInvalidArgument,
                     fmt::format("'{}' was given twice", name), "--target");
    target.features.clear();
    texts.push_back(print(target));
  }
  return texts;
}

/// The architecture of the GPU on which kernels are to be measured; empty for none.
std::string measuring_architecture(const Request& request, bool writes) {
  const int gpu = gpu_of(request.options.device);
  const bool measures = writes && request.options.tuning != Tuning::kOff && gpu >= 0;
  return measures && why_no_cuda_device().empty() ? cuda_architecture(gpu) : "";
}

/// Where proposals are worked out.
std::string scratch_folder() {
  return (std::filesystem::temp_directory_path() / fmt::format("graft-plugins-{}", ::getpid())).string();
}

ModelFile open_model(const Request& request, const OperatorLibrary& own) {
  report(request.options, name_of(Stage::kImport), request.model);
  ImportOptions options;
  options.operators = own;
  return ModelFile::open(request.model, options, request.options.cancelled);
}

class Generator {
 public:
  Generator(const Request& request, bool writes)
      : request_(request),
        writes_(writes),
        options_(request.options),
        targets_(targets_of(request)),
        measuring_(measuring_architecture(request, writes)),
        folder_(writes ? request.folder : scratch_folder(), kMark),
        own_(read_operator_library(options_.operators)),
        model_(open_model(request, own_)) {}

  Generated run() {
    if (!request_.name.empty()) check_name(request_.name, model_, request_.consumer);
    check_names();
    check_dimensions();
    if (!request_.batch.empty()) set_batch();
    const std::vector<ModelCut> parts = chosen_parts();
    std::vector<ModelCall> calls;
    for (size_t p = 0; p < parts.size(); ++p) {
      report(request_.options, "plugin", node_of(parts[p]).name, static_cast<int>(p), static_cast<int>(parts.size()));
      place_or_leave(parts[p], calls);
    }
    if (!request_.options.record.empty() && !record_used_) {
      throw Error(ErrorKind::kInvalidArgument, "it holds no choices for any of these parts and targets: give the "
                                               "record of a plan of them (parts/NAME.onnx), or none", "--record");
    }
    if (!writes_) return std::move(made_);
    check_made();
    if (rewrites_model(request_.consumer)) {
      const std::string name = std::filesystem::path(request_.model).filename().string();
      model_.with_calls(calls).save(folder_.place(name));
      made_.model = (std::filesystem::path(request_.folder) / name).string();
    }
    write_project(made_, request_, folder_);
    folder_.commit();
    return std::move(made_);
  }

 private:
  std::vector<ModelCut> chosen_parts() {
    if (!request_.selection.unsupported) return select_parts(model_, request_.selection);
    Refusals refusals = refused_by_tensorrt(model_, request_.model, request_.parser,
                                            [this](const std::string& name) { return folder_.place(name); });
    made_.refused = std::move(refusals.nodes), made_.refused_by = std::move(refusals.by);
    std::vector<std::string> nodes;
    for (const Refusal& refusal : made_.refused) {
      if (!refusal.in_body) {
        nodes.push_back(refusal.node);
      } else {
        made_.left.push_back({refusal.node, "it is refused for nodes of its bodies, which cannot be cut out"});
      }
    }
    return parts_of_refused(model_, nodes, [&](const std::string& node, const std::string& why) {
      made_.left.push_back({node, why});
    });
  }

  /// Of nodes that TensorRT refuses, those that can be no plugin stay, and it is said why.
  void place_or_leave(const ModelCut& part, std::vector<ModelCall>& calls) {
    if (!request_.selection.unsupported) {
      calls.push_back(place(part));
      return;
    }
    try {
      calls.push_back(place(part));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnsupported && error.kind() != ErrorKind::kInvalidModel) throw;
      for (const std::string& node : names_of(part)) made_.left.push_back({node, error.what()});
    }
  }

  void check_made() const {
    if (!made_.plugins.empty()) return;
    GRAFT_USER_CHECK(!made_.refused.empty(), kInvalidArgument,
                     made_.refused_by + " refuses none of the model's nodes: nothing is to be made; --nodes, --types "
                     "or --region make plugins of nodes that it has", "--all-unsupported");
    throw Error(ErrorKind::kUnsupported,
                fmt::format("no plugin can be made of the {} nodes that TensorRT refuses; of the first, because: {}",
                            made_.refused.size(), made_.left.front().why),
                fmt::format("node '{}'", made_.left.front().node));
  }

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
      check_name(name, model_, request_.consumer);
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

  /// The nodes of a part, but for Constants.
  std::vector<std::string> names_of(const ModelCut& part) const {
    std::vector<std::string> names;
    for (size_t n = 0; n < part.nodes.size(); ++n) {
      if (part.nodes[n] && model_.nodes()[n].op != "Constant") names.push_back(model_.nodes()[n].name);
    }
    return names;
  }

  ModelCall place(const ModelCut& part) {
    const std::string given = given_name(part), name = given.empty() ? free_name(part) : given;
    Definition definition = define_or_say_undefined(part, name);
    const ModelFile cut = bordered(chosen_);
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
    made_.nodes.push_back({node_of(part).name, names_of(chosen_), number});
    ModelCall call{.nodes = chosen_.nodes,
                   .name = node_of(part).name,
                   .domain = "graft",
                   .op = made_.plugins[number].name,
                   .inputs = {},
                   .outputs = cut.outputs(),
                   .attributes = {{"plugin_version", "1"}, {"plugin_namespace", ""}},
                   .types = border_types(chosen_)};
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
      return define(bordered(part), name);
    } catch (const Error& error) {
      const bool refused = error.kind() == ErrorKind::kUnsupported || error.kind() == ErrorKind::kInvalidModel;
      if (!refused || std::none_of(part.inputs.begin(), part.inputs.end(), is_weight)) throw;
    }
    std::erase_if(chosen_.inputs, is_weight);
    return define(bordered(chosen_), name);
  }

  /// Whether anything says what a node of another domain than ONNX's computes.
  bool is_defined(const ModelNode& node) const {
    if (node.domain.empty() || find_op(node.domain, node.op)) return true;
    if (find_contrib_operator(node.domain, node.op)) return true;
    if (own_.find(node.domain, node.op) || model_.has_function(node.domain, node.op)) return true;
    return std::any_of(own_.functions.begin(), own_.functions.end(), [&](const auto& file) {
      const std::vector<OnnxFunction> functions = functions_of(*file);
      return std::any_of(functions.begin(), functions.end(), [&](const OnnxFunction& each) {
        return each.domain == node.domain && each.name == node.op;
      });
    });
  }

  /// As define_with_weights; a part that fails for an operator of the caller's own without a definition names that.
  Definition define_or_say_undefined(const ModelCut& part, const std::string& name) {
    try {
      return define_with_weights(part, name);
    } catch (const Error& error) {
      for (size_t n = 0; n < part.nodes.size(); ++n) {
        const ModelNode& node = model_.nodes()[n];
        GRAFT_USER_CHECK(!part.nodes[n] || is_defined(node), kUnsupported,
                         fmt::format("the operator {}.{} has no definition: give one with --ops "
                                     "(docs/OWN_OPERATORS.md)", node.domain, node.op),
                         fmt::format("node '{}'", node.name));
      }
      throw;
    }
  }

  /// Of tensors that a part takes and gives in another type, which the consumer's plugins have: TensorRT casts u8 to
  /// and from floats alone.
  std::map<std::string, DType, std::less<>> border_types(const ModelCut& part) const {
    std::map<std::string, DType, std::less<>> types;
    if (!rewrites_model(request_.consumer)) return types;
    for (const auto* names : {&part.inputs, &part.outputs}) {
      for (const std::string& name : *names) {
        if (model_.type_of(name).type == DType::kUint8) types[name] = DType::kFloat32;
      }
    }
    return types;
  }

  /// The part as a model, with casts where it takes or gives what the consumer's plugins cannot.
  ModelFile bordered(const ModelCut& part) const {
    const auto types = border_types(part);
    return types.empty() ? model_.cut(part) : model_.cut(part).with_types(types);
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
      const Compiled compiled = compile_as_before(path, options, name);
      if (definition.variants.empty()) definition = describe(name, compiled.engine);
      check_counts(definition);
      check_types(definition);
      add_variant(definition, compiled.engine, writes_);
      definition.variants.back().choices = print(compiled.plan.records.at(0));
    }
    definition.nodes = names_of(chosen_);
    for (size_t n = 0; n < chosen_.nodes.size(); ++n) {
      const std::string& op = model_.nodes()[n].op;
      if (chosen_.nodes[n] && op != "Constant") definition.operators.push_back(op);
    }
    std::filesystem::remove(path);
    std::filesystem::remove(path + ".data");
    return definition;
  }

  /// The file with what is fastest on the GPU at hand, where that is of the target's kind; empty elsewhere.
  std::string measured(const std::string& path, CompileOptions options) const {
    if (measuring_.empty() || parse_target(options.targets.at(0)).architecture != measuring_) return {};
    options.device = request_.options.device;
    options.tuning = request_.options.tuning;
    options.source_only = false;
    for (const char* library : {"cublaslt", "cudnn"}) options.disabled.emplace_back(library);  // a plugin calls none
    const Compiled compiled = compile({.path = path}, options);
    const std::string record = folder_.place("measured.txt");
    write_file(record, print(compiled.plan.records.at(0)));
    return record;
  }

  /// With the choices of the caller's record, or of the folder that is replaced, where they are of this part; else as
  /// measured here, or as the cost model has it.
  Compiled compile_as_before(const std::string& path, CompileOptions options, const std::string& name) {
    const bool given = !request_.options.record.empty();
    const std::string architecture = parse_target(options.targets.at(0)).architecture;
    const std::string kept = request_.folder + "/" + choices_file(name, architecture);
    if (!given && writes_ && std::filesystem::exists(kept)) options.record = kept;
    if (!options.record.empty()) {
      try {
        Compiled compiled = compile({.path = path}, options);
        record_used_ = record_used_ || given;
        return compiled;
      } catch (const Error& error) {
        if (error.where() != "record" || error.kind() != ErrorKind::kInvalidArgument) throw;
        options.record.clear();
      }
    }
    options.record = measured(path, options);
    Compiled compiled = compile({.path = path}, options);
    if (!options.record.empty()) std::filesystem::remove(options.record);
    return compiled;
  }

  /// Of sizes that are known only after a run.
  void check_counts(const Definition& definition) const {
    const Consumer consumer = request_.consumer;
    if (definition.counted.empty() || consumer == Consumer::kTensorRT || consumer == Consumer::kCuda) return;
    const Tensor& output = definition.outputs[static_cast<size_t>(definition.counted.front().output)];
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the size of its axis {} is known only after a run, which a plugin {} cannot say{}: choose "
                            "nodes without it", definition.counted.front().axis,
                            consumer == Consumer::kTensorRT8 ? "of TensorRT 8.6"
                                                             : fmt::format("for {}", name_of(consumer)),
                            consumer == Consumer::kTensorRT8 ? ", from TensorRT 10 on it can" : ""),
                fmt::format("tensor '{}'", output.name));
  }

  void check_types(const Definition& definition) const {
    if (request_.consumer == Consumer::kCuda) return;
    const std::set<DType> known = types_of(request_.consumer);
    const bool old = request_.consumer == Consumer::kTensorRT8;
    for (const auto* tensors : {&definition.inputs, &definition.outputs}) {
      for (const Tensor& tensor : *tensors) {
        GRAFT_USER_CHECK(known.count(tensor.type), kUnsupported,
                         fmt::format("{}{} has no tensors of {} for plugins: choose nodes that begin and end at "
                                     "other types, such as the Casts around these", name_of(request_.consumer),
                                     old ? " 8.6" : "", name_of(tensor.type)),
                         fmt::format("tensor '{}'", tensor.name));
      }
    }
  }

  const Request& request_;
  const bool writes_;  ///< a folder, or nothing
  bool record_used_ = false;
  CompileOptions options_;
  std::vector<std::string> targets_;
  const std::string measuring_;  ///< the architecture of the GPU that candidates are measured on; empty: none
  OutputFolder folder_;
  const OperatorLibrary own_;  ///< operators that the caller defines
  ModelFile model_;
  Generated made_;
  std::map<std::string, size_t> plugin_of_;  ///< by identity
  ModelCut chosen_;                          ///< the part, with weights handed in or inside
};

Generated run_generator(const Request& request, bool writes) {
  Generated made;
  run_by_deadline(request.options, [&](const CompileOptions& timed) {
    Request limited = request;
    limited.options = timed;
    made = Generator(limited, writes).run();
  });
  return made;
}

}  // namespace

Generated generate(const Request& request) { return run_generator(request, /*writes=*/true); }

Generated propose(const Request& request) { return run_generator(request, /*writes=*/false); }

}  // namespace graft::plugin
