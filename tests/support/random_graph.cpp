// SPDX-License-Identifier: Apache-2.0
#include "support/random_graph.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "graph/infer.h"

namespace graft {
namespace {

/// Grows a graph node by node over f32 values of rank 2 or 3 whose first axis is the symbol `n`.
class GraphGrower {
 public:
  explicit GraphGrower(uint64_t seed) : random_(seed) {
    graph_.name = "random";
    graph_.opsets[""] = kOpset;
    graph_.symbol_ranges["n"] = {1, 3, 8};
    for (const char* name : {"x", "z"}) {
      const ValueId id = graph_.add_value(name, DType::kFloat32, Shape{Size::symbol("n"), Size(4), Size(16)});
      graph_.inputs.push_back(id);
      values_.push_back(id);
    }
  }

  Graph grow(int steps) {
    for (int i = 0; i < steps; ++i) step();
    graph_.outputs = {values_.back()};
    const ValueId other = values_[static_cast<size_t>(random_.integer(2, static_cast<int64_t>(values_.size()) - 1))];
    if (other != values_.back()) graph_.outputs.push_back(other);
    return graph_;
  }

 private:
  ValueId pick() {
    // Recent values are likelier, so that chains form.
    const auto count = static_cast<int64_t>(values_.size());
    return values_[static_cast<size_t>(random_.chance(0.6) ? count - 1 : random_.integer(0, count - 1))];
  }

  ValueId emit(const char* op, std::vector<ValueId> inputs, Attributes attributes = {}) {
    Node node;
    node.op = op;
    node.inputs = std::move(inputs);
    node.attributes = std::move(attributes);
    node.outputs = {graph_.add_value("v", DType::kUndefined)};
    const ValueId result = node.outputs[0];
    graph_.add_node(std::move(node));
    const auto reason = infer_node(graph_, static_cast<int>(graph_.nodes.size()) - 1);
    EXPECT_FALSE(reason) << *reason;
    return result;
  }

  ValueId scalar(double value) {
    return graph_.add_constant("c", TensorData::from_values<double>(DType::kFloat32, {}, {value}));
  }
  ValueId integers(const std::vector<int64_t>& list) {
    return graph_.add_constant(
        "i", TensorData::from_values<int64_t>(DType::kInt64, {static_cast<int64_t>(list.size())}, list));
  }
  ValueId weights(std::vector<int64_t> shape) {
    TensorData data = TensorData::zeros(DType::kFloat32, std::move(shape));
    for (int64_t i = 0; i < data.element_count(); ++i) data.write_double(i, random_.uniform(-0.5, 0.5));
    return graph_.add_constant("w", std::move(data));
  }
  int rank(ValueId id) const { return static_cast<int>(graph_.value(id).shape->size()); }
  const Size& last(ValueId id) const { return graph_.value(id).shape->back(); }
  ValueId same_shape_as(ValueId x) {
    std::vector<ValueId> fitting;
    for (const ValueId id : values_) {
      if (graph_.value(id).shape == graph_.value(x).shape) fitting.push_back(id);
    }
    return fitting[static_cast<size_t>(random_.integer(0, static_cast<int64_t>(fitting.size()) - 1))];
  }

  ValueId unary(ValueId x) {
    static constexpr const char* kOps[] = {"Relu", "Neg", "Tanh", "Sigmoid", "Erf", "Abs", "Identity"};
    return emit(kOps[random_.integer(0, 6)], {x});
  }
  ValueId with_scalar(ValueId x) {
    static constexpr const char* kOps[] = {"Add", "Mul", "Sub", "Div"};
    static constexpr double kValues[] = {0, 1, 2, 0.25, 0.3, -1};
    const char* op = kOps[random_.integer(0, 3)];
    double value = kValues[random_.integer(0, 5)];
    if (*op == 'D' && value == 0) value = 4;
    const bool commuted = (*op == 'A' || *op == 'M') && random_.chance(0.5);
    return commuted ? emit(op, {scalar(value), x}) : emit(op, {x, scalar(value)});
  }
  ValueId binary(ValueId x) {
    static constexpr const char* kOps[] = {"Add", "Mul", "Sub"};
    return emit(kOps[random_.integer(0, 2)], {x, same_shape_as(x)});
  }
  ValueId transpose(ValueId x) {
    std::vector<int64_t> permutation = rank(x) == 3 ? std::vector<int64_t>{0, 2, 1} : std::vector<int64_t>{1, 0};
    const ValueId turned = emit("Transpose", {x}, {{"perm", permutation}});
    const ValueId inside = random_.chance(0.5) ? unary(turned) : with_scalar(turned);
    return emit("Transpose", {inside}, {{"perm", permutation}});
  }
  ValueId reshape(ValueId x) {
    if (rank(x) == 3) return emit("Reshape", {x, integers({-1, last(x).constant()})});
    return emit("Reshape",
                {emit("Reshape", {x, integers({-1, 2, last(x).constant() / 2})}), integers({-1, last(x).constant()})});
  }
  ValueId power(ValueId x) { return emit("Pow", {x, scalar(random_.chance(0.5) ? 2 : 3)}); }
  ValueId normalize(ValueId x) {
    const ValueId axes = integers({-1});
    const ValueId centered = emit("Sub", {x, emit("ReduceMean", {x, axes})});
    const ValueId variance = emit("ReduceMean", {emit("Pow", {centered, scalar(2)}), axes});
    const ValueId normal = emit("Div", {centered, emit("Sqrt", {emit("Add", {variance, scalar(0.01)})})});
    const ValueId scaled = emit("Mul", {normal, weights({last(x).constant()})});
    return random_.chance(0.5) ? scaled : emit("Add", {scaled, weights({last(x).constant()})});
  }
  ValueId gelu(ValueId x) {
    const ValueId erf = emit("Erf", {emit("Div", {x, scalar(1.4142135623730951)})});
    return emit("Mul", {emit("Mul", {x, emit("Add", {erf, scalar(1)})}), scalar(0.5)});
  }
  ValueId parallel_products(ValueId x) {
    const int64_t columns = 16;
    const ValueId a = emit("MatMul", {x, weights({last(x).constant(), columns})});
    const ValueId b = emit("Add", {emit("MatMul", {x, weights({last(x).constant(), columns})}), weights({columns})});
    return emit("Mul", {a, emit("Tanh", {b})});
  }
  ValueId attention(ValueId x) {
    const ValueId key = emit("Transpose", {unary(x)}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
    const ValueId scores = emit("Mul", {emit("MatMul", {x, key}), scalar(0.25)});
    return emit("MatMul", {emit("Softmax", {scores}, {{"axis", int64_t{-1}}}), same_shape_as(x)});
  }
  ValueId repeated(ValueId x) { return emit("Add", {emit("Tanh", {x}), emit("Tanh", {x})}); }
  ValueId folded(ValueId x) { return emit("Mul", {x, emit("Sqrt", {emit("Abs", {weights({last(x).constant()})})})}); }

  void step() {
    const ValueId x = pick();
    if (!last(x).is_constant()) return;
    using Step = ValueId (GraphGrower::*)(ValueId);
    static constexpr Step kSteps[] = {
        &GraphGrower::unary,     &GraphGrower::with_scalar, &GraphGrower::with_scalar, &GraphGrower::binary,
        &GraphGrower::transpose, &GraphGrower::reshape,     &GraphGrower::power,       &GraphGrower::normalize,
        &GraphGrower::gelu,      &GraphGrower::repeated,    &GraphGrower::folded,      &GraphGrower::parallel_products,
        &GraphGrower::attention};
    const auto chosen = random_.integer(0, 12);
    if (chosen == 12 && rank(x) != 3) return;
    // Bounded values keep powers of powers from overflowing.
    const ValueId bounded = chosen == 6 ? emit("Tanh", {x}) : x;
    values_.push_back((this->*kSteps[chosen])(bounded));
  }

  Random random_;
  Graph graph_;
  std::vector<ValueId> values_;
};

}  // namespace

Graph random_graph(uint64_t seed, int steps) { return GraphGrower(seed).grow(steps); }

}  // namespace graft
