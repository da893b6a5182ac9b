// SPDX-License-Identifier: Apache-2.0
// Attributes of nodes: named values of a closed set of types.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/tensor_data.h"

namespace graft {

class Graph;

/// One attribute. Graphs (bodies of If, Loop, Scan) are shared and immutable once in a node.
using Attribute = std::variant<std::monostate, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>, TensorData, std::shared_ptr<const Graph>>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

/// Equality of value (tensors by bytes, graphs by text).
bool equal(const Attribute& a, const Attribute& b);

}  // namespace graft
