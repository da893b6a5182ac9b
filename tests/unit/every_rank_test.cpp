// SPDX-License-Identifier: Apache-2.0
// Every row of every front end with tensors of every rank: converted or refused, and nothing else. These parts are
// built with the assertions of the standard library, so that reading behind a vector ends the test.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "frontend/conversion.h"
#include "import/aten/rows.h"
#include "import/mxnet/rows.h"
#include "import/tensorflow/rows.h"

namespace graft::frontend {
namespace {

constexpr int kHighest = 6;

/// Nodes of an operator's rows whose operands have so many axes. What has no default, and whole numbers that have one,
/// are `number`.
class EveryRank {
 public:
  EveryRank(const Converters& converters, std::string op, bool texts)
      : converters_(converters), op_(std::move(op)), texts_(texts) {}

  void try_all() {
    for (const Converters::Entry& entry : converters_.rows_of(op_)) {
      for (int rank = 0; rank <= kHighest; ++rank) {
        for (const int second : {rank, 0}) {
          for (const int64_t number : {0, 1, -1}) try_one(entry.signature, rank, second, number);
        }
      }
    }
  }

 private:
  void try_one(const Signature& signature, int rank, int second, int64_t number) {
    ForeignGraph graph;
    ForeignNode node{.op = op_, .name = "node"};
    for (const Parameter& parameter : signature.parameters) {
      const bool plain = parameter.type.empty() && (texts_ ? number == 0 || graph.inputs.empty() : false);
      const bool tensor = plain || parameter.type == "..." || parameter.type.starts_with('T') || parameter.rank;
      const bool none = parameter.has_default && parameter.default_value.is_none();
      const bool whole = std::holds_alternative<int64_t>(parameter.default_value.is);
      const bool listed = parameter.type.ends_with(']');
      if (tensor && (!parameter.has_default || none)) {
        const Reference value{add_input(graph, parameter.rank.value_or(graph.inputs.empty() ? rank : second))};
        const Argument given = listed ? Argument(Arguments{value, value}) : Argument(value);
        if (parameter.type == "...") node.arguments = {given, given};
        if (parameter.type != "...") node.attributes[parameter.name] = given;
      } else if (!parameter.has_default || whole) {
        const Argument given = texts_ ? Argument(std::to_string(number)) : Argument(number);
        node.attributes[parameter.name] = listed ? Argument(Arguments{given}) : given;
      }
    }
    for (int i = 0; i < 2; ++i) {
      graph.values.push_back({.name = "out" + std::to_string(i)});
      node.outputs.push_back(static_cast<int>(graph.values.size()) - 1);
    }
    graph.outputs = {node.outputs[0]};
    graph.nodes.push_back(std::move(node));
    try {
      convert(graph, converters_);
    } catch (const Error& error) {
      ADD_FAILURE() << op_ << " of " << rank << " and " << second << " axes with " << number << ": " << error.what();
    }
  }

  static int add_input(ForeignGraph& graph, int rank) {
    Shape shape;
    for (int axis = 0; axis < rank; ++axis) shape.emplace_back(axis % 2 ? 4 : 2);
    const std::string name = "x" + std::to_string(graph.inputs.size());
    graph.values.push_back({.name = name, .type = DType::kFloat32, .shape = shape});
    graph.inputs.push_back(static_cast<int>(graph.values.size()) - 1);
    return graph.inputs.back();
  }

  const Converters& converters_;
  std::string op_;
  bool texts_;  ///< attributes are texts
};

void try_rows(const Converters& converters, bool texts = false) {
  for (const std::string& op : converters.names()) EveryRank(converters, op, texts).try_all();
}

TEST(EveryRank, of_rows_of_aten_is_converted_or_refused) { try_rows(aten::converters()); }
TEST(EveryRank, of_rows_of_mxnet_is_converted_or_refused) { try_rows(mxnet::converters(), /*texts=*/true); }
TEST(EveryRank, of_rows_of_tensorflow_is_converted_or_refused) { try_rows(tensorflow::converters()); }

}  // namespace
}  // namespace graft::frontend
