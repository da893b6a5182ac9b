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
  std::vector<TensorForm> tensors;  ///< buffer -1: `scale`
  float scale = 1;                  ///< a number that operations read from the host
};

/// The operations in the form's order, intermediate values in f32. Throws Error{unsupported} with cuDNN's words.
OperationGraph operation_graph(const ConvolutionForm& form, cudnnHandle_t handle);

/// Products, scale, mask and softmax as cuDNN recognises them. `narrow_weights`: the weights of the second sum are of
/// the form's type rather than f32. Throws as above.
OperationGraph operation_graph(const AttentionForm& form, bool narrow_weights, cudnnHandle_t handle);

}  // namespace graft::cudnn
