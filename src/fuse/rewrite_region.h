// SPDX-License-Identifier: Apache-2.0
// Rewrites of regions that keep their meaning; lowering expects regions that went through normalise().
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "expr/region.h"

namespace graft {

/// The axes that a form iterates in parallel: one per axis of what it defines (the domain, for Scatter and Compact).
std::vector<Axis>& axes_of(Form& form);
const std::vector<Axis>& axes_of(const Form& form);
/// The variables a form sums or scans over.
std::vector<Axis> inner_axes_of(const Form& form);

/// The expression with loads of what `compute` makes replaced by what they are.
Expr inlined(const Expr& e, const Compute& compute);
/// x computed once and loaded elsewhere -> its expression in place of the loads, where that repeats no costly work.
void inline_computes(Region& region);
/// Forms whose tensors nothing reads -> gone; tensors nothing names -> gone.
void remove_dead_forms(Region& region);
/// Axes of extent 1 -> gone, from forms and from the shapes of tensors.
void drop_unit_axes(Region& region);
/// y[i] = f(t[i / k], x[i]) over n * k -> y[a, b] = f(t[a], x[a * k + b]): the region is independent along a.
void split_divided_axes(Region& region);
/// Gives axes of different forms that always run together the same variable: t[i, j] defined over (a, b) -> over (i,
/// j).
void unify_axes(Region& region);
/// reduce over (c, h, w) of x[h, w, c] -> over (h, w, c): folds whose order does not count run through memory in order.
void order_reduced_axes(Region& region);
/// Two neighbouring axes that every tensor holds side by side -> one axis. Tensors get the merged shapes, so only
/// the row-major element order of inputs and outputs is kept.
void collapse_axes(Region& region);

/// One row of the list of rewrites that bring a region into normal form.
struct RegionRewrite {
  std::string_view name;
  void (*function)(Region&);
  std::string_view purpose;
};
/// The list, in order.
const std::vector<RegionRewrite>& region_rewrites();
/// The row of that name, or null.
const RegionRewrite* find_region_rewrite(std::string_view name);

/// What one run of a rewrite did.
struct RewriteStatistics {
  std::string_view rewrite{};
  double milliseconds = 0;
  bool disabled = false;
  bool changed = false;
  size_t forms_before = 0, forms_after = 0;
};

/// What steers the rewrites of a region.
struct RewriteContext {
  /// Names to leave out beside those of the environment.
  std::span<const std::string> disabled = {};
  /// Whether GRAFT_DUMP=region shows what each rewrite made.
  bool dumps = false;
  /// Receives one entry per rewrite, in order, when given.
  std::vector<RewriteStatistics>* statistics = nullptr;
  const Environment* environment = &graft::environment();
};

/// Runs one rewrite: disabled? time, run, verify (in debug builds and under GRAFT_VALIDATE), dump, count. Throws an
/// internal error naming the rewrite when its result does not verify.
void run_rewrite(Region& region, const RegionRewrite& rewrite, const RewriteContext& context);
/// Runs the whole list.
void normalise(Region& region, const RewriteContext& context = {});

/// True when `e` is a load, perhaps cast, or a constant: moving it costs nothing.
bool is_view(const Expr& e);
/// Rough cost of evaluating `e` once, in simple operations (a load or add is 1, a transcendental 20).
int cost_of(const Expr& e);

/// The variables over which every form of the region iterates in parallel and reads the region's own tensors only at
/// the point it is at: the region is independent along them.
std::vector<Axis> common_axes(const Region& region);

}  // namespace graft
