// SPDX-License-Identifier: Apache-2.0
// Attributes of a node as arguments.
#pragma once

#include <cstddef>

#include "frontend/foreign_graph.h"

namespace graft_tensorflow {
class AttrValue;
}

namespace graft::tensorflow {

/// Texts, numbers, types and lists of them; of a shape its sizes (-1: unknown), of a function its name. Nothing for
/// tensors, and for types that Graft does not have.
frontend::Argument read_attribute(const graft_tensorflow::AttrValue& value);
/// About what that takes.
size_t bytes_as_argument(const graft_tensorflow::AttrValue& value);

}  // namespace graft::tensorflow
