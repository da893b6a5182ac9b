// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/index_range.h"

#include <algorithm>

namespace graft::cuda {
namespace {

// Bounds beyond this are treated as unknown, so that sums and products of two of them do not overflow.
constexpr int64_t kMost = int64_t{1} << 31;

bool is_small(const Range& range) { return range.low >= -kMost && range.high <= kMost; }

Range product(const Range& a, const Range& b) {
  const auto [low, high] = std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
  return {low, high};
}

int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

/// Of operands that are all small.
Range range_of_small(Intrinsic intrinsic, const Range& a, const Range& b) {
  switch (intrinsic) {
    case Intrinsic::kAdd:
      return {a.low + b.low, a.high + b.high};
    case Intrinsic::kSub:
      return {a.low - b.high, a.high - b.low};
    case Intrinsic::kMul:
      return product(a, b);
    case Intrinsic::kFloorDiv:
      if (b.low <= 0) return {};
      return {std::min(floor_quotient(a.low, b.low), floor_quotient(a.low, b.high)),
              std::max(floor_quotient(a.high, b.low), floor_quotient(a.high, b.high))};
    case Intrinsic::kDiv:
      if (b.low <= 0 || a.low < 0) return {};
      return {a.low / b.high, a.high / b.low};
    case Intrinsic::kRem:
      if (b.low <= 0 || a.low < 0) return {};
      return {0, std::min(a.high, b.high - 1)};
    default:
      return {};
  }
}

}  // namespace

Range range_of(Intrinsic intrinsic, const std::vector<Range>& operands) {
  if (intrinsic == Intrinsic::kSelect) {
    return {std::min(operands[1].low, operands[2].low), std::max(operands[1].high, operands[2].high)};
  }
  if (intrinsic == Intrinsic::kCheckDivisor) return operands[0];
  if (operands.size() == 1) {
    if (intrinsic == Intrinsic::kAbs && is_small(operands[0])) {
      const int64_t low = operands[0].low, high = operands[0].high;
      return {low > 0 ? low : high < 0 ? -high : 0, std::max(-low, high)};
    }
    return intrinsic == Intrinsic::kNeg && is_small(operands[0]) ? Range{-operands[0].high, -operands[0].low} : Range{};
  }
  const Range &a = operands[0], &b = operands[1];
  switch (intrinsic) {
    case Intrinsic::kMin:
      return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case Intrinsic::kMax:
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    case Intrinsic::kCheckIndex:
      return b.high < kMost ? Range{0, std::max<int64_t>(b.high - 1, 0)} : Range{};
    case Intrinsic::kMod:
      return b.low > 0 && b.high < kMost ? Range{0, b.high - 1} : Range{};
    default:
      return is_small(a) && is_small(b) ? range_of_small(intrinsic, a, b) : Range{};
  }
}

}  // namespace graft::cuda
