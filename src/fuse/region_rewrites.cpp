// SPDX-License-Identifier: Apache-2.0
// The list of rewrites of regions, as data, and the one wrapper that runs them.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "fuse/rewrite_region.h"

namespace graft {
namespace {

#ifdef NDEBUG
constexpr bool kVerifiesAlways = false;
#else
constexpr bool kVerifiesAlways = true;
#endif

/// Checks the result of a rewrite; a fault here is the rewrite's.
void check_result(const Region& region, const RegionRewrite& rewrite) {
  try {
    verify(region);
  } catch (const Error& error) {
    throw Error(ErrorKind::kInternal,
                fmt::format("the rewrite {} left a region that is not valid: {}", rewrite.name, error.what()),
                fmt::format("GRAFT_DISABLE={} goes round it", rewrite.name));
  }
}

bool is_disabled(std::string_view name, const RewriteContext& context) {
  return context.environment->is_disabled(name) ||
         std::find(context.disabled.begin(), context.disabled.end(), name) != context.disabled.end();
}

void run_at(Region& region, const RegionRewrite& rewrite, const RewriteContext& context, size_t position) {
  const Environment& environment = *context.environment;
  const std::string name = context.dumps ? fmt::format("{}-{:02}-{}", region.name, position, rewrite.name) : "";
  const bool dumped = context.dumps && environment.wants_dump("region", name);
  const std::string before = context.statistics || dumped ? print(region) : "";
  RewriteStatistics statistics{.rewrite = rewrite.name, .forms_before = region.forms.size()};
  statistics.disabled = is_disabled(rewrite.name, context);
  const auto start = std::chrono::steady_clock::now();
  if (!statistics.disabled) {
    rewrite.function(region);
    if (kVerifiesAlways || environment.validate) check_result(region, rewrite);
  }
  statistics.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  statistics.forms_after = region.forms.size();
  if (before.empty()) return;
  const std::string after = print(region);
  statistics.changed = after != before;
  if (dumped) write_dump(environment, "region", name, statistics.changed ? after : "(unchanged)\n");
  if (context.statistics) context.statistics->push_back(statistics);
}

}  // namespace

const std::vector<RegionRewrite>& region_rewrites() {
  static const std::vector<RegionRewrite> rows = {
      {"inline_computes", inline_computes, "inlines cheap computations, and those with one reader"},
      {"remove_dead_forms", remove_dead_forms, "removes forms without readers"},
      {"drop_unit_axes", drop_unit_axes, "removes axes of size 1"},
      {"split_divided_axes", split_divided_axes, "splits an axis that is divided by a constant"},
      {"unify_axes", unify_axes, "equal axes share a variable"},
      {"order_reduced_axes", order_reduced_axes, "orders reduced axes by their strides"},
      {"collapse_axes", collapse_axes, "merges axes that are contiguous in all tensors"},
  };
  return rows;
}

const RegionRewrite* find_region_rewrite(std::string_view name) {
  for (const RegionRewrite& rewrite : region_rewrites()) {
    if (rewrite.name == name) return &rewrite;
  }
  return nullptr;
}

void run_rewrite(Region& region, const RegionRewrite& rewrite, const RewriteContext& context) {
  run_at(region, rewrite, context, 0);
}

void normalise(Region& region, const RewriteContext& context) {
  size_t position = 0;
  for (const RegionRewrite& rewrite : region_rewrites()) run_at(region, rewrite, context, position++);
}

}  // namespace graft
