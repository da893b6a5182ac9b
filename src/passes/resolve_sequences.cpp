// SPDX-License-Identifier: Apache-2.0
// Sequences whose length is known -> the tensors they are made of: SplitToSequence becomes Split, ConcatFromSequence
// Concat, SequenceAt the element. Exporters write lists of tensors, chunks and unstacked axes like this.
// Optionals whose content is known go the same way.
#include <algorithm>
#include <map>
#include <optional>

#include "graph/infer.h"
#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

constexpr int64_t kLongestSequence = 4096;

class SequenceResolver {
 public:
  SequenceResolver(Graph& graph, const PassContext& context) : graph_(graph), context_(context) {}

  bool run() {
    const size_t count = graph_.nodes.size();
    bool changed = false;
    for (index_ = 0; index_ < static_cast<int>(count); ++index_) {
      changed |= resolve(Node(graph_.nodes[static_cast<size_t>(index_)]));
      infer_node(graph_, index_);  // what comes behind asks for sizes and indices
    }
    changed |= graph_.nodes.size() > count;
    // A sequence that somebody still reads as a whole stays.
    if (changed) graph_.sort_nodes(), sweep(graph_);
    return changed;
  }

 private:
  using Sequence = std::vector<ValueId>;

  const Sequence* sequence_of(ValueId id) const {
    const auto it = sequences_.find(id);
    return it == sequences_.end() ? nullptr : &it->second;
  }

  /// An integer that is known now.
  std::optional<int64_t> known_integer(ValueId id) const {
    if (id == kNoValue) return std::nullopt;
    const auto content = known_content(graph_.value(id));
    if (!content || content->size() != 1) return std::nullopt;
    return content->front().as_constant();
  }

  /// The place among `count` elements, counted from the end when negative; nothing when there is none.
  std::optional<size_t> place(const Node& node, ValueId id, size_t count, std::string_view what) {
    const auto index = known_integer(id);
    if (!index) {
      context_.left("resolve_sequences", node, "the position is not known when compiling");
      return std::nullopt;
    }
    const int64_t at = *index < 0 ? *index + static_cast<int64_t>(count) : *index;
    if (at < 0 || at >= static_cast<int64_t>(count)) {
      context_.left("resolve_sequences", node, what);
      return std::nullopt;
    }
    return static_cast<size_t>(at);
  }

  /// Appends a node and infers it, so that what reads it knows its type.
  std::vector<ValueId> emit(const Node& node, std::string_view op, std::vector<ValueId> inputs, size_t outputs,
                            Attributes attributes = {}) {
    Node made{.name = node.name, .domain = "", .op = std::string(op), .attributes = std::move(attributes)};
    made.inputs = std::move(inputs);
    for (size_t i = 0; i < outputs; ++i) made.outputs.push_back(graph_.add_value(node.name, DType::kUndefined));
    const std::vector<ValueId> values = made.outputs;
    graph_.add_node(std::move(made));
    infer_node(graph_, static_cast<int>(graph_.nodes.size()) - 1);
    return values;
  }
  /// The node becomes one that gives its result from tensors.
  bool give(std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {}) {
    replace_node(graph_, index_, op, std::move(inputs), std::move(attributes));
    return true;
  }
  bool give_constant(const Node& node, TensorData data) {
    return give("Identity", {graph_.add_constant(node.name + "/known", std::move(data))});
  }
  void remember(const Node& node, Sequence sequence) {
    sequences_.insert_or_assign(node.outputs[0], std::move(sequence));
  }

  /// Whether the node gives its result from tensors now.
  bool resolve(const Node& node) {
    if (!node.domain.empty() || node.outputs.size() != 1 || node.outputs[0] == kNoValue) return false;
    if (node.op.starts_with("Optional")) return resolve_optional(node);
    if (node.op == "SequenceEmpty") remember(node, {});
    if (node.inputs.empty() || node.inputs[0] == kNoValue) return false;
    if (node.op == "SequenceConstruct") remember(node, node.inputs);
    if (node.op == "SplitToSequence") split(node);
    const Sequence* known = sequence_of(node.inputs[0]);
    if (!known) return false;
    const Sequence elements = *known;
    if (node.op == "Identity") remember(node, elements);
    if (node.op == "SequenceInsert") insert(node, elements);
    if (node.op == "SequenceErase") erase(node, elements);
    if (node.op == "SequenceLength") {
      const auto count = static_cast<int64_t>(elements.size());
      return give_constant(node, TensorData::from_values<int64_t>(DType::kInt64, {}, {count}));
    }
    if (node.op == "SequenceAt") {
      const auto at = place(node, input(node, 1), elements.size(), "the sequence has no such element");
      return at && give("Identity", {elements[*at]});
    }
    return node.op == "ConcatFromSequence" && concatenate(node, elements);
  }

  /// An optional is a value that is there or not; a tensor or sequence in its place is there.
  bool resolve_optional(const Node& node) {
    const ValueId given = input(node, 0);
    if (node.op == "Optional") {
      optionals_.insert_or_assign(node.outputs[0], given);
      return false;
    }
    const auto known = optionals_.find(given);
    const bool is_tensor = given != kNoValue && graph_.value(given).type != DType::kUndefined;
    const bool is_sequence = given != kNoValue && graph_.value(given).dynamic_type.starts_with("seq(");
    const bool is_known = given == kNoValue || known != optionals_.end() || sequence_of(given);
    if (!is_known && !is_tensor && !is_sequence) return false;
    const ValueId element = known == optionals_.end() ? given : known->second;
    if (node.op == "OptionalHasElement") {
      TensorData there = TensorData::zeros(DType::kBool, {});
      there.write_double(0, element != kNoValue);
      return give_constant(node, std::move(there));
    }
    if (node.op != "OptionalGetElement" || element == kNoValue) return false;
    if (const Sequence* sequence = sequence_of(element)) {
      remember(node, Sequence(*sequence));
      return false;
    }
    if (!graph_.value(element).dynamic_type.empty()) return false;  // a sequence from outside
    return give("Identity", {element});
  }

  void insert(const Node& node, Sequence elements) {
    const ValueId element = input(node, 1);
    if (element == kNoValue) return;
    size_t at = elements.size();
    if (input(node, 2) != kNoValue) {
      // One place more than there are elements: the end, which -1 does not mean.
      const auto index = known_integer(input(node, 2));
      const auto count = static_cast<int64_t>(elements.size());
      if (!index || *index < -count || *index > count) {
        context_.left("resolve_sequences", node, index ? "the sequence has no such place" : "the place is not known");
        return;
      }
      at = static_cast<size_t>(*index < 0 ? *index + count : *index);
    }
    elements.insert(elements.begin() + static_cast<std::ptrdiff_t>(at), element);
    if (static_cast<int64_t>(elements.size()) <= kLongestSequence) remember(node, std::move(elements));
  }

  void erase(const Node& node, Sequence elements) {
    if (elements.empty()) return;
    size_t at = elements.size() - 1;
    if (input(node, 1) != kNoValue) {
      const auto given = place(node, input(node, 1), elements.size(), "the sequence has no such element");
      if (!given) return;
      at = *given;
    }
    elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(at));
    remember(node, std::move(elements));
  }

  bool concatenate(const Node& node, const Sequence& elements) {
    if (elements.empty() || !node.attributes.contains("axis")) return false;
    const int64_t axis = integer(node, "axis", 0);
    Sequence parts = elements;
    if (integer(node, "new_axis", 0) != 0) {
      const ValueId axes = add_integers(graph_, node.name + "/axis", {axis});
      for (ValueId& part : parts) part = emit(node, "Unsqueeze", {part, axes}, 1)[0];
    }
    return give("Concat", parts, {{"axis", axis}});
  }

  /// The lengths of the parts that `split` asks for, of an axis of `size` elements.
  std::optional<std::vector<int64_t>> lengths(const Node& node, ValueId split, const Size& size) {
    const std::optional<int64_t> whole = size.as_constant();
    const std::optional<std::vector<int64_t>> listed =
        split == kNoValue ? std::vector<int64_t>{1} : integers_of(graph_, split);
    if (listed && split != kNoValue && rank_of(graph_, split) == 1) return listed;
    if (!listed || listed->size() != 1 || listed->front() < 1 || !whole) {
      context_.left("resolve_sequences", node, "the number of parts is not known when compiling");
      return std::nullopt;
    }
    if ((*whole + listed->front() - 1) / listed->front() > kLongestSequence) return std::nullopt;
    std::vector<int64_t> parts;
    for (int64_t left = *whole; left > 0; left -= parts.back()) parts.push_back(std::min(left, listed->front()));
    return parts;
  }

  void split(const Node& node) {
    const ValueId x = node.inputs[0];
    const int rank = rank_of(graph_, x);
    int64_t axis = integer(node, "axis", 0);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return;
    const ValueId split = input(node, 1);
    const auto parts = lengths(node, split, (*graph_.value(x).shape)[static_cast<size_t>(axis)]);
    if (!parts || parts->empty() || static_cast<int64_t>(parts->size()) > kLongestSequence) return;
    const ValueId sizes = add_integers(graph_, node.name + "/sizes", *parts);
    Sequence elements = emit(node, "Split", {x, sizes}, parts->size(), {{"axis", axis}});
    if (split == kNoValue && integer(node, "keepdims", 1) == 0) {
      const ValueId axes = add_integers(graph_, node.name + "/axis", {axis});
      for (ValueId& element : elements) element = emit(node, "Squeeze", {element, axes}, 1)[0];
    }
    remember(node, std::move(elements));
  }

  Graph& graph_;
  const PassContext& context_;
  int index_ = 0;                          ///< of the node that is looked at
  std::map<ValueId, Sequence> sequences_;  ///< the elements of each value that is a sequence
  std::map<ValueId, ValueId> optionals_;   ///< what is in each optional: kNoValue for nothing
};

bool begins_one(const Node& node) {
  return is_op(node, {"SequenceEmpty", "SequenceConstruct", "SplitToSequence", "Optional", "OptionalHasElement",
                      "OptionalGetElement"});
}

}  // namespace

bool resolve_sequences(Graph& graph, const PassContext& context) {
  return rewrite_with_bodies(graph, [&](Graph& part) {
    return std::any_of(part.nodes.begin(), part.nodes.end(), begins_one) && SequenceResolver(part, context).run();
  });
}

}  // namespace graft::passes
