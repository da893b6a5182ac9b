// SPDX-License-Identifier: Apache-2.0
#include "export/pt2/mixed_precision.h"

#include <set>

#include <fmt/format.h>

#include "amp/mixed_precision.h"
#include "amp/narrowing.h"
#include "base/error.h"
#include "base/free_name.h"
#include "export/pt2/program_view.h"
#include "import/pt2/json_reader.h"

namespace graft::pt2 {
namespace {

using Document = nlohmann::ordered_json;

constexpr const char* kConfigs[] = {"data/weights/model_weights_config.json",
                                    "data/constants/model_constants_config.json"};

/// torch.export's number of a type.
int64_t number_of(DType type) { return type == DType::kFloat16 ? 6 : type == DType::kBFloat16 ? 13 : 7; }

Document parse(const Archive& archive, const std::string& entry) {
  const auto bytes = archive.find(entry);
  if (!bytes) return Document::object();
  return parse_entry<Document>(*bytes, archive.where() + ": " + entry);
}

/// `aten::add.Tensor` as a target: `torch.ops.aten.add.Tensor`.
std::string target_of(std::string op) {
  op.replace(op.find("::"), 2, ".");
  if (op.find('.', op.find('.') + 1) == std::string::npos) op += ".default";
  return "torch.ops." + op;
}

/// Operators that call their operand `input`, and `self` where they write into it.
bool has_input(const std::string& op) {
  return op == "aten::dropout" || op == "aten::feature_dropout" || op == "aten::alpha_dropout" ||
         op == "aten::feature_alpha_dropout";
}

bool writes_in_place(const std::string& target, const std::string& op) {
  return op.starts_with("aten::") && target != target_of(op) && target + ".default" != target_of(op);
}

/// Puts the casts of a decision into the description of a program.
class Applying {
 public:
  Applying(Document& document, ProgramView& view, const Program& program, const amp::Decision& decision, DType low)
      : graph_(document["graph_module"]["graph"]), signature_(document["graph_module"]["signature"]), view_(view),
        program_(program), decision_(decision), low_(low), casts_of_(view.graph.values.size()) {
    for (const amp::Value& value : view.graph.values) names_.insert(value.name);
    for (const Document& node : graph_["nodes"]) {
      has_names_ = node.contains("name");
      if (has_names_) names_.insert(node["name"].get<std::string>());
    }
    for (size_t cast = 0; cast < decision.casts.size(); ++cast) {
      const amp::Cast& made = decision.casts[cast];
      cast_names_.push_back(take_free_name(fmt::format("{}_{}", value(made.value).name, name_of(made.type)), names_));
      casts_of_[static_cast<size_t>(made.value)].push_back(cast);
    }
  }

  void run() {
    std::set<int> computed;
    for (const amp::Node& node : view_.graph.nodes) computed.insert(node.outputs.begin(), node.outputs.end());
    for (size_t id = 0; id < casts_of_.size(); ++id) {
      if (!computed.contains(static_cast<int>(id))) add_casts(static_cast<int>(id));
    }
    for (size_t n = 0; n < view_.graph.nodes.size(); ++n) {
      for (size_t i = 0; i < view_.names[n].size(); ++i) *view_.names[n][i] = read_name(decision_.readings[n][i]);
    }
    for (size_t n = 0; n < view_.graph.nodes.size(); ++n) {
      Document& node = graph_["nodes"][n];
      const std::string& op = program_.foreign.nodes[n].op;
      if (writes_in_place(node["target"].get<std::string>(), op)) {
        node["target"] = target_of(op);
        if (has_input(op)) node["inputs"][0]["name"] = "input";
      }
      nodes_.push_back(std::move(node));
      for (const int output : view_.graph.nodes[n].outputs) add_casts(output);
    }
    graph_["nodes"] = std::move(nodes_);
    name_outputs();
    retype();
  }

 private:
  const amp::Value& value(int id) const { return view_.graph.values[static_cast<size_t>(id)]; }

  std::string read_name(const amp::Reading& reading) const {
    return reading.cast >= 0 ? cast_names_[static_cast<size_t>(reading.cast)] : value(reading.value).name;
  }

  void add_casts(int id) {
    for (const size_t cast : casts_of_[static_cast<size_t>(id)]) {
      const std::string& from = value(id).name;
      const int64_t type = number_of(decision_.casts[cast].type);
      const std::string& name = cast_names_[cast];
      Document made = {{"target", "torch.ops.aten.to.dtype"},
                       {"inputs",
                        {{{"name", "self"}, {"arg", {{"as_tensor", {{"name", from}}}}}, {"kind", 1}},
                         {{"name", "dtype"}, {"arg", {{"as_scalar_type", type}}}, {"kind", 1}}}},
                       {"outputs", {{{"as_tensor", {{"name", name}}}}}},
                       {"metadata", Document::object()},
                       {"is_hop_single_tensor_return", nullptr}};
      if (has_names_) made["name"] = name;
      nodes_.push_back(std::move(made));
      Document meta = graph_["tensor_values"][from];
      meta["dtype"] = type;
      meta["requires_grad"] = false;
      graph_["tensor_values"][name] = std::move(meta);
    }
  }

  /// The graph and its signature name the results, in the same order.
  void name_outputs() {
    size_t next = 0;
    for (Document& output : graph_["outputs"]) {
      if (output.contains("as_tensor")) output["as_tensor"]["name"] = read_name(decision_.outputs[next++]);
    }
    next = 0;
    for (Document& output : signature_["output_specs"]) {
      Document& argument = output["user_output"]["arg"];
      if (argument.contains("as_tensor")) argument["as_tensor"]["name"] = read_name(decision_.outputs[next++]);
    }
  }

  void retype() {
    for (size_t id = 0; id < view_.graph.values.size(); ++id) {
      const amp::Value& before = view_.graph.values[id];
      const DType now = decision_.types[id];
      if (before.type == now || !graph_["tensor_values"].contains(before.name)) continue;
      if (now == low_ || now == DType::kFloat32) graph_["tensor_values"][before.name]["dtype"] = number_of(now);
    }
  }

  Document& graph_;
  Document& signature_;
  ProgramView& view_;
  const Program& program_;
  const amp::Decision& decision_;
  DType low_;
  std::set<std::string> names_;
  bool has_names_ = false;  // the file's nodes have names, as torch writes them since 2.11
  std::vector<std::string> cast_names_;        // by cast
  std::vector<std::vector<size_t>> casts_of_;  // by value
  Document nodes_ = Document::array();
};

/// The weights of an archive, and what becomes of them.
class Weights {
 public:
  Weights(const Archive& archive, ChangedEntries& entries) : archive_(archive), entries_(entries) {
    for (const char* config : kConfigs) configs_[config] = parse(archive, config);
  }

  /// Where a weight's elements lie; nothing for what the archive has no elements of.
  std::string place_of(const std::string& name) const {
    for (const auto& [config, document] : configs_) {
      if (!document.contains("config") || !document["config"].contains(name)) continue;
      return config.substr(0, config.rfind('/') + 1) + document["config"][name]["path_name"].get<std::string>();
    }
    return "";
  }

  /// By the model's name.
  void convert(const std::string& name, DType low) {
    for (auto& [config, document] : configs_) {
      if (!document.contains("config") || !document["config"].contains(name)) continue;
      Document& weight = document["config"][name];
      const std::string folder = config.substr(0, config.rfind('/') + 1);
      const std::string path = weight["path_name"].get<std::string>();
      const std::string made = fmt::format("{}_{}", path, name_of(low));
      weight["path_name"] = made;
      weight["tensor_meta"]["dtype"] = number_of(low);
      changed_.insert(config);
      if (entries_.contains(folder + made)) continue;  // of a tensor that shares its elements
      const auto bytes = archive_.find(folder + path);
      GRAFT_USER_CHECK(bytes && bytes->size() % sizeof(float) == 0, kInvalidModel,
                       fmt::format("'{}' has {} bytes, which are no elements of f32", path, bytes ? bytes->size() : 0),
                       archive_.where());
      const auto count = static_cast<int64_t>(bytes->size() / sizeof(float));
      const TensorData data = TensorData::borrow(DType::kFloat32, {count}, *bytes, archive_.owner());
      const TensorData rounded = amp::converted(data, low);
      entries_[folder + made] = std::string(reinterpret_cast<const char*>(rounded.bytes().data()),
                                            rounded.bytes().size());
    }
  }

  void finish() {
    for (const std::string& config : changed_) {
      const std::string folder = config.substr(0, config.rfind('/') + 1);
      std::set<std::string> used;
      for (const auto& [name, weight] : configs_[config]["config"].items()) {
        used.insert(folder + weight["path_name"].get<std::string>());
      }
      const Document before = parse(archive_, config);
      for (const auto& [name, weight] : before["config"].items()) {
        const std::string path = folder + weight["path_name"].get<std::string>();
        if (!used.contains(path)) entries_[path] = std::nullopt;
      }
      entries_[config] = configs_[config].dump();
    }
  }

 private:
  const Archive& archive_;
  ChangedEntries& entries_;
  std::map<std::string, Document> configs_;
  std::set<std::string> changed_;
};

/// Parameters that nobody reads and that share their elements with one that is converted are converted with it.
void follow_shared(const ProgramView& view, const std::map<std::string, std::string>& names, const Weights& weights,
                   DType low, amp::Decision& decision) {
  std::set<int> read(view.graph.outputs.begin(), view.graph.outputs.end());
  for (const amp::Node& node : view.graph.nodes) read.insert(node.inputs.begin(), node.inputs.end());
  std::set<std::string> places;
  const auto place = [&](size_t id) {
    const auto name = names.find(view.graph.values[id].name);
    return name == names.end() ? "" : weights.place_of(name->second);
  };
  for (size_t id = 0; id < view.graph.values.size(); ++id) {
    if (view.graph.values[id].is_parameter && decision.types[id] == low) places.insert(place(id));
  }
  for (size_t id = 0; id < view.graph.values.size(); ++id) {
    const amp::Value& value = view.graph.values[id];
    const bool unread = value.is_parameter && value.type == DType::kFloat32 && !read.contains(static_cast<int>(id));
    if (unread && places.contains(place(id))) decision.types[id] = low;
  }
}

/// The model's names of weights by those of the graph.
std::map<std::string, std::string> weight_names(const Document& signature) {
  std::map<std::string, std::string> names;
  for (const Document& input : signature["input_specs"]) {
    for (const auto& [kind, key] : {std::pair{"parameter", "parameter_name"}, {"buffer", "buffer_name"},
                                    {"tensor_constant", "tensor_constant_name"}}) {
      if (!input.contains(kind)) continue;
      names[input[kind]["arg"]["name"].get<std::string>()] = input[kind][key].get<std::string>();
    }
  }
  return names;
}

}  // namespace

MixedProgram convert_program(const Archive& archive, const amp::Request& request, const amp::DefaultLists& lists) {
  GRAFT_USER_CHECK(!request.data_names && request.input_types.empty(), kInvalidArgument,
                   "a program says itself what its inputs are: leave out data_names and input_dtypes", "lists");
  const Program program = read_program(archive);
  const std::string model = archive.names("models/")[0];
  Document document = parse(archive, model);
  ProgramView view = view_program(program, document, lists, archive.where());
  const amp::Rules rules(lists, request.lists, view.graph);
  amp::Options options{.low = request.low, .convert_parameters = request.convert_parameters};
  options.why_not = [&](int value) {
    return amp::conversion_fault(program.foreign.values[static_cast<size_t>(value)].constant, request.low);
  };
  amp::Decision decision = amp::decide(view.graph, rules, options);
  MixedProgram made;
  made.casts = static_cast<int>(decision.casts.size());
  const auto names = weight_names(document["graph_module"]["signature"]);
  Weights weights(archive, made.entries);
  follow_shared(view, names, weights, request.low, decision);
  for (size_t id = 0; id < view.graph.values.size(); ++id) {
    const amp::Value& value = view.graph.values[id];
    if (!value.is_parameter || value.type != DType::kFloat32) continue;
    const auto name = names.find(value.name);
    made.parameters[name == names.end() ? value.name : name->second] = decision.types[id];
    if (name != names.end() && decision.types[id] == request.low) weights.convert(name->second, request.low);
  }
  weights.finish();
  Applying(document, view, program, decision, request.low).run();
  made.entries[model] = document.dump();
  return made;
}

}  // namespace graft::pt2
