// SPDX-License-Identifier: Apache-2.0
#include "library/cudnn/graph_maker.h"

namespace graft::cudnn {
namespace {

class ConvolutionMaker : GraphMaker {
 public:
  ConvolutionMaker(const ConvolutionForm& form, cudnnHandle_t handle) : GraphMaker(handle), form_(form) {}

  OperationGraph run() {
    const Descriptor& source = tensor(form_.source);
    const Descriptor& weights = tensor(form_.weights);
    const Descriptor& result = tensor(form_.result);
    const Descriptor* value = form_.operations.empty() ? &result : &intermediate(form_.result);
    convolve(source, weights, *value);
    for (const PointwiseForm& operation : form_.operations) {
      const Descriptor* next = &operation == &form_.operations.back() ? &result : &intermediate(form_.result);
      if (operation.kind == Pointwise::kAdd) {
        apply({.mode = CUDNN_POINTWISE_ADD, .operand = &tensor(operation.operand)}, *value, *next);
      } else {
        apply({.mode = CUDNN_POINTWISE_RELU_FWD, .largest = operation.largest}, *value, *next);
      }
      value = next;
    }
    return make_graph();
  }

 private:
  void convolve(const Descriptor& source, const Descriptor& weights, const Descriptor& result) {
    Descriptor& convolution = part(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<int64_t>(form_.strides.size()));
    convolution.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, form_.before);
    convolution.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, form_.after);
    convolution.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, form_.dilations);
    convolution.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, form_.strides);
    convolution.finalize("a convolution cannot be described");
    Descriptor& operation = part(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    const float one = 1, zero = 0;
    operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, source);
    operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, weights);
    operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, result);
    operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution);
    operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &one);
    operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &zero);
    finish(operation);
  }

  const ConvolutionForm& form_;
};

}  // namespace

OperationGraph operation_graph(const ConvolutionForm& form, cudnnHandle_t handle) {
  return ConvolutionMaker(form, handle).run();
}

}  // namespace graft::cudnn
