// SPDX-License-Identifier: Apache-2.0
// A library call as cuDNN's graph of operations, without its types: a convolution, then operations element by element.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "library/call.h"

namespace graft::cudnn {

/// [images, channels, positions...]; of weights [outputs, inputs of a group, kernel...]. All count elements.
struct TensorForm {
  int buffer = -1;  ///< which buffer of a run
  DType type = DType::kFloat32;
  int64_t offset = 0;
  std::vector<int64_t> extents, strides;
};

enum class Pointwise : uint8_t { kAdd, kRelu };

struct PointwiseForm {
  Pointwise kind{};
  TensorForm operand;  ///< kAdd
  double largest = 0;  ///< kRelu: what is above becomes this; 0: nothing is
};

struct ConvolutionForm {
  DType type = DType::kFloat32;
  bool tf32 = false;
  TensorForm source, weights, result;
  std::vector<int64_t> strides, dilations, before, after;  ///< by position axis
  std::vector<PointwiseForm> operations;
};

/// The form of a call with concrete sizes; at least two position axes. Throws Error{unsupported} naming what has no
/// operation of cuDNN with the same meaning.
ConvolutionForm convolution_form(const LibraryCall& call);

}  // namespace graft::cudnn
