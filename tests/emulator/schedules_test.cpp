// SPDX-License-Identifier: Apache-2.0
// Products, convolutions and attention by many schedules, in sizes that no tile fits, on emulated GPUs of two kinds.
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "emulator/gpu_run.h"
#include "support/library_graphs.h"

namespace graft {
namespace {

/// A step of a graph and the schedules to do it by.
struct ScheduledCase {
  std::string name, target, type, graph, step;
  std::vector<std::string> schedules;
  Bindings sizes = {};
  std::string precision = "";
};

void PrintTo(const ScheduledCase& c, std::ostream* stream) { *stream << c.name; }

class Schedules : public testing::TestWithParam<ScheduledCase> {};

TEST_P(Schedules, give_what_the_interpreter_gives) {
  const ScheduledCase& c = GetParam();
  const GpuCase on_gpu(c.graph, c.sizes, c.precision);
  for (const std::string& schedule : c.schedules) {
    SCOPED_TRACE(schedule);
    const double apart = on_gpu.difference(on_gpu.run(c.target, c.step, schedule));
    EXPECT_LE(apart, tolerance_on_gpu(c.type));
  }
}

std::string product(int m, int n, int k, int threads, int stages, int panel, const std::string& more = "") {
  const std::string roles = more.empty() ? "producers=0 teams=1 group=1 split=1 early=0" : more;
  return fmt::format("product m={} n={} k={} threads={} stages={} panel={} {}", m, n, k, threads, stages, panel, roles);
}

/// What is added for blocks with a warpgroup that only copies.
std::string producing(int group, int split, int teams = 1, int early = 0) {
  return fmt::format("producers=128 teams={} group={} split={} early={}", teams, group, split, early);
}
constexpr const char* kEarly = "producers=0 teams=1 group=1 split=1 early=1";

/// [m, k] times [k, n] with a bias and a residual.
std::string product_with_tail(const std::string& m, int n, const std::string& k, const char* type, bool constant) {
  const std::string weights = constant ? fmt::format("  constant %w: {0}[{1}, {2}] = all 0.25\n", type, k, n)
                                       : fmt::format("  input %w: {0}[{1}, {2}]\n", type, k, n);
  return fmt::format(R"(graph "main" {{
  opset "" 28
  input %x: {0}[{1}, {3}]
{4}  input %bias: {0}[{2}]
  input %residual: {0}[{1}, {2}]
  %p: ? = MatMul "product" (%x, %w)
  %b: ? = Add "with_bias" (%p, %bias)
  %r: ? = Add "with_residual" (%b, %residual)
  %y: ? = Relu "clamp" (%r)
  output %y
}})",
                     type, m, n, k, weights);
}

const std::vector<std::string> kHalfSchedules = {product(128, 128, 64, 256, 3, 0), product(64, 64, 64, 128, 4, 0),
                                                 product(64, 32, 64, 128, 2, 0), product(128, 64, 32, 128, 3, 0)};
const std::vector<std::string> kHopperSchedules = {product(128, 128, 64, 256, 3, 0), product(64, 64, 64, 128, 4, 0),
                                                   product(64, 64, 64, 128, 2, 0),
                                                   product(128, 128, 64, 256, 4, 0, producing(1, 1)),
                                                   product(128, 128, 64, 256, 2, 0, producing(2, 1)),
                                                   product(64, 64, 64, 128, 3, 0, producing(1, 2)),
                                                   product(64, 64, 64, 128, 4, 0, producing(1, 1, 2)),
                                                   // The sum of a tile wants more memory than the operands.
                                                   product(64, 64, 16, 128, 2, 0, producing(1, 2))};
const std::vector<std::string> kSingleSchedules = {product(64, 64, 16, 128, 3, 0), product(32, 32, 16, 64, 4, 0),
                                                   product(16, 32, 16, 32, 2, 0), product(128, 64, 16, 128, 3, 0)};

ScheduledCase product_case(std::string name, const char* target, const char* type, const std::string& m, int n,
                           const std::string& k, const std::vector<std::string>& schedules, Bindings sizes = {}) {
  const std::string graph = product_with_tail(m, n, k, type, false);
  return {std::move(name), target, type, graph, "product", schedules, std::move(sizes)};
}

ScheduledCase in_tf32(ScheduledCase c) {
  c.precision = c.type = "tf32";
  return c;
}

std::vector<ScheduledCase> products() {
  return {
      product_case("f32_odd", "sm_80", "f32", "67", 45, "83", kSingleSchedules),
      product_case("f32_even", "sm_90a", "f32", "72", 64, "96", kSingleSchedules),
      product_case("f32_open", "sm_90a", "f32", "m", 40, "k", kSingleSchedules, {{"m", 33}, {"k", 50}}),
      in_tf32(product_case("tf32_odd", "sm_80", "f32", "67", 45, "83", kSingleSchedules)),
      in_tf32(product_case("tf32_even", "sm_90a", "f32", "72", 64, "96", kSingleSchedules)),
      product_case("f16_odd", "sm_80", "f16", "131", 77, "93", kHalfSchedules),
      product_case("f16_even", "sm_80", "f16", "136", 80, "160", kHalfSchedules),
      product_case("bf16_odd", "sm_80", "bf16", "67", 45, "83", kHalfSchedules),
      product_case("f16_odd_on_hopper", "sm_90a", "f16", "131", 77, "93", kHopperSchedules),
      product_case("f16_even_on_hopper", "sm_90a", "f16", "136", 200, "264", kHopperSchedules),
      product_case("bf16_even_on_hopper", "sm_90a", "bf16", "72", 136, "192", kHopperSchedules),
      product_case("f16_open_on_hopper", "sm_90a", "f16", "m", 136, "200", kHopperSchedules, {{"m", 150}}),
  };
}

constexpr const char* kByWarps = " unit=mma_tf32x3";
constexpr const char* kByGroups = " unit=wgmma_tf32x3";

/// Products of f32 of operands in parts of tf32: by warps, with tiles as they come, and by warpgroups, to which
/// producers hand split weights.
std::vector<ScheduledCase> split_products() {
  const auto with = [](const char* unit, std::vector<std::string> schedules) {
    for (std::string& schedule : schedules) schedule += unit;
    return schedules;
  };
  const auto rows = with(kByWarps, {product(64, 64, 32, 128, 3, 0), product(128, 64, 32, 128, 4, 0, kEarly),
                                    product(32, 32, 16, 64, 2, 0)});
  const auto groups = with(kByGroups, {product(64, 64, 32, 128, 4, 1, producing(1, 1)),
                                       product(128, 96, 32, 256, 3, 1, producing(4, 1)),
                                       product(128, 64, 16, 256, 4, 1, producing(1, 1)),
                                       // Without producers warps do it.
                                       product(128, 64, 32, 128, 3, 1, kEarly)});
  const auto in_panels = with(kByWarps, {product(64, 64, 32, 128, 3, 32, kEarly), product(32, 64, 32, 64, 3, 32)});
  const auto packed = [](std::string name, const char* target, const char* m, int n, const char* k,
                         std::vector<std::string> schedules, Bindings sizes = {}) {
    return ScheduledCase{std::move(name), target,    "f32", product_with_tail(m, n, k, "f32", true), "product",
                         std::move(schedules), std::move(sizes)};
  };
  return {product_case("split_odd", "sm_80", "f32", "67", 45, "83", rows),
          product_case("split_even", "sm_80", "f32", "72", 64, "96", rows),
          product_case("split_open", "sm_90a", "f32", "m", 40, "k", rows, {{"m", 33}, {"k", 50}}),
          product_case("split_of_few", "sm_80", "f32", "20", 24, "5", rows),
          product_case("split_as_it_comes_on_hopper", "sm_90a", "f32", "67", 45, "83", groups),
          packed("split_in_panels", "sm_80", "70", 100, "130", in_panels),
          packed("split_on_hopper", "sm_90a", "136", 200, "160", groups),
          packed("split_odd_on_hopper", "sm_90a", "70", 100, "132", groups),
          packed("split_open_on_hopper", "sm_90a", "m", 64, "96", groups, {{"m", 150}})};
}

/// Weights that are known are packed into panels.
std::vector<ScheduledCase> packed_products() {
  const auto packed = [](std::string name, const char* target, const char* type, std::vector<std::string> schedules) {
    return ScheduledCase{std::move(name),     target, type, product_with_tail("70", 100, "130", type, true), "product",
                         std::move(schedules)};
  };
  const std::string late = producing(1, 1), early = producing(1, 1, 1, 1);
  return {packed("f32_in_panels", "sm_80", "f32",
                 {product(64, 64, 16, 128, 3, 32), product(32, 32, 16, 64, 4, 32, kEarly)}),
          packed("f16_in_panels", "sm_80", "f16",
                 {product(64, 64, 64, 128, 3, 64, kEarly), product(64, 32, 64, 128, 3, 32)}),
          packed("f16_in_panels_on_hopper", "sm_90a", "f16",
                 {product(64, 64, 64, 128, 3, 64, kEarly), product(128, 128, 64, 256, 3, 64, late),
                  product(128, 128, 64, 256, 3, 64, early)})};
}

/// Many rows and one round of the sum: a team has done with a tile as soon as it looks for it.
std::vector<ScheduledCase> short_products() {
  const auto rows = [](std::string name, const char* type, const char* k, std::vector<std::string> schedules) {
    return ScheduledCase{std::move(name),     "sm_90a", type, product_with_tail("3000", 32, k, type, true), "product",
                         std::move(schedules)};
  };
  return {rows("f16_of_one_round", "f16", "16", {product(128, 32, 16, 128, 4, 32, producing(1, 1, 2)),
                                                 product(64, 32, 16, 128, 2, 32, producing(1, 1, 3, 1)),
                                                 product(128, 32, 16, 256, 3, 32, producing(1, 1, 2))}),
          rows("bf16_of_two_rounds", "bf16", "32", {product(64, 32, 16, 128, 4, 32, producing(1, 1, 2)),
                                                    product(64, 16, 16, 128, 2, 16, producing(1, 1, 1))})};
}

/// Weights as codes of so many bits in blocks, which are decoded on their way to matrix units. `rows` of at most 8 that
/// are known are streamed where k is a multiple of 128.
std::vector<ScheduledCase> decoded_products() {
  const auto decoded = [](std::string name, const char* target, const char* type, const std::string& rows, int n, int k,
                          int block, int bits, const char* zeros, std::vector<std::string> schedules,
                          Bindings sizes = {}) {
    const int blocks = (k + block - 1) / block;
    const std::string of_blocks = *zeros ? fmt::format("  input %zeros: {}[{}, {}]\n", zeros, n, blocks) : "";
    const std::string graph = fmt::format(R"(graph "main" {{
  opset "" 28
  opset "graft" 1
  input %x: {0}[{1}, {3}]
  input %codes: u8[{2}, {4}, {5}]
  input %scales: {0}[{2}, {4}]
{6}  input %bias: {0}[{2}]
  %p: ? = graft::PackedMatMul "product" (%x, %codes, %scales{7}) {{bits = {8}}}
  %y: ? = Add "with_bias" (%p, %bias)
  output %y
}})",
                                          type, rows, n, k, blocks, block * bits / 8, of_blocks,
                                          *zeros ? ", %zeros" : "", bits);
    return ScheduledCase{std::move(name), target, type, graph, "product", std::move(schedules), std::move(sizes)};
  };
  const std::vector<std::string> many = {product(16, 32, 128, 128, 3, 0), product(32, 32, 256, 512, 3, 0, kEarly),
                                         product(64, 64, 64, 128, 2, 0), product(16, 64, 512, 512, 2, 0)};
  const std::vector<std::string> few = {product(16, 16, 128, 128, 3, 0, kEarly), product(16, 32, 256, 256, 2, 0),
                                        product(16, 16, 64, 32, 2, 0), product(16, 64, 128, 64, 2, 0, kEarly)};
  return {decoded("four_bits", "sm_90a", "f16", "37", 70, 520, 32, 4, "", many),
          decoded("four_bits_with_zeros", "sm_80", "f16", "67", 40, 288, 32, 4, "u8", many),
          decoded("four_bits_with_floats_as_zeros", "sm_90a", "f16", "20", 40, 256, 64, 4, "f16", many),
          decoded("four_bits_of_bf16", "sm_90a", "bf16", "20", 40, 256, 128, 4, "u8", many),
          decoded("eight_bits", "sm_90a", "f16", "20", 40, 320, 64, 8, "u8", many),
          decoded("eight_bits_of_one_block", "sm_90a", "f16", "20", 40, 256, 256, 8, "u8", many),
          decoded("two_bits", "sm_80", "f16", "20", 40, 256, 16, 2, "", many),
          decoded("open_rows", "sm_90a", "f16", "m", 40, 256, 32, 4, "u8", many, {{"m", 21}}),
          decoded("few_four_bits", "sm_90a", "f16", "5", 70, 512, 32, 4, "", few),
          decoded("few_with_zeros", "sm_80", "f16", "8", 70, 512, 16, 4, "u8", few),
          decoded("few_that_end_early", "sm_90a", "f16", "3", 40, 328, 32, 4, "u8", few),
          decoded("few_of_bf16", "sm_90a", "bf16", "2", 40, 256, 128, 4, "bf16", few),
          decoded("few_eight_bits", "sm_90a", "f16", "7", 40, 384, 128, 8, "u8", few),
          decoded("few_of_one_block", "sm_90a", "f16", "3", 40, 512, 512, 8, "", few),
          decoded("few_two_bits", "sm_80", "f16", "3", 40, 256, 32, 2, "u8", few)};
}

/// A constant of 8-bit integers that no two neighbours share.
std::string codes(const std::string& name, const std::string& type, const std::vector<int>& shape) {
  int count = 1;
  for (const int extent : shape) count *= extent;
  std::string text = fmt::format("  constant %{}: {}[{}] = {{", name, type, fmt::join(shape, ", "));
  for (int i = 0; i < count; ++i) text += fmt::format("{}{}", i ? ", " : "", i * 37 % 251 - (type == "i8" ? 125 : 0));
  return text + "}\n";
}

/// Products of 8-bit integers, constant on the right or not, whose sums are scaled and rounded to 8 bits, with a
/// residual that is read as such.
std::vector<ScheduledCase> integer_products() {
  const auto integers = [](std::string name, const char* target, const char* a, const char* b, const std::string& rows,
                           int n, int k, bool constant, std::vector<std::string> schedules, Bindings sizes = {}) {
    const std::string weights = constant ? codes("w", b, {k, n}) : fmt::format("  input %w: {}[{}, {}]\n", b, k, n);
    const std::string graph = fmt::format(R"(graph "main" {{
  opset "" 28
  input %x: {0}[{1}, {2}]
{3}  input %residual: u8[{1}, {4}]
  input %bias: f32[{4}]
  constant %scale: f32[] = all 0.000244140625
  constant %step: f32[] = all 0.125
  constant %zero: u8[] = all 100
  %s: ? = MatMulInteger "product" (%x, %w)
  %f: ? = Cast "floats" (%s) {{to = 1}}
  %m: ? = Mul "scaled" (%f, %scale)
  %b: ? = Add "with_bias" (%m, %bias)
  %d: ? = DequantizeLinear "wide" (%residual, %step, %zero)
  %r: ? = Add "with_residual" (%b, %d)
  %y: ? = QuantizeLinear "narrow" (%r, %step, %zero)
  output %y
}})",
                                          a, rows, k, weights, n);
    return ScheduledCase{std::move(name), target, "integer", graph, "product", std::move(schedules), std::move(sizes)};
  };
  const std::vector<std::string> rows = {product(64, 64, 128, 128, 3, 0), product(128, 128, 64, 256, 4, 0)};
  const std::vector<std::string> packed = {product(64, 64, 128, 128, 3, 1, kEarly), product(128, 128, 64, 256, 2, 1),
                                           product(64, 32, 32, 128, 4, 1)};
  const std::vector<std::string> roles = {
      product(64, 64, 128, 128, 3, 1, kEarly), product(128, 128, 128, 256, 3, 1, producing(1, 1)),
      product(128, 64, 64, 128, 2, 1, producing(1, 1, 2, 1)), product(64, 64, 128, 128, 3, 1, producing(1, 2))};
  return {integers("bytes_odd", "sm_80", "u8", "i8", "67", 45, 83, false, rows),
          integers("bytes_odd_on_hopper", "sm_90a", "i8", "i8", "67", 45, 83, false, rows),
          integers("bytes_packed", "sm_80", "u8", "i8", "131", 77, 93, true, packed),
          integers("bytes_packed_unsigned", "sm_80", "i8", "u8", "40", 80, 160, true, packed),
          integers("bytes_packed_on_hopper", "sm_90a", "u8", "i8", "131", 96, 272, true, roles),
          integers("bytes_unsigned_on_hopper", "sm_90a", "u8", "u8", "136", 80, 160, true, roles),
          integers("bytes_signed_on_hopper", "sm_90a", "i8", "i8", "200", 136, 320, true, roles),
          integers("bytes_open_on_hopper", "sm_90a", "i8", "u8", "m", 64, 144, true, roles, {{"m", 150}})};
}

constexpr const char* kRounded = "  %y: ? = QuantizeLinear \"narrow\" (%r, %step) {output_dtype = 17}\n";

/// Products of floats of 8 bits, whose sums are scaled, with a residual that is read as such, and rounded or not.
std::vector<ScheduledCase> float8_products() {
  const auto floats = [](std::string name, const char* a, const char* b, const std::string& rows,
                         int n, int k, std::vector<std::string> schedules, bool narrow, Bindings sizes = {}) {
    const std::string graph = fmt::format(R"(graph "main" {{
  opset "" 28
  opset "graft" 1
  input %x: {0}[{2}, {4}]
  input %w: {1}[{4}, {3}]
  input %residual: {0}[{2}, {3}]
  input %bias: f32[{3}]
  constant %scale: f32[] = all 0.03125
  constant %step: f32[] = all 0.125
  %s: ? = graft::MatMulFloat8 "product" (%x, %w)
  %m: ? = Mul "scaled" (%s, %scale)
  %b: ? = Add "with_bias" (%m, %bias)
  %d: ? = DequantizeLinear "wide" (%residual, %step)
  %r: ? = Add "with_residual" (%b, %d)
{5}  output %y
}})",
                                          a, b, rows, n, k, narrow ? kRounded : "  %y: ? = Relu \"clamped\" (%r)\n");
    return ScheduledCase{std::move(name), "sm_90a", narrow ? "float8" : "f16", graph, "product", std::move(schedules),
                         std::move(sizes)};
  };
  const std::vector<std::string> warps = {product(32, 64, 128, 64, 3, 0), product(64, 64, 64, 64, 2, 0)};
  const std::vector<std::string> groups = {
      product(64, 64, 128, 128, 3, 1, kEarly), product(128, 128, 128, 256, 3, 1, producing(1, 1)),
      product(128, 64, 64, 128, 2, 1, producing(1, 1, 2, 1)), product(64, 64, 128, 128, 3, 1, producing(1, 2))};
  return {floats("float8_odd", "f8e4m3fn", "f8e4m3fn", "67", 45, 83, warps, false),
          floats("float8_odd_rounded", "f8e5m2", "f8e4m3fn", "67", 48, 83, warps, true),
          floats("float8_mixed", "f8e4m3fn", "f8e5m2", "40", 80, 160, warps, false),
          floats("float8_of_groups", "f8e4m3fn", "f8e4m3fn", "131", 96, 272, groups, false),
          floats("float8_of_groups_rounded", "f8e4m3fn", "f8e4m3fn", "131", 96, 272, groups, true),
          floats("float8_mixed_of_groups", "f8e4m3fn", "f8e5m2", "136", 80, 160, groups, true),
          floats("float8_open_of_groups", "f8e5m2", "f8e5m2", "m", 64, 144, groups, false, {{"m", 150}})};
}

/// Convolutions of 8-bit integers between quantizers, channels last.
std::vector<ScheduledCase> integer_convolutions() {
  const auto of = [](std::string name, const char* target, const char* sizes, int in, int out, int window,
                     const char* attributes, const char* zero, std::vector<std::string> schedules) {
    const std::string graph = fmt::format(R"(graph "main" {{
  opset "" 28
  input %image: f32[{0}]
{1}  input %bias: f32[1, {2}, 1, 1]
  constant %step: f32[] = all 0.03125
  constant %zero: u8[] = all {4}
  constant %scale: f32[] = all 0.000244140625
  %x: ? = QuantizeLinear "before" (%image, %step, %zero)
  %s: ? = ConvInteger "conv" (%x, %w) {{{3}}}
  %f: ? = Cast "floats" (%s) {{to = 1}}
  %m: ? = Mul "scaled" (%f, %scale)
  %b: ? = Add "with_bias" (%m, %bias)
  %q: ? = QuantizeLinear "narrow" (%b, %step, %zero)
  %y: ? = DequantizeLinear "behind" (%q, %step, %zero)
  output %y
}})",
                                          sizes, codes("w", "i8", {out, in, window, window}), out, attributes, zero);
    return ScheduledCase{std::move(name), target, "integer", graph, "conv", std::move(schedules)};
  };
  const char *padded = "pads = [1, 1, 1, 1]", *stem = "pads = [3, 3, 3, 3], strides = [2, 2]";
  const std::vector<std::string> some = {product(64, 32, 128, 128, 3, 1), product(64, 64, 32, 128, 2, 1, kEarly)};
  return {of("bytes_padded", "sm_80", "2, 16, 7, 9", 16, 24, 3, padded, "0", some),
          of("bytes_of_many_channels", "sm_90a", "1, 64, 6, 7", 64, 64, 3, padded, "0", some),
          of("bytes_strided", "sm_90a", "1, 48, 9, 7", 48, 40, 3, "pads = [1, 0, 1, 0], strides = [2, 1]", "0", some),
          of("bytes_of_three_channels", "sm_90a", "1, 3, 12, 10", 3, 32, 3, padded, "0", some),
          of("bytes_of_a_stem", "sm_80", "2, 3, 21, 19", 3, 64, 7, stem, "0", some),
          of("bytes_of_a_stem_on_hopper", "sm_90a", "1, 3, 22, 18", 3, 40, 7, stem, "0", some)};
}

/// Batches, transposed operands, and operands that broadcast.
std::vector<ScheduledCase> batched_products() {
  const auto batched = [](std::string name, const char* target, const char* type, std::vector<std::string> schedules) {
    const std::string graph = fmt::format(R"(graph "main" {{
  opset "" 28
  input %x: {0}[2, 3, 37, 50]
  input %w: {0}[2, 3, 70, 50]
  %t: ? = Transpose "turn" (%w) {{perm = [0, 1, 3, 2]}}
  %y: ? = MatMul "product" (%x, %t)
  output %y
}})",
                                          type);
    return ScheduledCase{std::move(name), target, type, graph, "product", std::move(schedules)};
  };
  return {batched("f32_batched", "sm_80", "f32", {product(32, 32, 16, 64, 3, 0), product(64, 64, 16, 128, 3, 0)}),
          batched("f16_batched", "sm_80", "f16", {product(64, 64, 64, 128, 3, 0), product(64, 32, 64, 128, 2, 0)}),
          batched("bf16_batched_on_hopper", "sm_90a", "bf16", {product(64, 64, 64, 128, 3, 0)})};
}

ScheduledCase convolution(std::string name, const char* target, const char* type, const char* sizes,
                          const char* weights, const char* attributes, int in, int out,
                          std::vector<std::string> schedules) {
  ConvolutionGraph graph{sizes, weights, attributes, in, out};
  graph.type = type;
  graph.inputs = fmt::format("  input %bias: {}[1, {}, 1, 1]\n", type, out);
  graph.after = "  %d: ? = Add \"bias\" (%c, %bias)\n  %z: ? = Relu \"clamp\" (%d)\n";
  return {std::move(name), target, type, graph.text(), "conv", std::move(schedules)};
}

std::vector<ScheduledCase> convolutions() {
  const char* padded = "pads = [1, 1, 1, 1]";
  const char* strided = "pads = [1, 0, 1, 0], strides = [2, 1]";
  const std::vector<std::string> single = {product(32, 32, 16, 64, 3, 0), product(64, 32, 16, 64, 4, 0)};
  const std::vector<std::string> half = {product(64, 32, 64, 128, 3, 0), product(64, 64, 64, 128, 2, 0)};
  const std::vector<std::string> split = {product(64, 64, 32, 128, 4, 1, producing(1, 1)) + kByGroups};
  return {convolution("f32_padded", "sm_80", "f32", "2, 8, 7, 9", "24, 8, 3, 3", padded, 8, 24, single),
          convolution("f32_strided", "sm_90a", "f32", "2, 12, 9, 7", "20, 12, 3, 3", strided, 12, 20, single),
          convolution("split_padded", "sm_80", "f32", "2, 32, 7, 9", "24, 32, 3, 3", padded, 32, 24,
                      {product(64, 32, 32, 128, 3, 0) + kByWarps}),
          convolution("split_padded_on_hopper", "sm_90a", "f32", "1, 32, 7, 9", "40, 32, 3, 3", padded, 32, 40, split),
          convolution("split_strided_on_hopper", "sm_90a", "f32", "1, 64, 9, 7", "40, 64, 3, 3", strided, 64, 40,
                      split),
          convolution("f16_padded", "sm_80", "f16", "2, 16, 7, 9", "24, 16, 3, 3", padded, 16, 24, half),
          convolution("f16_of_many_channels", "sm_90a", "f16", "1, 64, 6, 7", "64, 64, 3, 3", padded, 64, 64, half),
          convolution("f16_strided", "sm_90a", "f16", "1, 64, 9, 7", "40, 64, 3, 3", strided, 64, 40, half)};
}

/// Convolutions of single channels, which are no products: by the cost model's schedule.
std::vector<ScheduledCase> channelwise() {
  const auto of = [](std::string name, const char* target, const char* type, const char* sizes, const char* weights,
                     const char* attributes, int channels) {
    return convolution(std::move(name), target, type, sizes, weights, attributes, channels, channels, {""});
  };
  return {of("f32_channelwise", "sm_80", "f32", "2, 16, 9, 11", "16, 1, 3, 3", "group = 16, pads = [1, 1, 1, 1]", 16),
          of("f16_channelwise", "sm_90a", "f16", "2, 24, 9, 11", "24, 1, 3, 3", "group = 24, pads = [1, 1, 1, 1]", 24),
          of("f16_channelwise_rows", "sm_90a", "f16", "1, 16, 12, 10", "16, 1, 5, 1", "group = 16", 16),
          of("f32_channelwise_strided", "sm_90a", "f32", "1, 12, 11, 9", "12, 1, 3, 3",
             "group = 12, strides = [2, 2], pads = [1, 1, 1, 1]", 12)};
}

ScheduledCase attention(std::string name, const char* target, const char* type, int queries, int keys, int width,
                        std::vector<std::string> schedules, bool open = false) {
  const std::string rows = open ? "queries" : std::to_string(queries), columns = open ? "keys" : std::to_string(keys);
  const std::string graph = fmt::format(R"(graph "main" {{
  opset "" 28
  input %q: {0}[1, 2, {1}, {3}]
  input %k: {0}[1, 2, {2}, {3}]
  input %v: {0}[1, 2, {2}, {3}]
  input %mask: {0}[1, 1, {1}, {2}]
  %y: ? = Attention "attention" (%q, %k, %v, %mask) {{scale = 0.5}}
  output %y
}})",
                                        type, rows, columns, width);
  const Bindings sizes = {{"queries", queries}, {"keys", keys}};
  return {std::move(name), target, type, graph, "attention", std::move(schedules), sizes};
}

/// Keys behind a query do not count, and the last tile of keys is not whole.
ScheduledCase causal_attention(std::string name, const char* target, const char* type, int length, int width) {
  const std::string graph = fmt::format(R"(graph "main" {{
  opset "" 28
  input %q: {0}[1, 2, {1}, {2}]
  input %k: {0}[1, 2, {1}, {2}]
  input %v: {0}[1, 2, {1}, {2}]
  %y: ? = Attention "attention" (%q, %k, %v) {{is_causal = 1, scale = 0.5}}
  output %y
}})",
                                        type, length, width);
  return {std::move(name), target,      type,
          graph,           "attention", {"attention queries=64 keys=64", "attention queries=32 keys=32"}};
}

std::vector<ScheduledCase> attentions() {
  const std::vector<std::string> schedules = {"attention queries=64 keys=64", "attention queries=128 keys=64",
                                              "attention queries=32 keys=32", "attention queries=64 keys=128"};
  return {attention("f32", "sm_80", "f32", 37, 75, 24, {schedules[0], schedules[2]}),
          attention("f16", "sm_80", "f16", 70, 131, 40, schedules),
          attention("bf16", "sm_80", "bf16", 33, 65, 64, {schedules[0]}),
          attention("f16_on_hopper", "sm_90a", "f16", 70, 131, 64, schedules),
          attention("bf16_open_on_hopper", "sm_90a", "bf16", 45, 90, 64, {schedules[0], schedules[3]}, true),
          causal_attention("f32_causal", "sm_90a", "f32", 83, 24),
          causal_attention("f16_causal", "sm_80", "f16", 131, 40),
          causal_attention("f16_causal_on_hopper", "sm_90a", "f16", 131, 64),
          attention("f16_wide_on_hopper", "sm_90a", "f16", 66, 129, 128, {schedules[0], schedules[3]})};
}

/// One step of a recurrent layer: the columns of the gates, a distance apart, are gathered from the state's product.
std::string cell(const std::string& name, int gates, const char* type, const std::string& batch, int hidden,
                 bool constant, const char* attributes = "") {
  const std::string kind = constant ? "constant" : "input", all = constant ? " = all 0.125" : "";
  const bool lstm = name == "LSTMCell";
  return fmt::format(R"(graph "main" {{
  opset "" 28
  input %x: {type}[{batch}, {rows}]
  {kind} %r: {type}[{rows}, {hidden}]{all}
  input %b: {type}[{biases}]
  input %left: i32[{batch}]
  input %h: {type}[{batch}, {hidden}]
  {c}
  {results} = graft::{name} "cell" (%x, %r, %b, %left, %h{c_too}){attributes}
  output %y
  output %next
}})",
                     fmt::arg("type", type), fmt::arg("batch", batch), fmt::arg("rows", gates * hidden),
                     fmt::arg("kind", kind), fmt::arg("hidden", hidden), fmt::arg("all", all),
                     fmt::arg("biases", 2 * gates * hidden),
                     fmt::arg("c", lstm ? fmt::format("input %c: {}[{}, {}]", type, batch, hidden) : ""),
                     fmt::arg("results", lstm ? "%y: ?, %next: ?, %kept: ?" : "%y: ?, %next: ?"),
                     fmt::arg("name", name), fmt::arg("c_too", lstm ? ", %c" : ""),
                     fmt::arg("attributes", attributes));
}

std::vector<ScheduledCase> cells() {
  const std::vector<std::string> half = {product(64, 32, 64, 128, 4, 0), product(64, 64, 32, 128, 3, 0),
                                         product(64, 32, 64, 128, 10, 0)};
  const std::string linear = " {linear_before_reset = 1}";
  return {{"lstm_f16", "sm_80", "f16", cell("LSTMCell", 4, "f16", "21", 80, true), "cell", half},
          {"lstm_f16_on_hopper", "sm_90a", "f16", cell("LSTMCell", 4, "f16", "33", 80, true), "cell", half},
          {"lstm_bf16_open_on_hopper", "sm_90a", "bf16", cell("LSTMCell", 4, "bf16", "n", 64, false), "cell", half,
           {{"n", 50}}},
          {"gru_f16_on_hopper", "sm_90a", "f16", cell("GRUCell", 3, "f16", "9", 64, true, linear.c_str()), "cell",
           {product(64, 24, 64, 128, 4, 0), product(64, 48, 64, 128, 3, 0)}}};
}

const auto kCaseName = [](const testing::TestParamInfo<ScheduledCase>& row) { return row.param.name; };

INSTANTIATE_TEST_SUITE_P(packed_products, Schedules, testing::ValuesIn(packed_products()), kCaseName);
INSTANTIATE_TEST_SUITE_P(decoded_products, Schedules, testing::ValuesIn(decoded_products()), kCaseName);
INSTANTIATE_TEST_SUITE_P(integer_products, Schedules, testing::ValuesIn(integer_products()), kCaseName);
INSTANTIATE_TEST_SUITE_P(float8_products, Schedules, testing::ValuesIn(float8_products()), kCaseName);
INSTANTIATE_TEST_SUITE_P(integer_convolutions, Schedules, testing::ValuesIn(integer_convolutions()), kCaseName);
INSTANTIATE_TEST_SUITE_P(short_products, Schedules, testing::ValuesIn(short_products()), kCaseName);
INSTANTIATE_TEST_SUITE_P(batched_products, Schedules, testing::ValuesIn(batched_products()), kCaseName);
INSTANTIATE_TEST_SUITE_P(convolutions, Schedules, testing::ValuesIn(convolutions()), kCaseName);
INSTANTIATE_TEST_SUITE_P(channelwise, Schedules, testing::ValuesIn(channelwise()), kCaseName);
INSTANTIATE_TEST_SUITE_P(attention, Schedules, testing::ValuesIn(attentions()), kCaseName);
INSTANTIATE_TEST_SUITE_P(cells, Schedules, testing::ValuesIn(cells()), kCaseName);
INSTANTIATE_TEST_SUITE_P(split_products, Schedules, testing::ValuesIn(split_products()), kCaseName);
INSTANTIATE_TEST_SUITE_P(products, Schedules, testing::ValuesIn(products()), kCaseName);

}  // namespace
}  // namespace graft
