// SPDX-License-Identifier: Apache-2.0
#include "library/cudnn/graph_maker.h"

namespace graft::cudnn {
namespace {

class AttentionMaker : GraphMaker {
 public:
  AttentionMaker(const AttentionForm& form, bool narrow_weights, cudnnHandle_t handle)
      : GraphMaker(form.type, handle), form_(form), narrow_(narrow_weights) {
    const auto& queries = form.queries.extents;
    scores_.extents = {queries[0], queries[1], queries[2], form.keys.extents[3]};
    rows_.extents = {queries[0], queries[1], queries[2], 1};
  }

  OperationGraph run() {
    const Descriptor& queries = tensor(form_.queries);
    const Descriptor& keys = tensor(form_.keys);
    const Descriptor& result = tensor(form_.result);
    const Descriptor* logits = &intermediate(scores_);
    multiply(queries, keys, *logits);
    const auto follow = [&](cudnnPointwiseMode_t mode, const Descriptor& operand) {
      const Descriptor& next = intermediate(scores_);
      apply(mode, *logits, &operand, next);
      logits = &next;
    };
    follow(CUDNN_POINTWISE_MUL, number(form_.scale));
    if (form_.mask) follow(CUDNN_POINTWISE_ADD, tensor(*form_.mask));
    multiply(softmax(*logits), tensor(form_.values), result);
    return make_graph();
  }

 private:
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
    const Descriptor& shifted = intermediate(scores_);
    apply(CUDNN_POINTWISE_SUB, logits, &largest, shifted);
    const Descriptor& exponentials = intermediate(scores_);
    apply(CUDNN_POINTWISE_EXP, shifted, nullptr, exponentials);
    const Descriptor& sum = reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials);
    const Descriptor& weights = intermediate(scores_, narrow_ ? type_of(type_) : CUDNN_DATA_FLOAT);
    apply(CUDNN_POINTWISE_DIV, exponentials, &sum, weights);
    return weights;
  }

  const AttentionForm& form_;
  bool narrow_;
  TensorForm scores_, rows_;
};

}  // namespace

OperationGraph operation_graph(const AttentionForm& form, bool narrow_weights, cudnnHandle_t handle) {
  return AttentionMaker(form, narrow_weights, handle).run();
}

}  // namespace graft::cudnn
