// SPDX-License-Identifier: Apache-2.0
#include "reader.h"

#include <algorithm>
#include <deque>
#include <fstream>
#include <optional>
#include <unordered_map>

#include <torch/csrc/jit/ir/alias_analysis.h>
#include <torch/csrc/jit/ir/constants.h>

#include "element_types.h"
#include "failure.h"

namespace graft::torchscript {
namespace {

namespace jit = torch::jit;

bool writes(const jit::Node& node) {
  const c10::FunctionSchema* schema = node.maybeSchema();
  return schema && schema->is_mutable();
}

/// Whether a node, or one of its blocks', fulfils a condition.
bool any_within(const jit::Node& node, const std::function<bool(const jit::Node&)>& condition) {
  if (condition(node)) return true;
  for (const jit::Block* block : node.blocks()) {
    for (const jit::Node* inner : block->nodes()) {
      if (any_within(*inner, condition)) return true;
    }
  }
  return false;
}

bool is_tensor(const jit::Value& value) { return value.type()->isSubtypeOf(*c10::TensorType::get()); }

/// Of a schema's argument that is an element type, which the graph has as a number.
bool is_element_type(const c10::Argument& argument) {
  c10::TypePtr type = argument.real_type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  return type->kind() == c10::TypeKind::ScalarTypeType;
}

/// The modules that a node was inlined from: `layer1.0.conv1`.
std::string scope_of(const jit::Node& node) {
  std::string path;
  if (!node.callstack()) {  // traced
    const std::string scope = node.scopeName();
    for (size_t at = 0, end = 0; at < scope.size(); at = end + 1) {
      end = std::min(scope.find('/', at), scope.size());
      const std::string part = scope.substr(at, end - at), name = part.substr(part.rfind(':') + 1);
      if (name.rfind("__module.", 0) == 0) path = name.substr(9);  // each part has the whole path
    }
    return path;
  }
  for (const auto& entry : (*node.callstack())->vec()) {
    const auto& module = std::get<2>(entry);
    if (!module || module->instance_name().empty() || module->instance_name() == "SELF") continue;
    path += (path.empty() ? "" : ".") + module->instance_name();
  }
  return path;
}

class Reading {
 public:
  Reading(const std::shared_ptr<jit::Graph>& graph, const KnownSizes& sizes)
      : graph_(*graph), sizes_(sizes), aliases_(graph) {
    graft_host_graph* handle = nullptr;
    check(graft_host_graph_create("aten", &handle, &error_), error_);
    read_.handle.reset(handle);
  }

  HostGraph read() {
    std::vector<int32_t> inputs, outputs;
    for (const auto& [symbol, range] : sizes_.ranges) {
      check(graft_host_graph_set_range(handle(), symbol.c_str(), range.min, range.opt, range.max, &error_), error_);
    }
    for (size_t i = 1; i < graph_.inputs().size(); ++i) inputs.push_back(add_value(graph_.inputs()[i]));
    for (jit::Node* node : graph_.nodes()) {
      if (node->kind() != c10::prim::Constant && !is_inlined_list(*node)) add_node(node);
    }
    for (jit::Value* output : graph_.outputs()) {
      visit_elements(output, [&](jit::Value* value) { outputs.push_back(index_of(value)); });
    }
    check(graft_host_graph_set_borders(handle(), inputs.data(), inputs.size(), outputs.data(), outputs.size(),
                                       &error_),
          error_);
    return std::move(read_);
  }

 private:
  graft_host_graph* handle() { return read_.handle.get(); }

  /// A list that nobody changes is what its elements are.
  bool is_inlined_list(const jit::Node& node) const {
    return node.kind() == c10::prim::ListConstruct && !aliases_.hasWriters(node.outputs()[0]);
  }
  template <class Visit>
  void visit_elements(jit::Value* value, const Visit& visit) {
    if (!is_inlined_list(*value->node())) return visit(value);
    for (jit::Value* element : value->node()->inputs()) visit_elements(element, visit);
  }

  /// The index of a value; constants are added when they are asked for.
  int32_t index_of(jit::Value* value) {
    const auto known = indices_.find(value);
    if (known != indices_.end()) return known->second;
    if (value->node()->kind() == c10::prim::Constant && is_tensor(*value)) return add_constant(value);
    return add_value(value);
  }

  int32_t add(jit::Value* value, const graft_host_value& described) {
    int32_t index = 0;
    check(graft_host_graph_add_value(handle(), &described, &index, &error_), error_);
    indices_[value] = index;
    read_.values.push_back(value);
    return index;
  }

  int32_t add_value(jit::Value* value) {
    const std::string name = value->debugName();
    graft_host_value described{.struct_size = sizeof described, .name = name.c_str(), .dtype = 0, .rank = -1,
                               .sizes = nullptr, .symbols = nullptr, .is_tensor = is_tensor(*value),
                               .constant = nullptr};
    const auto known = sizes_.tensors.find(value);
    std::vector<const char*> symbols;
    if (known != sizes_.tensors.end()) {
      for (const std::string& symbol : known->second.symbols) symbols.push_back(symbol.c_str());
      described.dtype = element_type(known->second.dtype);
      described.rank = static_cast<int32_t>(known->second.sizes.size());
      described.sizes = known->second.sizes.data(), described.symbols = symbols.data();
    }
    return add(value, described);
  }

  /// A parameter: its bytes are fetched by the engines that have it.
  int32_t add_constant(jit::Value* value) {
    const at::Tensor tensor = jit::toIValue(value)->toTensor();
    const int32_t type = element_type(tensor.scalar_type());
    if (type == 0 || tensor.layout() != c10::kStrided) return add_value(value);
    const graft_host_constant constant{
        [](void* context, void** held) -> const void* {
          auto* row_major = new at::Tensor(static_cast<at::Tensor*>(context)->cpu().contiguous());
          *held = row_major;
          return row_major->const_data_ptr();
        },
        [](void*, void* held) { delete static_cast<at::Tensor*>(held); },
        [](void* context) { delete static_cast<at::Tensor*>(context); }, new at::Tensor(tensor)};
    const std::string name = value->debugName();
    return add(value, {.struct_size = sizeof(graft_host_value), .name = name.c_str(), .dtype = type,
                       .rank = static_cast<int32_t>(tensor.dim()), .sizes = tensor.sizes().data(),
                       .symbols = nullptr, .is_tensor = 1, .constant = &constant});
  }

  // ---- Arguments ----

  graft_host_argument text_argument(std::string text) {
    texts_.push_back(std::move(text));
    return {.kind = GRAFT_ARGUMENT_TEXT, .integer = 0, .real = 0, .text = texts_.back().c_str(), .list = nullptr,
            .count = 0};
  }
  static graft_host_argument integer_argument(int32_t kind, int64_t integer) {
    return {.kind = kind, .integer = integer, .real = 0, .text = nullptr, .list = nullptr, .count = 0};
  }
  graft_host_argument list_argument(std::vector<graft_host_argument> list) {
    lists_.push_back(std::move(list));
    return {.kind = GRAFT_ARGUMENT_LIST, .integer = 0, .real = 0, .text = nullptr, .list = lists_.back().data(),
            .count = lists_.back().size()};
  }

  /// A constant of the language; nothing for kinds that no converter takes (devices, generators).
  std::optional<graft_host_argument> literal(const c10::IValue& value, bool element_type_wanted) {
    if (value.isNone()) return graft_host_argument{};
    if (value.isBool()) return integer_argument(GRAFT_ARGUMENT_BOOL, value.toBool());
    if (value.isInt()) {
      const int32_t type = element_type_wanted ? element_type(static_cast<c10::ScalarType>(value.toInt())) : 0;
      if (type != 0) return integer_argument(GRAFT_ARGUMENT_TYPE, type);
      return integer_argument(GRAFT_ARGUMENT_INTEGER, value.toInt());
    }
    if (value.isDouble()) {
      return graft_host_argument{.kind = GRAFT_ARGUMENT_REAL, .integer = 0, .real = value.toDouble(), .text = nullptr,
                                 .list = nullptr, .count = 0};
    }
    if (value.isString()) return text_argument(value.toStringRef());
    if (!value.isList()) return std::nullopt;
    std::vector<graft_host_argument> list;
    for (const c10::IValue& element : value.toListRef()) {
      const auto each = literal(element, false);
      if (!each) return std::nullopt;
      list.push_back(*each);
    }
    return list_argument(std::move(list));
  }

  graft_host_argument argument_of(jit::Value* value, bool element_type_wanted) {
    if (is_inlined_list(*value->node())) {
      std::vector<graft_host_argument> list;
      for (jit::Value* element : value->node()->inputs()) list.push_back(argument_of(element, false));
      return list_argument(std::move(list));
    }
    if (const auto constant = jit::toIValue(value); constant && !constant->isTensor()) {
      const auto given = literal(*constant, element_type_wanted);
      return given ? *given : text_argument(value->type()->repr_str());
    }
    return integer_argument(GRAFT_ARGUMENT_VALUE, index_of(value));
  }

  std::vector<graft_host_argument> arguments_of(jit::Node* node) {
    const c10::FunctionSchema* schema = node->maybeSchema();
    std::vector<graft_host_argument> arguments;
    for (size_t i = 0; i < node->inputs().size(); ++i) {
      const bool type = schema && i < schema->arguments().size() && is_element_type(schema->arguments()[i]);
      arguments.push_back(argument_of(node->inputs()[i], type));
    }
    if (node->blocks().empty()) return arguments;
    visit_uses(*node, [&](jit::Value* used) {
      if (used->node()->kind() != c10::prim::Constant) arguments.push_back(argument_of(used, false));
    });
    return arguments;
  }

  // ---- Nodes ----

  /// Why a node stays with torch whatever converters there are, or nothing.
  std::string kept(jit::Node* node) const {
    if (!node->blocks().empty()) return "it is control flow";
    if (node->hasSideEffects()) return "it has side effects";
    if (writes(*node)) return "it writes into its argument, which others see";
    if (aliases_.hasOutputWriters(node)) return "what it gives shares memory that another operator writes to";
    return "";
  }

  /// Nodes that have to run before this one although it does not take their results: side effects keep their order, and
  /// what writes to memory stays behind those who read it before, and before those who read it after.
  std::vector<int32_t> order_of(jit::Node* node) {
    const bool effects = any_within(*node, [](const jit::Node& each) { return each.hasSideEffects(); });
    const bool writer = any_within(*node, writes);
    jit::ValueSet touched;
    visit_uses(*node, [&](jit::Value* value) { touched.insert(value); });
    for (jit::Value* output : node->outputs()) touched.insert(output);
    std::vector<int32_t> before;
    for (const int32_t other : impure_) {
      jit::Node* earlier = read_.nodes[static_cast<size_t>(other)];
      const bool its_effects = any_within(*earlier, [](const jit::Node& each) { return each.hasSideEffects(); });
      if ((effects && its_effects) || aliases_.writesToAlias(earlier, touched)) before.push_back(other);
    }
    if (writer) {
      for (size_t other = 0; other < read_.nodes.size(); ++other) {
        if (aliases_.writesToAlias(node, touched_[other])) before.push_back(static_cast<int32_t>(other));
      }
    }
    if (effects || writer) impure_.push_back(static_cast<int32_t>(read_.nodes.size()));
    touched_.push_back(std::move(touched));
    return before;
  }

  void add_node(jit::Node* node) {
    texts_.clear(), lists_.clear();
    const c10::FunctionSchema* schema = node->maybeSchema();
    const bool overloaded = schema && !schema->overload_name().empty();
    const std::string op = node->kind().toQualString() + (overloaded ? "." + schema->overload_name() : "");
    const bool named = !node->outputs().empty();
    const std::string name = named ? node->outputs()[0]->debugName() : op + "#" + std::to_string(read_.nodes.size());
    const std::string scope = scope_of(*node), source = source_of(*node), reason = kept(node);
    const std::vector<graft_host_argument> arguments = arguments_of(node);
    const std::vector<int32_t> after = order_of(node);
    std::vector<int32_t> outputs;
    bool tensors = false;
    for (jit::Value* output : node->outputs()) {
      outputs.push_back(add_value(output));
      tensors |= is_tensor(*output);
    }
    const bool counts = !node->kind().is_prim() && tensors && node->kind() != c10::aten::__getitem__;
    const graft_host_node added{.struct_size = sizeof added, .op = op.c_str(), .name = name.c_str(),
                                .scope = scope.c_str(), .source = source.c_str(), .arguments = arguments.data(),
                                .argument_count = arguments.size(), .attribute_names = nullptr, .attributes = nullptr,
                                .attribute_count = 0, .outputs = outputs.data(), .output_count = outputs.size(),
                                .after = after.data(), .after_count = after.size(), .counts = counts,
                                .replicable = !tensors && reason.empty() && !node->isNondeterministic(),
                                .kept = reason.empty() ? nullptr : reason.c_str()};
    check(graft_host_graph_add_node(handle(), &added, &error_), error_);
    read_.nodes.push_back(node), read_.after.push_back(after), read_.counts.push_back(counts);
  }

  jit::Graph& graph_;
  const KnownSizes& sizes_;
  jit::AliasDb aliases_;
  graft_error error_ = {};
  HostGraph read_;
  std::unordered_map<const jit::Value*, int32_t> indices_;
  std::vector<int32_t> impure_;           ///< nodes with side effects, or that write
  std::vector<jit::ValueSet> touched_;    ///< by node: what it reads and gives
  std::deque<std::string> texts_;         ///< of the node's arguments
  std::deque<std::vector<graft_host_argument>> lists_;
};

}  // namespace

HostGraph read_graph(const std::shared_ptr<jit::Graph>& graph, const KnownSizes& sizes) {
  return Reading(graph, sizes).read();
}

void visit_uses(const jit::Node& node, const std::function<void(jit::Value*)>& visit) {
  for (jit::Value* input : const_cast<jit::Node&>(node).inputs()) visit(input);
  for (const jit::Block* block : node.blocks()) {
    const auto from_outside = [&](jit::Value* value) {
      for (const jit::Block* at = value->node()->owningBlock(); at;
           at = at->owningNode() ? at->owningNode()->owningBlock() : nullptr) {
        if (at == block) return;
      }
      visit(value);
    };
    for (const jit::Node* inner : block->nodes()) visit_uses(*inner, from_outside);
    for (jit::Value* output : const_cast<jit::Block*>(block)->outputs()) from_outside(output);
  }
}

namespace {

/// The innermost line of the model's own, for operators in torch's modules.
jit::SourceRange range_of(const jit::Node& node) {
  const auto is_torchs = [](const jit::SourceRange& range) {
    const auto place = range.file_line_col();
    return !place || std::get<0>(*place).find("/site-packages/torch/") != std::string::npos;
  };
  if (!is_torchs(node.sourceRange()) || !node.callstack()) return node.sourceRange();
  const auto calls = (*node.callstack())->vec();  // the outermost first
  for (size_t i = calls.size(); i > 0; --i) {
    if (!is_torchs(std::get<1>(calls[i - 1]))) return std::get<1>(calls[i - 1]);
  }
  return node.sourceRange();
}

}  // namespace

std::string source_of(const jit::Node& node) {
  const jit::SourceRange range = range_of(node);
  const auto place = range.file_line_col();
  if (!place) return "";
  const auto& [file, number, column] = *place;
  const jit::Source& source = *range.source();
  std::string line = source.get_line(source.lineno_for_offset(range.start())).str();
  if (line.rfind(file, 0) == 0) {  // traced: the source is a list of calls
    std::ifstream text(file);
    for (size_t i = 0; i < number && std::getline(text, line); ++i) {
    }
    if (!text) line.clear();
  }
  const size_t begin = line.find_first_not_of(" \t"), end = line.find_last_not_of(" \t\n");
  line = begin == std::string::npos ? "" : line.substr(begin, end - begin + 1);
  return file + ":" + std::to_string(number) + ": " + line;
}

}  // namespace graft::torchscript
