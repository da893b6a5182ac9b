// SPDX-License-Identifier: Apache-2.0
#include "library/cudnn/graph_maker.h"

#include <numeric>

#include <fmt/format.h>

#include "base/error.h"

namespace graft::cudnn {
namespace {

/// What a pointer of a run is aligned to, before its offset.
constexpr int64_t kAlignment = 16;
/// Identities of values between operations, beyond those of tensors.
constexpr int64_t kFirstIntermediate = 100;

}  // namespace

cudnnDataType_t type_of(DType type) {
  switch (type) {
    case DType::kFloat32:
      return CUDNN_DATA_FLOAT;
    case DType::kFloat16:
      return CUDNN_DATA_HALF;
    case DType::kBFloat16:
      return CUDNN_DATA_BFLOAT16;
    default:
      throw Error(ErrorKind::kUnsupported, fmt::format("it computes nothing in {}", name_of(type)), "cuDNN");
  }
}

Descriptor& GraphMaker::part(cudnnBackendDescriptorType_t type) {
  made_.parts.push_back(std::make_unique<Descriptor>(type));
  return *made_.parts.back();
}

Descriptor& GraphMaker::described(const TensorForm& form, cudnnDataType_t type, int64_t identity, int64_t alignment) {
  Descriptor& made = part(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, identity);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment);
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, form.extents);
  made.set(CUDNN_ATTR_TENSOR_STRIDES, form.strides);
  return made;
}

Descriptor& GraphMaker::tensor(const TensorForm& form) {
  made_.tensors.push_back(form);
  made_.numbers.push_back(0);
  const int64_t alignment = std::gcd(kAlignment, form.offset * bit_width(form.type) / 8);
  Descriptor& made = described(form, type_of(form.type), static_cast<int64_t>(made_.tensors.size()), alignment);
  made.finalize("a tensor cannot be described");
  return made;
}

Descriptor& GraphMaker::number(float value) {
  made_.tensors.push_back({.extents = {1, 1, 1, 1}, .strides = {1, 1, 1, 1}});
  made_.numbers.push_back(value);
  Descriptor& made = described(made_.tensors.back(), CUDNN_DATA_FLOAT, static_cast<int64_t>(made_.tensors.size()),
                               static_cast<int64_t>(sizeof value));
  const bool by_value = true;
  made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
  made.finalize("a number cannot be described");
  return made;
}

Descriptor& GraphMaker::intermediate(const TensorForm& form, cudnnDataType_t type) {
  TensorForm lying = form;
  if (lying.strides.empty()) {
    lying.strides.resize(form.extents.size(), 1);
    for (size_t d = form.extents.size(); d-- > 1;) lying.strides[d - 1] = lying.strides[d] * form.extents[d];
  }
  Descriptor& made = described(lying, type, kFirstIntermediate + intermediates_++, kAlignment);
  const bool is_virtual = true;
  made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  made.finalize("a tensor cannot be described");
  return made;
}

void GraphMaker::apply(const PerElement& wanted, const Descriptor& value, const Descriptor& result) {
  Descriptor& pointwise = part(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  pointwise.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &wanted.mode);
  pointwise.set(CUDNN_ATTR_POINTWISE_MATH_PREC, wanted.type);
  if (wanted.largest > 0) {
    pointwise.set(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, 1, &wanted.largest);
  }
  if (wanted.axis >= 0) pointwise.set(CUDNN_ATTR_POINTWISE_AXIS, wanted.axis);
  pointwise.finalize("an operation cannot be described");
  Descriptor& operation = part(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, value);
  if (wanted.operand) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *wanted.operand);
  if (wanted.condition) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *wanted.condition);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, result);
  finish(operation);
}

void GraphMaker::finish(Descriptor& operation) {
  operation.finalize("an operation cannot be described");
  operations_.push_back(operation.get());
}

OperationGraph GraphMaker::make_graph() {
  made_.graph = std::make_unique<Descriptor>(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  made_.graph->set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                   static_cast<int64_t>(operations_.size()), operations_.data());
  if (handle_) made_.graph->set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle_);
  made_.graph->finalize("it does not know this graph of operations");
  return std::move(made_);
}

}  // namespace graft::cudnn
