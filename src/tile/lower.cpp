// SPDX-License-Identifier: Apache-2.0
#include "tile/lower.h"

#include <fmt/format.h>

namespace graft::tile {
namespace {

constexpr int64_t kMostScratch = int64_t{256} << 20;

}  // namespace

Lowered lower(const Region& region, const Layouts& layouts, const Schedule& schedule, const Target& target) {
  Lowered lowered = std::visit(
      [&](const auto& record) -> Lowered {
        using Record = std::decay_t<decltype(record)>;
        if constexpr (std::is_same_v<Record, NestSchedule>) return lower_nest(region, record, target);
        if constexpr (std::is_same_v<Record, ContractSchedule>) return lower_contract(region, layouts, record, target);
        if constexpr (std::is_same_v<Record, AttentionSchedule>) return lower_attention(region, record, target);
      },
      schedule);
  const auto* program = std::get_if<Program>(&lowered);
  if (!program) return lowered;
  const auto scratch = scratch_offsets(*program).back().as_constant();
  if (scratch && *scratch > kMostScratch) return fmt::format("a grid point wants {} bytes of scratch", *scratch);
  verify(*program);
  return lowered;
}

}  // namespace graft::tile
