// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "library/cudnn/graph_maker.h"

namespace graft::cudnn {
namespace {

/// cuDNN does a graph as attention where it finds all of these, and in no other graph with a softmax between two
/// products: the logarithm of the sums, though nothing reads it, and weights rounded to the type of the values.
class AttentionMaker : GraphMaker {
 public:
  AttentionMaker(const AttentionForm& form, cudnnHandle_t handle) : GraphMaker(handle), form_(form) {
    const auto& queries = form.queries.extents;
    scores_.extents = {queries[0], queries[1], queries[2], form.keys.extents[3]};
    rows_.extents = {queries[0], queries[1], queries[2], 1};
  }

  OperationGraph run() {
    const Descriptor& queries = tensor(form_.queries);
    const Descriptor& keys = tensor(form_.keys);
    const Descriptor& result = tensor(form_.result);
    const Descriptor& scores = intermediate(scores_);
    multiply(queries, keys, scores);
    const Descriptor* logits = &follow({.mode = CUDNN_POINTWISE_MUL, .operand = &number(form_.scale)}, scores);
    if (form_.mask) logits = &follow({.mode = CUDNN_POINTWISE_ADD, .operand = &tensor(*form_.mask)}, *logits);
    if (form_.causal) logits = &hide_ahead(*logits);
    multiply(softmax(*logits), tensor(form_.values), result);
    return make_graph();
  }

 private:
  const Descriptor& follow(const PerElement& operation, const Descriptor& value, cudnnDataType_t type) {
    const Descriptor& result = intermediate(scores_, type);
    apply(operation, value, result);
    return result;
  }
  const Descriptor& follow(const PerElement& operation, const Descriptor& value) {
    return follow(operation, value, CUDNN_DATA_FLOAT);
  }

  /// -inf where the column is behind the row.
  const Descriptor& hide_ahead(const Descriptor& logits) {
    const auto index = [&](int64_t axis) -> const Descriptor& {
      return follow({.mode = CUDNN_POINTWISE_GEN_INDEX, .axis = axis, .type = CUDNN_DATA_INT32}, logits,
                    CUDNN_DATA_INT32);
    };
    const Descriptor& row = index(2);
    const Descriptor& column = index(3);
    const Descriptor& visible = follow({.mode = CUDNN_POINTWISE_CMP_GE, .operand = &column, .type = CUDNN_DATA_BOOLEAN},
                                       row, CUDNN_DATA_BOOLEAN);
    const Descriptor& hidden = number(-std::numeric_limits<float>::infinity());
    return follow({.mode = CUDNN_POINTWISE_BINARY_SELECT, .operand = &hidden, .condition = &visible}, logits);
  }

  void multiply(const Descriptor& a, const Descriptor& b, const Descriptor& result) {
    Descriptor& product = part(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    product.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    product.finalize("a product cannot be described");
    Descriptor& operation = part(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, result);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, product);
    finish(operation);
  }

  const Descriptor& reduce(cudnnReduceTensorOp_t how, const Descriptor& value) {
    Descriptor& reduction = part(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    reduction.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    reduction.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how);
    reduction.finalize("a reduction cannot be described");
    const Descriptor& result = intermediate(rows_);
    Descriptor& operation = part(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, value);
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, result);
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction);
    finish(operation);
    return result;
  }

  const Descriptor& softmax(const Descriptor& logits) {
    const Descriptor& largest = reduce(CUDNN_REDUCE_TENSOR_MAX, logits);
    const Descriptor& shifted = follow({.mode = CUDNN_POINTWISE_SUB, .operand = &largest}, logits);
    const Descriptor& exponentials = follow({.mode = CUDNN_POINTWISE_EXP}, shifted);
    const Descriptor& sum = reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials);
    const Descriptor& logarithm = intermediate(rows_);
    apply({.mode = CUDNN_POINTWISE_LOG}, sum, logarithm);
    apply({.mode = CUDNN_POINTWISE_ADD, .operand = &logarithm}, largest, intermediate(rows_));
    return follow({.mode = CUDNN_POINTWISE_DIV, .operand = &sum}, exponentials, type_of(form_.type));
  }

  const AttentionForm& form_;
  TensorForm scores_, rows_;
};

}  // namespace

OperationGraph operation_graph(const AttentionForm& form, cudnnHandle_t handle) {
  return AttentionMaker(form, handle).run();
}

}  // namespace graft::cudnn
