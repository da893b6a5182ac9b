// SPDX-License-Identifier: Apache-2.0
// The table of the host's operators.
#include <map>
#include <utility>

#include "base/error.h"
#include "graph/host_operator.h"

namespace graft {

#define GRAFT_HOST_OPS(family) std::vector<HostOp> family##_host_ops();
#include "ops/host_ops.inc"
#undef GRAFT_HOST_OPS

const std::vector<HostOp>& host_ops() {
  static const std::vector<HostOp> ops = [] {
    std::vector<HostOp> all;
#define GRAFT_HOST_OPS(family) \
  for (HostOp & op : family##_host_ops()) all.push_back(std::move(op));
#include "ops/host_ops.inc"
#undef GRAFT_HOST_OPS
    return all;
  }();
  return ops;
}

const HostOp* find_host_op(std::string_view domain, std::string_view name) {
  using Key = std::pair<std::string_view, std::string_view>;
  static const std::map<Key, const HostOp*> index = [] {
    std::map<Key, const HostOp*> by_name;
    for (const HostOp& op : host_ops()) {
      const bool inserted = by_name.emplace(Key{op.domain, op.name}, &op).second;
      GRAFT_CHECK(inserted, "an operator of the host is listed twice: " + std::string(op.name));
    }
    return by_name;
  }();
  const auto it = index.find({domain, name});
  return it == index.end() ? nullptr : it->second;
}

}  // namespace graft
