// SPDX-License-Identifier: Apache-2.0
// The interface for plug-ins of frameworks, used as one would: only graft/ is included here.
#include "graft/graft_host.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "api/host_graph_writer.h"
#include "graft/graft.h"

using graft_tests::Host, graft_tests::of, graft_tests::none;

namespace {

/// Weights that are counted as they are asked for and given back.
struct Weights {
  std::vector<float> data;
  int fetched = 0, released = 0, destroyed = 0;
  graft_host_constant constant() {
    return {[](void* self, void** held) -> const void* {
              *held = &static_cast<Weights*>(self)->fetched;
              ++static_cast<Weights*>(self)->fetched;
              return static_cast<Weights*>(self)->data.data();
            },
            [](void* self, void* held) {
              EXPECT_EQ(held, &static_cast<Weights*>(self)->fetched);
              ++static_cast<Weights*>(self)->released;
            },
            [](void* self) { ++static_cast<Weights*>(self)->destroyed; }, this};
  }
};

/// x -> linear -> relu -> odd (not supported) -> neg
struct Net : Host {
  Net() {
    weights.data = {1, 2, 3, 4, 5, 6};
    x = value("x", {-1, 3}, GRAFT_FLOAT32);
    const graft_host_constant constant = weights.constant();
    const int32_t w = value("w", {2, 3}, GRAFT_FLOAT32, &constant);
    const int32_t a = add("aten::linear", "fc", {of(x), of(w), none()}, value("a"));
    const int32_t b = add("aten::relu", "act", {of(a)}, value("b"));
    const int32_t c = add("my::odd", "odd", {of(b)}, value("c", {-1, 2}, GRAFT_FLOAT32));
    y = add("aten::neg", "last", {of(c)}, value("y"));
    EXPECT_EQ(graft_host_graph_set_borders(graph, &x, 1, &y, 1, &error), GRAFT_OK);
  }
  Weights weights;
  int32_t x = 0, y = 0;
};

TEST(HostInterface, finds_segments_around_what_stays_and_compiles_them) {
  Net net;
  ASSERT_EQ(net.split(), GRAFT_OK) << net.error.message;
  ASSERT_EQ(graft_host_partition_segment_count(net.partition), 2U);
  const graft_host_segment& first = *graft_host_partition_segment(net.partition, 0);
  EXPECT_EQ(std::vector<int32_t>(first.nodes, first.nodes + first.node_count), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(std::vector<int32_t>(first.inputs, first.inputs + first.input_count), (std::vector<int32_t>{net.x}));
  EXPECT_EQ(graft_host_partition_segment(net.partition, 2), nullptr);
  EXPECT_STREQ(graft_host_partition_reason(net.partition, 2), "there is no converter for my::odd");
  EXPECT_NE(std::string(graft_host_partition_report(net.partition)).find("(model.py:7)"), std::string::npos);
  EXPECT_NE(std::string(graft_host_partition_report(net.partition)).find("us a run by estimate"), std::string::npos);
  EXPECT_EQ(net.weights.fetched, 0) << "weights are asked for when an engine is made of them";

  const graft_option off{"tune", "off"};
  graft_engine* handle = nullptr;
  ASSERT_EQ(graft_host_partition_compile(net.partition, 0, &off, 1, nullptr, nullptr, &handle, &net.error), GRAFT_OK)
      << net.error.message;
  EXPECT_GE(net.weights.fetched, 1);
  {
    const graft::Engine engine(handle);
    graft::Session session(engine);
    std::vector<float> x = {1, 1, 1, -1, -1, -1}, y(4);
    graft::TensorView output = graft::view("", y.data(), {2, 2});
    const graft::Status status = session.run({graft::view("", x.data(), {2, 3})}, {&output, 1});
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(y, (std::vector<float>{6, 15, 0, 0}));
  }
  graft_host_partition_destroy(std::exchange(net.partition, nullptr));
  graft_host_graph_destroy(std::exchange(net.graph, nullptr));
  EXPECT_EQ(net.weights.fetched, net.weights.released);
  EXPECT_EQ(net.weights.destroyed, 1) << "once, when neither graph nor engine can ask any more";
}

graft_tensor tensor_of(std::vector<float>& data, const std::vector<int64_t>& shape) {
  return {.struct_size = sizeof(graft_tensor), .name = nullptr, .dtype = GRAFT_FLOAT32,
          .rank = static_cast<int32_t>(shape.size()), .shape = shape.data(), .strides = nullptr, .data = data.data(),
          .bytes = data.size() * sizeof(float), .device = GRAFT_HOST};
}

/// x -> linear, of 6 x 5 weights, and the engine of it.
struct Weighted : Host {
  Weighted() {
    for (int i = 0; i < 30; ++i) weights.data.push_back(static_cast<float>(i * i));
    x = value("x", {-1, 5}, GRAFT_FLOAT32);
    const graft_host_constant constant = weights.constant();
    const int32_t w = value("w", {6, 5}, GRAFT_FLOAT32, &constant);
    const int32_t y = add("aten::linear", "fc", {of(x), of(w), none()}, value("y"));
    EXPECT_EQ(graft_host_graph_set_borders(graph, &x, 1, &y, 1, &error), GRAFT_OK);
    EXPECT_EQ(split(), GRAFT_OK) << error.message;
    const graft_option off{"tune", "off"};
    EXPECT_EQ(graft_host_partition_compile(partition, 0, &off, 1, nullptr, nullptr, &engine, &error), GRAFT_OK);
  }
  ~Weighted() { graft_engine_release(engine); }
  Weights weights;
  int32_t x = 0;
  graft_engine* engine = nullptr;
};

TEST(HostInterface, weights_that_an_engine_has_are_found_and_read_also_of_its_plan) {
  Weighted net;
  std::vector<float> others(30, 3.0F), read(30);
  const std::vector<int64_t> shape = {6, 5};
  const graft_tensor given[] = {tensor_of(others, shape), tensor_of(net.weights.data, shape)};
  std::vector<std::string> places(2);
  const auto take = [](void* context, size_t index, const char* place) {
    (*static_cast<std::vector<std::string>*>(context))[index] = place;
  };
  ASSERT_EQ(graft_host_find_weights(net.engine, given, 2, &places, take, &net.error), GRAFT_OK) << net.error.message;
  EXPECT_EQ(places[0], "");
  ASSERT_NE(places[1], "");
  std::vector<std::byte> plan;
  const auto allocate = [](void* context, size_t bytes) -> void* {
    static_cast<std::vector<std::byte>*>(context)->resize(bytes);
    return static_cast<std::vector<std::byte>*>(context)->data();
  };
  ASSERT_EQ(graft_engine_save_bytes(net.engine, allocate, &plan, &net.error), GRAFT_OK);
  graft_engine* loaded = nullptr;
  ASSERT_EQ(graft_load_bytes(plan.data(), plan.size(), nullptr, nullptr, nullptr, 0, &loaded, &net.error), GRAFT_OK);
  for (const graft_engine* each : {net.engine, loaded}) {
    std::fill(read.begin(), read.end(), 0.0F);
    const graft_tensor target = tensor_of(read, shape);
    ASSERT_EQ(graft_host_read_weight(each, places[1].c_str(), &target, &net.error), GRAFT_OK) << net.error.message;
    EXPECT_EQ(read, net.weights.data);
  }
  graft_engine_release(loaded);
}

TEST(HostInterface, places_that_an_engine_has_not_are_refused) {
  Weighted net;
  std::vector<float> read(30);
  std::string constant;
  const std::vector<int64_t> shape = {6, 5};
  const graft_tensor given = tensor_of(net.weights.data, shape);
  const auto take = [](void* context, size_t, const char* place) {
    const std::string text = place;
    *static_cast<std::string*>(context) = text.substr(text.rfind(' ') + 1);
  };
  ASSERT_EQ(graft_host_find_weights(net.engine, &given, 1, &constant, take, &net.error), GRAFT_OK);
  const graft_tensor target = tensor_of(read, shape);
  for (const std::string place : {"", "1", "0 5,1", "0 5,1 nobody", "-1 5,1 ", "1 5,1 ", "0 6,1 ", "0 5,1,1 ", "0 , ",
                                  "0 5,-1 ", "0 99999999999,1 ", "9999999999999999999 5,1 "}) {
    const std::string text = place.ends_with(" ") ? place + constant : place;
    EXPECT_EQ(graft_host_read_weight(net.engine, text.c_str(), &target, &net.error), GRAFT_INVALID_ARGUMENT) << text;
  }
}

TEST(HostInterface, options_choose_what_stays) {
  Net net;
  ASSERT_EQ(net.split({{"minimum-size", "2"}}), GRAFT_OK);
  EXPECT_EQ(graft_host_partition_segment_count(net.partition), 1U);
  ASSERT_EQ(net.split({{"exclude-op", "aten::relu"}}), GRAFT_OK);
  EXPECT_STREQ(graft_host_partition_reason(net.partition, 1), "the operator aten::relu was excluded");
  ASSERT_EQ(net.split({{"exclude", "net"}}), GRAFT_OK);
  EXPECT_EQ(graft_host_partition_segment_count(net.partition), 0U);
  ASSERT_EQ(net.split({{"minimum-gain", "1"}}), GRAFT_OK);
  EXPECT_EQ(graft_host_partition_segment_count(net.partition), 0U) << "calls of two operators are cheaper";
  ASSERT_EQ(net.split({{"only", "fc"}, {"only", "last"}}), GRAFT_OK);
  EXPECT_STREQ(graft_host_partition_reason(net.partition, 1), "it is outside of fc, last");
}

TEST(HostInterface, what_the_host_keeps_stays_with_its_reason) {
  Host host;
  const int32_t x = host.value("x", {4}, GRAFT_FLOAT32), y = host.value("y"), z = host.value("z");
  const graft_host_argument of_x = of(x);
  graft_host_node node{.struct_size = sizeof node, .op = "aten::relu", .name = "writes", .scope = nullptr,
                       .source = nullptr, .arguments = &of_x, .argument_count = 1, .attribute_names = nullptr,
                       .attributes = nullptr, .attribute_count = 0, .outputs = &y, .output_count = 1, .after = nullptr,
                       .after_count = 0, .counts = 1, .replicable = 0, .kept = "others see what it writes"};
  ASSERT_EQ(graft_host_graph_add_node(host.graph, &node, &host.error), GRAFT_OK) << host.error.message;
  // A plug-in of the version before `kept` says so by its struct_size; what lies behind is not read.
  node.struct_size = offsetof(graft_host_node, kept), node.name = "older", node.outputs = &z;
  ASSERT_EQ(graft_host_graph_add_node(host.graph, &node, &host.error), GRAFT_OK) << host.error.message;
  const int32_t outputs[] = {y, z};
  ASSERT_EQ(graft_host_graph_set_borders(host.graph, &x, 1, outputs, 2, &host.error), GRAFT_OK);
  ASSERT_EQ(host.split(), GRAFT_OK) << host.error.message;
  EXPECT_STREQ(graft_host_partition_reason(host.partition, 0), "others see what it writes");
  EXPECT_STREQ(graft_host_partition_reason(host.partition, 1), "");
}

TEST(HostInterface, engines_are_made_for_the_ranges_of_the_graph) {
  Net net;
  ASSERT_EQ(graft_host_graph_set_range(net.graph, "batch", 1, 2, 3, &net.error), GRAFT_OK);
  EXPECT_EQ(graft_host_graph_set_range(net.graph, "batch", 3, 2, 1, &net.error), GRAFT_INVALID_ARGUMENT);
  ASSERT_EQ(graft_host_graph_set_range(net.graph, "no_one_has_it", 1, 2, 3, &net.error), GRAFT_OK);
  ASSERT_EQ(net.split(), GRAFT_OK) << net.error.message;
  const graft_option off{"tune", "off"}, dim{"dim", "batch=1"};
  graft_engine* handle = nullptr;
  EXPECT_EQ(graft_host_partition_compile(net.partition, 0, &dim, 1, nullptr, nullptr, &handle, &net.error),
            GRAFT_INVALID_ARGUMENT) << "sizes are the graph's";
  ASSERT_EQ(graft_host_partition_compile(net.partition, 0, &off, 1, nullptr, nullptr, &handle, &net.error), GRAFT_OK)
      << net.error.message;
  const graft_axis& batch = graft_engine_input(handle, 0)->axes[0];
  EXPECT_EQ(std::string(batch.text), "batch");
  EXPECT_EQ((std::vector<int64_t>{batch.min, batch.opt, batch.max}), (std::vector<int64_t>{1, 2, 3}));
  graft_engine_release(handle);
}

/// Two results, of which the converter gives the first: _fused_rms_norm.
TEST(HostInterface, a_result_that_a_converter_does_not_give_keeps_its_node_where_it_is_used) {
  for (const bool used : {false, true}) {
    Host host;
    const int32_t x = host.value("x", {1, 1, 4, 4}, GRAFT_FLOAT32), y = host.value("y"), places = host.value("places");
    const graft_host_argument four{.kind = GRAFT_ARGUMENT_INTEGER, .integer = 4};
    const graft_host_argument list{.kind = GRAFT_ARGUMENT_LIST, .list = &four, .count = 1}, none{};
    const graft_host_argument arguments[] = {of(x), list, none, none};
    const int32_t outputs[] = {y, places};
    const graft_host_node node{.struct_size = sizeof node, .op = "aten::_fused_rms_norm", .name = "norm",
                               .scope = nullptr, .source = nullptr, .arguments = arguments, .argument_count = 4,
                               .attribute_names = nullptr, .attributes = nullptr, .attribute_count = 0,
                               .outputs = outputs, .output_count = 2, .after = nullptr, .after_count = 0, .counts = 1,
                               .replicable = 0, .kept = nullptr};
    ASSERT_EQ(graft_host_graph_add_node(host.graph, &node, &host.error), GRAFT_OK) << host.error.message;
    ASSERT_EQ(graft_host_graph_set_borders(host.graph, &x, 1, outputs, used ? 2 : 1, &host.error), GRAFT_OK);
    ASSERT_EQ(host.split(), GRAFT_OK) << host.error.message;
    EXPECT_EQ(graft_host_partition_segment_count(host.partition), used ? 0U : 1U);
    EXPECT_EQ(std::string(graft_host_partition_reason(host.partition, 0)).find("'places'") != std::string::npos, used);
  }
}

/// A function of one tensor: relu, an operator that nobody has, and another that engines have.
struct Branch : Host {
  explicit Branch(const char* last) {
    const int32_t x = value("x");
    const int32_t odd = add("my::odd", "odd", {of(add("aten::relu", "first", {of(x)}, value("y")))}, value("z"));
    const int32_t result = add(last, "last", {of(odd)}, value("result"));
    EXPECT_EQ(graft_host_graph_set_borders(graph, &x, 1, &result, 1, &error), GRAFT_OK) << error.message;
  }
};

/// Adds a branch of `x` under the condition `c`.
graft_status add_branch(Host& host, int32_t c, int32_t x, int32_t result, const std::vector<const char*>& names,
                        const std::vector<const graft_host_graph*>& bodies) {
  const graft_host_argument arguments[] = {of(c), of(x)};
  const graft_host_node node{.struct_size = sizeof node, .op = "prim::If", .name = "branch", .scope = nullptr,
                             .source = nullptr, .arguments = arguments, .argument_count = 2,
                             .attribute_names = nullptr, .attributes = nullptr, .attribute_count = 0,
                             .outputs = &result, .output_count = 1, .after = nullptr, .after_count = 0, .counts = 1,
                             .replicable = 0, .kept = nullptr, .body_names = names.data(), .bodies = bodies.data(),
                             .body_count = bodies.size()};
  return graft_host_graph_add_node(host.graph, &node, &host.error);
}

TEST(HostInterface, functions_of_a_node_that_stays_are_divided_in_turn) {
  Host host;
  const int32_t c = host.value("c", {}, GRAFT_BOOL), x = host.value("x", {-1, 3}, GRAFT_FLOAT32);
  const int32_t result = host.value("result");
  {
    const Branch then("aten::relu"), otherwise("aten::tanh");
    ASSERT_EQ(add_branch(host, c, x, result, {"then", "else"}, {then.graph, otherwise.graph}), GRAFT_OK);
  }  // functions are copied
  const int32_t inputs[] = {c, x};
  ASSERT_EQ(graft_host_graph_set_borders(host.graph, inputs, 2, &result, 1, &host.error), GRAFT_OK);
  ASSERT_EQ(host.split(), GRAFT_OK) << host.error.message;
  EXPECT_EQ(graft_host_partition_segment_count(host.partition), 0U);
  EXPECT_STREQ(graft_host_partition_reason(host.partition, 0),
               "its function 'then' has my::odd 'odd': there is no converter for my::odd");
  EXPECT_EQ(graft_host_partition_body(host.partition, 0, "body"), nullptr);
  EXPECT_EQ(graft_host_partition_body(host.partition, 1, "then"), nullptr);
  const graft_host_partition* then = graft_host_partition_body(host.partition, 0, "then");
  ASSERT_NE(then, nullptr);
  ASSERT_EQ(graft_host_partition_segment_count(then), 1U) << "what follows the operator has no type";
  const graft_option off{"tune", "off"};
  graft_engine* handle = nullptr;
  ASSERT_EQ(graft_host_partition_compile(then, 0, &off, 1, nullptr, nullptr, &handle, &host.error), GRAFT_OK)
      << host.error.message;
  EXPECT_EQ(std::string(graft_engine_input(handle, 0)->axes[0].text), "batch");
  graft_engine_release(handle);
  EXPECT_NE(std::string(graft_host_partition_report(host.partition)).find("inside of branch, then"), std::string::npos);
  ASSERT_EQ(host.split({{"exclude-op", "aten::tanh"}}), GRAFT_OK) << "inside of a function: " << host.error.message;
  EXPECT_EQ(host.split({{"exclude-op", "aten::sin"}}), GRAFT_INVALID_ARGUMENT);
}

TEST(HostInterface, functions_that_are_missing_or_nested_without_end_are_errors) {
  Host host;
  const int32_t c = host.value("c", {}, GRAFT_BOOL), x = host.value("x", {3}, GRAFT_FLOAT32), y = host.value("y");
  const Branch branch("aten::relu");
  EXPECT_EQ(add_branch(host, c, x, y, {nullptr, "else"}, {branch.graph, branch.graph}), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(add_branch(host, c, x, y, {"then", "else"}, {branch.graph, nullptr}), GRAFT_INVALID_ARGUMENT);
  std::vector<Host> nested(40);
  graft_status status = GRAFT_OK;
  for (size_t depth = 1; status == GRAFT_OK && depth < nested.size(); ++depth) {
    Host& outer = nested[depth];
    const int32_t test = outer.value("c"), taken = outer.value("x"), result = outer.value("y");
    const graft_host_graph* inner = depth == 1 ? branch.graph : nested[depth - 1].graph;
    status = add_branch(outer, test, taken, result, {"then", "else"}, {inner, inner});
    const int32_t inputs[] = {test, taken};
    ASSERT_EQ(graft_host_graph_set_borders(outer.graph, inputs, 2, &result, 1, &outer.error), GRAFT_OK);
  }
  EXPECT_EQ(status, GRAFT_UNSUPPORTED);
}

TEST(HostInterface, nothing_but_constants_makes_no_engine) {
  Host host;
  Weights weights;
  weights.data = {1, 2, 3, 4};
  const graft_host_constant constant = weights.constant();
  const int32_t w = host.value("w", {4}, GRAFT_FLOAT32, &constant), x = host.value("x", {4}, GRAFT_FLOAT32);
  const int32_t y = host.add("aten::relu", "of_constants", {of(w)}, host.value("y"));
  ASSERT_EQ(graft_host_graph_set_borders(host.graph, &x, 1, &y, 1, &host.error), GRAFT_OK);
  ASSERT_EQ(host.split(), GRAFT_OK) << host.error.message;
  EXPECT_EQ(graft_host_partition_segment_count(host.partition), 0U);
  EXPECT_NE(std::string(graft_host_partition_reason(host.partition, 0)).find("constants alone"), std::string::npos);
}

TEST(HostInterface, fallbacks_are_counted_and_said_once) {
  std::vector<std::string> said;
  graft_set_log([](void* context, int32_t, const char* message) {
    static_cast<std::vector<std::string>*>(context)->emplace_back(message);
  }, &said, 1);
  const uint64_t before = graft_host_fallback_count();
  graft_host_count_fallback("segment 7", "the test says so");
  graft_host_count_fallback("segment 7", "the test says so");
  graft_host_count_fallback("segment 8", "the test says so");
  graft_set_log(nullptr, nullptr, 1);
  EXPECT_EQ(graft_host_fallback_count(), before + 3);
  EXPECT_EQ(said, (std::vector<std::string>{"segment 7 runs in the framework: the test says so",
                                            "segment 8 runs in the framework: the test says so"}));
}

TEST(HostInterface, choices_that_name_nothing_are_errors) {
  Net net;
  for (const graft_option& option : {graft_option{"exclude-op", "aten::conv9d"}, {"exclude", "backbone"},
                                     {"only", "backbone"}, {"minimum-size", "-1"}, {"minimum-gain", "much"},
                                     {"join", "maybe"}, {"other", "1"}}) {
    EXPECT_EQ(net.split({option}), GRAFT_INVALID_ARGUMENT) << option.key;
    EXPECT_NE(std::string(net.error.message).find(option.key), std::string::npos) << net.error.message;
  }
}

TEST(HostInterface, wrong_graphs_are_refused) {
  Net net;
  graft_host_graph* other = nullptr;
  EXPECT_EQ(graft_host_graph_create("caffe", &other, &net.error), GRAFT_INVALID_ARGUMENT);
  const graft_host_argument far = of(77), strange{42, 0, 0, nullptr, nullptr, 0};
  for (const graft_host_argument& argument : {far, strange}) {
    const graft_host_node node{.struct_size = sizeof node, .op = "aten::relu", .name = "bad", .scope = nullptr,
                               .source = nullptr, .arguments = &argument, .argument_count = 1,
                               .attribute_names = nullptr, .attributes = nullptr, .attribute_count = 0,
                               .outputs = nullptr, .output_count = 0, .after = nullptr, .after_count = 0, .counts = 1,
                               .replicable = 0};
    EXPECT_EQ(graft_host_graph_add_node(net.graph, &node, &net.error), GRAFT_INVALID_ARGUMENT);
    EXPECT_NE(std::string(net.error.message).find("'bad'"), std::string::npos) << net.error.message;
  }
  graft_host_value empty = {};
  int32_t index = 0;
  EXPECT_EQ(graft_host_graph_add_value(net.graph, &empty, &index, &net.error), GRAFT_INVALID_ARGUMENT);
}

}  // namespace
