// SPDX-License-Identifier: Apache-2.0
// A symbol and its parameters become one graph, whatever version of MXNet wrote them; what is missing is named.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "graph/graph.h"
#include "import/mxnet/import.h"
#include "plan/temporary_directory.h"
#include "support/test_root.h"

namespace graft::mxnet {
namespace {

TensorData ones(std::vector<int64_t> shape) {
  TensorData data = TensorData::zeros(DType::kFloat32, shape);
  for (int64_t i = 0; i < data.element_count(); ++i) data.write_double(i, 1);
  return data;
}

/// data -> BatchNorm -> FullyConnected -> SoftmaxOutput, with the label that training takes.
Symbol network(const std::string& shape = "") {
  Symbol symbol;
  for (const char* name : {"data", "bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var"}) {
    symbol.nodes.push_back({.op = "", .name = name, .subgraphs = {}});
  }
  if (!shape.empty()) symbol.nodes[0].attributes["__shape__"] = shape;
  symbol.nodes.push_back({.op = "BatchNorm", .name = "bn", .inputs = {{0}, {1}, {2}, {3, 0, 1}, {4, 0, 1}},
                          .subgraphs = {}, .output_count = 3});
  symbol.nodes.push_back({.op = "", .name = "fc_weight", .attributes = {{"num_hidden", "4"}}, .subgraphs = {}});
  symbol.nodes.push_back({.op = "FullyConnected", .name = "fc", .attributes = {{"num_hidden", "4"}, {"no_bias", "1"}},
                          .inputs = {{5}, {6}}, .subgraphs = {}, .output_count = 1});
  symbol.nodes.push_back({.op = "", .name = "softmax_label", .subgraphs = {}});
  symbol.nodes.push_back({.op = "SoftmaxOutput", .name = "softmax", .inputs = {{7}, {8}}, .subgraphs = {},
                          .output_count = 1});
  symbol.heads = {{9}, {5}};
  symbol.attributes["mxnet_version"] = "[\"int\", 10901]";
  return symbol;
}

Parameters weights() {
  return {{"bn_gamma", ones({3})},       {"bn_beta", ones({3})},     {"bn_moving_mean", ones({3})},
          {"bn_moving_var", ones({3})}, {"fc_weight", ones({4, 3})}};
}

/// `data[2, 3] -> softmax_output[2, 4], bn_output[2, 3]`
std::string borders(const Graph& graph) {
  const auto listed = [&](const std::vector<ValueId>& values) {
    std::string text;
    for (const ValueId id : values) {
      text += (text.empty() ? "" : ", ") + graph.value(id).name + "[";
      const Shape& shape = *graph.value(id).shape;
      for (size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + shape[i].to_string();
      text += "]";
    }
    return text;
  };
  return listed(graph.inputs) + " -> " + listed(graph.outputs);
}

std::string fault_of(const std::function<void()>& action, ErrorKind kind) {
  try {
    action();
  } catch (const Error& fault) {
    EXPECT_EQ(fault.kind(), kind) << fault.what();
    return fault.what();
  }
  return "no error";
}

void expect_fault(const Symbol& symbol, const Parameters& arrays, const ImportOptions& options, ErrorKind kind,
                  const std::string& part) {
  const std::string fault = fault_of([&] { import_symbol(symbol, arrays, options); }, kind);
  EXPECT_NE(fault.find(part), fault.npos) << fault;
}

TEST(MxnetImport, names_what_goes_in_and_out_as_mxnet_does_and_asks_for_no_label) {
  const Graph graph = import_symbol(network(), weights(), {.params = "", .shapes = {{"data", {2, 3}}}});
  EXPECT_EQ(borders(graph), "data[2, 3] -> softmax_output[2, 4], bn_output[2, 3]");
  verify(graph);
}

TEST(MxnetImport, takes_shapes_from_the_symbol_or_from_a_range_and_calls_an_open_first_axis_batch) {
  EXPECT_EQ(borders(import_symbol(network("(0, 3)"), weights())), "data[batch, 3] -> softmax_output[batch, 4], "
                                                                  "bn_output[batch, 3]");
  const ImportOptions range{.params = "", .min_shapes = {{"data", {1, 3}}}, .max_shapes = {{"data", {8, 3}}}};
  EXPECT_EQ(borders(import_symbol(network(), weights(), range)), borders(import_symbol(network("[-1,3]"), weights())));
}

TEST(MxnetImport, adds_the_states_that_the_oldest_symbols_leave_out) {
  Symbol old = network("(2, 3)");
  old.attributes.clear();
  old.nodes[3].name = "unused", old.nodes[4].name = "unused_too";
  old.nodes[5].inputs.resize(3);
  old.nodes[5].attributes = {{"ctx_group", "a"}, {"gamma_lr_mult", "0.1"}, {"eps", "1e-3"}};
  EXPECT_EQ(borders(import_symbol(old, weights())), "data[2, 3] -> softmax_output[2, 4], bn_output[2, 3]");
  old.attributes["mxnet_version"] = "[\"int\", 10901]";
  expect_fault(old, weights(), {}, ErrorKind::kUnsupported, "moving_mean");
}

TEST(MxnetImport, an_output_may_be_an_input_and_come_twice) {
  Symbol symbol = network("(2, 3)");
  symbol.heads = {{0}, {9}, {9}};
  const Graph graph = import_symbol(symbol, weights());
  EXPECT_EQ(graph.outputs.size(), 3U);
  verify(graph);
}

TEST(MxnetImport, says_what_is_missing_and_how_to_give_it) {
  Parameters arrays = weights();
  arrays.erase("bn_moving_var");
  const ImportOptions shaped{.params = "", .shapes = {{"data", {2, 3}}}};
  expect_fault(network(), arrays, shaped, ErrorKind::kInvalidModel, "bn_moving_var: the parameters have no array");
  expect_fault(network(), weights(), {}, ErrorKind::kInvalidArgument, "does not say the shape of data:");
  const ImportOptions misspelt{.params = "", .shapes = {{"dat", {2, 3}}}};
  expect_fault(network(), weights(), misspelt, ErrorKind::kInvalidArgument, "did you mean 'data'?");
  expect_fault(network("relu"), weights(), {}, ErrorKind::kInvalidModel, "data: 'relu' is no shape");
  Symbol odd = network("(2, 3)");
  odd.nodes[7].op = "_contrib_fft";
  expect_fault(odd, weights(), {}, ErrorKind::kUnsupported, "_contrib_fft 'fc': there is no converter");
  Symbol statistics = network("(2, 3)");
  statistics.heads = {{5, 1}};
  expect_fault(statistics, weights(), {}, ErrorKind::kUnsupported, "bn: the converter of BatchNorm does not give");
  Symbol twice = network("(2, 3)");
  twice.nodes[8].name = "data";
  expect_fault(twice, weights(), {}, ErrorKind::kInvalidModel, "data: two variables have this name");
}

TEST(MxnetImport, a_result_that_is_not_there_is_an_error_however_far_away) {
  // Of a variable, of a node whose results the file counts, and of one whose results it does not.
  const std::vector<std::pair<int, int>> wrong = {{0, 1}, {7, 1}, {5, 3}, {5, 1 << 20}, {9, 1 << 23}};
  for (const auto& [node, output] : wrong) {
    Symbol symbol = network("(2, 3)");
    if (node == 9) symbol.nodes[9].output_count = 0;
    symbol.heads.push_back({node, output});
    try {
      import_symbol(symbol, weights(), {});
      ADD_FAILURE() << node << " " << output;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidModel);
      EXPECT_NE(std::string(error.what()).find(symbol.nodes[static_cast<size_t>(node)].name), std::string::npos);
    }
  }
}

TEST(MxnetImport, damaged_symbols_are_errors_or_other_graphs) {
  const std::string whole = symbol_text(network("(2, 3)"));
  const Parameters arrays = weights();
  Random random(1);
  int graphs = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = whole;
    for (int k = 0; k < 2; ++k) text[random.next() % text.size()] = "0129[]{},\"x"[random.next() % 11];
    try {
      verify(import_symbol(parse_symbol(text, "file"), arrays));
      ++graphs;
    } catch (const Error& fault) {
      EXPECT_NE(fault.kind(), ErrorKind::kInternal) << fault.what() << "\n" << text;
    }
  }
  EXPECT_GT(graphs, 0);
}

TEST(MxnetImport, finds_the_parameters_beside_the_symbol) {
  const TemporaryDirectory directory;
  write_file(directory / "net-symbol.json", symbol_text(network("(0, 3)")));
  expect_fault(read_symbol(directory / "net-symbol.json"), {}, {}, ErrorKind::kInvalidModel, "--params");
  ParamsFile file;
  for (const auto& [name, data] : weights()) {
    file.entries.push_back({.name = (name.starts_with("bn_moving") ? "aux:" : "arg:") + name, .data = data});
  }
  write_params(file, directory / "net-0000.params");
  EXPECT_EQ(borders(import_model(directory / "net-symbol.json")),
            "data[batch, 3] -> softmax_output[batch, 4], bn_output[batch, 3]");
  const std::string missing = directory / "none.params";
  const auto import = [&] { import_model(directory / "net-symbol.json", {.params = missing}); };
  EXPECT_NE(fault_of(import, ErrorKind::kInvalidArgument).find("none.params"), std::string::npos);
}

}  // namespace
}  // namespace graft::mxnet
