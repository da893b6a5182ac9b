// SPDX-License-Identifier: Apache-2.0
// Every schedule of a region computes the same: the region in the interpreter against its kernels, with tiles that do
// and do not divide the sizes.
#include <set>

#include "llvm/amx_emulator.h"
#include "llvm/schedule_sample.h"
#include "strategy/attention.h"
#include "strategy/choose_schedule.h"
#include "strategy/contract.h"
#include "strategy/nest.h"
#include "strategy/window.h"

namespace graft::codegen {
namespace {

/// Tiles larger and smaller than the sizes, with the sum whole and in pieces, and rows in chunks.
const tile::ContractSchedule kContracts[] = {
    {.m = 56, .n = 64},
    {.m = 5, .n = 16, .columns_outer = false},
    {.m = 4, .n = 32, .k = 5},
    {.m = 6, .n = 16, .k = 4, .m_chunk = 9},
    {.m = 3, .n = 64, .m_chunk = 12, .columns_outer = false},
};

void check_contracts(const std::string& lines) {
  const Sample sample = make_sample(lines);
  for (const Target& target : runnable_targets()) {
    for (const tile::ContractSchedule& schedule : kContracts) check(sample, schedule, target);
    check(sample, tile::NestSchedule{}, target);
  }
}

TEST(Schedules, of_a_product_with_maps_after_it) {
  check_contracts(R"(
    range m 1 13 64
    input %a: f32[m, 17]
    input %b: f32[17, 37]
    input %c: f32[37]
    %p: ? = MatMul "product" (%a, %b)
    %s: ? = Add "bias" (%p, %c)
    %y: ? = Relu "relu" (%s)
    output %y
)");
}

TEST(Schedules, of_products_of_batches_with_an_operand_turned) {
  check_contracts(R"(
    input %a: f32[2, 3, 11, 9]
    input %b: f32[3, 21, 9]
    %t: ? = Transpose "turn" (%b) {perm = [0, 2, 1]}
    %y: ? = MatMul "product" (%a, %t)
    output %y
)");
}

TEST(Schedules, of_a_product_of_converted_operands) {
  check_contracts(R"(
    input %a: f16[7, 12]
    input %b: f16[12, 19]
    %y: ? = MatMul "product" (%a, %b)
    output %y
)");
}

TEST(Schedules, of_a_convolution_with_padding) {
  check_contracts(R"(
    range n 1 2 4
    input %x: f32[n, 3, 7, 6]
    input %w: f32[10, 3, 3, 3]
    %c: ? = Conv "conv" (%x, %w) {pads = [1, 1, 1, 1]}
    %y: ? = Relu "relu" (%c)
    output %y
)");
}

TEST(Schedules, of_a_convolution_with_strides_and_dilations) {
  check_contracts(R"(
    input %x: f32[1, 4, 11, 13]
    input %w: f32[6, 4, 3, 2]
    %y: ? = Conv "conv" (%x, %w) {strides = [2, 1], dilations = [1, 3], pads = [0, 2, 1, 0]}
    output %y
)");
}

TEST(Schedules, of_a_product_with_packed_weights) {
  const Sample sample = make_sample(R"(
    range m 1 13 64
    input %a: f32[m, 17]
    input %b: f32[17, 37]
    %y: ? = MatMul "product" (%a, %b)
    output %y
)");
  for (const Target& target : runnable_targets()) {
    for (const int64_t lanes : {8, 32}) {
      for (tile::ContractSchedule schedule : kContracts) {
        if (schedule.k > 0 || schedule.n < lanes) continue;
        schedule.panel = lanes;
        tile::Layouts layouts(sample.region.tensors.size());
        layouts[static_cast<size_t>(sample.region.inputs[1])] = tile::PanelLayout{1, lanes, 0, {0}};
        check(sample, schedule, target, layouts);
      }
    }
  }
}

TEST(Schedules, of_batches_with_packed_weights) {
  const Sample sample = make_sample(R"(
    input %a: f32[3, 10, 9]
    input %b: f32[3, 9, 20]
    %y: ? = MatMul "product" (%a, %b)
    output %y
)");
  for (const Target& target : runnable_targets()) {
    tile::Layouts layouts(sample.region.tensors.size());
    layouts[static_cast<size_t>(sample.region.inputs[1])] = tile::PanelLayout{2, 16, 1, {1}};
    check(sample, tile::ContractSchedule{.m = 4, .n = 32, .panel = 16}, target, layouts);
  }
}

/// Products with more and fewer rows, columns and products than an instruction has, where A and B stand for types, and
/// PRODUCT for the operator.
constexpr const char* kProducts[] = {
    R"(
    range m 1 13 128
    input %a: A[m, 192]
    input %b: B[192, 96]
    %y: ? = PRODUCT "product" (%a, %b)
    output %y
)",
    R"(
    input %a: A[3, 20, 3]
    input %b: B[3, 7]
    %y: ? = PRODUCT "product" (%a, %b)
    output %y
)",
    // weights that are asked for ahead
    R"(
    input %a: A[70, 640]
    input %b: B[640, 448]
    %y: ? = PRODUCT "product" (%a, %b)
    output %y
)",
    // mostly one row
    R"(
    range m 1 1 16
    input %a: A[m, 75]
    input %b: B[75, 40]
    %y: ? = PRODUCT "product" (%a, %b)
    output %y
)"};

/// With what follows a product of integers, and of bf16.
constexpr const char* kProductOfIntegers = R"(
    input %a: A[45, 147]
    input %b: B[147, 65]
    %p: ? = PRODUCT "product" (%a, %b)
    %f: ? = Cast "cast" (%p) {to = 1}
    %y: ? = Relu "relu" (%f)
    output %y
)";
constexpr const char* kNarrowProduct = R"(
    input %a: A[45, 147]
    input %b: B[147, 65]
    %p: ? = PRODUCT "product" (%a, %b)
    %y: ? = Relu "relu" (%p)
    output %y
)";

std::vector<std::string> products(bool of_integers) {
  std::vector<std::string> all(std::begin(kProducts), std::end(kProducts));
  all.emplace_back(of_integers ? kProductOfIntegers : kNarrowProduct);
  for (std::string& lines : all) {
    const std::string_view word = "PRODUCT";
    lines.replace(lines.find(word), word.size(), of_integers ? "MatMulInteger" : "MatMul");
  }
  return all;
}

std::string with_types(std::string lines, DType a, DType b) {
  const std::pair<std::string, DType> letters[] = {{" A[", a}, {" B[", b}};
  for (const auto& [letter, type] : letters) {
    lines.replace(lines.find(letter), letter.size(), " " + std::string(name_of(type)) + "[");
  }
  return lines;
}

TEST(Schedules, of_products_by_each_unit_of_this_machine) {
  const Target host = target_with_amx().value_or(host_cpu(1));
  bool has_any = false;
  for (const ContractUnit& unit : contract_units()) {
    if (!has_unit(host, unit)) continue;
    has_any = true;
    Target target = host;  // with no faster unit
    for (const ContractUnit& other : contract_units()) {
      const size_t at = target.features.find(",+" + std::string(other.feature));
      if (other.feature != unit.feature && at != std::string::npos) target.features.erase(at, other.feature.size() + 2);
    }
    const bool is_exact = is_integer(unit.sum);
    const bool is_best = best_unit(target, unit.a, unit.b, unit.sum) == &unit;
    int tried_at_all = 0;
    for (const std::string& lines : products(is_exact)) {
      const Sample sample = make_sample(with_types(lines, unit.a, unit.b));
      std::vector<bool> constant(sample.region.tensors.size());
      constant[static_cast<size_t>(sample.region.inputs[1])] = true;
      int tried = 0;
      for (const Choice& choice : schedule_candidates(sample.region, constant, sample.sizes, target)) {
        const auto contract = choice.schedule.as<tile::ContractSchedule>();
        if (!contract || contract->unit != &unit) continue;
        check(sample, choice.schedule, target, choice.layouts, is_exact ? 0 : 1e-2);
        ++tried;
      }
      // A slower unit of floats of the same feature takes part where rows leave half of a block empty.
      if (is_best || is_exact || unit.splits()) EXPECT_GT(tried, 0) << unit.name << " takes no part of:" << lines;
      tried_at_all += tried;
    }
    EXPECT_GT(tried_at_all, 0) << unit.name;
  }
  if (!has_any) GTEST_SKIP() << "this processor has none of the units of units.inc";
}

/// Windows along channels that lie side by side, each with its own reason to be here.
constexpr const char* kWindows[] = {
    // padded, with maps behind it
    R"(region padded
tensor x: f32[2, 9, n, 37]
tensor w: f32[3, 3, 37]
tensor b: f32[37]
tensor s: f32[2, 9, n, 37]
tensor y: f32[2, 9, n, 37]
input x
input w
input b
output y
reduce s over [i0 < 2, i1 < 9, i2 < n, i3 < 37] fold [k0 < 3, k1 < 3] {
  left l0: f32
  right r0: f32
  let t0 = sub(add(i1, k0), 1)
  let t1 = sub(add(i2, k1), 1)
  let inside = and(and(and(ge(t0, 0), lt(t0, 9)), ge(t1, 0)), lt(t1, size(n)))
  lift mul(select(inside, x[i0, t0, t1, i3], 0:f32), w[k0, k1, i3])
  identity 0:f32
  combine add(l0, r0)
}
compute y over [i0 < 2, i1 < 9, i2 < n, i3 < 37] {
  value max(add(s[i0, i1, i2, i3], b[i3]), 0:f32)
}
)",
    // strides and dilations over bytes that are dequantized before
    R"(region bytes
tensor x: u8[13, 29, 40]
tensor z: u8[]
tensor d: f32[13, 29, 40]
tensor w: f32[3, 5, 40]
tensor s: f32[6, 17, 40]
tensor y: u8[6, 17, 40]
input x
input z
input w
output y
compute d over [i0 < 13, i1 < 29, i2 < 40] {
  value mul(cast<f32>(sub(cast<i32>(x[i0, i1, i2]), cast<i32>(z[]))), 0.03125:f32)
}
reduce s over [i1 < 6, i2 < 17, i3 < 40] fold [k0 < 3, k1 < 5] {
  left l0: f32
  right r0: f32
  lift mul(d[add(mul(i1, 2), k0), add(i2, mul(k1, 3)), i3], w[k0, k1, i3])
  identity 0:f32
  combine add(l0, r0)
}
compute y over [i1 < 6, i2 < 17, i3 < 40] {
  value cast<u8>(add(round(mul(s[i1, i2, i3], 0.5:f32)), 7:f32))
}
)",
    // along one axis, of 16 bits
    R"(region line
tensor x: bf16[3, 31, 21]
tensor w: bf16[7, 21]
tensor y: f32[3, 31, 21]
input x
input w
output y
reduce y over [i0 < 3, i1 < 31, i2 < 21] fold [k0 < 7] {
  left l0: f32
  right r0: f32
  let t0 = sub(add(i1, k0), 3)
  lift mul(select(and(ge(t0, 0), lt(t0, 31)), cast<f32>(x[i0, t0, i2]), 0:f32), cast<f32>(w[k0, i2]))
  identity 0:f32
  combine add(l0, r0)
}
)",
    // what is added is no product alone
    R"(region magnitudes
tensor x: f32[23, 19]
tensor w: f32[5, 19]
tensor y: f32[19, 19]
input x
input w
output y
reduce y over [i0 < 19, i1 < 19] fold [k0 < 5] {
  left l0: f32
  right r0: f32
  lift mul(x[add(i0, k0), i1], w[k0, i1])
  identity 0:f32
  combine add(l0, abs(r0))
}
)",
    // a pooling, which has no weights, along three axes
    R"(region pooling
tensor x: f32[6, 8, 10, 19]
tensor y: f32[3, 4, 5, 19]
input x
output y
reduce y over [i0 < 3, i1 < 4, i2 < 5, i3 < 19] fold [k0 < 2, k1 < 2, k2 < 2] {
  left l0: f32
  right r0: f32
  lift x[add(mul(i0, 2), k0), add(mul(i1, 2), k1), add(mul(i2, 2), k2), i3]
  identity -inf:f32
  combine max(l0, r0)
}
)"};

TEST(Schedules, of_windows_along_channels) {
  const tile::WindowSchedule schedules[] = {
      {}, {.rows = 1, .columns = 5, .lanes = 16, .points = 3}, {.rows = 3, .columns = 16, .lanes = 64, .points = 16},
      {.rows = 2, .columns = 7, .lanes = 8, .points = 1}};
  for (const char* text : kWindows) {
    const Sample sample = sample_of_region(text, {{"n", 11}});
    EXPECT_EQ(tile::why_no_window(sample.region), "") << text;
    for (const Target& target : runnable_targets()) {
      for (const tile::WindowSchedule& schedule : schedules) check(sample, schedule, target);
    }
  }
}

TEST(Schedules, of_windows_say_why_they_do_not_apply) {
  const auto why = [](const std::string& lift, const std::string& fold) {
    return tile::why_no_window(sample_of_region("region r\ntensor x: f32[9, 9, 9]\ntensor y: f32[4, 4, 8]\ninput x\n"
                                                "output y\nreduce y over [i0 < 4, i1 < 4, i2 < 8] fold [" + fold +
                                                "] {\n  left l0: f32\n  right r0: f32\n  lift " + lift +
                                                "\n  identity 0:f32\n  combine add(l0, r0)\n}\n").region);
  };
  EXPECT_EQ(why("x[add(i0, k0), add(i1, k1), i2]", "k0 < 3, k1 < 3"), "");
  EXPECT_EQ(why("x[k0, i1, i2]", "k0 < 3"), "an axis of the window slides along no axis of the result");
  EXPECT_EQ(why("x[add(i0, k0), i1, i2]", "k0 < 3"), "the window does not slide along the axis beside the channels");
  EXPECT_EQ(why("mul(x[i0, add(i1, k0), i2], x[i0, add(i1, k0), i2])", "k0 < 3"),
            "both factors move with the window");
  EXPECT_EQ(why("add(x[i0, add(i1, k0), i2], cast<f32>(i1))", "k0 < 3"),
            "the window's input depends on more than where it is read");
}

/// A convolution whose channels come last in memory, of the given types; C is the number of channels.
constexpr const char* kChannelsLast = R"(region conv
tensor x: A[2, 9, 13, C]
tensor w: B[40, 3, 3, C]
tensor y: S[2, 5, 7, 40]
input x
input w
output y
reduce y over [i0 < 2, i1 < 5, i2 < 7, i3 < 40] fold [k0 < 3, k1 < 3, k2 < C] {
  left l0: S
  right r0: S
  let t0 = sub(add(mul(i1, 2), k0), 1)
  let t1 = sub(add(mul(i2, 2), k1), 1)
  let inside = and(and(and(ge(t0, 0), lt(t0, 9)), ge(t1, 0)), lt(t1, 13))
  lift mul(select(inside, cast<S>(x[i0, t0, t1, k2]), 0:S), cast<S>(w[i3, k0, k1, k2]))
  identity 0:S
  combine add(l0, r0)
}
)";

/// The same with taps down the rows of the map alone.
constexpr const char* kTapsDown = R"(region conv
tensor x: A[2, 9, 6, C]
tensor w: B[20, 3, C]
tensor y: S[2, 5, 6, 20]
input x
input w
output y
reduce y over [i0 < 2, i1 < 5, i2 < 6, i3 < 20] fold [k0 < 3, k2 < C] {
  left l0: S
  right r0: S
  lift mul(cast<S>(x[i0, add(i1, mul(k0, 2)), i2, k2]), cast<S>(w[i3, k0, k2]))
  identity 0:S
  combine add(l0, r0)
}
)";

/// Taps along the rows of a map that lie behind each other with their channels, as in packed stems: rows overlap.
constexpr const char* kJoinedTaps = R"(region conv
tensor x: A[2, 9, 224]
tensor w: B[40, 3, C]
tensor y: S[2, 7, 11, 40]
input x
input w
output y
reduce y over [i0 < 2, i1 < 7, i2 < 11, i3 < 40] fold [k0 < 3, k1 < C] {
  left l0: S
  right r0: S
  lift mul(cast<S>(x[i0, add(i1, k0), add(mul(i2, 16), k1)]), cast<S>(w[i3, k0, k1]))
  identity 0:S
  combine add(l0, r0)
}
)";

TEST(Schedules, of_convolutions_by_units_copy_windows_or_rows) {
  const Target host = target_with_amx().value_or(host_cpu(1));
  bool has_any = false;
  for (const ContractUnit& unit : contract_units()) {
    if (!has_unit(host, unit)) continue;
    has_any = true;
    for (const auto& [conv, channels] :
         {std::pair{kChannelsLast, "3"}, {kChannelsLast, "20"}, {kChannelsLast, "64"},
                                         {kTapsDown, "3"}, {kJoinedTaps, "48"}, {kJoinedTaps, "64"}}) {
      std::string text = conv;
      const std::pair<std::string, std::string> words[] = {{"A[", std::string(name_of(unit.a)) + "["},
                                                           {"B[", std::string(name_of(unit.b)) + "["},
                                                           {"S[", std::string(name_of(unit.sum)) + "["},
                                                           {": S", ": " + std::string(name_of(unit.sum))},
                                                           {":S", ":" + std::string(name_of(unit.sum))},
                                                           {"<S>", "<" + std::string(name_of(unit.sum)) + ">"},
                                                           {", C]", std::string(", ") + channels + "]"},
                                                           {"< C]", std::string("< ") + channels + "]"}};
      for (const auto& [from, to] : words) {
        for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
          text.replace(at, from.size(), to);
        }
      }
      const Sample sample = sample_of_region(text);
      std::vector<bool> constant(sample.region.tensors.size());
      constant[static_cast<size_t>(sample.region.inputs[1])] = true;
      std::set<int64_t> tried;
      for (const Choice& choice : schedule_candidates(sample.region, constant, sample.sizes, host)) {
        const auto contract = choice.schedule.as<tile::ContractSchedule>();
        if (!contract || contract->unit != &unit) continue;
        if (conv == kJoinedTaps && contract->window) continue;  // refused: windows have no such axis
        check(sample, choice.schedule, host, choice.layouts, is_integer(unit.sum) ? 0 : 1e-3);
        tried.insert(contract->window);
      }
      const bool takes_part = is_integer(unit.sum) || unit.splits() ||
                              best_unit(host, unit.a, unit.b, unit.sum) == &unit;
      const size_t ways = conv == kJoinedTaps ? 1 : 2;
      EXPECT_EQ(tried.size(), takes_part ? ways : 0u) << unit.name;
    }
  }
  if (!has_any) GTEST_SKIP() << "this processor has none of the units of units.inc";
}

TEST(Schedules, of_attention) {
  const Sample sample = make_sample(R"(
    range queries 1 11 64
    range keys 1 13 64
    input %q: f32[2, 3, queries, 8]
    input %k: f32[2, 3, keys, 8]
    input %v: f32[2, 3, keys, 10]
    input %mask: f32[2, 1, queries, keys]
    %y: ? = Attention "attention" (%q, %k, %v, %mask)
    output %y
)");
  for (const Target& target : runnable_targets()) {
    for (const tile::AttentionSchedule schedule : {tile::AttentionSchedule{32, 64}, {4, 5}}) {
      check(sample, schedule, target);
    }
  }
}

/// One region a row: its lines, for loops in pieces of any length.
constexpr const char* kNests[] = {
    // a map whose last axis is cut
    R"(
    range n 1 3 9
    input %x: f32[n, 45]
    input %z: f32[45]
    %e: ? = Exp "exp" (%x)
    %y: ? = Add "add" (%e, %z)
    output %y
)",
    // rows
    R"(
    input %x: f32[4, 3, 37]
    %y: ? = Softmax "softmax" (%x) {axis = -1}
    output %y
)",
    // down columns
    R"(
    input %x: f32[5, 7, 23]
    %y: ? = Softmax "softmax" (%x) {axis = 1}
    output %y
)",
    // to one element
    R"(
    input %x: f32[5, 7]
    %y: ? = ReduceMean "mean" (%x)
    output %y
)",
    // a pair of results
    R"(
    input %x: f32[6, 19]
    %y: ? = ArgMax "best" (%x) {axis = 0}
    output %y
)",
    // a recurrence
    R"(
    input %x: f32[3, 8, 5]
    constant %axis: i64[] = {1}
    %y: ? = CumSum "sums" (%x, %axis) {reverse = 1, exclusive = 1}
    output %y
)",
    // sorting
    R"(
    input %x: f32[4, 17]
    constant %k: i64[1] = {5}
    %y: ?, %i: ? = TopK "best" (%x, %k) {axis = 1, largest = 0}
    output %y
    output %i
)",
};

TEST(Schedules, of_nests) {
  for (const char* lines : kNests) {
    const Sample sample = make_sample(lines);
    for (const Target& target : runnable_targets()) {
      for (const tile::NestSchedule schedule : {tile::NestSchedule{4096, 64}, {7, 5}, {16, 1}, {1, 16}}) {
        check(sample, schedule, target);
      }
    }
  }
}

}  // namespace
}  // namespace graft::codegen
