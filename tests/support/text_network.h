// SPDX-License-Identifier: Apache-2.0
// Networks that tests write down in the graph's text form, as engines of the public API.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "graft/graft_c.h"

namespace graft_test {

/// Compiles a graph's text. Constants given as `all X` with more than 16 elements are weights: they become seeded
/// random values between -X and X. Throws std::runtime_error with Graft's message.
///
///   graft::Session session(graft::Engine(graft_test::compile_text(graft_test::kMlp, {{"threads", "2"}})));
graft_engine* compile_text(std::string_view text, std::initializer_list<graft_option> options = {});

/// The bytes of an ONNX file of it. Throws std::runtime_error with Graft's message.
std::string onnx_of_text(std::string_view text);

/// Linear layers with a ReLU between and a softmax: x f32[batch, 48] -> y f32[batch, 10].
extern const char* const kMlp;
/// Convolutions, pooling and a linear layer: x f32[batch, 3, 12, 12] -> y f32[batch, 5].
extern const char* const kConvolutions;
/// One layer of attention with a residual and a normalisation: x, y f32[batch, length, 32].
extern const char* const kAttention;
/// The positive elements and where they are: x f32[count] -> where i64[1, kept], values f32[kept].
extern const char* const kPositives;

/// A loop of as many turns as a run is told, each a step: turns i64[] -> left i64[], which is 0.
extern const char* const kCountdown;

/// A network and shapes of its input x that differ in what they ask of memory.
struct TextNetwork {
  const char* text;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<std::string> outputs;
};
/// The first four, in that order.
extern const std::vector<TextNetwork> kTextNetworks;

}  // namespace graft_test
