// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/inline_functions.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/import_budget.h"
#include "base/spelling.h"
#include "import/tensorflow/saved_model.pb.h"

namespace graft::tensorflow {
namespace {

using graft_tensorflow::AttrEntry;
using graft_tensorflow::AttrValue;
using graft_tensorflow::NodeDef;
using graft_tensorflow::OpDef;
using graft_tensorflow::TextEntry;

constexpr int kSignature = 1, kBodyNode = 3, kReturn = 4;  // fields of FunctionDef
constexpr int kDeepestCall = 100;
constexpr int kMostResults = 1 << 20;
constexpr size_t kMostRoom = size_t{1} << 30, kNodeBytes = 1 << 10;  // of all nodes; a node takes so many, and its name

/// Results by name of operators that have several and are in files without definitions of operators.
struct NamedResults {
  std::string_view op;
  std::vector<std::string_view> names;
};
const std::vector<NamedResults>& named_results() {
  static const std::vector<NamedResults> rows = {
      {"CombinedNonMaxSuppression", {"nmsed_boxes", "nmsed_scores", "nmsed_classes", "valid_detections"}},
      {"FusedBatchNorm", {"y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2"}},
      {"FusedBatchNormV2", {"y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2"}},
      {"FusedBatchNormV3",
       {"y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3"}},
      {"NonMaxSuppressionV4", {"selected_indices", "valid_outputs"}},
      {"NonMaxSuppressionV5", {"selected_indices", "selected_scores", "valid_outputs"}},
      {"Switch", {"output_false", "output_true"}},
      {"Merge", {"output", "value_index"}},
      {"TensorArrayV3", {"handle", "flow"}},
      {"TopKV2", {"values", "indices"}},
  };
  return rows;
}

/// How many tensors an output of a definition stands for, by the attributes of a node.
int64_t count_of(const OpDef::ArgDef& output, const FileNode& node) {
  const AttrValue* count = output.has_number_attr() ? node.attribute(output.number_attr()) : nullptr;
  if (count) return std::clamp<int64_t>(count->i(), 0, kMostResults);
  const AttrValue* types = output.has_type_list_attr() ? node.attribute(output.type_list_attr()) : nullptr;
  return types ? types->list().type_size() : 1;
}

/// A function as it is defined.
struct Function {
  OpDef signature;
  std::vector<FileNode> nodes;  ///< their inputs are read by Scope, from the message
  std::vector<TextEntry> returns;
};

/// The graph, or one call of a function.
struct Scope {
  const std::vector<FileNode>* nodes = nullptr;
  const Function* function = nullptr;              ///< null: the graph
  std::string prefix;                              ///< of the names of its nodes
  std::vector<Source> arguments;                   ///< what the caller gives, as nodes of the flat graph
  std::map<std::string, AttrValue> attributes;     ///< what `placeholder` attributes stand for
  std::map<std::string, size_t, std::less<>> index;
  int depth = 0;
};

bool is_call(const FileNode& node, const GraphFile& file) {
  return node.op == "PartitionedCall" || node.op == "StatefulPartitionedCall" || file.has_function(node.op);
}

/// Whether a call has the name that TensorFlow gives it by itself, which says nothing.
bool is_anonymous(const FileNode& call) {
  const size_t slash = call.name.rfind('/');
  const std::string_view name = std::string_view(call.name).substr(slash == std::string::npos ? 0 : slash + 1);
  return name.starts_with("StatefulPartitionedCall") || name.starts_with("PartitionedCall");
}

/// The work of one call of inline_functions().
class Inlining {
 public:
  Inlining(const GraphFile& file, const std::vector<std::string>& given, const Operators& operators)
      : file_(file), given_(given.begin(), given.end()), operators_(operators) {}

  std::vector<FileNode> run(const std::vector<std::string>& roots) {
    Scope graph{.nodes = &file_.nodes()};
    for (const int n : needed(roots)) {
      const FileNode& node = file_.nodes()[static_cast<size_t>(n)];
      take_name(node.name);
      kept_.push_back(n);
    }
    for (const int n : kept_) add(graph, file_.nodes()[static_cast<size_t>(n)]);
    return std::move(made_);
  }

  /// One function alone: a call of it by placeholders.
  FunctionGraph run_function(const std::string& name, const std::string& where) {
    const Function& called = function(name, where);
    auto message = std::make_shared<NodeDef>();
    FileNode call{.name = name, .op = name, .device = {}, .inputs = {}, .message = message, .bytes = {}};
    std::vector<std::string> inputs, outputs;
    for (const OpDef::ArgDef& argument : called.signature.input_arg()) {
      auto given = std::make_shared<NodeDef>();
      AttrEntry& type = *given->add_attr();
      type.set_key("dtype"), type.mutable_value()->set_type(argument.type());
      inputs.push_back(name + "/" + argument.name());
      take_name(inputs.back());
      made_.push_back({.name = inputs.back(), .op = "Placeholder", .device = {}, .inputs = {}, .message = given,
                       .bytes = {}});
      call.inputs.push_back({.node = inputs.back()});
    }
    const int count = called.signature.output_arg_size();
    add_call({}, std::move(call));
    for (FileNode& node : made_) {
      if (node.op == "ReadVariableOp") node.op = "Identity";
    }
    for (int i = 0; i < count; ++i) outputs.push_back(spell(name, i));
    return {GraphFile(std::move(made_), file_), std::move(inputs), std::move(outputs)};
  }

 private:
  /// Nodes of the graph that the roots need, in the file's order.
  std::vector<int> needed(const std::vector<std::string>& roots) const {
    std::vector<bool> seen(file_.nodes().size(), false);
    std::vector<int> queue, order;
    const auto visit = [&](const std::string& name) {
      const int n = file_.find(name);
      if (n < 0) {
        std::vector<std::string> names;
        for (const FileNode& each : file_.nodes()) names.push_back(each.name);
        throw Error(ErrorKind::kInvalidArgument,
                    fmt::format("the graph has no node '{}'{}", name, did_you_mean(name, names)), "outputs");
      }
      if (!seen[static_cast<size_t>(n)]) queue.push_back(n);
      seen[static_cast<size_t>(n)] = true;
    };
    for (const std::string& root : roots) visit(root);
    for (const std::string& each : given_) visit(each);
    while (!queue.empty()) {
      const FileNode& node = file_.nodes()[static_cast<size_t>(queue.back())];
      queue.pop_back();
      if (given_.contains(node.name)) continue;
      for (const Source& source : node.inputs) visit(source.node);
    }
    for (size_t n = 0; n < seen.size(); ++n) {
      if (seen[n]) order.push_back(static_cast<int>(n));
    }
    return order;
  }

  void take_name(std::string name) {
    const size_t needed = kNodeBytes + name.size();
    GRAFT_USER_CHECK(needed <= room_, kUnsupported, "with its functions inlined the graph has too many nodes",
                     fmt::format("node '{}'", name));
    room_ -= needed;
    take_import(needed, "nodes of functions that are called");
    taken_.insert(std::move(name));
  }

  void add(const Scope& scope, const FileNode& node) {
    FileNode made = node;
    made.name = scope.prefix + node.name;
    made.message = with_attributes(scope, node);
    const bool given = given_.contains(made.name);
    made.inputs = given ? std::vector<Source>{} : inputs_of(scope, node);
    if (!given && is_call(node, file_)) return add_call(scope, std::move(made));
    made_.push_back(std::move(made));
  }

  std::vector<Source> inputs_of(const Scope& scope, const FileNode& node) const {
    if (!scope.function) return node.inputs;
    std::vector<Source> inputs;
    for (const std::string& input : node.message->input()) inputs.push_back(resolve(scope, input, node.name));
    return inputs;
  }

  /// `argument`, `node:output:1`, `^node` of a function as what it is in the flat graph.
  Source resolve(const Scope& scope, std::string_view text, const std::string& user) const {
    const std::string where = fmt::format("function '{}', node '{}'", scope.function->signature.name(), user);
    const bool control = text.starts_with('^');
    if (control) text.remove_prefix(1);
    const size_t colon = text.find(':');
    const std::string_view name = text.substr(0, colon);
    const auto found = scope.index.find(name);
    if (found == scope.index.end()) {
      const auto& arguments = scope.function->signature.input_arg();
      for (int i = 0; i < arguments.size(); ++i) {
        if (arguments[i].name() != name) continue;
        Source source = scope.arguments[static_cast<size_t>(i)];
        source.control = control;
        return source;
      }
      throw Error(ErrorKind::kInvalidModel,
                  fmt::format("it takes '{}', which the function does not have: export the model again", name), where);
    }
    const FileNode& node = (*scope.nodes)[found->second];
    Source source{.node = scope.prefix + node.name, .index = 0, .control = control};
    if (!control && colon != std::string_view::npos) source.index = index_of(node, text.substr(colon + 1), where);
    return source;
  }

  /// The number of a result that is called `output:1`, or only `1`.
  int index_of(const FileNode& node, std::string_view text, const std::string& where) const {
    const size_t colon = text.rfind(':');
    const std::string_view digits = colon == std::string_view::npos ? text : text.substr(colon + 1);
    int index = 0;
    const auto [stop, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    GRAFT_USER_CHECK(fault == std::errc() && stop == digits.data() + digits.size() && index >= 0 &&
                         index < kMostResults,
                     kInvalidModel, fmt::format("'{}:{}' names no output of a node", node.name, text), where);
    return colon == std::string_view::npos ? index : index + position_of(node, text.substr(0, colon), where);
  }

  /// How many results stand before those of that name.
  int position_of(const FileNode& node, std::string_view output, const std::string& where) const {
    int64_t position = 0;
    if (const OpDef* definition = definition_of(node)) {
      for (const OpDef::ArgDef& each : definition->output_arg()) {
        if (each.name() == output) return static_cast<int>(position);
        position = std::min<int64_t>(position + count_of(each, node), kMostResults);
      }
      throw Error(ErrorKind::kInvalidModel,
                  fmt::format("{} has no output '{}': export the model again", node.op, output), where);
    }
    for (const NamedResults& row : named_results()) {
      const auto found = std::find(row.names.begin(), row.names.end(), output);
      if (row.op == node.op && found != row.names.end()) return static_cast<int>(found - row.names.begin());
    }
    return 0;  // any other has a single output, which may be a list
  }

  const OpDef* definition_of(const FileNode& node) const {
    if (node.op == "PartitionedCall" || node.op == "StatefulPartitionedCall") return nullptr;
    if (const auto known = functions_.find(node.op); known != functions_.end()) return &known->second.signature;
    const auto listed = operators_.find(node.op);
    return listed == operators_.end() ? nullptr : listed->second;
  }

  static std::shared_ptr<const NodeDef> with_attributes(const Scope& scope, const FileNode& node) {
    const auto stands_for = [](const AttrEntry& entry) { return entry.value().has_placeholder(); };
    const auto& entries = node.message->attr();
    if (scope.attributes.empty() || std::none_of(entries.begin(), entries.end(), stands_for)) return node.message;
    take_import(node.message->ByteSizeLong(), "nodes of functions that are called");
    auto changed = std::make_shared<NodeDef>(*node.message);
    for (AttrEntry& entry : *changed->mutable_attr()) {
      if (!stands_for(entry)) continue;
      const auto found = scope.attributes.find(entry.value().placeholder());
      if (found != scope.attributes.end()) *entry.mutable_value() = found->second;
    }
    return changed;
  }

  const Function& function(const std::string& name, const std::string& where) {
    const auto known = functions_.find(name);
    if (known != functions_.end()) return known->second;
    const auto defined = file_.functions().find(name);
    GRAFT_USER_CHECK(defined != file_.functions().end(), kInvalidModel,
                     fmt::format("it calls the function '{}', which the graph's library does not have: export the "
                                 "graph with its functions, or inlined", name),
                     where);
    Function made;
    const auto damaged = [&] {
      return Error(ErrorKind::kInvalidModel, "it is damaged: export the model again",
                   fmt::format("function '{}'", name));
    };
    for (const WireField& field : wire_fields(defined->second).value_or(std::vector<WireField>{})) {
      if (!field.has_payload) continue;
      const auto* data = field.payload.data();
      const auto size = static_cast<int>(field.payload.size());
      if (field.number == kSignature && !made.signature.ParseFromArray(data, size)) throw damaged();
      if (field.number == kReturn && !made.returns.emplace_back().ParseFromArray(data, size)) throw damaged();
      if (field.number == kBodyNode) made.nodes.push_back(parse_body_node(field.payload, name));
    }
    return functions_.emplace(name, std::move(made)).first->second;
  }

  /// A node whose inputs are spelled as functions do, which is read later.
  static FileNode parse_body_node(std::span<const std::byte> bytes, const std::string& function) {
    auto message = std::make_shared<NodeDef>();
    GRAFT_USER_CHECK(message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())), kInvalidModel,
                     "it is damaged: export the model again", fmt::format("function '{}'", function));
    for (AttrEntry& entry : *message->mutable_attr()) {
      if (entry.value().has_tensor()) entry.mutable_value()->mutable_tensor()->clear_tensor_content();
    }
    GRAFT_USER_CHECK(!message->name().empty() && !message->op().empty(), kInvalidModel,
                     "a node of it has no name or no operator", fmt::format("function '{}'", function));
    return {.name = message->name(), .op = message->op(), .device = message->device(), .inputs = {},
            .message = message, .bytes = bytes};
  }

  void add_call(const Scope& caller, FileNode call) {
    const std::string where = fmt::format("node '{}'", call.name);
    const AttrValue* called = call.attribute("f");
    const std::string name = called && called->has_func() ? called->func().name() : call.op;
    const Function& body = function(name, where);
    GRAFT_USER_CHECK(caller.depth < kDeepestCall, kInvalidModel,
                     fmt::format("the function '{}' calls itself, or calls are nested too deeply", name), where);
    Scope scope{.nodes = &body.nodes, .function = &body, .prefix = {}, .arguments = {}, .attributes = {}, .index = {},
                .depth = caller.depth + 1};
    for (const AttrEntry& entry : call.message->attr()) scope.attributes[entry.key()] = entry.value();
    if (called && called->has_func()) {
      for (const AttrEntry& entry : called->func().attr()) scope.attributes[entry.key()] = entry.value();
    }
    std::vector<Source> control;
    for (const Source& source : call.inputs) (source.control ? control : scope.arguments).push_back(source);
    GRAFT_USER_CHECK(static_cast<int>(scope.arguments.size()) == body.signature.input_arg_size(), kInvalidModel,
                     fmt::format("it gives {} tensors to the function '{}', which takes {}", scope.arguments.size(),
                                 name, body.signature.input_arg_size()),
                     where);
    for (size_t n = 0; n < body.nodes.size(); ++n) {
      const bool fresh = scope.index.emplace(body.nodes[n].name, n).second;
      GRAFT_USER_CHECK(fresh, kInvalidModel, fmt::format("the function '{}' has two nodes '{}'", name,
                                                         body.nodes[n].name), where);
    }
    take_names(scope, caller.prefix, call);
    for (const FileNode& node : body.nodes) add(scope, node);
    made_.push_back(results_of(scope, std::move(call), std::move(control)));
  }

  /// Finds a prefix under which the names of a body are free, and takes these.
  void take_names(Scope& scope, const std::string& callers, const FileNode& call) {
    scope.prefix = is_anonymous(call) ? callers : call.name + "/";
    const auto is_free = [&] {
      return std::none_of(scope.nodes->begin(), scope.nodes->end(),
                          [&](const FileNode& node) { return taken_.contains(scope.prefix + node.name); });
    };
    for (int number = 0; !is_free(); ++number) {
      scope.prefix = number == 0 ? call.name + "/" : fmt::format("{}_{}/", call.name, number);
    }
    for (const FileNode& node : *scope.nodes) take_name(scope.prefix + node.name);
  }

  /// The call as a node that hands on what the function returns.
  FileNode results_of(const Scope& scope, FileNode call, std::vector<Source> control) const {
    const OpDef& signature = scope.function->signature;
    const std::string where = fmt::format("function '{}'", signature.name());
    auto message = std::make_shared<NodeDef>();
    const bool single = signature.output_arg_size() == 1;
    call.op = signature.output_arg().empty() ? "NoOp" : single ? "Identity" : "IdentityN";
    call.inputs.clear();
    AttrEntry& types = *message->add_attr();
    types.set_key("T");
    for (const OpDef::ArgDef& output : signature.output_arg()) {
      const auto returned = std::find_if(scope.function->returns.begin(), scope.function->returns.end(),
                                         [&](const TextEntry& entry) { return entry.key() == output.name(); });
      GRAFT_USER_CHECK(returned != scope.function->returns.end(), kInvalidModel,
                       fmt::format("it does not say what its result '{}' is: export the model again", output.name()),
                       where);
      call.inputs.push_back(resolve(scope, returned->value(), output.name()));
      const auto stated = scope.attributes.find(output.type_attr());
      const int type = stated == scope.attributes.end() ? output.type() : stated->second.type();
      single ? types.mutable_value()->set_type(type) : types.mutable_value()->mutable_list()->add_type(type);
    }
    call.inputs.insert(call.inputs.end(), control.begin(), control.end());
    call.message = std::move(message);
    return call;
  }

  const GraphFile& file_;
  const std::set<std::string, std::less<>> given_;
  const Operators& operators_;
  std::map<std::string, Function, std::less<>> functions_;
  std::set<std::string, std::less<>> taken_;  // names of nodes of the flat graph
  size_t room_ = kMostRoom;
  std::vector<int> kept_;
  std::vector<FileNode> made_;
};

}  // namespace

FunctionGraph read_function(const GraphFile& file, const std::string& name, const std::string& where) {
  static const Operators none;
  const auto made = file.made_functions().find(name);
  if (made != file.made_functions().end()) return *made->second;
  return Inlining(file, {}, none).run_function(name, where);
}

GraphFile inline_functions(const GraphFile& file, const std::vector<std::string>& roots,
                           const std::vector<std::string>& given, const Operators& operators) {
  return {Inlining(file, given, operators).run(roots), file};
}

}  // namespace graft::tensorflow
