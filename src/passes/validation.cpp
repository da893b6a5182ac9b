// SPDX-License-Identifier: Apache-2.0
#include "passes/validation.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "graph/evaluate_graph.h"

namespace graft {

void validate_pass(const Graph& before, const Graph& after, const ValidatedPass& pass, uint64_t seed) {
  TensorsByName inputs;
  std::vector<TensorData> expected;
  try {
    inputs = random_inputs(before, seed);
    expected = evaluate(before, inputs);
  } catch (const Error& error) {
    log(LogLevel::kWarning, "pass {} is not validated: {}", pass.name, error.what());
    return;
  }
  const std::vector<TensorData> actual = evaluate(after, inputs);
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool rounds = pass.rounds_to != DType::kUndefined;
    if (rounds && !is_float(expected[i].type())) continue;
    const double tolerance = usual_tolerance(rounds ? pass.rounds_to : expected[i].type());
    const auto difference = first_difference(expected[i], actual[i], tolerance);
    GRAFT_CHECK(!difference, fmt::format("pass {} changed the output '{}': {} (GRAFT_SEED={})", pass.name,
                                         after.value(after.outputs[i]).name, *difference, seed));
  }
}

}  // namespace graft
