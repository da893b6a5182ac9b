// SPDX-License-Identifier: Apache-2.0
#include "import/mxnet/rows.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace graft::mxnet {
namespace {

using frontend::Conversion;

/// Refuses attributes that the row does not list. Those between underscores are of variables and users.
void check_attributes(const Conversion& c, const frontend::Signature& signature) {
  for (const auto& [name, argument] : c.node().attributes) {
    const bool known = name.starts_with("__") ||
                       std::any_of(signature.parameters.begin(), signature.parameters.end(),
                                   [&name = name](const frontend::Parameter& each) { return each.name == name; });
    if (!known) c.refuse(fmt::format("its attribute '{}' is not known", name));
  }
}

constexpr int kDeepestGraphs = 5;  // each level may be converted anew for each round of the one around it

/// How deep the node's graphs are nested.
int depth_of(const frontend::ForeignNode& node) {
  int depth = 0;
  for (const auto& [name, body] : node.bodies) {
    depth = std::max(depth, 1);
    for (const frontend::ForeignNode& inner : body->nodes) depth = std::max(depth, 1 + depth_of(inner));
  }
  return depth;
}

void add(frontend::Converters& converters, const Row& row) {
  std::string_view names = row.names;
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(' '));
    names.remove_prefix(std::min(name.size() + 1, names.size()));
    const std::string text = fmt::format("{}({})", name, row.arguments);
    const auto build = [signature = frontend::Signature::parse(text), row](Conversion& c) {
      if (!row.has_graphs && !c.node().bodies.empty()) c.refuse("it has graphs of its own");
      if (depth_of(c.node()) > kDeepestGraphs) c.refuse("graphs that are nested more than 5 deep");
      check_attributes(c, signature);
      row.build(c);
    };
    converters.add({text, build});
  }
}

}  // namespace

const frontend::Converters& converters() {
  static const frontend::Converters all = [] {
    frontend::Converters made({});
    for (const auto& family : {activation_rows(), arithmetic_rows(), control_flow_rows(), convolution_rows(),
                               creation_rows(), detection_rows(), indexing_rows(), matmul_rows(), movement_rows(),
                               normalization_rows(), numpy_elementwise_rows(), numpy_movement_rows(),
                               numpy_reduction_rows(), ordering_rows(), pooling_rows(), proposal_rows(),
                               random_rows(), recurrent_rows(), reduction_rows(), region_rows(), reshaping_rows(),
                               rounding_rows(), sequence_rows(), softmax_rows(), transformer_rows()}) {
      for (const Row& row : family) add(made, row);
    }
    return made;
  }();
  return all;
}

}  // namespace graft::mxnet
