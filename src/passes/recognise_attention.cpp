// SPDX-License-Identifier: Apache-2.0
// Softmax(Q K^T * scale + mask) V -> Attention(Q, K, V, mask), where
//   - the scale may stand at the scores, at Q, at K, or be spread over them,
//   - the mask is added, or chosen by Where(mask, scores, a very negative number),
//   - the softmax may be computed in f32 between casts, and NaN rows may be set to zero after it,
//   - Q, K, V are [batch, heads, length, size], or [batch * heads, length, size], which becomes one batch.
// Splitting and merging heads stays outside.
#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

constexpr std::string_view kName = "recognise_attention";

/// What has been found on the way up from the last MatMul.
struct Found {
  ValueId query = kNoValue, transposed_key = kNoValue, value = kNoValue;
  ValueId mask = kNoValue;
  ValueId condition = kNoValue;  ///< of a Where that chooses between scores and `fill`
  double fill = 0;
  double scale = 1;
  bool wide_softmax = false;
  bool zeroes_hidden = false;    ///< rows whose keys are all hidden are 0, not NaN
  std::vector<int> nodes;  ///< the root first

  /// Whether some row may be minus infinity throughout, where the softmax gives NaN.
  bool gives_nan() const {
    if (zeroes_hidden || (mask == kNoValue && condition == kNoValue)) return false;
    return condition == kNoValue || std::isinf(fill);
  }
};

/// Walks up the chain; every step takes the node that computes `value` into `found.nodes`.
class Walk {
 public:
  Walk(const Graph& graph, Found& found) : graph_(graph), found_(found) {}

  /// The node computing `value` when it is of these operators, taken in; null otherwise.
  const Node* take(ValueId value, std::initializer_list<std::string_view> ops) {
    const Node* node = producer(graph_, value);
    return node && is_op(*node, ops) ? take_in(value) : nullptr;
  }
  const Node* take_softmax(ValueId value) {
    const Node* node = producer(graph_, value);
    const bool masked = node && node->domain == "graft" && node->op == "MaskedSoftmax";
    found_.zeroes_hidden |= masked;
    return masked ? take_in(value) : take(value, {"Softmax"});
  }

  /// x * c, c * x, x / c -> x, with the scalar c multiplied into the scale; as often as it occurs.
  ValueId peel_scale(ValueId value) {
    for (;;) {
      const Node* node = producer(graph_, value);
      if (!node || !is_op(*node, {"Mul", "Div"}) || !same_shape(graph_, value, other(*node))) return value;
      const double factor = *scalar_of(graph_, scalar_input(*node));
      found_.scale *= node->op == "Div" ? 1 / factor : factor;
      value = other(*node);
      take(node->outputs[0], {"Mul", "Div"});
    }
  }

 private:
  const Node* take_in(ValueId value) {
    const int index = graph_.value(value).producer;
    if (std::find(found_.nodes.begin(), found_.nodes.end(), index) == found_.nodes.end()) found_.nodes.push_back(index);
    return &graph_.nodes[static_cast<size_t>(index)];
  }
  ValueId scalar_input(const Node& node) const {
    if (scalar_of(graph_, node.inputs[1])) return node.inputs[1];
    return node.op == "Mul" && scalar_of(graph_, node.inputs[0]) ? node.inputs[0] : kNoValue;
  }
  /// The operand beside the scalar, or kNoValue when there is no scalar.
  ValueId other(const Node& node) const {
    const ValueId scalar = scalar_input(node);
    if (scalar == kNoValue) return kNoValue;
    return scalar == node.inputs[1] ? node.inputs[0] : node.inputs[1];
  }

  const Graph& graph_;
  Found& found_;
};

/// Whether the value is Q K^T, perhaps scaled.
bool is_scores(const Graph& graph, ValueId value) {
  const Node* node = producer(graph, value);
  while (node && is_op(*node, {"Mul", "Div"})) {
    const bool right = scalar_of(graph, node->inputs[1]).has_value();
    if (!right && !scalar_of(graph, node->inputs[0])) return false;
    node = producer(graph, node->inputs[right ? 0 : 1]);
  }
  return node && is_op(*node, {"MatMul"});
}

/// Softmax over the last axis, below casts to f32 and back and below Where(IsNaN(p), 0, p); gives its input.
ValueId walk_softmax(const Graph& graph, ValueId value, Walk& walk, Found& found) {
  const Node* choice = producer(graph, value);
  if (choice && is_op(*choice, {"Where"}) && scalar_of(graph, choice->inputs[1]) == 0.0) {
    const Node* test = producer(graph, choice->inputs[0]);
    if (!test || !is_op(*test, {"IsNaN"}) || test->inputs[0] != choice->inputs[2]) return kNoValue;
    walk.take(value, {"Where"});
    walk.take(choice->inputs[0], {"IsNaN"});
    found.zeroes_hidden = true;
    value = choice->inputs[2];
  }
  const Node* narrow = walk.take(value, {"Cast"});
  const Node* softmax = walk.take_softmax(narrow ? narrow->inputs[0] : value);
  if (!softmax) return kNoValue;
  const int64_t axis = integer(*softmax, "axis", -1);
  if (axis != -1 && axis != rank_of(graph, softmax->inputs[0]) - 1) return kNoValue;
  if (!narrow) return softmax->inputs[0];
  const Node* wide = walk.take(softmax->inputs[0], {"Cast"});
  if (!wide || graph.value(wide->inputs[0]).type != graph.value(value).type) return kNoValue;
  found.wide_softmax = graph.value(softmax->inputs[0]).type == DType::kFloat32;
  return found.wide_softmax ? wide->inputs[0] : kNoValue;
}

/// Takes the mask in; gives the scores below it.
ValueId walk_mask(const Graph& graph, ValueId value, Walk& walk, Found& found) {
  const Node* node = producer(graph, value);
  if (!node || is_scores(graph, value)) return value;
  if (is_op(*node, {"Add"})) {
    const bool left = is_scores(graph, node->inputs[0]);
    if (!left && !is_scores(graph, node->inputs[1])) return kNoValue;
    walk.take(value, {"Add"});
    found.mask = node->inputs[left ? 1 : 0];
    return node->inputs[left ? 0 : 1];
  }
  if (is_op(*node, {"Where"}) && is_scores(graph, node->inputs[1]) && scalar_of(graph, node->inputs[2])) {
    walk.take(value, {"Where"});
    found.condition = node->inputs[0];
    found.fill = *scalar_of(graph, node->inputs[2]);
    return node->inputs[1];
  }
  return kNoValue;
}

/// Walks from the last MatMul to Q and K; false when the shape of the chain is another one.
bool walk_chain(const Graph& graph, int root, Found& found) {
  Walk walk(graph, found);
  const Node& last = graph.nodes[root];
  found.nodes = {root};
  found.value = last.inputs[1];
  const ValueId before = walk_softmax(graph, last.inputs[0], walk, found);
  if (before == kNoValue) return false;
  const ValueId scores = walk_mask(graph, before, walk, found);
  if (scores == kNoValue || !same_shape(graph, scores, before)) return false;
  const Node* product = walk.take(walk.peel_scale(scores), {"MatMul"});
  if (!product) return false;
  found.query = walk.peel_scale(product->inputs[0]);
  found.transposed_key = walk.peel_scale(product->inputs[1]);
  return true;
}

/// Why Q, K^T, V are not what Attention takes, or an empty text.
std::string_view shape_fault(const Graph& graph, const Found& found) {
  const auto &q = graph.value(found.query).shape, &k = graph.value(found.transposed_key).shape,
             &v = graph.value(found.value).shape;
  if (!q || !k || !v) return "the rank of an operand is not known";
  const size_t rank = q->size();
  if ((rank != 3 && rank != 4) || k->size() != rank || v->size() != rank)
    return "the operands are not 3-D or 4-D alike";
  for (size_t i = 0; i + 2 < rank; ++i) {
    if ((*q)[i] != (*k)[i] || (*q)[i] != (*v)[i]) return "the batches or heads of Q, K and V differ";
  }
  if ((*q)[rank - 1] != (*k)[rank - 2] || (*k)[rank - 1] != (*v)[rank - 2]) return "Q, K and V do not fit together";
  const Node* transpose = producer(graph, found.transposed_key);
  if (!transpose || !is_op(*transpose, {"Transpose"})) return "K is stored transposed, and would have to be turned";
  return found.scale > 0 ? "" : "the scale is not positive";
}

/// Why the mask does not fit the scores [..., queries, keys], or an empty text.
std::string_view mask_fault(const Graph& graph, ValueId mask, const Found& found) {
  if (mask == kNoValue) return "";
  const auto& shape = graph.value(mask).shape;
  if (!shape) return "the rank of the mask is not known";
  Shape scores = *graph.value(found.query).shape;
  const size_t rank = scores.size();
  scores[rank - 1] = (*graph.value(found.transposed_key).shape)[rank - 1];
  if (shape->size() > rank) return "the mask has more axes than the scores";
  if (shape->empty() || shape->back() != scores.back()) return "the mask's last axis is not the number of keys";
  for (size_t i = 0; i < shape->size(); ++i) {
    const Size& own = (*shape)[shape->size() - 1 - i];
    if (!own.is(1) && own != scores[rank - 1 - i]) return "the mask does not broadcast to the scores";
  }
  return "";
}

/// The mask as Attention takes it: bool for a fill of -inf; for a finite, absorbing fill a term that is added.
std::string_view resolve_condition(Graph& graph, Found& found) {
  if (found.condition == kNoValue) return "";
  const std::string_view fault = mask_fault(graph, found.condition, found);
  if (!fault.empty()) return fault;
  if (found.fill == -std::numeric_limits<double>::infinity()) {
    found.mask = found.condition;
    return "";
  }
  const DType type = graph.value(found.query).type;
  if (type != DType::kFloat32 || found.fill > -1e30)
    return "the number that masks is not negative enough to absorb a score";
  const ValueId zero = graph.add_constant("zero", TensorData::from_values<float>(type, {}, {0}));
  const ValueId fill =
      graph.add_constant("masked", TensorData::from_values<float>(type, {}, {static_cast<float>(found.fill)}));
  const std::string name = graph.nodes[found.nodes.front()].name + "/mask";
  found.mask =
      append_node(graph, name, "Where", {found.condition, zero, fill}, type, graph.value(found.condition).shape);
  return "";
}

/// `value` with an axis of size 1 in front.
ValueId unsqueeze(Graph& graph, const std::string& name, ValueId value) {
  Shape shape = *graph.value(value).shape;
  shape.insert(shape.begin(), Size(1));
  const ValueId axes = add_integers(graph, "axes", {0});
  return append_node(graph, name, "Unsqueeze", {value, axes}, graph.value(value).type, std::move(shape));
}

/// K from K^T, by another transposition that cancels the first.
ValueId transpose_key(Graph& graph, const std::string& name, ValueId transposed) {
  Shape shape = *graph.value(transposed).shape;
  const size_t rank = shape.size();
  std::vector<int64_t> permutation(rank);
  for (size_t i = 0; i < rank; ++i) permutation[i] = static_cast<int64_t>(i);
  std::swap(permutation[rank - 1], permutation[rank - 2]);
  std::swap(shape[rank - 1], shape[rank - 2]);
  return append_node(graph, name, "Transpose", {transposed}, graph.value(transposed).type, std::move(shape),
                     {{"perm", permutation}});
}

/// The attributes of the operator.
Attributes attributes_of(const Found& found) {
  Attributes attributes{{"scale", found.scale}};
  if (found.gives_nan()) attributes["hidden_rows_give_nan"] = int64_t{1};
  if (found.wide_softmax) attributes["softmax_precision"] = static_cast<int64_t>(onnx_code(DType::kFloat32));
  return attributes;
}

/// Why the definition of Attention would not take the operands, or an empty text.
std::string operator_fault(const Graph& graph, const Found& found) {
  std::vector<Value> inputs = {graph.value(found.query), graph.value(found.transposed_key), graph.value(found.value)};
  Shape& key = *inputs[1].shape;
  std::swap(key[key.size() - 1], key[key.size() - 2]);
  if (key.size() == 3) {
    for (Value& value : inputs) value.shape->insert(value.shape->begin(), Size(1));
  }
  const ValueId mask = found.condition != kNoValue ? found.condition : found.mask;
  if (mask != kNoValue) inputs.push_back(graph.value(mask));
  return definition_fault("Attention", inputs, attributes_of(found));
}

void replace_attention(Graph& graph, int root, const Found& found) {
  const std::string name = graph.nodes[*std::min_element(found.nodes.begin(), found.nodes.end())].name;
  const DType type = graph.value(found.query).type;
  const ValueId key = transpose_key(graph, name + "/key", found.transposed_key);
  std::vector<ValueId> inputs = {found.query, key, found.value};
  const bool flat = rank_of(graph, found.query) == 3;
  if (flat) {
    for (ValueId& id : inputs) id = unsqueeze(graph, name + "/heads", id);
  }
  if (found.mask != kNoValue) inputs.push_back(found.mask);
  if (!flat) {
    replace_node(graph, root, "Attention", std::move(inputs), attributes_of(found));
    take_first_name(graph, root, found.nodes);
    return;
  }
  const ValueId result =
      append_node(graph, name + "/attention", "Attention", std::move(inputs), type, std::nullopt, attributes_of(found));
  const ValueId axes = add_integers(graph, "axes", {0});
  replace_node(graph, root, "Squeeze", {result, axes});
}

bool recognise(Graph& graph, const Matcher& matcher, int root, const PassContext& context) {
  Found found;
  if (!is_op(graph.nodes[root], {"MatMul"}) || !walk_chain(graph, root, found)) return false;
  std::string fault(shape_fault(graph, found));
  if (fault.empty()) fault = mask_fault(graph, found.mask, found);
  const DType type = graph.value(found.query).type;
  if (fault.empty() && found.mask != kNoValue && graph.value(found.mask).type != type) {
    fault = "the mask is of another type than Q";
  }
  if (fault.empty() && !matcher.is_closed(found.nodes, root)) fault = "a part of it is read elsewhere";
  if (fault.empty()) fault = operator_fault(graph, found);
  if (fault.empty()) fault = resolve_condition(graph, found);
  if (!fault.empty()) {
    context.left(kName, graph.nodes[root], fault);
    return false;
  }
  replace_attention(graph, root, found);
  return true;
}

}  // namespace

bool recognise_attention(Graph& graph, const PassContext& context) {
  return rewrite_nodes(
      graph, [&](Graph& g, const Matcher& matcher, int index) { return recognise(g, matcher, index, context); });
}

}  // namespace graft::passes
