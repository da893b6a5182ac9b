// SPDX-License-Identifier: Apache-2.0
// Graphs of TensorFlow as short texts, for tests:
//
//   image  Placeholder          : dtype=float shape=?,8,8,3
//   y      Conv2D      image w  : T=float strides=1,1,1,1 padding=SAME
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "import/tensorflow/graph.pb.h"

namespace graft::test {

/// The value of a new attribute.
graft_tensorflow::AttrValue& attribute(graft_tensorflow::NodeDef& node, const std::string& key);

/// A line for each node: `name Operator input input ^before : attribute=value ...`.
graft_tensorflow::GraphDef graph_of(const std::string& text);

/// Adds a Const of f32 whose elements lie in the file as bytes.
void add_weights(graft_tensorflow::GraphDef& graph, const std::string& name, const std::vector<int64_t>& shape);

}  // namespace graft::test
