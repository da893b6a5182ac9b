// SPDX-License-Identifier: Apache-2.0
// What the handles of graft_host.h stand for, where several files know them.
#pragma once

#include "driver/host_graph.h"
#include "graft/graft_host.h"

struct graft_host_graph {
  graft::HostGraph graph;
  int depth = 0;  ///< of functions within functions
};
