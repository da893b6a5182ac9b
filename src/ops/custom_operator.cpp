// SPDX-License-Identifier: Apache-2.0
// Definitions by users as rows of the table of operators, and the operator of a node.
#include "ops/custom_operator.h"

#include <fmt/format.h>

#include "base/error.h"
#include "graph/bodies.h"
#include "graph/custom_operator.h"

namespace graft {
namespace {

constexpr size_t kLongestCarried = 1 << 16;

/// What a row refers to, and the row.
struct OwnedRow {
  CustomOperator op;
  std::vector<std::string> outputs;
  OpDef row;
};

std::string describe(const Node& node) { return fmt::format("node '{}' ({})", node.name, node.op); }

/// The header that a node carries; the lexer stands at the body then.
CustomOperator carried_header(const Node& node, Lexer& lexer) {
  CustomOperator op = parse_custom_header(lexer);
  if (op.domain != node.domain || op.name != node.op) {
    lexer.fail(fmt::format("it carries the definition of {}::{}", op.domain, op.name));
  }
  return op;
}

/// Runs what reads the definition that a node carries; what is wrong with that is wrong with the model.
template <class Read>
auto read_carried(const Node& node, const Read& read) {
  const std::string& text = *carried_definition(node);
  GRAFT_USER_CHECK(text.size() <= kLongestCarried, kInvalidModel, "its definition has more than 64 KiB",
                   describe(node));
  try {
    Lexer lexer(text, describe(node) + ", its definition");
    return read(lexer);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalidArgument) throw;
    throw Error(ErrorKind::kInvalidModel, error.message(), error.where().empty() ? describe(node) : error.where());
  }
}

void define_carried(Definition& d) {
  read_carried(d.node(), [&](Lexer& lexer) {
    const CustomOperator op = carried_header(d.node(), lexer);
    build_custom(op, lexer, d);
  });
}

}  // namespace

std::shared_ptr<const OpDef> op_def_of(CustomOperator op) {
  const auto owned = std::make_shared<OwnedRow>();
  owned->op = std::move(op);
  OpDef& row = owned->row;
  row.domain = owned->op.domain, row.name = owned->op.name, row.doc = owned->op.doc;
  for (const CustomOperand& input : owned->op.inputs) row.inputs.emplace_back(input.name);
  for (const CustomOperand& output : owned->op.outputs) {
    owned->outputs.push_back(output.name + (owned->outputs.empty() ? "" : "?"));
  }
  for (const std::string& output : owned->outputs) row.outputs.emplace_back(output);
  for (const CustomAttribute& attribute : owned->op.attributes) {
    row.attributes.push_back({attribute.name, attribute.default_value});
  }
  row.attributes.push_back({kDefinitionAttribute});
  row.define = define_carried;
  return {owned, &owned->row};
}

const std::string* carried_definition(const Node& node) {
  if (node.domain.empty()) return nullptr;
  const auto it = node.attributes.find(kDefinitionAttribute);
  return it == node.attributes.end() ? nullptr : std::get_if<std::string>(&it->second);
}

std::shared_ptr<const OpDef> operator_of(const Node& node) {
  if (!carried_definition(node)) return {std::shared_ptr<const OpDef>(), find_op(node.domain, node.op)};
  return op_def_of(read_carried(node, [&](Lexer& lexer) { return carried_header(node, lexer); }));
}

void carry_definitions(Graph& graph, const std::map<std::string_view, std::string_view>& definitions) {
  for (Node& node : graph.nodes) {
    const auto known = node.domain == "graft" ? definitions.find(node.op) : definitions.end();
    if (known != definitions.end()) node.attributes[std::string(kDefinitionAttribute)] = std::string(known->second);
    for (const NodeBody& body : bodies_of(node)) {
      auto copy = std::make_shared<Graph>(*body.graph);
      carry_definitions(*copy, definitions);
      node.attributes[body.attribute] = std::shared_ptr<const Graph>(std::move(copy));
    }
  }
}

}  // namespace graft
