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
