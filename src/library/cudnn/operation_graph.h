// SPDX-License-Identifier: Apache-2.0
// A convolution form as a graph of cuDNN's operations.
#pragma once

#include <memory>
#include <vector>

#include "library/cudnn/api.h"
#include "library/cudnn/convolution_form.h"

namespace graft::cudnn {

/// The graph with the descriptors that it is made of, and its tensors by identity (from 1 on).
struct OperationGraph {
  std::vector<std::unique_ptr<Descriptor>> parts;
  std::unique_ptr<Descriptor> graph;
  std::vector<TensorForm> tensors;
};

/// The operations in the form's order, intermediate values in f32. Throws Error{unsupported} with cuDNN's words.
OperationGraph operation_graph(const ConvolutionForm& form, cudnnHandle_t handle);

}  // namespace graft::cudnn
