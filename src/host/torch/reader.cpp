// SPDX-License-Identifier: Apache-2.0
#include "reader.h"

#include <algorithm>
#include <deque>
#include <fstream>
#include <optional>
#include <unordered_map>

#include <ATen/Functions.h>
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

constexpr int kDeepestBlock = 15;  // as many as the graphs of an engine can be nested

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

/// What several readings share: a graph's, and those of its blocks.
struct Source {
  const KnownSizes& sizes;
  jit::AliasDb aliases;
};

/// Whether a use of a list is one that a value anew can stand for.
bool is_followed(const jit::Use& use) {
  const jit::Node& node = *use.user;
  if (node.matches("aten::append.t(t[](a!) self, t(c -> *) el) -> t[](a!)")) {
    return use.offset == 0 && !node.output()->hasUses();
  }
  const c10::Symbol kind = node.kind();
  return kind == c10::aten::cat || kind == c10::aten::stack || kind == c10::aten::len ||
         kind == c10::aten::__getitem__ || kind == c10::prim::ListUnpack;
}

/// Whether a list of tensors is only appended to and read.
bool is_followed(const jit::Value& list) {
  const auto type = list.type()->cast<c10::ListType>();
  return list.node()->kind() == c10::prim::ListConstruct && type &&
         type->getElementType()->isSubtypeOf(*c10::TensorType::get()) &&
         std::all_of(list.uses().begin(), list.uses().end(), [](const jit::Use& use) { return is_followed(use); });
}

/// Whether a node makes a list that is followed, or appends to it.
bool changes_list(const jit::Node& node) {
  if (node.kind() == c10::aten::append) return is_followed(*node.inputs()[0]);
  return node.kind() == c10::prim::ListConstruct && is_followed(*node.output());
}

class Reading {
 public:
  Reading(jit::Block& block, Source& source, int depth) : block_(block), source_(source), depth_(depth) {
    graft_host_graph* handle = nullptr;
    check(graft_host_graph_create("aten", &handle, &error_), error_);
    read_.handle.reset(handle);
    read_.block = &block;
  }

  /// The whole graph, whose first input is the module.
  HostGraph read() {
    std::vector<int32_t> inputs, outputs;
    for (const auto& [symbol, range] : source_.sizes.ranges) {
      check(graft_host_graph_set_range(handle(), symbol.c_str(), range.min, range.opt, range.max, &error_), error_);
    }
    for (size_t i = 1; i < block_.inputs().size(); ++i) inputs.push_back(add_value(block_.inputs()[i]));
    add_nodes();
    for (jit::Value* output : block_.outputs()) {
      visit_elements(output, [&](jit::Value* value) { outputs.push_back(index_of(value)); });
    }
    set_borders(inputs, outputs);
    return std::move(read_);
  }

  /// A block as a function of its own inputs and of what it takes from around, which gives its results and `lists` as
  /// they are then.
  HostGraph read_function(const std::vector<jit::Value*>& taken, const std::vector<jit::Value*>& lists) {
    std::vector<int32_t> inputs, outputs;
    for (jit::Value* input : taken) inputs.push_back(add_value(input));
    add_nodes();
    for (jit::Value* output : block_.outputs()) outputs.push_back(result_of(output));
    for (jit::Value* list : lists) outputs.push_back(index_of(list));
    set_borders(inputs, outputs);
    return std::move(read_);
  }

 private:
  graft_host_graph* handle() { return read_.handle.get(); }

  void add_nodes() {
    for (jit::Node* node : block_.nodes()) {
      const bool number = node->outputs().size() == 1 && unset(*node->output());
      if (node->kind() != c10::prim::Constant && !number && !is_inlined_list(*node)) add_node(node);
    }
  }

  void set_borders(const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs) {
    check(graft_host_graph_set_borders(handle(), inputs.data(), inputs.size(), outputs.data(), outputs.size(), &error_),
          error_);
  }

  /// A list that nobody changes is what its elements are.
  bool is_inlined_list(const jit::Node& node) const {
    return node.kind() == c10::prim::ListConstruct && !source_.aliases.hasWriters(node.outputs()[0]);
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
    if (value->node()->kind() == c10::prim::Constant && is_tensor(*value)) {
      return add_constant(value, jit::toIValue(value)->toTensor());
    }
    if (const auto number = unset(*value)) return add_number(value, *number);
    return add_value(value);
  }

  /// A result of a block: also a number that is known.
  int32_t result_of(jit::Value* value) {
    const auto constant = value->node()->kind() == c10::prim::Constant ? jit::toIValue(value) : std::nullopt;
    if (!constant || !(constant->isInt() || constant->isBool() || constant->isDouble())) return index_of(value);
    return add_number(value, constant->toScalar());
  }

  int32_t add_number(jit::Value* value, const c10::Scalar& number) {
    const c10::ScalarType type = number.isBoolean() ? c10::kBool : number.isIntegral(false) ? c10::kLong : c10::kDouble;
    return add_constant(value, at::scalar_tensor(number, at::TensorOptions().dtype(type)));
  }

  /// What nobody reads before it is something, of a number's type.
  static std::optional<c10::Scalar> unset(const jit::Value& value) {
    if (value.node()->kind() != c10::prim::Uninitialized) return std::nullopt;
    switch (value.type()->kind()) {
      case c10::TypeKind::BoolType: return c10::Scalar(false);
      case c10::TypeKind::IntType: return c10::Scalar(int64_t{0});
      case c10::TypeKind::FloatType: return c10::Scalar(0.0);
      default: return std::nullopt;
    }
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
    const auto known = source_.sizes.tensors.find(value);
    std::vector<const char*> symbols;
    if (known != source_.sizes.tensors.end()) {
      for (const std::string& symbol : known->second.symbols) symbols.push_back(symbol.c_str());
      described.dtype = element_type(known->second.dtype);
      described.rank = static_cast<int32_t>(known->second.sizes.size());
      described.sizes = known->second.sizes.data(), described.symbols = symbols.data();
    }
    return add(value, described);
  }

  /// A parameter: its bytes are fetched by the engines that have it.
  int32_t add_constant(jit::Value* value, const at::Tensor& tensor) {
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
    return arguments;
  }

  // ---- Blocks ----

  /// What a node's blocks take from around, and those of it that are lists which they append to.
  struct Taken {
    std::vector<jit::Value*> values, lists;
  };

  Taken taken_by(jit::Node* node) {
    Taken taken;
    jit::ValueSet seen;
    const auto note = [&](jit::Value* value) {
      if (value->node()->kind() == c10::prim::Constant || unset(*value) || !seen.insert(value).second) return;
      const auto appends = [&](const jit::Use& use) {
        return use.user->kind() == c10::aten::append && is_inside(*use.user, *node);
      };
      const bool list = is_followed(*value) && std::any_of(value->uses().begin(), value->uses().end(), appends);
      (list ? taken.lists : taken.values).push_back(value);
    };
    visit_block_uses(*node, [&](jit::Value* value) { visit_elements(value, note); });
    return taken;
  }

  static bool is_inside(const jit::Node& node, const jit::Node& around) {
    const jit::Node* at = &node;
    while (at && at != &around) at = at->owningBlock()->owningNode();
    return at == &around;
  }

  /// The arguments, attributes, results and functions that a node with blocks has beside a schema's.
  struct Functions {
    std::vector<graft_host_argument> more;
    std::vector<jit::Value*> lists;
    std::vector<std::pair<const char*, std::unique_ptr<HostGraph>>> bodies;
  };

  Functions functions_of(jit::Node* node) {
    Functions made;
    const bool loop = node->kind() == c10::prim::Loop;
    if (depth_ >= kDeepestBlock || (!loop && node->kind() != c10::prim::If)) return made;
    Taken taken = taken_by(node);
    made.lists = taken.lists;
    std::vector<jit::Value*> around = taken.lists;
    around.insert(around.end(), taken.values.begin(), taken.values.end());
    for (jit::Value* value : around) made.more.push_back(argument_of(value, false));
    for (size_t i = 0; i < node->blocks().size(); ++i) {
      jit::Block& block = *node->blocks()[i];
      std::vector<jit::Value*> inputs(block.inputs().begin(), block.inputs().end());
      inputs.insert(inputs.end(), around.begin(), around.end());
      Reading reading(block, source_, depth_ + 1);
      made.bodies.emplace_back(loop ? "body" : i == 0 ? "then" : "else",
                               std::make_unique<HostGraph>(reading.read_function(inputs, taken.lists)));
    }
    return made;
  }

  // ---- Nodes ----

  /// Why a node stays with torch whatever converters there are, or nothing.
  std::string kept(jit::Node* node) const {
    if (!node->blocks().empty() && depth_ >= kDeepestBlock) return "its blocks are nested too deep";
    if (node->hasSideEffects() && node->blocks().empty()) return "it has side effects";
    if (changes_list(*node)) return "";
    if (writes(*node)) return "it writes into its argument, which others see";
    if (source_.aliases.hasOutputWriters(node)) return "what it gives shares memory that another operator writes to";
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
      if ((effects && its_effects) || source_.aliases.writesToAlias(earlier, touched)) before.push_back(other);
    }
    if (writer) {
      for (size_t other = 0; other < read_.nodes.size(); ++other) {
        if (source_.aliases.writesToAlias(node, touched_[other])) before.push_back(static_cast<int32_t>(other));
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
    std::vector<graft_host_argument> arguments = arguments_of(node);
    Functions functions = functions_of(node);
    arguments.insert(arguments.end(), functions.more.begin(), functions.more.end());
    const auto carried = static_cast<int64_t>(node->outputs().size() + functions.lists.size());
    const std::vector<int32_t> after = order_of(node);
    std::vector<int32_t> outputs;
    bool tensors = false;
    for (jit::Value* output : node->outputs()) {
      outputs.push_back(add_value(output));
      tensors |= is_tensor(*output);
    }
    if (node->kind() == c10::aten::append && changes_list(*node)) {
      outputs = {add_value(node->inputs()[0])};
    }
    for (jit::Value* list : functions.lists) outputs.push_back(add_value(list));
    const bool counts = (!node->kind().is_prim() || !node->blocks().empty()) && tensors &&
                        node->kind() != c10::aten::__getitem__;
    std::vector<const char*> body_names;
    std::vector<const graft_host_graph*> bodies;
    for (const auto& [body, graph] : functions.bodies) {
      body_names.push_back(body), bodies.push_back(graph->handle.get());
    }
    const char* const attribute = "carried";
    const graft_host_argument attributes = integer_argument(GRAFT_ARGUMENT_INTEGER, carried);
    const graft_host_node added{.struct_size = sizeof added, .op = op.c_str(), .name = name.c_str(),
                                .scope = scope.c_str(), .source = source.c_str(), .arguments = arguments.data(),
                                .argument_count = arguments.size(), .attribute_names = &attribute,
                                .attributes = &attributes,
                                .attribute_count = node->kind() == c10::prim::Loop ? size_t{1} : size_t{0},
                                .outputs = outputs.data(), .output_count = outputs.size(),
                                .after = after.data(), .after_count = after.size(), .counts = counts,
                                .replicable = !tensors && reason.empty() && node->blocks().empty() &&
                                              !changes_list(*node) && !node->isNondeterministic(),
                                .kept = reason.empty() ? nullptr : reason.c_str(), .body_names = body_names.data(),
                                .bodies = bodies.data(), .body_count = bodies.size()};
    check(graft_host_graph_add_node(handle(), &added, &error_), error_);
    for (auto& [body, graph] : functions.bodies) read_.bodies[{read_.nodes.size(), body}] = std::move(graph);
    read_.nodes.push_back(node), read_.after.push_back(after), read_.counts.push_back(counts);
  }

  jit::Block& block_;
  Source& source_;
  int depth_;  ///< of blocks within blocks
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
  Source source{sizes, jit::AliasDb(graph)};
  return Reading(*graph->block(), source, 0).read();
}

void visit_uses(const jit::Node& node, const std::function<void(jit::Value*)>& visit) {
  for (jit::Value* input : const_cast<jit::Node&>(node).inputs()) visit(input);
  visit_block_uses(node, visit);
}

void visit_block_uses(const jit::Node& node, const std::function<void(jit::Value*)>& visit) {
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
