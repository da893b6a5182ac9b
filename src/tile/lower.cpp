// SPDX-License-Identifier: Apache-2.0
#include "tile/lower.h"

#include <fmt/format.h>

namespace graft::tile {
namespace {

constexpr int64_t kMostScratch = int64_t{256} << 20;

/// What cannot be placed in the memory of a grid point, or nothing.
std::string why_scratch_does_not_fit(const Program& program) {
  for (const Buffer& buffer : program.buffers) {
    if (buffer.scope == Scope::kGlobal || program.threads == 0) continue;
    for (const Size& size : buffer.shape) {
      if (!size.is_constant()) return fmt::format("'{}' has no fixed size for a block's memory", buffer.name);
    }
  }
  const auto scratch = scratch_offsets(program).back().as_constant();
  if (scratch && *scratch > kMostScratch) return fmt::format("a grid point wants {} bytes of scratch", *scratch);
  return "";
}

}  // namespace

Lowered lower(const Region& region, const Layouts& layouts, const Schedule& schedule, const Target& target) {
  Lowered lowered = std::visit(
      [&](const auto& record) -> Lowered {
        using Record = std::decay_t<decltype(record)>;
        if constexpr (std::is_same_v<Record, NestSchedule>) return lower_nest(region, record, target);
        if constexpr (std::is_same_v<Record, ContractSchedule>) return lower_contract(region, layouts, record, target);
        if constexpr (std::is_same_v<Record, BlockSchedule>) return lower_block(region, layouts, record, target);
        if constexpr (std::is_same_v<Record, AttentionSchedule>) return lower_attention(region, record, target);
      },
      schedule);
  const auto* program = std::get_if<Program>(&lowered);
  if (!program) return lowered;
  if (std::string reason = why_scratch_does_not_fit(*program); !reason.empty()) return reason;
  verify(*program);
  return lowered;
}

}  // namespace graft::tile
