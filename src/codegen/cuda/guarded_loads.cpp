// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/guarded_loads.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace graft::cuda {
namespace {

/// Finds the loads in branches of selects whose conditions are the same for all points along an axis.
class GuardedLoads {
 public:
  GuardedLoads(int last, std::vector<PointAccess>& accesses) : last_(last), accesses_(accesses) {}

  void add(const Expr& value) { add(value, {}); }
  /// What several branches share is loaded in each of them, element by element.
  void finish() {
    std::erase_if(accesses_, [&](const PointAccess& access) {
      return !access.guards.empty() && shared_.contains(access.load.get());
    });
  }

 private:
  using Guards = std::vector<std::pair<Expr, bool>>;

  static bool same(const Guards& a, const Guards& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& other) {
      return one.first.get() == other.first.get() && one.second == other.second;
    });
  }

  void add(const Expr& e, const Guards& guards) {
    if (guards.empty()) {
      if (!outside_.insert(e.get()).second) return;  // outside of guards it has no loads that are not known
    } else if (const auto [known, fresh] = inside_.try_emplace(e.get(), guards); !fresh) {
      if (!same(known->second, guards)) share(e);
      return;
    }
    if (is_call(e, Intrinsic::kSelect)) {
      if (uses_variable(e->args[0], last_)) return;
      for (const bool holds : {true, false}) {
        Guards inner = guards;
        inner.emplace_back(e->args[0], holds);
        add(e->args[holds ? 1 : 2], inner);
      }
      return;
    }
    if (e->kind == ExprKind::kLoad) {
      const bool known = std::any_of(accesses_.begin(), accesses_.end(),
                                     [&](const PointAccess& access) { return access.load.get() == e.get(); });
      if (!guards.empty() && !known) accesses_.push_back({e->tensor, &e->args, e, false, guards});
      return;
    }
    for (const Expr& arg : e->args) add(arg, guards);
  }

  void share(const Expr& e) {
    if (shared_.contains(e.get())) return;
    for_each(e, [&](const Expr& node) { shared_.insert(node.get()); });
  }

  int last_;
  std::vector<PointAccess>& accesses_;
  std::unordered_set<const ExprNode*> outside_, shared_;
  std::unordered_map<const ExprNode*, Guards> inside_;
};

}  // namespace

void add_guarded_loads(const tile::Map& map, std::vector<PointAccess>& accesses) {
  GuardedLoads guarded(map.axes.back().variable->variable, accesses);
  for (const tile::Store& store : map.stores) guarded.add(store.value);
  guarded.finish();
}

}  // namespace graft::cuda
