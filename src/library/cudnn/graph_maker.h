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
  /// Without a handle the graph is for questions only: it belongs to no device.
  explicit GraphMaker(cudnnHandle_t handle) : handle_(handle) {}

 protected:
  Descriptor& part(cudnnBackendDescriptorType_t type);
  /// A tensor that a run gives.
  Descriptor& tensor(const TensorForm& form);
  /// A number that is given on the host.
  Descriptor& number(float value);
  /// A value between two operations; dense where the form has no strides.
  Descriptor& intermediate(const TensorForm& form, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  struct PerElement {
    cudnnPointwiseMode_t mode{};
    const Descriptor* operand = nullptr;
    const Descriptor* condition = nullptr;    ///< of a choice between value and operand
    double largest = 0;                       ///< above 0: bounds an activation
    int64_t axis = -1;                        ///< of an index
    cudnnDataType_t type = CUDNN_DATA_FLOAT;  ///< that it computes in
  };
  /// result = wanted(value, operand).
  void apply(const PerElement& wanted, const Descriptor& value, const Descriptor& result);
  void finish(Descriptor& operation);
  OperationGraph make_graph();

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
