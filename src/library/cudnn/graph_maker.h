// SPDX-License-Identifier: Apache-2.0
// What graphs of operations are put together with.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "library/cudnn/operation_graph.h"

namespace graft::cudnn {

/// Owns a graph under construction.
class GraphMaker {
 public:
  GraphMaker(DType type, cudnnHandle_t handle) : type_(type), handle_(handle) {}

 protected:
  Descriptor& part(cudnnBackendDescriptorType_t type);
  /// A tensor that a run gives.
  Descriptor& tensor(const TensorForm& form);
  /// A value between two operations, in f32.
  Descriptor& intermediate(const TensorForm& form);
  /// result = mode(value, operand); `operand` may be null. `largest` above 0 bounds an activation.
  void apply(cudnnPointwiseMode_t mode, const Descriptor& value, const Descriptor* operand, const Descriptor& result,
             double largest = 0);
  void finish(Descriptor& operation);
  OperationGraph make_graph();

  DType type_;

 private:
  Descriptor& described(const TensorForm& form, cudnnDataType_t type, int64_t identity, int64_t alignment);

  cudnnHandle_t handle_;
  OperationGraph made_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  int64_t intermediates_ = 0;
};

/// Throws Error{unsupported} for types that it has not.
cudnnDataType_t type_of(DType type);

}  // namespace graft::cudnn
