// SPDX-License-Identifier: Apache-2.0
#include "mixed_symbol.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "amp/mixed_precision.h"
#include "export/mxnet/mixed_precision.h"
#include "export/mxnet/symbol_view.h"
#include "import/mxnet/precision_lists.h"
#include "support/symbol_text.h"

namespace graft {
namespace {

amp::Request request_of(const golden::Case& c) {
  constexpr std::string_view kLine = "// request: ";
  if (!c.input.starts_with(kLine)) return {};
  return amp::parse_request(c.input.substr(kLine.size(), c.input.find('\n') - kLine.size()), c.name);
}

std::string shown(DType type) { return type == DType::kUndefined ? "?" : std::string(name_of(type)); }

/// `// addition: f32 + f16`
std::string additions(const amp::Graph& graph, const std::vector<DType>& types) {
  std::string text;
  for (const amp::Node& node : graph.nodes) {
    if (node.op != "elemwise_add" && node.op != "add_n" && node.op != "broadcast_add") continue;
    std::vector<std::string> operands;
    for (const int input : node.inputs) operands.push_back(shown(types[input]));
    text += fmt::format("// {} adds {}\n", node.name, fmt::join(operands, " and "));
  }
  return text;
}

}  // namespace

std::string mixed_symbol(const golden::File&, const golden::Case& c) {
  const amp::Request request = request_of(c);
  const mxnet::MixedSymbol mixed = mxnet::convert_symbol(test::symbol_from(c.input), request);
  const mxnet::MixedSymbol twice = mxnet::convert_symbol(mixed.symbol, request);
  EXPECT_EQ(twice.casts + twice.multicasts, 0) << "converting again inserts casts";

  const mxnet::SymbolView view = mxnet::view_symbol(mixed.symbol, request, nullptr);
  const amp::Rules rules(mxnet::default_lists(request.low), request.lists, view.graph);
  const amp::Decision decision = amp::decide(view.graph, rules, {.low = request.low});
  std::vector<std::string> types(mixed.symbol.nodes.size());
  for (const auto& [place, value] : view.value_of) {
    if (place.second == 0) types[place.first] = shown(decision.types[value]);
  }
  return test::text_of(mixed.symbol, types) + additions(view.graph, decision.types);
}

}  // namespace graft
