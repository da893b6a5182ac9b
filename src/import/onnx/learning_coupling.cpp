// SPDX-License-Identifier: Apache-2.0
// Probabilities of several classes from those of pairs, by the iteration of Wu, Lin and Weng ("Probability Estimates
// for Multi-class Classification by Pairwise Coupling", 2004, algorithm 2), which libsvm and ONNX Runtime have: it
// changes one probability at a time, and ends a row where a sweep begins close enough to where it leads.
#include <map>
#include <string_view>

#include "graph/custom_operator.h"
#include "import/onnx/learning_call.h"

namespace graft {
namespace {

constexpr std::string_view kTable = R"(operator graft::CouplingTable {
  "the quadratic form whose least value over all probabilities is looked for, and where the search begins"
  attribute classes: integer
  input pairs: f32[n, m]
  output table: f32[n, classes, classes]
  output share: f32[n, classes]
  output slope: f32[n, classes]
  output mean: f32[n]
  output goes: bool[n]
  compute wins over [i < n, a < classes, b < classes] {
    let low = min(a, b)
    let high = max(a, b)
    let at = max(low * classes - floor_div(low * (low + 1), 2) + high - low - 1, 0)
    value select(a == b, 0:f32, select(a < b, pairs[i, at], 1 - pairs[i, at]))
  }
  reduce squares over [i < n, a < classes] fold add [b < classes] { lift wins[i, b, a] * wins[i, b, a] }
  compute table over [i < n, a < classes, b < classes] {
    value select(a == b, squares[i, a], -(wins[i, b, a] * wins[i, a, b]))
  }
  compute share over [i < n, a < classes] { value 1:f32 / cast<f32>(classes) }
  compute slope over [i < n, a < classes] { value 0:f32 }
  compute mean over [i < n] { value 0:f32 }
  compute goes over [i < n] { value true }
})";

constexpr std::string_view kStep = R"(operator graft::CouplingStep {
  "one probability of each row changed, and all divided by their new sum; every sweep begins from exact products"
  input round: i64[]
  input table: f32[n, k, k]
  input share: f32[n, k]
  input slope: f32[n, k]
  input mean: f32[n]
  input goes: bool[n]
  output new_share: f32[n, k]
  output new_slope: f32[n, k]
  output new_mean: f32[n]
  output still: bool[n]
  output more: bool[]
  reduce product over [i < n, a < k] fold add [b < k] { lift table[i, a, b] * share[i, b] }
  reduce middle over [i < n] fold add [a < k] { lift share[i, a] * product[i, a] }
  reduce error over [i < n] fold max [a < k] { lift abs(product[i, a] - middle[i]) }
  compute still over [i < n] {
    let begins = mod(round[], k) == 0
    value and(goes[i], or(not(begins), error[i] >= 0.005:f32 / cast<f32>(k)))
  }
  compute change over [i < n] {
    let t = mod(round[], k)
    let here = select(t == 0, product[i, t], slope[i, t])
    value (select(t == 0, middle[i], mean[i]) - here) / table[i, t, t]
  }
  compute new_share over [i < n, a < k] {
    let moved = share[i, a] + select(a == mod(round[], k), change[i], 0:f32)
    value select(still[i], moved / (1 + change[i]), share[i, a])
  }
  compute new_slope over [i < n, a < k] {
    let t = mod(round[], k)
    value (select(t == 0, product[i, a], slope[i, a]) + change[i] * table[i, t, a]) / (1 + change[i])
  }
  compute new_mean over [i < n] {
    let t = mod(round[], k)
    let here = select(t == 0, product[i, t], slope[i, t])
    let old = select(t == 0, middle[i], mean[i])
    value (old + change[i] * (change[i] * table[i, t, t] + 2 * here)) / (1 + change[i]) / (1 + change[i])
  }
  reduce more over [] fold or [i < n] { lift still[i] }
})";

constexpr std::string_view kComposition = R"(graph "coupling" {
  opset "" 28
  opset "graft" 1
  input %pairs: f32[n, m]
  input %limit: i64[]
  %table: ?, %share: ?, %slope: ?, %mean: ?, %goes: ? = graft::CouplingTable "table" (%pairs)
  %last: ?, _, _, _ = Loop "rounds" (%limit, _, %share, %slope, %mean, %goes, %table) {body = graph "round" {
    input %round: i64[]
    input %condition: bool[]
    input %share: f32[n, k]
    input %slope: f32[n, k]
    input %mean: f32[n]
    input %goes: bool[n]
    input %table: f32[n, k, k]
    %new_share: ?, %new_slope: ?, %new_mean: ?, %still: ?, %more: ? = graft::CouplingStep "step" (%round, %table,
      %share, %slope, %mean, %goes)
    output %more
    output %new_share
    output %new_slope
    output %new_mean
    output %still
  }, captures = [1]}
  output %last
}
)";

}  // namespace

ValueId coupled_probabilities(ContribCall& call, ValueId pairs, int64_t classes) {
  constexpr int64_t kSweeps = 100;  // as libsvm and ONNX Runtime
  Graph part = parse_graph(kComposition);
  carry_definitions(part, {{"CouplingTable", kTable}, {"CouplingStep", kStep}});
  part.nodes[0].attributes["classes"] = classes;
  return call.compose(part, {pairs, call.integer(kSweeps * classes)})[0];
}

}  // namespace graft
