// SPDX-License-Identifier: Apache-2.0
#include "frontend/body_graph.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/symbols.h"

namespace graft::frontend {

void name_results(Graph& body) {
  std::vector<ValueId> named(body.inputs);
  for (ValueId& output : body.outputs) {
    const bool own = !body.value(output).constant && std::find(named.begin(), named.end(), output) == named.end();
    if (!own) {
      const Value source = body.value(output);
      const ValueId made = body.add_value(source.name, source.type, source.shape);
      body.add_node({.name = source.name, .domain = "", .op = "Identity", .attributes = {}, .inputs = {output},
                     .outputs = {made}});
      output = made;
    }
    named.push_back(output);
  }
}

ValueId add_input(Graph& body, const Value& like) {
  body.inputs.push_back(body.add_value(like.name, like.type, like.shape));
  return body.inputs.back();
}

bool widen_carried(const Conversion& c, size_t number, Given& known, const Value& taken, const Value& made) {
  if (made.type != known.type) {
    c.refuse(fmt::format("value {} changes its type in a round: {} becomes {}", number, name_of(known.type),
                         name_of(made.type)));
  }
  if (!made.shape || !known.shape) c.refuse(fmt::format("the rank of value {} is unknown in a round", number));
  if (made.shape->size() != known.shape->size()) {
    c.refuse(fmt::format("value {} changes its number of axes in a round", number));
  }
  bool changed = false;
  for (size_t axis = 0; axis < made.shape->size(); ++axis) {
    if ((*made.shape)[axis] == (*taken.shape)[axis]) continue;
    Size& size = (*known.shape)[axis];
    const Size open = Size::symbol(dimension_symbol(fmt::format("{}_carried_{}_{}", c.node().name, number, axis)));
    changed = changed || !(size == open);
    size = open;
  }
  return changed;
}

std::vector<Given> given_of(const Conversion& c, const std::vector<ValueId>& values) {
  std::vector<Given> made;
  for (const ValueId value : values) made.push_back(c.given(value));
  return made;
}

}  // namespace graft::frontend
