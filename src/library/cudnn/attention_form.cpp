// SPDX-License-Identifier: Apache-2.0
#include "library/cudnn/attention_form.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"

namespace graft::cudnn {
namespace {

[[noreturn]] void refuse(const std::string& reason) { throw Error(ErrorKind::kUnsupported, reason, "cuDNN"); }

TensorForm tensor_of(const LibraryCall& call, const CallOperand& operand, CallRole role, int buffer) {
  const DType type = operand.wide ? DType::kFloat32 : call.type;
  TensorForm tensor{.buffer = buffer, .type = type, .offset = operand.offset.constant()};
  const std::vector<Size> extents = extents_of(call, role);
  for (size_t d = 0; d < extents.size(); ++d) {
    const int64_t extent = extents[d].constant(), stride = operand.strides[d].constant();
    const bool varies = stride != 0 || role != CallRole::kPost;
    tensor.extents.push_back(varies ? extent : 1);
    tensor.strides.push_back(stride);
  }
  while (tensor.extents.size() < 4) {
    tensor.extents.insert(tensor.extents.begin(), 1);
    tensor.strides.insert(tensor.strides.begin(), 0);
  }
  // A dimension of extent 1 has the stride of a dense tensor.
  int64_t dense = 1;
  for (size_t d = tensor.extents.size(); d-- > 0;) {
    if (tensor.extents[d] == 1) tensor.strides[d] = dense;
    dense = std::max(dense, tensor.strides[d] * tensor.extents[d]);
  }
  return tensor;
}

}  // namespace

AttentionForm attention_form(const LibraryCall& call) {
  if (call.batch.size() > 2) refuse("its attention has two batch axes, and there are more");
  if (call.type == DType::kFloat32) refuse("it has no attention of f32");
  AttentionForm form{.type = call.type, .causal = call.causal};
  form.queries = tensor_of(call, call.source, CallRole::kSource, 0);
  form.keys = tensor_of(call, call.weights, CallRole::kWeights, 1);
  form.result = tensor_of(call, call.result, CallRole::kResult, 2);
  int buffer = 3;
  for (const PostOperation& post : call.posts) {
    if (post.kind == PostKind::kLinear && post.beta == 0 && !form.mask) {
      form.scale *= post.alpha;
    } else if (post.kind == PostKind::kAdd && !form.mask) {
      form.mask = tensor_of(call, post.operand, CallRole::kPost, buffer++);
    } else {
      refuse(fmt::format("its attention has no '{}' here", info(post.kind).name));
    }
  }
  form.values = tensor_of(call, *call.values, CallRole::kValues, buffer);
  return form;
}

}  // namespace graft::cudnn
