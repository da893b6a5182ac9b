// SPDX-License-Identifier: Apache-2.0
#include "fuse/recomputation.h"

#include <algorithm>
#include <set>

#include "fuse/rewrite_region.h"

namespace graft {
namespace {

/// Simple operations for each element that cost as much as another pass over it. Elements of a window are folded one by
/// one, so that there an operation is dear.
constexpr double kPass = 4;

/// The product of sizes, of which symbols count as some size: a ratio of two such products is what matters.
double points_of(const std::vector<Size>& sizes) {
  constexpr int64_t kSome = 32;
  double points = 1;
  for (const Size& size : sizes) {
    std::set<std::string, std::less<>> symbols;
    size.collect_symbols(symbols);
    Bindings bindings;
    for (const std::string& symbol : symbols) bindings[symbol] = kSome;
    points *= static_cast<double>(std::max<int64_t>(1, size.evaluate(bindings)));
  }
  return points;
}

bool reads(const Form& form, int tensor) {
  const std::vector<int> read = read_tensors(form);
  return std::find(read.begin(), read.end(), tensor) != read.end();
}

}  // namespace

double times_read(const Region& region, int tensor) {
  const double elements = points_of(region.tensors[tensor].shape);
  double times = 1;
  for (const Form& form : region.forms) {
    if (!reads(form, tensor)) continue;
    std::vector<Size> extents;
    for (const Axis& axis : axes_of(form)) extents.push_back(axis.extent);
    for (const Axis& axis : inner_axes_of(form)) extents.push_back(axis.extent);
    times = std::max(times, points_of(extents) / elements);
  }
  return times;
}

bool RepeatedWork::take(const Region& maps) {
  double more = 0;
  for (const Form& form : maps.forms) {
    // Something is loaded either way.
    for_each_expr(form, [&](const Expr& e) { more += std::max(0, cost_of(e) - 1); });
  }
  if ((times - 1) * (operations + more) > kPass) return false;
  operations += more;
  return true;
}

}  // namespace graft
