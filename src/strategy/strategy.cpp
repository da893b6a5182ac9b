// SPDX-License-Identifier: Apache-2.0
#include "strategy/strategy.h"

#include <algorithm>

#include <fmt/format.h>

#include "tile/guard_empty.h"
#include "tile/whole_bytes.h"
#include "tile/workspace.h"

namespace graft::tile {

namespace {

constexpr int64_t kMostScratch = int64_t{256} << 20;
constexpr int64_t kReserved = 40 << 10;  // of a block's memory, for what the code generator keeps there

std::vector<const Strategy*>& table() {
  static std::vector<const Strategy*> rows = {
#define GRAFT_STRATEGY(name) &name##_strategy,
#include "strategy/strategies.inc"
#undef GRAFT_STRATEGY
  };
  return rows;
}

/// What cannot be placed in the memory of a grid point, or nothing.
std::string why_scratch_does_not_fit(const Program& program, const Target& target) {
  for (const Buffer& buffer : program.buffers) {
    if (buffer.scope == Scope::kGlobal || program.threads == 0) continue;
    for (const Size& size : buffer.shape) {
      if (!size.is_constant()) return fmt::format("'{}' has no fixed size for a block's memory", buffer.name);
    }
  }
  const auto scratch = scratch_offsets(program).back().as_constant();
  if (scratch && *scratch > kMostScratch) return fmt::format("a grid point wants {} bytes of scratch", *scratch);
  if (scratch && program.threads > 0 && target.shared_bytes > 0 && *scratch > target.shared_bytes) {
    return fmt::format("a block wants {} bytes of shared memory and has {}", *scratch, target.shared_bytes);
  }
  return "";
}

}  // namespace

std::span<const Strategy* const> strategies() { return table(); }

const Strategy* find_strategy(std::string_view name) {
  const auto found =
      std::find_if(table().begin(), table().end(), [&](const Strategy* strategy) { return strategy->name == name; });
  return found == table().end() ? nullptr : *found;
}

AddedStrategy::AddedStrategy(const Strategy& strategy) { table().push_back(&strategy); }
AddedStrategy::~AddedStrategy() { table().pop_back(); }

Lowered lower(const Region& given, const Layouts& layouts, const Schedule& schedule, const Target& target) {
  graft::verify(given);
  const bool kept = converts_float8(target);
  if (has_narrow_elements(given, kept)) {
    const std::variant<Region, std::string> bytes = in_whole_bytes(given, kept);
    if (const auto* reason = std::get_if<std::string>(&bytes)) return *reason;
    return lower(std::get<Region>(bytes), layouts, schedule, target);
  }
  const Region region = target.kind == TargetKind::kCuda ? guard_empty(given) : given;
  Lowered lowered = schedule.strategy->lower(region, layouts, schedule, target);
  auto* program = std::get_if<Program>(&lowered);
  if (!program) return lowered;
  if (schedule.strategy->is_general && target.kind == TargetKind::kCuda) {
    const bool counts = !region.forms.empty() && std::holds_alternative<Compact>(region.forms.back());
    move_to_workspace(*program, target.shared_bytes - kReserved, counts ? 1 : 0);
  }
  if (std::string reason = why_scratch_does_not_fit(*program, target); !reason.empty()) return reason;
  verify(*program);
  return lowered;
}

}  // namespace graft::tile
