// SPDX-License-Identifier: Apache-2.0
// Frozen graphs of TensorFlow, written as text: what is read of them, what becomes engines, what is written.
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "driver/embed.h"
#include "export/tensorflow/replace_segments.h"
#include "import/tensorflow/element_types.h"
#include "import/tensorflow/graph.pb.h"
#include "import/tensorflow/import_tensor.h"
#include "import/tensorflow/read_graph.h"
#include "import/tensorflow/rows.h"
#include "support/graph_def_text.h"

namespace graft::tensorflow {
namespace {

using graft_tensorflow::AttrValue;
using graft_tensorflow::GraphDef;
using graft_tensorflow::NodeDef;
using test::add_weights;
using test::attribute;
using test::graph_of;

/// A file of the bytes, which it keeps.
GraphFile file_of(const std::string& bytes) {
  const auto kept = std::make_shared<const std::string>(bytes);
  return GraphFile(std::as_bytes(std::span(*kept)), kept);
}
GraphFile file_of(const GraphDef& graph) { return file_of(graph.SerializeAsString()); }

Embedded embedded(const GraphDef& graph, const std::vector<std::string>& outputs, EmbedChoices choices = {}) {
  const auto bytes = std::make_shared<const std::string>(graph.SerializeAsString());
  choices.compile.tuning = Tuning::kOff;
  choices.strict = true;
  return embed("tensorflow", std::as_bytes(std::span(*bytes)), bytes, outputs, choices);
}

/// `stem/conv -> Odd -> head/conv`, around an operator that nobody knows.
GraphDef split_network() {
  GraphDef graph = graph_of(R"(
    image      Placeholder                       : dtype=float shape=?,8,8,3
    stem/conv  Conv2D      image stem/w          : T=float strides=1,1,1,1 padding=SAME
    stem/relu  Relu        stem/conv             : T=float
    odd        Mystery     stem/relu
    head/conv  Conv2D      odd head/w            : T=float strides=1,2,2,1 padding=SAME
    head/relu  Relu        head/conv             : T=float)");
  add_weights(graph, "stem/w", {3, 3, 3, 4});
  add_weights(graph, "head/w", {3, 3, 4, 2});
  return graph;
}

std::map<std::string, NodeDef> nodes_of(const std::string& bytes) {
  GraphDef graph;
  EXPECT_TRUE(graph.ParseFromString(bytes));
  std::map<std::string, NodeDef> nodes;
  for (const NodeDef& node : graph.node()) nodes[node.name()] = node;
  return nodes;
}

const AttrValue* value_of(const NodeDef& node, const std::string& key) {
  for (const auto& entry : node.attr()) {
    if (entry.key() == key) return &entry.value();
  }
  return nullptr;
}

/// What is thrown, as a text; empty when nothing is.
template <class Body>
std::string failure(const Body& body) {
  try {
    body();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(TensorflowGraph, constants_stay_where_the_file_has_them_and_identities_of_them_are_constants) {
  GraphDef graph = graph_of(R"(
    x     Placeholder            : dtype=float shape=?,64
    read  Identity    w          : T=float
    y     MatMul      x read     : T=float)");
  add_weights(graph, "w", {64, 2});
  const GraphFile file = file_of(graph);
  const ReadGraph read = read_graph(file, {"y"}, {}, converters());
  ASSERT_EQ(read.foreign.nodes.size(), 1U);  // the product alone
  ConstantBudget budget(file.bytes().size());
  const TensorData tensor = import_constant(file, file.nodes()[static_cast<size_t>(file.find("w"))], budget);
  EXPECT_TRUE(tensor.is_deferred());
  EXPECT_EQ(tensor.shape(), (std::vector<int64_t>{64, 2}));
  EXPECT_EQ(tensor.read_double(3), 0.25);
  EXPECT_FALSE(file.nodes()[static_cast<size_t>(file.find("w"))].message->SerializeAsString().size() > 256);
}

TEST(TensorflowGraph, values_of_a_constant_are_repeated_and_checked) {
  GraphDef graph;
  add_weights(graph, "w", {2, 3});
  auto& tensor = *graph.mutable_node(0)->mutable_attr(1)->mutable_value()->mutable_tensor();
  tensor.clear_tensor_content();
  tensor.add_float_val(1), tensor.add_float_val(5);
  const auto read = [&] {
    const GraphFile file = file_of(graph);
    ConstantBudget budget(file.bytes().size());
    return import_constant(file, file.nodes()[0], budget);
  };
  EXPECT_EQ(read().read_double(0), 1);
  EXPECT_EQ(read().read_double(5), 5);
  tensor.mutable_tensor_shape()->mutable_dim(0)->set_size(int64_t{1} << 50);
  EXPECT_NE(failure(read).find("far larger"), std::string::npos);
  tensor.mutable_tensor_shape()->mutable_dim(0)->set_size(-1);
  EXPECT_NE(failure(read).find("size of its tensor is unknown"), std::string::npos);
  tensor.mutable_tensor_shape()->mutable_dim(0)->set_size(2);
  tensor.set_tensor_content("12345");
  EXPECT_NE(failure(read).find("needs 24 bytes and has 5"), std::string::npos);
}

TEST(TensorflowGraph, what_is_behind_an_unknown_operator_takes_its_rank_from_who_reads_it) {
  const GraphFile file = file_of(split_network());
  const ReadGraph read = read_graph(file, {"head/relu"}, {}, converters());
  const auto odd = std::find_if(read.foreign.values.begin(), read.foreign.values.end(),
                                [](const auto& value) { return value.name == "odd"; });
  ASSERT_NE(odd, read.foreign.values.end());
  EXPECT_EQ(odd->type, DType::kFloat32);
  ASSERT_TRUE(odd->shape);
  EXPECT_EQ(odd->shape->size(), 4U);
}

TEST(TensorflowGraph, an_unknown_operator_is_left_between_two_engines) {
  const GraphDef graph = split_network();
  const Embedded made = embedded(graph, {"head/relu"});
  EXPECT_EQ(made.engines, 2U);
  EXPECT_NE(made.report.find("stays: Mystery odd: there is no converter for Mystery"), std::string::npos);
  const auto nodes = nodes_of(made.bytes);
  ASSERT_EQ(nodes.size(), 5U);  // image, engine, odd, engine, head/relu
  const NodeDef& stem = nodes.at("stem/graft_engine_0");
  EXPECT_EQ(stem.op(), "GraftEngine");
  EXPECT_EQ(stem.input(0), "image");
  EXPECT_EQ(value_of(stem, "contents")->s(), "Conv2D, Relu");
  EXPECT_EQ(value_of(stem, "OutT")->list().type(0), 1);
  EXPECT_EQ(value_of(stem, "output_shapes")->list().shape(0).dim(0).size(), -1);
  EXPECT_EQ(value_of(stem, "output_shapes")->list().shape(0).dim(3).size(), 4);
  EXPECT_EQ(nodes.at("odd").input(0), "stem/graft_engine_0");
  EXPECT_EQ(nodes.at("head/relu").op(), "Identity");
  EXPECT_EQ(nodes.at("head/relu").input(0), "head/graft_engine_1");
  EXPECT_EQ(made.bytes, embedded(graph, {"head/relu"}).bytes);
}

TEST(TensorflowGraph, an_output_in_the_middle_and_one_that_is_not_the_first_stay_reachable) {
  GraphDef graph = graph_of(R"(
    axis   Const                  : dtype=int32
    x      Placeholder            : dtype=float shape=2,4
    relu   Relu        x          : T=float
    parts  Split       axis relu  : T=float num_split=2
    y      Neg         parts:1    : T=float)");
  auto& axis = *attribute(*graph.mutable_node(0), "value").mutable_tensor();
  axis.set_dtype(3), axis.add_int_val(1), axis.mutable_tensor_shape();
  const auto nodes = nodes_of(embedded(graph, {"relu", "parts:1", "y"}).bytes);
  EXPECT_EQ(nodes.at("relu").op(), "Identity");
  EXPECT_EQ(nodes.at("parts").op(), "Split");
  EXPECT_TRUE(nodes.contains("axis"));  // which the node that stays takes
  EXPECT_EQ(nodes.at("y").op(), "Identity");
}

TEST(TensorflowGraph, branches_of_conditionals_and_what_no_output_needs_stay) {
  const GraphDef graph = graph_of(R"(
    x       Placeholder                     : dtype=float shape=2,4
    flag    Placeholder                     : dtype=bool
    switch  Switch      x flag              : T=float
    a       Relu        switch              : T=float
    b       Neg         switch:1            : T=float
    merge   Merge       a b                 : T=float N=2
    y       Abs         merge               : T=float
    loss    Exp         y                   : T=float)");
  const GraphFile file = file_of(graph);
  const ReadGraph read = read_graph(file, {"y"}, {}, converters());
  std::map<std::string, std::string> kept;
  for (const auto& node : read.foreign.nodes) kept[node.name] = node.kept;
  EXPECT_EQ(kept["a"], "it runs in a branch of a conditional, or in a loop");
  EXPECT_EQ(kept["b"], "it runs in a branch of a conditional, or in a loop");
  EXPECT_EQ(kept["y"], "");
  EXPECT_EQ(kept["loss"], "no output needs it");
}

TEST(TensorflowGraph, a_constant_that_waits_for_an_operator_is_no_way_round_it) {
  GraphDef graph = graph_of(R"(
    x      Placeholder            : dtype=float shape=2
    first  Relu        x          : T=float
    keep   Digamma     wait       : T=float
    last   Add         first keep : T=float)");
  add_weights(graph, "wait", {2});
  graph.mutable_node(4)->add_input("^first");
  // One engine of both would wait for itself.
  const Embedded made = embedded(graph, {"last"});
  EXPECT_EQ(made.engines, 2U);
  const auto nodes = nodes_of(made.bytes);
  EXPECT_EQ(nodes.at("wait").input(0), "^graft_engine_0");
}

TEST(TensorflowGraph, an_engine_waits_for_what_a_constant_of_it_waits_for) {
  GraphDef graph = graph_of(R"(
    x      Placeholder            : dtype=float shape=2
    check  Mystery     x
    y      Add         x w        : T=float)");
  add_weights(graph, "w", {2});
  graph.mutable_node(3)->add_input("^check");
  const auto nodes = nodes_of(embedded(graph, {"y"}).bytes);
  const NodeDef& engine = nodes.at("graft_engine_0");
  ASSERT_EQ(engine.input_size(), 2);
  EXPECT_EQ(engine.input(1), "^check");
  EXPECT_FALSE(nodes.contains("w"));
}

// What freezing a Keras model leaves: a NoOp that waits for all that was a variable, and a result that waits for it.
TEST(TensorflowGraph, constants_of_engines_go_though_a_result_waits_for_a_node_that_waits_for_them) {
  GraphDef graph = graph_of(R"(
    x      Placeholder             : dtype=float shape=?,64
    read   Identity    w           : T=float
    y      MatMul      x read      : T=float
    odd    Mystery     y ^done
    done   NoOp        ^read ^more
    more   NoOp        ^w
    left   NoOp        ^w
    out    Identity    y ^done     : T=float)");
  add_weights(graph, "w", {64, 2});
  const auto nodes = nodes_of(embedded(graph, {"out", "odd"}).bytes);
  for (const char* gone : {"read", "done", "more", "y"}) EXPECT_FALSE(nodes.contains(gone)) << gone;
  EXPECT_EQ(nodes.at("odd").input_size(), 1);
  EXPECT_EQ(nodes.at("graft_engine_0").input_size(), 1);
  EXPECT_TRUE(nodes.contains("left")) << "nobody waits for it, so that somebody may run it";
  EXPECT_TRUE(nodes.contains("w"));
}

TEST(TensorflowGraph, a_node_that_waits_for_an_effect_stays_and_is_waited_for) {
  GraphDef graph = graph_of(R"(
    x      Placeholder             : dtype=float shape=2
    check  Mystery     x
    done   NoOp        ^w ^check
    y      Add         x w ^done   : T=float)");
  add_weights(graph, "w", {2});
  const auto nodes = nodes_of(embedded(graph, {"y"}).bytes);
  ASSERT_EQ(nodes.at("done").input_size(), 1);
  EXPECT_EQ(nodes.at("done").input(0), "^check");
  EXPECT_EQ(nodes.at("graft_engine_0").input(1), "^done");
}

TEST(TensorflowGraph, what_has_no_type_that_anybody_tells_stays) {
  const GraphDef graph = graph_of(R"(
    x  Placeholder            : dtype=float shape=2
    m  Mystery     x
    r  Relu        m
    y  Relu        x          : T=float)");
  const Embedded made = embedded(graph, {"r", "y"});
  EXPECT_EQ(made.engines, 1U);
  EXPECT_NE(made.report.find("stays: Relu r: "), std::string::npos) << made.report;
}

TEST(TensorflowGraph, fields_that_nobody_knows_stay) {
  std::string bytes = split_network().SerializeAsString() + std::string("\xba\x3e\x05later", 8);
  const auto kept = std::make_shared<const std::string>(bytes);
  EmbedChoices choices;
  choices.partition.minimum_size = 100;
  const Embedded made = embed("tensorflow", std::as_bytes(std::span(*kept)), kept, {"head/relu"}, choices);
  EXPECT_EQ(made.engines, 0U);
  EXPECT_EQ(made.bytes, bytes);
}

TEST(TensorflowGraph, faults_name_the_node_and_the_remedy) {
  const auto read = [](const std::string& text) { return failure([&] { file_of(graph_of(text)); }); };
  EXPECT_NE(read("y Relu x").find("node 'y': it takes 'x', which the graph does not have"), std::string::npos);
  EXPECT_NE(read("x Placeholder\nx Placeholder").find("there are two nodes of this name"), std::string::npos);
  EXPECT_NE(read("x Placeholder\ny Call x : f=@body").find("'body', which the graph's library does not have"),
            std::string::npos);
  EXPECT_NE(read("x Placeholder\ny Relu x:z").find("'x:z' names no output"), std::string::npos);
  const auto wanted = [](std::vector<std::string> outputs, PlaceholderShapes shapes = {}) {
    return failure([&] { read_graph(file_of(split_network()), outputs, shapes, converters()); });
  };
  for (const char* line : {"y Placeholder x : dtype=float", "y Const x", "y Identity x x"}) {
    const GraphDef graph = graph_of(std::string("x Placeholder : dtype=float\n") + line);
    EXPECT_NE(failure([&] { read_graph(file_of(graph), {"y"}, {}, converters()); }).find("node 'y': it takes"),
              std::string::npos) << line;
  }
  EXPECT_NE(wanted({"head/rleu"}).find("did you mean 'head/relu'"), std::string::npos);
  EXPECT_NE(wanted({}).find("name what the graph gives"), std::string::npos);
  EXPECT_NE(wanted({"odd"}, {{"imgae", {1, 8, 8, 3}}}).find("did you mean 'image'"), std::string::npos);
  EXPECT_NE(failure([&] {
              const GraphDef circle = graph_of("x Placeholder\nm Merge x n\nn Relu m");
              read_graph(file_of(circle), {"m"}, {}, converters());
            }).find("its own result"), std::string::npos);
}

TEST(TensorflowGraph, a_loop_stays_and_what_is_around_it_becomes_engines) {
  GraphDef graph = graph_of(R"(
    x      Placeholder                 : dtype=float shape=?,3
    before Relu          x             : T=float
    enter  Enter         before        : T=float
    round  Merge         enter next    : T=float N=2
    test   Mystery       round
    go     Switch        round test    : T=float
    body   Tanh          go:1          : T=float
    next   NextIteration body          : T=float
    exit   Exit          go            : T=float
    after  MatMul        exit w        : T=float)");
  add_weights(graph, "w", {3, 2});
  const Embedded made = embedded(graph, {"after"});
  EXPECT_EQ(made.engines, 2U) << made.report;
  const auto nodes = nodes_of(made.bytes);
  EXPECT_TRUE(nodes.contains("body") && nodes.contains("next") && !nodes.contains("before"));
  EXPECT_EQ(nodes.at("round").input(1), "next");
  EXPECT_NE(made.report.find("stays: Tanh body: it runs in a branch of a conditional, or in a loop"), std::string::npos)
      << made.report;
}

/// A placeholder x of these sizes and a node y that takes it.
GraphDef node_behind(const std::vector<int64_t>& shape, const std::string& line) {
  GraphDef graph = graph_of("x Placeholder : dtype=float\n" + line);
  auto& stated = *attribute(*graph.mutable_node(0), "shape").mutable_shape();
  for (const int64_t size : shape) stated.add_dim()->set_size(size);
  add_weights(graph, "w", {3, 3, 2, 2});
  add_weights(graph, "row", {2});
  return graph;
}

TEST(TensorflowGraph, operands_without_the_axes_that_an_operator_speaks_of_stay) {
  for (const char* line : {
           "y MaxPool x : T=float ksize=1 strides=1 padding=VALID",
           "y AvgPool x : T=float ksize=1 strides=1 padding=VALID",
           "y DepthToSpace x : T=float block_size=2",
           "y SpaceToDepth x : T=float block_size=2",
           "y ResizeBilinear x : T=float size=4,4",
           "y FusedBatchNormV3 x row row row row : T=float U=float is_training=false",
           "y Conv2D x w : T=float strides=1,1,1,1 padding=SAME",
           "y Conv2D w x : T=float strides=1,1,1,1 padding=SAME",
           "y DepthwiseConv2dNative x x : T=float strides=1,1,1,1 padding=SAME",
           "y Conv2DBackpropInput row w x : T=float strides=1,1,1,1 padding=SAME input_sizes=1,4,4,2",
           "y Conv2DBackpropInput row x w : T=float strides=1,1,1,1 padding=SAME input_sizes=1,4,4,2",
           "y Split row x : T=float split_dim=0 num_split=2",
           "y SplitV x row row : T=float split_dim=0 size_splits=-1,2",
       }) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, std::vector<int64_t>{3}}) {
      if (shape.size() == 1 && std::string_view(line).find("Split") != std::string_view::npos) continue;
      EXPECT_EQ(embedded(node_behind(shape, line), {"y"}).engines, 0U) << line << " of rank " << shape.size();
    }
  }
}

TEST(TensorflowGraph, numbers_that_overflow_are_reasons) {
  const std::string high = "9223372036854775807", quarter = "4611686018427387904";
  const auto engines = [](const std::vector<int64_t>& shape, const std::string& line) {
    return embedded(node_behind(shape, line), {"y"}).engines;
  };
  EXPECT_EQ(engines({8}, "y Slice x row row : T=float begin=" + high + " size=5"), 0U);
  EXPECT_EQ(engines({8}, "y StridedSlice x row row row : T=float shrink_axis_mask=1 begin=" + high +
                             " end=5 strides=1"), 0U);
  EXPECT_EQ(engines({int64_t{1} << 62}, "y Split row x : T=float split_dim=0 num_split=" + quarter), 0U);
  EXPECT_EQ(engines({int64_t{1} << 40}, "y Split row x : T=float split_dim=0 num_split=1073741824"), 0U);
  EXPECT_EQ(engines({4}, "y Unpack x : T=float num=1073741824"), 0U);
  EXPECT_EQ(engines({8}, "y SplitV x row row : T=float split_dim=0 size_splits=" + high + ",-1," + high), 0U);
  const std::string backward = "y Conv2DBackpropInput row w x : T=float padding=SAME input_sizes=1,4,4,2 strides=1,";
  EXPECT_EQ(engines({1, 4, 4, 2}, backward + high + "," + high + ",1"), 0U);
}

TEST(TensorflowGraph, numbers_have_no_unknown_type) {
  for (const int type : {7, 13}) {  // texts, and one that Graft does not have
    GraphDef graph = graph_of("c Const\ny OnesLike c");
    auto& tensor = *attribute(*graph.mutable_node(0), "value").mutable_tensor();
    tensor.set_dtype(type), tensor.add_string_val("x");
    EXPECT_EQ(embedded(graph, {"y"}).engines, 0U) << type;
  }
}

TEST(TensorflowGraph, an_attribute_without_contents_is_no_operand) {
  GraphDef graph = node_behind({3}, "y Erfc x : T=float");
  attribute(*graph.mutable_node(1), "x");
  EXPECT_EQ(embedded(graph, {"y"}).engines, 0U);
}

TEST(TensorflowGraph, small_files_ask_for_little_memory) {
  EXPECT_NE(failure([&] {
              read_graph(file_of(graph_of("x Placeholder : dtype=float\nz Odd x\ny Relu z:1048575")), {"y"}, {},
                         converters());
            }).find("node 'z': somebody takes its result 1048575, and of those before it nobody"),
            std::string::npos);
  GraphDef constants = graph_of("x Placeholder : dtype=float");
  for (int i = 0; i < 5; ++i) {  // 100 MB each, of one element that the file has
    add_weights(constants, "w" + std::to_string(i), {1});
    auto& tensor = *constants.mutable_node(i + 1)->mutable_attr(1)->mutable_value()->mutable_tensor();
    tensor.clear_tensor_content();
    tensor.add_float_val(1);
    tensor.mutable_tensor_shape()->mutable_dim(0)->set_size(25'000'000);
  }
  const auto read = [&] { read_graph(file_of(constants), {"x"}, {}, converters()); };
  EXPECT_NE(failure(read).find("node 'w2': its tensor, with those of constants before it, is far larger"),
            std::string::npos);
  GraphDef texts = graph_of("w Const : dtype=string");
  auto& tensor = *attribute(*texts.mutable_node(0), "value").mutable_tensor();
  tensor.set_dtype(7), tensor.add_string_val("x");
  tensor.mutable_tensor_shape()->add_dim()->set_size(int64_t{1} << 33);
  EXPECT_NE(failure([&] { read_graph(file_of(texts), {"w"}, {}, converters()); }).find("far larger"),
            std::string::npos);
  GraphDef waiting;
  std::string before = "c";
  add_weights(waiting, before, {1});
  for (int i = 0; i < 4000; ++i) {  // each constant waits for what those before it wait for
    const std::string op = "o" + std::to_string(i), next = "i" + std::to_string(i);
    NodeDef& node = *waiting.add_node();
    node.set_name(op), node.set_op("Mystery");
    NodeDef& constant = *waiting.add_node();
    constant.set_name(next), constant.set_op("Identity"), constant.add_input(before), constant.add_input("^" + op);
    before = next;
  }
  EXPECT_NE(failure([&] { read_graph(file_of(waiting), {before}, {}, converters()); }).find("too many constants wait"),
            std::string::npos);
}

TEST(TensorflowGraph, files_that_are_no_graph_are_told_by_what_they_seem_to_be) {
  const auto read = [](const std::string& bytes) { return failure([&] { file_of(bytes); }); };
  EXPECT_NE(read("").find("empty"), std::string::npos);
  EXPECT_NE(read("node {\n  name: \"x\"").find("as text"), std::string::npos);
  EXPECT_NE(read(std::string("\x08\x01\x12\x02\x0a\x00", 6)).find("SavedModel"), std::string::npos);
  EXPECT_NE(read("PK\x03\x04").find("zip"), std::string::npos);
  const std::string whole = split_network().SerializeAsString();
  for (size_t length = 1; length < whole.size(); ++length) {  // cut anywhere: a graph of fewer nodes, or an error
    const std::string part = whole.substr(0, length);
    const std::string message = failure([&] { read_graph(file_of(part), {"odd"}, {}, converters()); });
    EXPECT_FALSE(message.empty() && length < whole.size() / 4) << length;
  }
}

TEST(TensorflowGraph, engines_may_be_left_to_whoever_runs_the_graph) {
  EmbedChoices choices;
  set_choice(choices, {"build", "false"});
  const Embedded made = embedded(split_network(), {"head/relu"}, choices);
  EXPECT_EQ(made.engines, 2U);
  const NodeDef engine = nodes_of(made.bytes).at("stem/graft_engine_0");
  EXPECT_EQ(value_of(engine, "plan")->s(), "");
  EXPECT_EQ(value_of(engine, "nodes")->list().s_size(), 2);
  EXPECT_NE(failure([&] { set_choice(choices, {"build", "later"}); }).find("neither true nor false"),
            std::string::npos);
}

}  // namespace
}  // namespace graft::tensorflow
