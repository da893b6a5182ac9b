// SPDX-License-Identifier: Apache-2.0
// Branches and loops that tests run on every device, and a session's results against the reference evaluator's.
#pragma once

#include <string>
#include <vector>

#include "base/tensor_data.h"
#include "graph/evaluate_graph.h"
#include "graph/graph.h"
#include "runtime/session.h"

namespace graft_test {

graft::TensorData floats(std::vector<int64_t> shape, const std::vector<float>& values);
graft::TensorData integer(int64_t value);
graft::TensorData boolean(bool value);

/// A graph's text with its types inferred.
graft::Graph inferred(const std::string& text);

/// The results of a session, in memory of their own.
struct Results {
  std::vector<graft::BufferView> views;
  std::vector<std::vector<std::byte>> memory;
  graft::Status status;
};
Results run(graft::Session& session, const graft::Graph& graph, const graft::TensorsByName& inputs);

/// Fails the test where a result of the session departs from the evaluator's by more than `tolerance` of its size.
void expect_results(graft::Session& session, const graft::Graph& graph, const graft::TensorsByName& inputs,
                    double tolerance = 0);

/// A loop that adds the captured `x: f32[n]` to `start: f32[n]`, `limit: i64` times, and collects what was before.
extern const char* const kSums;
graft::TensorsByName sums(int64_t limit);
/// A loop of four rounds: x f32[n, 3] -> the sum and what each round made.
extern const char* const kKnown;
/// Doubles `x: f32[2]` until its sum passes `bound: f32`, if `going: bool`, with a branch in the loop for odd rounds.
extern const char* const kWhile;
/// x: f32[n] joined to itself, `limit: i64` times, and negated.
extern const char* const kGrows;
/// Branches by `c: bool` of other shapes: x f32[n, 2].
extern const char* const kBranches;
/// A loop that never ends, whose body is one node on `%s`, a vector that it carries.
std::string endless(const char* round);

}  // namespace graft_test
