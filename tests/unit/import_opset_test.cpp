// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/graph.h"
#include "import/onnx/convert_opset.h"

namespace graft {
namespace {

/// A graph with one input x and one output y, to which the node of an older opset is added.
struct Case {
  Graph graph;
  ValueId x, y;
  explicit Case(Shape shape) {
    graph.opsets[""] = kOpset;
    x = graph.add_value("x", DType::kFloat32, std::move(shape));
    graph.inputs.push_back(x);
    y = graph.add_value("y", DType::kUndefined);
    graph.outputs.push_back(y);
  }
  /// The operators after conversion, in order.
  std::string convert(Node node, int64_t opset) {
    node.name = "n";
    NodeWriter writer(graph, "n");
    add_converted(writer, std::move(node), opset);
    graph.sort_nodes();
    verify(graph, /*trusted=*/false);
    std::string ops;
    for (const Node& added : graph.nodes) ops += (ops.empty() ? "" : " ") + added.op;
    return ops;
  }
  const TensorData& input(size_t node, size_t index) {
    return *graph.value(graph.nodes[node].inputs.at(index)).constant;
  }
};

TEST(ConvertOpset, moves_attributes_to_inputs) {
  Case reduce({2, 3});
  EXPECT_EQ(reduce.convert({.op = "ReduceMean",
                            .attributes = {{"axes", std::vector<int64_t>{-1}}},
                            .inputs = {reduce.x},
                            .outputs = {reduce.y}},
                           13),
            "ReduceMean");
  EXPECT_EQ(reduce.input(0, 1).read_integer(0), -1);
  Case clip({2, 3});
  clip.convert({.op = "Clip", .attributes = {{"min", 0.0}, {"max", 6.0}}, .inputs = {clip.x}, .outputs = {clip.y}}, 9);
  EXPECT_EQ(clip.input(0, 1).type(), DType::kFloat32);
  EXPECT_EQ(clip.input(0, 2).read_double(0), 6.0);
  Case slice({4});
  slice.convert({.op = "Slice",
                 .attributes = {{"starts", std::vector<int64_t>{1}}, {"ends", std::vector<int64_t>{3}}},
                 .inputs = {slice.x},
                 .outputs = {slice.y}},
                9);
  EXPECT_EQ(slice.input(0, 2).read_integer(0), 3);
}

TEST(ConvertOpset, leaves_the_newest_meaning_alone) {
  Case c({2, 3});
  EXPECT_EQ(c.convert({.op = "Softmax", .attributes = {{"axis", int64_t{0}}}, .inputs = {c.x}, .outputs = {c.y}}, 13),
            "Softmax");
  EXPECT_EQ(std::get<int64_t>(c.graph.nodes[0].attributes.at("axis")), 0);
}

TEST(ConvertOpset, old_softmax_flattens_all_axes_from_its_axis_on) {
  Case last({2, 3});
  EXPECT_EQ(last.convert({.op = "Softmax", .inputs = {last.x}, .outputs = {last.y}}, 11), "Softmax");
  EXPECT_EQ(std::get<int64_t>(last.graph.nodes[0].attributes.at("axis")), -1);
  Case middle({2, 3, 4});
  EXPECT_EQ(middle.convert({.op = "Softmax", .inputs = {middle.x}, .outputs = {middle.y}}, 11),
            "Flatten Softmax Shape Reshape");
}

TEST(ConvertOpset, upsample_becomes_resize_with_its_coordinates) {
  Case c({1, 1, 2, 2});
  EXPECT_EQ(c.convert({.op = "Upsample",
                       .attributes = {{"scales", std::vector<double>{1, 1, 2, 2}}},
                       .inputs = {c.x},
                       .outputs = {c.y}},
                      7),
            "Resize");
  EXPECT_EQ(c.graph.nodes[0].inputs[1], kNoValue);
  EXPECT_EQ(c.input(0, 2).read_double(3), 2.0);
  EXPECT_EQ(std::get<std::string>(c.graph.nodes[0].attributes.at("coordinate_transformation_mode")), "asymmetric");
}

TEST(ConvertOpset, old_broadcasting_aligns_at_an_axis) {
  Case c({2, 3, 4, 5});
  const ValueId b = c.graph.add_constant("b", TensorData::zeros(DType::kFloat32, {3, 4}));
  EXPECT_EQ(c.convert({.op = "Add",
                       .attributes = {{"broadcast", int64_t{1}}, {"axis", int64_t{1}}},
                       .inputs = {c.x, b},
                       .outputs = {c.y}},
                      6),
            "Unsqueeze Add");
  EXPECT_EQ(c.input(0, 1).read_integer(0), 2);
}

TEST(ConvertOpset, refuses_a_batched_scan_without_its_graph) {
  Case c({2, 3});
  try {
    c.convert({.op = "Scan", .inputs = {c.x}, .outputs = {c.y}}, 8);
    FAIL() << "a Scan without a graph was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidModel);
    EXPECT_NE(std::string(error.what()).find("'n'"), std::string::npos);
  }
}

}  // namespace
}  // namespace graft
