// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <torch/csrc/jit/ir/constants.h>

#include "functional.h"

namespace graft::torchscript {
namespace {

namespace jit = torch::jit;

constexpr int kMostRounds = 64;  // of containers that hold others

bool is(const jit::Node& node, const char* schema) { return node.matches(schema); }

/// The node of a block that a node lies in: itself, or what has the block around it.
jit::Node* within(jit::Node* node, const jit::Block* block) {
  while (node && node->owningBlock() != block) node = node->owningBlock()->owningNode();
  return node;
}

bool is_container(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
    case c10::TypeKind::IntType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::NumberType:
    case c10::TypeKind::StringType: return false;
    default: return true;
  }
}

/// What a list or a dict holds at one point of its block, of which `keys` are a dict's.
struct Contents {
  std::vector<c10::IValue> keys;
  std::vector<jit::Value*> values;

  std::optional<size_t> find(const c10::IValue& key) const {
    const auto found = std::find(keys.begin(), keys.end(), key);
    return found == keys.end() ? std::nullopt : std::optional<size_t>(found - keys.begin());
  }
  /// Of a list, from its end where negative.
  std::optional<size_t> place(const jit::Value* index) const {
    const auto given = jit::constant_as<int64_t>(index);
    const auto count = static_cast<int64_t>(values.size());
    if (!given || *given < -count || *given >= count) return std::nullopt;
    return static_cast<size_t>(*given < 0 ? *given + count : *given);
  }
};

std::optional<c10::IValue> constant_key(const jit::Value* key) {
  auto constant = jit::toIValue(key);
  if (!constant || !(constant->isString() || constant->isInt())) return std::nullopt;
  return constant;
}

/// What a node that makes a container puts into it; nothing for other nodes.
std::optional<Contents> contents_of(jit::Node& node) {
  Contents made;
  if (node.kind() == c10::prim::ListConstruct) {
    made.values.assign(node.inputs().begin(), node.inputs().end());
    return made;
  }
  if (node.kind() == c10::aten::dict && node.inputs().empty()) return made;
  if (node.kind() != c10::prim::DictConstruct) return std::nullopt;
  for (size_t i = 0; i + 1 < node.inputs().size(); i += 2) {
    const auto key = constant_key(node.inputs()[i]);
    if (!key || made.find(*key)) return std::nullopt;
    made.keys.push_back(*key), made.values.push_back(node.inputs()[i + 1]);
  }
  return made;
}

/// One container, from where it is made to its last use.
class Container {
 public:
  Container(jit::Node& made, Contents contents)
      : made_(made), graph_(*made.owningGraph()), contents_(std::move(contents)), current_(made.output()) {
    for (const jit::Use& use : made.output()->uses()) uses_.push_back(use);
    // A block's results are read behind all of its nodes.
    std::stable_sort(uses_.begin(), uses_.end(), [&](const jit::Use& a, const jit::Use& b) {
      jit::Node *first = anchor(a), *second = anchor(b);
      return first && second && first != second && first->isBefore(second);
    });
  }

  /// Whether all that is done to it is known and in order, and whether there is something to do.
  bool can_go() const {
    bool escaped = false, useful = false;
    for (const jit::Use& use : uses_) {
      if (!anchor(use)) return false;
      const bool here = use.user->owningBlock() == made_.owningBlock();
      const bool once = std::count_if(uses_.begin(), uses_.end(),
                                      [&](const jit::Use& other) { return other.user == use.user; }) == 1;
      if (writes(use)) {
        if (escaped || !here || !once || !is_known_write(*use.user)) return false;
        useful = true;
      } else if (!here || !is_read(*use.user)) {
        escaped = true;  // somebody else has it now
      } else if (once && !escaped) {
        useful |= is_known_read(*use.user);
      }
    }
    return useful;
  }

  /// Does what its uses do; gives whether something changed. A write that cannot be followed leaves all as it was.
  bool rewrite() {
    if (!follows_writes()) return false;
    bool changed = false, escaped = false;
    for (const jit::Use& use : uses_) {
      const bool here = use.user->owningBlock() == made_.owningBlock();
      if (writes(use)) {
        write(*use.user, contents_);
        drop(use.user, made_.output());
        current_ = nullptr, changed = true;
        continue;
      }
      const bool reads = here && is_read(*use.user);
      const jit::WithInsertPoint before(anchor(use));
      jit::Value* found = reads && !escaped ? read(*use.user) : nullptr;
      if (found) {
        drop(use.user, found);
        changed = true;
        continue;
      }
      escaped |= !reads;
      if (!current_) current_ = construct();
      if (current_ != made_.output()) use.user->replaceInput(use.offset, current_), changed = true;
    }
    return changed;
  }

 private:
  jit::Node* anchor(const jit::Use& use) const { return within(use.user, made_.owningBlock()); }

  static bool writes(const jit::Use& use) {
    const c10::FunctionSchema* schema = use.user->maybeSchema();
    if (!schema || !schema->is_mutable() || use.offset >= schema->arguments().size()) return false;
    const c10::AliasInfo* alias = schema->arguments()[use.offset].alias_info();
    return alias && alias->isWrite();
  }

  static bool is_known_write(const jit::Node& node) {
    return is(node, "aten::append.t(t[](a!) self, t(c -> *) el) -> t[](a!)") ||
           is(node, "aten::insert.t(t[](a!) self, int idx, t(b -> *) el) -> ()") ||
           is(node, "aten::_set_item.t(t[](a!) l, int idx, t(b -> *) el) -> t[](a!)") ||
           is(node, "aten::_set_item.str(Dict(str, t)(a!) l, str(b -> *) idx, t(c -> *) v) -> ()") ||
           is(node, "aten::_set_item.int(Dict(int, t)(a!) l, int(b -> *) idx, t(c -> *) v) -> ()");
  }

  /// Whether a node looks into it and keeps nothing of it.
  static bool is_read(const jit::Node& node) {
    if (is_known_read(node)) return true;
    const c10::FunctionSchema* schema = node.maybeSchema();
    if (!schema || schema->is_mutable() || !node.blocks().empty() || node.hasSideEffects()) return false;
    return std::none_of(node.outputs().begin(), node.outputs().end(),
                        [](const jit::Value* output) { return is_container(output->type()); });
  }

  static bool is_known_read(const jit::Node& node) {
    const c10::Symbol kind = node.kind();
    if (kind == c10::prim::ListUnpack) return true;
    if (kind == c10::aten::__getitem__ || kind == c10::aten::len || kind == c10::aten::keys) return true;
    if (kind == c10::aten::values || kind == c10::aten::list || kind == c10::aten::copy) return true;
    if (kind == c10::aten::dict) return node.output()->type()->kind() == c10::TypeKind::DictType;
    if (kind == c10::aten::__contains__) return node.inputs()[0]->type()->kind() == c10::TypeKind::DictType;
    return is(node, "aten::slice.t(t[] l, int? start=None, int? end=None, int step=1) -> t[]");
  }

  /// Whether each write goes to a place that is known.
  bool follows_writes() const {
    Contents trial = contents_;
    for (const jit::Use& use : uses_) {
      if (writes(use) && !write(*use.user, trial)) return false;
    }
    return true;
  }

  static bool write(jit::Node& node, Contents& contents) {
    const auto inputs = node.inputs();
    if (node.kind() == c10::aten::append) {
      contents.values.push_back(inputs[1]);
      return true;
    }
    if (node.kind() == c10::aten::insert) {
      const auto count = static_cast<int64_t>(contents.values.size());
      const auto given = jit::constant_as<int64_t>(inputs[1]);
      if (!given) return false;
      const int64_t at = std::clamp<int64_t>(*given < 0 ? *given + count : *given, 0, count);
      contents.values.insert(contents.values.begin() + at, inputs[2]);
      return true;
    }
    if (inputs[0]->type()->kind() == c10::TypeKind::ListType) {
      const auto at = contents.place(inputs[1]);
      if (at) contents.values[*at] = inputs[2];
      return at.has_value();
    }
    const auto key = constant_key(inputs[1]);
    if (!key) return false;
    if (const auto at = contents.find(*key)) {
      contents.values[*at] = inputs[2];
    } else {
      contents.keys.push_back(*key), contents.values.push_back(inputs[2]);
    }
    return true;
  }

  /// What a read gives, or nothing.
  jit::Value* read(jit::Node& node) {
    const bool dict = made_.output()->type()->kind() == c10::TypeKind::DictType;
    const auto inputs = node.inputs();
    const auto key = dict && inputs.size() > 1 ? constant_key(inputs[1]) : std::nullopt;
    switch (node.kind()) {
      case c10::prim::ListUnpack: return unpack(node);
      case c10::aten::len: return graph_.insertConstant(static_cast<int64_t>(contents_.values.size()));
      case c10::aten::__contains__: return key ? graph_.insertConstant(contents_.find(*key).has_value()) : nullptr;
      case c10::aten::__getitem__: {
        const auto at = dict ? (key ? contents_.find(*key) : std::nullopt) : contents_.place(inputs[1]);
        return at ? contents_.values[*at] : nullptr;
      }
      case c10::aten::keys: {
        std::vector<jit::Value*> keys;
        for (const c10::IValue& each : contents_.keys) keys.push_back(graph_.insertConstant(each));
        return list(node, keys);
      }
      case c10::aten::slice: return part(node);
      case c10::aten::dict: return dict ? nullptr : of_pairs(node);
      default: return !dict || node.kind() == c10::aten::values ? list(node, contents_.values) : nullptr;
    }
  }

  /// The elements in place of a node's results; gives the last of them.
  jit::Value* unpack(jit::Node& node) {
    if (node.outputs().size() != contents_.values.size() || contents_.values.empty()) return nullptr;
    for (size_t i = 0; i + 1 < node.outputs().size(); ++i) {
      node.outputs()[i]->replaceAllUsesWith(contents_.values[i]);
    }
    return contents_.values.back();
  }

  jit::Value* list(const jit::Node& like, const std::vector<jit::Value*>& elements) {
    const auto type = like.output()->type()->cast<c10::ListType>();
    return type ? graph_.insertNode(graph_.createList(type->getElementType(), elements))->output() : nullptr;
  }

  /// dict([(key, value), ...])
  jit::Value* of_pairs(const jit::Node& node) {
    const auto type = node.output()->type()->expect<c10::DictType>();
    std::vector<jit::Value*> keys, values;
    for (jit::Value* pair : contents_.values) {
      if (pair->node()->kind() != c10::prim::TupleConstruct || pair->node()->inputs().size() != 2) return nullptr;
      keys.push_back(pair->node()->inputs()[0]), values.push_back(pair->node()->inputs()[1]);
    }
    return graph_.insertNode(graph_.createDict(type->getKeyType(), type->getValueType(), keys, values))->output();
  }

  /// l[start:end:step]
  jit::Value* part(const jit::Node& node) {
    const auto count = static_cast<int64_t>(contents_.values.size());
    const auto step = jit::constant_as<int64_t>(node.inputs()[3]);
    const auto end_of = [&](const jit::Value* given, int64_t missing) -> std::optional<int64_t> {
      const auto constant = jit::toIValue(given);
      if (!constant) return std::nullopt;
      if (constant->isNone()) return missing;
      const int64_t at = constant->toInt();
      return std::clamp<int64_t>(at < 0 ? at + count : at, 0, count);
    };
    const auto start = end_of(node.inputs()[1], 0), end = end_of(node.inputs()[2], count);
    if (!step || *step < 1 || !start || !end) return nullptr;
    std::vector<jit::Value*> elements;
    for (int64_t i = *start; i < *end; i += *step) elements.push_back(contents_.values[static_cast<size_t>(i)]);
    return list(node, elements);
  }

  /// A container of what it holds now.
  jit::Value* construct() {
    const c10::TypePtr& type = made_.output()->type();
    if (const auto list = type->cast<c10::ListType>()) {
      return graph_.insertNode(graph_.createList(list->getElementType(), contents_.values))->output();
    }
    const auto dict = type->expect<c10::DictType>();
    std::vector<jit::Value*> keys;
    for (const c10::IValue& each : contents_.keys) keys.push_back(graph_.insertConstant(each));
    return graph_.insertNode(graph_.createDict(dict->getKeyType(), dict->getValueType(), keys, contents_.values))
        ->output();
  }

  static void drop(jit::Node* node, jit::Value* result) {
    if (!node->outputs().empty()) node->outputs().back()->replaceAllUsesWith(result);
    node->destroy();
  }

  jit::Node& made_;
  jit::Graph& graph_;
  Contents contents_;
  jit::Value* current_;  ///< one that holds what it does now, or null
  std::vector<jit::Use> uses_;
};

/// copy([1, 2]) of a constant -> a list of its numbers, which may be changed
bool spell_out_constant(jit::Node& node) {
  if (node.kind() != c10::aten::copy && node.kind() != c10::aten::list) return false;
  const auto constant = node.inputs().size() == 1 ? jit::toIValue(node.inputs()[0]) : std::nullopt;
  const auto type = node.output()->type()->cast<c10::ListType>();
  if (!constant || !constant->isIntList() || !type) return false;
  jit::Graph& graph = *node.owningGraph();
  const jit::WithInsertPoint before(&node);
  std::vector<jit::Value*> elements;
  for (const int64_t each : constant->toIntVector()) elements.push_back(graph.insertConstant(each));
  node.output()->replaceAllUsesWith(graph.insertNode(graph.createList(type->getElementType(), elements))->output());
  return true;
}

/// Of a block and those within it.
bool rewrite_block(jit::Block& block) {
  std::vector<jit::Node*> makers;
  bool changed = false;
  for (jit::Node* node : block.nodes()) {
    for (jit::Block* inner : node->blocks()) changed |= rewrite_block(*inner);
    if (node->hasUses() && spell_out_constant(*node)) changed = true;
    if (contents_of(*node)) makers.push_back(node);
  }
  for (jit::Node* node : makers) {
    auto contents = contents_of(*node);  // those before may have changed what it holds
    if (!contents) continue;
    Container container(*node, std::move(*contents));
    changed |= container.can_go() && container.rewrite();
  }
  return changed;
}

}  // namespace

bool functional_containers(jit::Graph& graph) {
  bool changed = false;
  for (int round = 0; round < kMostRounds && rewrite_block(*graph.block()); ++round) changed = true;
  return changed;
}

}  // namespace graft::torchscript
