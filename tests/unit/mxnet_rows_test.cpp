// SPDX-License-Identifier: Apache-2.0
// MXNet's operators become graph operators by their attributes' texts; what a row does not know is refused.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "import/mxnet/attributes.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Argument;
using frontend::Arguments;
using frontend::Converted;
using frontend::Reference;
using Texts = std::map<std::string, std::string>;

/// A symbol, node by node.
struct Symbol {
  frontend::ForeignGraph graph;

  int variable(const Shape& shape, DType type = DType::kFloat32) {
    graph.inputs.push_back(value({.name = "data", .type = type, .shape = shape}));
    return graph.inputs.back();
  }
  int weights(std::vector<int64_t> shape, double element = 0.5) {
    TensorData data = TensorData::zeros(DType::kFloat32, shape);
    for (int64_t i = 0; i < data.element_count(); ++i) data.write_double(i, element);
    return value({.name = "weight", .constant = std::move(data)});
  }
  int value(frontend::ForeignValue value) {
    graph.values.push_back(std::move(value));
    return static_cast<int>(graph.values.size()) - 1;
  }
  int add(const std::string& op, const std::vector<int>& inputs, const Texts& attributes = {}, int outputs = 1) {
    frontend::ForeignNode node{.op = op, .name = op + std::to_string(graph.nodes.size())};
    for (const int input : inputs) node.arguments.push_back(Reference{input});
    for (const auto& [name, text] : attributes) node.attributes[name] = Argument(text);
    for (int i = 0; i < outputs; ++i) node.outputs.push_back(value({.name = op}));
    graph.nodes.push_back(node);
    return node.outputs[0];
  }
  Converted convert() const { return frontend::convert(graph, converters()); }
  /// What the last node was refused for; empty when it was not.
  std::string reason() const { return convert().reasons.back(); }
  /// Of a value that was converted: `batch 3 8`.
  std::string shape_of(int value) const {
    const Converted converted = convert();
    for (const std::string& reason : converted.reasons) EXPECT_EQ(reason, "");
    std::string text;
    if (converted.values[value] == kNoValue) return "none";
    for (const Size& size : *converted.graph.value(converted.values[value]).shape) {
      text += (text.empty() ? "" : " ") + size.to_string();
    }
    return text;
  }
};

const Size kBatch = Size::symbol("batch");

TEST(MxnetAttributes, are_read_as_mxnet_writes_them) {
  EXPECT_TRUE(parse_attribute("None").is_none());
  EXPECT_TRUE(std::get<bool>(parse_attribute("True").is));
  EXPECT_EQ(std::get<int64_t>(parse_attribute(" -3 ").is), -3);
  EXPECT_EQ(std::get<double>(parse_attribute("1e-05").is), 1e-5);
  EXPECT_EQ(std::get<std::string>(parse_attribute("relu").is), "relu");
  for (const char* text : {"(2, None)", "[2,None]", "(2, None,)"}) {
    const Argument tuple = parse_attribute(text);
    const auto& elements = std::get<Arguments>(tuple.is);
    ASSERT_EQ(elements.size(), 2U) << text;
    EXPECT_EQ(std::get<int64_t>(elements[0].is), 2);
    EXPECT_TRUE(elements[1].is_none());
  }
  EXPECT_TRUE(std::get<Arguments>(parse_attribute("()").is).empty());
  EXPECT_FALSE(parse_attribute(std::string(1 << 20, '(') + std::string(1 << 20, ')')).is_none());
}

TEST(MxnetRows, a_convolution_net_is_converted_for_any_batch) {
  Symbol net;
  const int data = net.variable({kBatch, 3, 32, 32});
  const int conv = net.add("Convolution", {data, net.weights({8, 3, 3, 3}), net.weights({8})},
                           {{"kernel", "(3, 3)"}, {"num_filter", "8"}, {"pad", "(1, 1)"}, {"stride", "(2, 2)"}});
  const int norm = net.add("BatchNorm", {conv, net.weights({8}), net.weights({8}), net.weights({8}), net.weights({8})},
                           {{"fix_gamma", "False"}}, 3);
  const int pool = net.add("Pooling", {net.add("Activation", {norm}, {{"act_type", "relu"}})},
                           {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}});
  const int dense = net.add("FullyConnected", {pool, net.weights({10, 512})}, {{"num_hidden", "10"}, {"no_bias", "1"}});
  net.graph.outputs = {net.add("SoftmaxOutput", {dense, net.variable({kBatch})})};
  EXPECT_EQ(net.shape_of(conv), "batch 8 16 16");
  EXPECT_EQ(net.shape_of(pool), "batch 8 8 8");
  EXPECT_EQ(net.shape_of(net.graph.outputs[0]), "batch 10");
  verify(net.convert().graph);
}

TEST(MxnetRows, gamma_counts_as_one_where_it_is_fixed) {
  for (const bool fixed : {true, false}) {
    Symbol net;
    const int data = net.variable({2, 4, 3, 3});
    const std::vector<int> inputs = {data, net.weights({4}, 7), net.weights({4}), net.weights({4}), net.weights({4})};
    net.graph.outputs = {net.add("BatchNorm", inputs, {{"fix_gamma", fixed ? "True" : "False"}}, 3)};
    const Converted converted = net.convert();
    ASSERT_EQ(converted.reasons[0], "");
    const ValueId gamma = converted.graph.nodes[0].inputs[1];
    EXPECT_EQ(converted.graph.value(gamma).constant->read_double(2), fixed ? 1 : 7);
  }
}

TEST(MxnetRows, codes_of_a_shape_copy_join_and_split_axes) {
  const std::map<std::string, std::string> cases = {
      {"(-1, 12)", "2*batch 12"},       {"(0, 0, -1)", "batch 4 6"},         {"(-2,)", "batch 4 2 3"},
      {"(-3, -2)", "4*batch 2 3"},      {"(0, -4, 2, -1, -2)", "batch 2 2 2 3"}, {"(0, -3, 0)", "batch 8 3"},
      {"(0, 24)", "batch 24"}};
  for (const auto& [codes, expected] : cases) {
    Symbol net;
    net.graph.outputs = {net.add("Reshape", {net.variable({kBatch, 4, 2, 3})}, {{"shape", codes}})};
    EXPECT_EQ(net.shape_of(net.graph.outputs[0]), expected) << codes;
  }
  Symbol behind;
  behind.graph.outputs = {
      behind.add("Reshape", {behind.variable({10, 5, 4})}, {{"shape", "(-1, 0)"}, {"reverse", "True"}})};
  EXPECT_EQ(behind.shape_of(behind.graph.outputs[0]), "50 4");
  for (const char* codes : {"(0, 0, 0, 0, 0)", "(-5,)", "(-4, 2)", "(0, -4, 3, -1, -2)", "two"}) {
    Symbol wrong;
    wrong.add("Reshape", {wrong.variable({kBatch, 4, 2, 3})}, {{"shape", codes}});
    EXPECT_NE(wrong.reason(), "") << codes;
  }
}

TEST(MxnetRows, a_target_shape_decides_padding) {
  Symbol net;
  const int data = net.variable({1, 3, 9, 8});
  net.graph.outputs = {net.add("Deconvolution", {data, net.weights({3, 2, 4, 4})},
                               {{"kernel", "(4, 4)"}, {"stride", "(2, 2)"}, {"target_shape", "(17, 16)"}})};
  EXPECT_EQ(net.shape_of(net.graph.outputs[0]), "1 2 17 16");
  const Attributes attributes = net.convert().graph.nodes[0].attributes;
  EXPECT_EQ(std::get<std::vector<int64_t>>(attributes.at("pads")), (std::vector<int64_t>{2, 1, 2, 1}));
  EXPECT_EQ(std::get<std::vector<int64_t>>(attributes.at("output_padding")), (std::vector<int64_t>{1, 0}));
}

TEST(MxnetRows, older_names_are_the_same_operators) {
  for (const char* op : {"elemwise_add", "_plus", "_Plus", "broadcast_add"}) {
    Symbol net;
    const int data = net.variable({2, 3});
    net.graph.outputs = {net.add(op, {data, data})};
    EXPECT_EQ(net.convert().graph.nodes.at(0).op, "Add") << op;
  }
}

TEST(MxnetRows, what_a_row_does_not_know_is_refused_by_name) {
  const auto refused = [](const std::string& op, const Shape& shape, const Texts& attributes) {
    Symbol net;
    net.add(op, {net.variable(shape)}, attributes);
    return net.reason();
  };
  EXPECT_EQ(refused("Flatten", {2, 3}, {{"order", "F"}}), "its attribute 'order' is not known");
  EXPECT_EQ(refused("Flatten", {2, 3}, {{"__lr_mult__", "2"}}), "");
  EXPECT_EQ(refused("Activation", {2, 3}, {{"act_type", "mish"}}), "the activation 'mish'");
  EXPECT_EQ(refused("Dropout", {2, 3}, {{"mode", "always"}}), "dropout that is meant to go on in inference");
  EXPECT_EQ(refused("Pooling", {2, 3, 4, 4}, {{"layout", "NHWC"}}), "the layout NHWC");
  const Texts behind = {{"kernel", "(1, 1)"}, {"stride", "(4, 4)"}, {"pooling_convention", "full"}};
  EXPECT_EQ(refused("Pooling", {2, 3, 4, 4}, behind), "a window that lies in the padding alone");
  const Texts standing = {{"kernel", "(1, 1)"}, {"stride", "(0, 1)"}, {"pooling_convention", "full"}};
  EXPECT_EQ(refused("Pooling", {2, 3, 4, 4}, standing), "a window of 1 with stride 0 and padding 0");
  EXPECT_EQ(refused("one_hot", {2}, {{"depth", "1099511627776"}}), "a depth of 1099511627776");
  EXPECT_EQ(refused("split", {5000}, {{"axis", "0"}, {"num_outputs", "5000"}}), "5000 parts");
  EXPECT_EQ(refused("repeat", {int64_t{1} << 40}, {{"axis", "0"}, {"repeats", "1099511627776"}}),
            "its sizes overflow 64 bits");
  EXPECT_EQ(refused("Pad", {2, 3}, {{"mode", "constant"}, {"pad_width", "(1, 2, 3)"}}),
            "a pad_width without an end for each begin");
  EXPECT_EQ(refused("SoftmaxOutput", {2, 3, 4}, {}), "a softmax over an instance that has several axes");
  EXPECT_EQ(refused("mean", {2, 3}, {{"axis", "five"}}), "its attribute 'axis' (five) is no tuple of integers");
  EXPECT_EQ(refused("Cast", {2, 3}, {{"dtype", "float12"}}), "its attribute 'dtype' (float12) is no element type");
  EXPECT_EQ(refused("CTCLoss", {2, 3}, {}), "there is no converter for CTCLoss");
  EXPECT_EQ(refused("topk", {2, 3}, {{"k", "4"}}), "4 of 3 elements");
  EXPECT_EQ(refused("topk", {2, 3}, {{"ret_typ", "mask"}}), "the result 'mask'");
  EXPECT_EQ(refused("SequenceMask", {2, 3}, {{"use_sequence_length", "True"}}), "it has no sequence_length");
  EXPECT_EQ(refused("SequenceLast", {2, 3}, {{"axis", "2"}}), "a time that is neither the first nor the second axis");
  EXPECT_EQ(refused("_zeros", {}, {{"shape", "(2, 0)"}}), "a shape that its uses have to tell");
  EXPECT_EQ(refused("_contrib_interleaved_matmul_selfatt_qk", {4, 2, 30}, {{"heads", "4"}}),
            "queries_keys_values that 4 heads do not divide");
  EXPECT_EQ(refused("smooth_l1", {2, 3}, {{"scalar", "0"}}), "a scalar of 0");
}

TEST(MxnetRows, an_operator_may_take_any_number_of_tensors) {
  Symbol net;
  const int data = net.variable({kBatch, 3});
  net.graph.outputs = {net.add("Concat", {data, data, data}, {{"num_args", "3"}, {"dim", "1"}})};
  EXPECT_EQ(net.shape_of(net.graph.outputs[0]), "batch 9");
  const int by_default = net.add("Concat", {data, data, data}, {{"num_args", "3"}});
  EXPECT_EQ(net.shape_of(by_default), "batch 9") << "no tensor stands for an attribute";
}

TEST(MxnetRows, recurrent_layers_take_their_weights_out_of_one_vector) {
  const auto layers = [](const std::string& mode, const Texts& more) {
    Symbol net;
    Texts attributes = {{"mode", mode}, {"state_size", "4"}, {"num_layers", "2"}};
    attributes.insert(more.begin(), more.end());
    std::vector<int> inputs = {net.variable({5, kBatch, 3}), net.weights({2000}), net.variable({4, kBatch, 4})};
    if (mode == "lstm") inputs.push_back(net.variable({4, kBatch, 4}));
    net.graph.outputs = {net.add("RNN", inputs, attributes)};
    return net.reason().empty() ? net.shape_of(net.graph.outputs[0]) : net.reason();
  };
  EXPECT_EQ(layers("lstm", {{"bidirectional", "True"}}), "5 batch 8");
  EXPECT_EQ(layers("gru", {{"bidirectional", "True"}}), "5 batch 8");
  EXPECT_EQ(layers("rnn_relu", {{"bidirectional", "True"}}), "5 batch 8");
  EXPECT_EQ(layers("lstm", {{"projection_size", "2"}}), "a projection");
  EXPECT_EQ(layers("elman", {}), "the mode 'elman'");
}

}  // namespace
}  // namespace graft::mxnet
