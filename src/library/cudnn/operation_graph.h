// SPDX-License-Identifier: Apache-2.0
// Forms as graphs of cuDNN's operations.
#pragma once

#include <memory>
#include <vector>

#include "library/cudnn/api.h"
#include "library/cudnn/attention_form.h"
#include "library/cudnn/convolution_form.h"

namespace graft::cudnn {

/// The graph with the descriptors that it is made of, and its tensors by identity (from 1 on).
struct OperationGraph {
  std::vector<std::unique_ptr<Descriptor>> parts;
  std::unique_ptr<Descriptor> graph;
  std::vector<TensorForm> tensors;  ///< those without a buffer are numbers
  std::vector<float> numbers;       ///< by tensor; read on the host at each run
};

/// The operations in the form's order, intermediate values in f32. Throws Error{unsupported} with cuDNN's words.
/// Without a handle the graph runs nowhere, but cuDNN can be asked about it.
OperationGraph operation_graph(const ConvolutionForm& form, cudnnHandle_t handle);

/// The operations by which cuDNN recognises attention, which it then does in one kernel. Throws as above.
OperationGraph operation_graph(const AttentionForm& form, cudnnHandle_t handle);

}  // namespace graft::cudnn
