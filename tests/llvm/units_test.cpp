// SPDX-License-Identifier: Apache-2.0
// Units of this machine at the ends of their types and at sizes that leave parts of blocks, pairs of rows and steps.
#include <limits>

#include <fmt/format.h>

#include "llvm/amx_emulator.h"
#include "llvm/schedule_sample.h"
#include "strategy/choose_schedule.h"
#include "strategy/contract.h"

namespace graft::codegen {
namespace {

struct Sizes {
  int64_t rows, depth, columns;
};

/// One row, pairs and a row over; less than a step, whole steps and an odd number of them.
constexpr Sizes kSizes[] = {{1, 8, 16}, {2, 9, 33}, {3, 7, 5}, {5, 24, 32}, {7, 131, 34}};

/// A product of the types, with what `fill` gives for the operand and the place in it.
template <class Fill>
Sample product(const char* op, const ContractUnit& unit, const Sizes& sizes, const Fill& fill) {
  const std::string rows = sizes.rows == 1 ? "m" : std::to_string(sizes.rows);  // a known single row is no axis
  Sample sample = make_sample(fmt::format("{}    input %a: {}[{}, {}]\n    input %b: {}[{}, {}]\n"
                                          "    %y: ? = {} \"product\" (%a, %b)\n    output %y\n",
                                          sizes.rows == 1 ? "    range m 1 1 16\n" : "", name_of(unit.a), rows,
                                          sizes.depth, name_of(unit.b), sizes.depth, sizes.columns, op));
  for (size_t operand = 0; operand < sample.inputs.size(); ++operand) {
    for (int64_t n = 0; n < sample.inputs[operand].element_count(); ++n) fill(sample.inputs[operand], operand, n);
  }
  Bindings bound = sample.sizes;
  sample.expected = interpret(sample.region, sample.inputs, bound);
  return sample;
}

/// Runs the first schedules of the unit, which differ in tiles, and says how many.
int check_unit(const Sample& sample, const ContractUnit& unit, const Target& target, double tolerance) {
  std::vector<bool> constant(sample.region.tensors.size());
  constant[static_cast<size_t>(sample.region.inputs[1])] = true;
  constexpr int kMost = 2;
  int tried = 0;
  for (const Choice& choice : schedule_candidates(sample.region, constant, sample.sizes, target)) {
    const auto contract = choice.schedule.as<tile::ContractSchedule>();
    if (!contract || contract->unit != &unit) continue;
    check(sample, choice.schedule, target, choice.layouts, tolerance);
    if (++tried == kMost) break;
  }
  return tried;
}

TEST(Units, of_integers_are_exact_at_the_ends_of_their_types) {
  const Target host = target_with_amx().value_or(host_cpu(1));
  Random random(7);
  bool has_any = false;
  for (const ContractUnit& unit : contract_units()) {
    if (!has_unit(host, unit) || !is_integer(unit.sum)) continue;
    has_any = true;
    for (const Sizes& sizes : kSizes) {
      SCOPED_TRACE(fmt::format("{} of {} x {} x {}", unit.name, sizes.rows, sizes.depth, sizes.columns));
      const Sample sample = product("MatMulInteger", unit, sizes, [&](TensorData& data, size_t, int64_t n) {
        const bool is_signed = data.type() == DType::kInt8;
        const int64_t least = is_signed ? -128 : 0, most = is_signed ? 127 : 255;
        const int64_t ends[] = {least, most, least + 1, most - 1};
        data.write_integer(n, ends[random.integer(0, 3)]);
      });
      EXPECT_GT(check_unit(sample, unit, host, 0), 0);
    }
  }
  if (!has_any) GTEST_SKIP() << "this processor has no unit of integers";
}

/// A row with an infinity, one with a NaN, and the rows around them, which share blocks with them.
TEST(Units, of_bf16_keep_what_is_not_finite_in_its_row) {
  const Target host = target_with_amx().value_or(host_cpu(1));
  bool has_any = false;
  for (const ContractUnit& unit : contract_units()) {
    // A slower unit takes part only where it is of the same feature.
    const ContractUnit* best = best_unit(host, unit.a, unit.b, unit.sum);
    if (!has_unit(host, unit) || unit.a != DType::kBFloat16 || unit.feature != best->feature) continue;
    has_any = true;
    Random random(7);
    int tried = 0;
    for (const Sizes& sizes : kSizes) {
      SCOPED_TRACE(fmt::format("{} of {} x {} x {}", unit.name, sizes.rows, sizes.depth, sizes.columns));
      const Sample sample = product("MatMul", unit, sizes, [&](TensorData& data, size_t operand, int64_t n) {
        data.write_double(n, operand == 0 ? random.uniform(-2, 2) : random.uniform(1, 2));
        if (operand == 0 && n == sizes.depth + 1) data.write_double(n, std::numeric_limits<double>::infinity());
        if (operand == 0 && n == 2 * sizes.depth + 2) data.write_double(n, std::numeric_limits<double>::quiet_NaN());
      });
      tried += check_unit(sample, unit, host, 1e-2);
    }
    EXPECT_GT(tried, 0) << unit.name;
  }
  if (!has_any) GTEST_SKIP() << "this processor has no unit of bf16";
}

}  // namespace
}  // namespace graft::codegen
