// SPDX-License-Identifier: Apache-2.0
// Which sizes of a graph follow the batch: found by asking MXNet for the shapes at several batches.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework.h"
#include "mxnet/lib_api.h"
#include "shape_graph.h"
#include "tensor_type.h"
#include "variables.h"

namespace graft::extension {

/// What MXNet inferred for the shapes that the caller gave.
struct Inferred {
  int code = -1;               ///< of the element type
  std::optional<Sizes> sizes;  ///< nothing where they are known only while running
};
/// By output of the node. Throws Failure where MXNet inferred nothing.
std::vector<Inferred> inferred_outputs(const mxnet::ext::Node& node);

/// The first size of the data: of its first variable with axes; 0 where there is none.
int64_t given_batch(const mxnet::ext::Graph& graph, const std::map<const mxnet::ext::Node*, Role>& roles);

/// Asks MXNet for the shapes of entries.
class ShapesByBatch {
 public:
  /// `batch`: as given. The roles have to stay.
  ShapesByBatch(const mxnet::ext::Graph& graph, const std::map<const mxnet::ext::Node*, Role>& roles,
                const std::vector<Entry>& entries, int64_t batch);
  /// By entry, at another batch; nothing where MXNet infers none.
  std::optional<std::vector<Sizes>> at(int64_t batch);
  /// Why there were none at the last, if it is known.
  const std::string& reason() const { return reason_; }

 private:
  ShapeGraph graph_;
  const std::map<const mxnet::ext::Node*, Role>& roles_;
  size_t count_;
  int64_t batch_;
  std::string symbol_, reason_;
};

/// The axes of the entries as functions of the batch. Nothing where MXNet infers no shapes for other batches, or such
/// that no multiple of the batch explains.
std::optional<std::vector<std::vector<Axis>>> axes_by_batch(ShapesByBatch& inferred, int64_t batch);

}  // namespace graft::extension
