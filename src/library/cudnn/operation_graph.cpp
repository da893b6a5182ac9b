// SPDX-License-Identifier: Apache-2.0
#include "library/cudnn/operation_graph.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"

namespace graft::cudnn {
namespace {

/// What a pointer of a run is aligned to, before its offset.
constexpr int64_t kAlignment = 16;

cudnnDataType_t type_of(DType type) {
  switch (type) {
    case DType::kFloat32:
      return CUDNN_DATA_FLOAT;
    case DType::kFloat16:
      return CUDNN_DATA_HALF;
    case DType::kBFloat16:
      return CUDNN_DATA_BFLOAT16;
    default:
      throw Error(ErrorKind::kUnsupported, fmt::format("it has no convolutions of {}", name_of(type)), "cuDNN");
  }
}

class GraphMaker {
 public:
  GraphMaker(const ConvolutionForm& form, cudnnHandle_t handle) : form_(form), handle_(handle) {}

  OperationGraph run() {
    const Descriptor& source = tensor(form_.source);
    const Descriptor& weights = tensor(form_.weights);
    const Descriptor& result = tensor(form_.result);
    const Descriptor* value = form_.operations.empty() ? &result : &intermediate();
    convolve(source, weights, *value);
    for (const PointwiseForm& operation : form_.operations) {
      const Descriptor& next = &operation == &form_.operations.back() ? result : intermediate();
      apply(operation, *value, next);
      value = &next;
    }
    made_.graph = std::make_unique<Descriptor>(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    made_.graph->set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                     static_cast<int64_t>(operations_.size()), operations_.data());
    made_.graph->set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle_);
    made_.graph->finalize("it does not know this graph of operations");
    return std::move(made_);
  }

 private:
  Descriptor& part(cudnnBackendDescriptorType_t type) {
    made_.parts.push_back(std::make_unique<Descriptor>(type));
    return *made_.parts.back();
  }

  Descriptor& described(const TensorForm& form, cudnnDataType_t type, int64_t identity, int64_t alignment) {
    Descriptor& made = part(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, identity);
    made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
    made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment);
    made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, form.extents);
    made.set(CUDNN_ATTR_TENSOR_STRIDES, form.strides);
    return made;
  }

  /// A tensor that a run gives.
  Descriptor& tensor(const TensorForm& form) {
    made_.tensors.push_back(form);
    const int64_t alignment = std::gcd(kAlignment, form.offset * bit_width(form_.type) / 8);
    Descriptor& made =
        described(form, type_of(form_.type), static_cast<int64_t>(made_.tensors.size()), alignment);
    made.finalize("a tensor cannot be described");
    return made;
  }

  /// A value between two operations.
  Descriptor& intermediate() {
    Descriptor& made = described(form_.result, CUDNN_DATA_FLOAT, kFirstIntermediate + intermediates_++, kAlignment);
    const bool is_virtual = true;
    made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    made.finalize("a tensor cannot be described");
    return made;
  }

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

  void apply(const PointwiseForm& form, const Descriptor& value, const Descriptor& result) {
    Descriptor& pointwise = part(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    const bool adds = form.kind == Pointwise::kAdd;
    const cudnnPointwiseMode_t mode = adds ? CUDNN_POINTWISE_ADD : CUDNN_POINTWISE_RELU_FWD;
    pointwise.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    pointwise.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
    if (form.largest > 0) {
      pointwise.set(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, 1, &form.largest);
    }
    pointwise.finalize("an operation cannot be described");
    Descriptor& operation = part(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, value);
    if (adds) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, tensor(form.operand));
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, result);
    finish(operation);
  }

  void finish(Descriptor& operation) {
    operation.finalize("an operation cannot be described");
    operations_.push_back(operation.get());
  }

  static constexpr int64_t kFirstIntermediate = 100;
  const ConvolutionForm& form_;
  cudnnHandle_t handle_;
  OperationGraph made_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  int64_t intermediates_ = 0;
};

}  // namespace

OperationGraph operation_graph(const ConvolutionForm& form, cudnnHandle_t handle) {
  return GraphMaker(form, handle).run();
}

}  // namespace graft::cudnn
