// SPDX-License-Identifier: Apache-2.0
#include "library/onednn/call_primitive.h"

#include <algorithm>

#include "base/error.h"
#include "library/onednn/memory_descriptions.h"

namespace graft::onednn {
namespace {

using dnnl::algorithm;
using dnnl::memory;

dnnl::engine& cpu() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

/// A row that is added to all rows of the result first: what oneDNN calls a bias.
bool is_bias(const LibraryCall& call, const PostOperation& post) {
  if (post.kind != PostKind::kAdd) return false;
  const size_t groups = call.batch.size();
  for (size_t d = 0; d < post.operand.strides.size(); ++d) {
    const Size& stride = post.operand.strides[d];
    const bool channel = d == groups + 1 || (call.is_convolution() && d < groups);
    if (!channel && !stride.is(0)) return false;
  }
  const bool by_group = call.columns.is(1) && groups > 0;
  return post.operand.strides[by_group ? 0 : groups + 1].is(1);
}

/// Its description: [channels] of a convolution, [1..., columns] of a product.
memory::desc bias_description(const LibraryCall& call) {
  const int64_t columns = call.columns.constant();
  if (call.is_convolution()) {
    return memory::desc({columns * element_count(call.batch).constant()}, memory::data_type::f32, memory::dims{1});
  }
  memory::dims extents(call.batch.size() + 2, 1), strides(call.batch.size() + 2, columns);
  extents[call.batch.size() + 1] = columns;
  strides[call.batch.size() + 1] = 1;
  return memory::desc(extents, memory::data_type::f32, strides);
}

algorithm binary_algorithm(PostKind kind) {
  switch (kind) {
    case PostKind::kAdd:
      return algorithm::binary_add;
    case PostKind::kSub:
      return algorithm::binary_sub;
    case PostKind::kMul:
      return algorithm::binary_mul;
    case PostKind::kMin:
      return algorithm::binary_min;
    case PostKind::kMax:
      return algorithm::binary_max;
    default:
      return algorithm::binary_div;
  }
}

algorithm map_algorithm(PostKind kind) {
  switch (kind) {
    case PostKind::kLinear:
      return algorithm::eltwise_linear;
    case PostKind::kRelu:
      return algorithm::eltwise_relu;
    case PostKind::kClip:
      return algorithm::eltwise_clip;
    case PostKind::kGelu:
      return algorithm::eltwise_gelu_erf;
    case PostKind::kGeluTanh:
      return algorithm::eltwise_gelu_tanh;
    case PostKind::kSigmoid:
      return algorithm::eltwise_logistic;
    case PostKind::kSwish:
      return algorithm::eltwise_swish;
    case PostKind::kHardSwish:
      return algorithm::eltwise_hardswish;
    case PostKind::kTanh:
      return algorithm::eltwise_tanh;
    default:
      GRAFT_CHECK(false, "it has an operand");
  }
  return algorithm::undef;
}

/// Everything that a primitive description is made of.
struct Parts {
  memory::desc source, weights, bias, result;
  dnnl::primitive_attr attributes;
  std::vector<memory::desc> operands;  ///< of posts, the bias included
  std::vector<int> roles;              ///< oneDNN's argument numbers, by operand of the call
};

Parts make_parts(const LibraryCall& call) {
  Parts parts;
  parts.source = activation(call, call.source, CallRole::kSource);
  parts.weights = weights(call);
  parts.result = activation(call, call.result, CallRole::kResult);
  parts.roles = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  dnnl::post_ops posts;
  for (const PostOperation& post : call.posts) {
    if (&post == &call.posts.front() && is_bias(call, post)) {
      parts.bias = bias_description(call);
      parts.operands.push_back(parts.bias);
      parts.roles.push_back(DNNL_ARG_BIAS);
    } else if (info(post.kind).operand) {
      parts.operands.push_back(broadcast(call, post.operand));
      parts.roles.push_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(posts.len()) | DNNL_ARG_SRC_1);
      posts.append_binary(binary_algorithm(post.kind), parts.operands.back());
    } else {
      posts.append_eltwise(map_algorithm(post.kind), post.alpha, post.beta);
    }
  }
  parts.attributes.set_post_ops(posts);
  parts.attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  // What oneDNN reads from its environment must not change results.
  parts.attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
  return parts;
}

/// What stands after the input so that the last window ends there; windows may leave a rest.
int64_t padding_after(const CallWindow& w) {
  const int64_t reach = (w.kernel.constant() - 1) * w.dilation + 1;
  const int64_t end = (w.output.constant() - 1) * w.stride + reach;
  return std::max<int64_t>(0, end - w.input.constant() - w.before.constant());
}

dnnl::convolution_forward::primitive_desc convolution(const LibraryCall& call, const Parts& parts) {
  memory::dims strides, dilations, before, after;
  for (const CallWindow& w : call.windows) {
    strides.push_back(w.stride);
    dilations.push_back(w.dilation - 1);
    before.push_back(w.before.constant());
    after.push_back(padding_after(w));
  }
  return {cpu(),
          dnnl::prop_kind::forward_inference,
          algorithm::convolution_direct,
          parts.source,
          parts.weights,
          parts.bias,
          parts.result,
          strides,
          dilations,
          before,
          after,
          parts.attributes};
}

dnnl::matmul::primitive_desc product(const Parts& parts) {
  if (parts.bias.is_zero()) return {cpu(), parts.source, parts.weights, parts.result, parts.attributes};
  return {cpu(), parts.source, parts.weights, parts.bias, parts.result, parts.attributes};
}

void add_memory(CallPrimitive& made, const memory::desc& description, int role) {
  made.operands.emplace_back(description, cpu(), nullptr);
  made.arguments.push_back({role, made.operands.back().get()});
}

template <class Description>
CallPrimitive finish(const Description& chosen, const Parts& parts) {
  CallPrimitive made;
  made.implementation = chosen.impl_info_str();
  GRAFT_USER_CHECK(made.implementation.rfind("ref", 0) != 0, kUnsupported, "it has only its slow reference for this",
                   "oneDNN");
  made.primitive = dnnl::primitive(chosen);
  made.stream = dnnl::stream(cpu());
  made.scratch_bytes = static_cast<int64_t>(chosen.scratchpad_desc().get_size());
  size_t role = 0;
  for (const memory::desc* description : {&parts.source, &parts.weights, &parts.result}) {
    add_memory(made, *description, parts.roles[role++]);
  }
  for (const memory::desc& description : parts.operands) add_memory(made, description, parts.roles[role++]);
  if (made.scratch_bytes > 0) {
    made.scratchpad = memory(chosen.scratchpad_desc(), cpu(), nullptr);
    made.arguments.push_back({DNNL_ARG_SCRATCHPAD, made.scratchpad.get()});
  }
  return made;
}

}  // namespace

CallPrimitive make_primitive(const LibraryCall& call) {
  const Parts parts = make_parts(call);
  if (call.is_convolution()) return finish(convolution(call, parts), parts);
  return finish(product(parts), parts);
}

}  // namespace graft::onednn
