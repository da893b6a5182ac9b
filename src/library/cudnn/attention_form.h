// SPDX-License-Identifier: Apache-2.0
// A library call as cuDNN's attention, without its types.
#pragma once

#include <optional>

#include "library/cudnn/convolution_form.h"

namespace graft::cudnn {

/// result = softmax(queries keys * scale + mask) values, causal or not, over [batch, heads, rows, columns] each:
/// queries
/// [.., rows, depth], keys [.., depth, columns], mask [.., rows, columns] with extent 1 where it does not vary, values
/// [.., columns, width].
struct AttentionForm {
  DType type = DType::kFloat16;
  TensorForm queries, keys, values, result;
  float scale = 1;
  std::optional<TensorForm> mask;
  bool causal = false;
};

/// The form of a call with concrete sizes. Throws Error{unsupported} naming what cuDNN's attention does not have.
AttentionForm attention_form(const LibraryCall& call);

}  // namespace graft::cudnn
