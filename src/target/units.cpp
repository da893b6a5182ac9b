// SPDX-License-Identifier: Apache-2.0
#include "target/units.h"

#include "target/cpus.h"
#include "target/peak.h"

namespace graft {
namespace {

constexpr ContractUnit kUnits[] = {
#define GRAFT_UNIT(name, feature, a, b, sum, rows, columns, depth, pack, scope, rate)                          \
  {#name,  feature, DType::k##a, DType::k##b, DType::k##sum, rows, columns, depth, pack,                       \
   ContractUnit::Scope::k##scope, rate},
#include "target/units.inc"
#undef GRAFT_UNIT
};

}  // namespace

std::span<const ContractUnit> contract_units() { return kUnits; }

const ContractUnit* find_unit(std::string_view name) {
  for (const ContractUnit& unit : kUnits) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

bool has_unit(const Target& target, const ContractUnit& unit) {
  const bool of_gpu = unit.scope == ContractUnit::Scope::kWarp || unit.scope == ContractUnit::Scope::kWarpgroup;
  if (of_gpu != (target.kind == TargetKind::kCuda)) return false;
  if (unit.feature.starts_with("sm_")) return gpu_generation(target) >= gpu_generation(unit.feature);
  return has_feature(target, unit.feature);
}

const ContractUnit* best_unit(const Target& target, DType a, DType b, DType sum) {
  for (const ContractUnit& unit : kUnits) {
    const bool fits = unit.a == a && unit.b == b && unit.sum == sum && !unit.splits();
    if (fits && has_unit(target, unit)) return &unit;
  }
  return nullptr;
}

const ContractUnit* best_unit(const Target& target, DType a, DType b, DType sum, ContractUnit::Scope scope) {
  for (const ContractUnit& unit : kUnits) {
    const bool fits = unit.a == a && unit.b == b && unit.sum == sum && unit.scope == scope && !unit.splits();
    if (fits && has_unit(target, unit)) return &unit;
  }
  return nullptr;
}

const ContractUnit* splitting_unit(const Target& target, DType a, DType b, DType sum) {
  constexpr double kWorth = 1.5;  // times the multiply-adds' peak: splitting and adding up take their part
  const Peak peak = peak_of(target);
  for (const ContractUnit& unit : kUnits) {
    const bool fits = unit.a == a && unit.b == b && unit.sum == sum && unit.splits() && has_unit(target, unit);
    if (fits && target.kind == TargetKind::kCpu) return &unit;
    // From sm_90 on mma reaches half of the peak at most: on an H200 no more than multiply-adds of a library.
    const bool is_slow = unit.scope == ContractUnit::Scope::kWarp && gpu_generation(target) >= 90;
    if (fits && !is_slow && peak.half * unit.rate >= kWorth * peak.operations) return &unit;
  }
  return nullptr;
}

}  // namespace graft
