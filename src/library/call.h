// SPDX-License-Identifier: Apache-2.0
// A library call: one product (of matrices, or a convolution) and what follows it element by element, or attention, in
// the library's own vocabulary. Sizes may be symbols; a call whose sizes are numbers is what a library module is given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/size.h"

namespace graft {

/// A spatial axis of a convolution: output o and kernel position k read the input at
/// o * stride + k * dilation - before. Positions outside 0..input-1 count as zeros.
struct CallWindow {
  Size input, output, kernel = 1;
  int64_t stride = 1, dilation = 1;
  Size before = 0;
};

/// Which dimensions an operand has.
enum class CallRole : uint8_t { kSource, kWeights, kResult, kPost, kValues };

/// A strided view of one of the step's tensors. All counts are elements.
struct CallOperand {
  int argument = -1;  ///< which of the step's tensors
  Size offset = 0;
  std::vector<Size> strides;  ///< by dimension of its role; 0 where it does not vary
  int64_t panel = 0;          ///< weights only, see LibraryCall; 0: `strides` say where they are
  bool wide = false;          ///< of f32 though the call's type is narrower; operands of posts only
};

/// What a post operation does with the value so far.
enum class PostKind : uint8_t {
#define GRAFT_POST(enumerator, name, operand, parameters, exact, meaning) enumerator,
#include "library/posts.inc"
#undef GRAFT_POST
};
struct PostInfo {
  std::string_view name;
  bool operand;    ///< takes a tensor
  int parameters;  ///< how many of alpha, beta mean something
  bool exact;      ///< as accurate as intrinsics.inc asks
};
const PostInfo& info(PostKind kind);
std::optional<PostKind> parse_post(std::string_view name);

struct PostOperation {
  PostKind kind{};
  float alpha = 0, beta = 0;
  CallOperand operand{};  ///< strides like those of what it is applied to
};

/// result[b, r, c, o] = posts(sum over d, k of source[b, r, d, o * stride + k - before] * weights[b, d, c, k]).
/// b: batch axes, or the groups of a convolution; r: rows, or images; c: columns, or output channels of a group;
/// d: depth, or input channels of a group; o, k: one index per window. Strides are in the order of these indices.
/// Attention: source are the queries, weights the keys, posts make logits of their products, and
/// result[b, r, w] = sum over c of softmax over c(posts[b, r, c]) * values[b, c, w]; where it is causal, only over the
/// columns c <= r. A row of which every column is hidden is 0; a library may hide those below -2.3e38 too, as it
/// counts in powers of two.
/// Weights in panels lie as [panels][k...][d][panel], where panels count the columns of all groups one after the other
/// and the last one is padded with zeros.
struct LibraryCall {
  DType type = DType::kFloat32;
  bool tf32 = false;  ///< f32 operands may be rounded to tf32
  std::vector<Size> batch;
  Size rows = 1, columns = 1, depth = 1;
  std::vector<CallWindow> windows;  ///< none: a product of matrices
  CallOperand source, weights, result;
  std::vector<PostOperation> posts;
  std::optional<CallOperand> values;  ///< of attention
  Size width = 1;                     ///< of the values
  bool causal = false;                ///< attention only

  bool is_convolution() const { return !windows.empty(); }
  bool is_attention() const { return values.has_value(); }
  /// Source, weights, result, then the operands of posts, then values: the order of the buffers of a run.
  std::vector<std::pair<CallRole, CallOperand*>> operands();
  std::vector<std::pair<CallRole, const CallOperand*>> operands() const;
  /// Whether every number is as accurate as strict fp32 asks.
  bool is_exact() const;
};

/// A call with more posts than this is refused.
constexpr size_t kMostPosts = 8;
/// Of operands: source, weights, result, one of each post, values.
constexpr size_t kMostOperands = kMostPosts + 4;

/// Extents of the dimensions of a role, in the order of its strides.
std::vector<Size> extents_of(const LibraryCall& call, CallRole role);

/// The call with its symbols replaced by their values; throws invalid_argument for a size below zero.
LibraryCall evaluate(const LibraryCall& call, const Bindings& bindings);

/// One more than the last element that an operand of a concrete call touches; 0 when it touches none.
int64_t reach_of(const LibraryCall& call, const CallOperand& operand, CallRole role);

/// The call's text, one line per part; parse_library_call reads it back and throws invalid_argument naming the line.
std::string print(const LibraryCall& call);
LibraryCall parse_library_call(std::string_view text);

}  // namespace graft
