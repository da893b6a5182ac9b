// SPDX-License-Identifier: Apache-2.0
#include "quantize/places.h"

#include <algorithm>

#include "passes/edit.h"
#include "passes/pass.h"

namespace graft::quantize {
namespace {

using passes::integer;
using passes::is_op;
using passes::rank_of;
using passes::real;

bool is_weighted(const Node& node) { return is_op(node, {"Conv", "MatMul", "Gemm"}); }
bool joins(const Node& node) { return is_op(node, {"AveragePool", "GlobalAveragePool", "Concat"}); }
bool is_clipping(const Node& node) { return is_op(node, {"Relu", "Clip"}); }

}  // namespace

bool keeps_range(const Node& node) {
  return is_op(node, {"MaxPool", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze"}) &&
         node.outputs.size() == 1;
}

namespace {

class Finding {
 public:
  Finding(const Graph& graph, const LeftOut& left_out, const Format& format)
      : graph_(graph),
        left_out_(left_out),
        is_static_(format.activations == Activations::kStatic),
        consumers_(graph.consumers()),
        from_convolution_(graph.values.size()) {}

  Places run() {
    mark_convolutional();
    for (size_t n = graph_.nodes.size(); n-- > 0;) visit(static_cast<int>(n));
    std::reverse(places_.nodes.begin(), places_.nodes.end());
    std::reverse(places_.kept.begin(), places_.kept.end());
    for (auto& [value, root] : places_.ranges) root = root_of(value);
    return std::move(places_);
  }

 private:
  bool is_activation(ValueId value) const {
    return value != kNoValue && !graph_.value(value).constant && graph_.value(value).type == DType::kFloat32;
  }

  /// Values that a Conv makes, and what sums, clipping and pooling make of them.
  void mark_convolutional() {
    for (const Node& node : graph_.nodes) {
      bool marked = is_op(node, {"Conv"});
      if (is_clipping(node) || keeps_range(node) || joins(node) || is_op(node, {"Add"})) {
        for (const ValueId input : node.inputs) {
          marked = marked || (input != kNoValue && from_convolution_[static_cast<size_t>(input)]);
        }
      }
      for (const ValueId output : node.outputs) {
        if (output != kNoValue) from_convolution_[static_cast<size_t>(output)] = marked;
      }
    }
  }

  /// Why a product keeps its floats, or nothing.
  std::string_view fault(const Node& node) const {
    if (const auto found = left_out_.find(node.name); found != left_out_.end()) return found->second;
    if (!is_static_ && is_op(node, {"Conv"})) return "a convolution takes ranges of samples (static activations)";
    const Value& weights = graph_.value(node.inputs[1]);
    if (!is_activation(node.inputs[0])) return "its input is not computed in f32";
    if (!weights.constant || weights.constant->type() != DType::kFloat32) return "its weights are no constant of f32";
    const int rank = weights.constant->rank();
    if (weights.constant->element_count() == 0) return "its weights are empty";
    if (is_op(node, {"Conv"})) return rank < 3 ? "its filters have no spatial axes" : "";
    if (rank != 2) return "its weights are no matrix";
    if (is_op(node, {"Gemm"}) &&
        (integer(node, "transA", 0) != 0 || real(node, "alpha", 1) != 1 || real(node, "beta", 1) != 1)) {
      return "it scales or transposes more than a product does";
    }
    return "";
  }

  /// Whether the result is quantised where it is read, perhaps behind clipping.
  bool is_wanted(ValueId value) const {
    if (places_.ranges.contains(value)) return true;
    const std::vector<int>& readers = consumers_[static_cast<size_t>(value)];
    if (readers.size() != 1 || !is_clipping(graph_.nodes[static_cast<size_t>(readers[0])])) return false;
    return places_.ranges.contains(graph_.nodes[static_cast<size_t>(readers[0])].outputs[0]);
  }

  void visit(int index) {
    const Node& node = graph_.nodes[static_cast<size_t>(index)];
    if (is_weighted(node)) {
      const std::string_view why = fault(node);
      if (why.empty()) return add({index, {0}, true});
      places_.kept.push_back({node.name, node.op, std::string(why)});
      return;
    }
    if (!is_static_) return visit_table(index);
    const bool sums = is_op(node, {"Add"});
    if (!sums && !joins(node) && !keeps_range(node)) return;
    if (left_out_.contains(node.name) || !is_wanted(node.outputs[0])) return;
    Place place{index, {}, false};
    const size_t inputs = sums || is_op(node, {"Concat"}) ? node.inputs.size() : 1;
    for (size_t n = 0; n < inputs; ++n) {
      if (!is_activation(node.inputs[n])) return;
      place.activations.push_back(n);
    }
    const auto convolutional = [&](ValueId value) { return bool(from_convolution_[static_cast<size_t>(value)]); };
    if (!std::any_of(node.inputs.begin(), node.inputs.begin() + static_cast<std::ptrdiff_t>(inputs), convolutional)) {
      return;
    }
    add(std::move(place));
  }

  /// Rows of a constant matrix, as embeddings are.
  void visit_table(int index) {
    const Node& node = graph_.nodes[static_cast<size_t>(index)];
    if (!is_op(node, {"Gather"}) || integer(node, "axis", 0) != 0) return;
    const TensorData* table = passes::constant_of(graph_, node.inputs[0]);
    if (!table || table->type() != DType::kFloat32 || table->rank() != 2) return;
    if (table->element_count() < kLeastPackedElements) return;  // it would become floats again
    if (const auto left = left_out_.find(node.name); left != left_out_.end()) {
      places_.kept.push_back({node.name, node.op, left->second});
    } else {
      add({index, {}, true, 0});
    }
  }

  void add(Place place) {
    const Node& node = graph_.nodes[static_cast<size_t>(place.node)];
    for (const size_t n : place.activations) places_.ranges.emplace(node.inputs[n], node.inputs[n]);
    places_.nodes.push_back(std::move(place));
  }

  /// The value whose range this one has.
  ValueId root_of(ValueId value) const {
    for (const Node* node = passes::producer(graph_, value); node && keeps_range(*node);
         node = passes::producer(graph_, value)) {
      if (!places_.ranges.contains(node->inputs[0])) break;
      value = node->inputs[0];
    }
    return value;
  }

  const Graph& graph_;
  const LeftOut& left_out_;
  const bool is_static_;
  const std::vector<std::vector<int>> consumers_;
  std::vector<bool> from_convolution_;
  Places places_;
};

}  // namespace

int64_t result_axis(const Node& node) {
  return is_op(node, {"Conv", "Gather"}) || integer(node, "transB", 0) != 0 ? 0 : 1;
}

Places find_places(const Graph& graph, const LeftOut& left_out, const Format& format) {
  return Finding(graph, left_out, format).run();
}

}  // namespace graft::quantize
