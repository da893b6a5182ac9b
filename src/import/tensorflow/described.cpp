// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "import/tensorflow/rows.h"

namespace graft::tensorflow {
namespace {

using frontend::Conversion;

/// The result has the type and sizes of an operand.
void stays_like(Conversion& c, std::string_view operand) {
  c.describe(0, c.tensor(operand));
  c.refuse(fmt::format("there is no converter for {}", c.node().op));
}

void like_x(Conversion& c) { stays_like(c, "x"); }
void like_input(Conversion& c) { stays_like(c, "input"); }

}  // namespace

std::vector<frontend::Row> described_rows() {
  return {
      {"Digamma(T x)", like_x},
      {"Lgamma(T x)", like_x},
      {"Erfinv(T x)", like_x},
      {"Ndtri(T x)", like_x},
      {"BesselI0e(T x)", like_x},
      {"BesselI1e(T x)", like_x},
      {"Cumprod(T x, Tidx axis)", like_x},
      {"CheckNumerics(T tensor)", [](Conversion& c) { stays_like(c, "tensor"); }},
      {"Print(T input)", like_input},
  };
}

}  // namespace graft::tensorflow
