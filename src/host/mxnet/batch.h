// SPDX-License-Identifier: Apache-2.0
// Which sizes of a graph follow the batch: found by asking MXNet for the shapes at several batches.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "framework.h"
#include "mxnet/lib_api.h"
#include "tensor_type.h"
#include "variables.h"

namespace graft::extension {

/// What MXNet inferred for the shapes that the caller gave.
struct Inferred {
  int code = -1;  ///< of the element type
  Sizes sizes;
};
/// By output of the node. Throws Failure where MXNet inferred nothing.
std::vector<Inferred> inferred_outputs(const mxnet::ext::Node& node);

/// The first size of the data: of its first variable with axes; 0 where there is none.
int64_t given_batch(const mxnet::ext::Graph& graph, const std::map<const mxnet::ext::Node*, Role>& roles);

/// A result of a node, or a variable.
using Entry = std::pair<mxnet::ext::Node*, int>;
/// The axes of the entries as functions of the batch. Nothing where MXNet infers no shapes for other batches, or such
/// that no multiple of the batch explains.
std::optional<std::vector<std::vector<Axis>>> axes_by_batch(mxnet::ext::Graph& graph,
                                                            const std::map<const mxnet::ext::Node*, Role>& roles,
                                                            const std::vector<Entry>& entries, int64_t batch);

}  // namespace graft::extension
