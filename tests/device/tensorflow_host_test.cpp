// SPDX-License-Identifier: Apache-2.0
// What runs engines inside of TensorFlow, without TensorFlow: tensors in the host's memory on an engine of the device
// that is tested, engines built for shapes that come, and a share of the device's memory.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>

#include "base/random.h"
#include "graft/graft_host.h"
#include "host/tensorflow/built_engines.h"
#include "support/graph_def_text.h"

namespace graft::tensorflow_host {
namespace {

constexpr int64_t kSide = 16, kChannels = 8, kClasses = 8;

std::string device() {
  const char* chosen = std::getenv("GRAFT_TEST_DEVICE");
  return chosen && *chosen ? chosen : "cpu";
}

/// A network of convolutions whose placeholder has these sizes; -1 is open.
std::string network(const std::vector<int64_t>& sizes) {
  auto graph = test::graph_of(R"(
    conv  Conv2D      image w           : T=float strides=1,1,1,1 padding=SAME
    relu  Relu        conv              : T=float
    next  Conv2D      relu v            : T=float strides=1,2,2,1 padding=SAME
    y     Softmax     next              : T=float)");
  auto& image = *graph.add_node();
  image.set_name("image"), image.set_op("Placeholder");
  test::attribute(image, "dtype").set_type(1);
  auto& shape = *test::attribute(image, "shape").mutable_shape();
  for (const int64_t size : sizes) shape.add_dim()->set_size(size);
  test::add_weights(graph, "w", {3, 3, 3, kChannels});
  test::add_weights(graph, "v", {3, 3, kChannels, kClasses});
  return graph.SerializeAsString();
}

std::shared_ptr<LoadedEngine> compile(const std::string& where, const std::vector<int64_t>& sizes,
                                      const char* mode = "generated") {
  return LoadedEngine::build(network(sizes), {{"device", where.c_str()}, {"tune", "off"}, {"mode", mode}}, where);
}

/// An engine for the ranges, as a node of TensorFlow's builds it.
std::shared_ptr<LoadedEngine> build(const ShapeRanges& ranges) {
  std::vector<int64_t> sizes = ranges.least[0];
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (ranges.least[0][axis] != ranges.most[0][axis]) sizes[axis] = -1;
  }
  return compile(device(), sizes);
}

std::vector<float> images(int64_t batch) {
  std::vector<float> made(static_cast<size_t>(batch * kSide * kSide * 3));
  Random random(static_cast<uint64_t>(batch));
  for (float& value : made) value = static_cast<float>(random.uniform(-1, 1));
  return made;
}

void* take(void* context, int32_t, int32_t, int32_t, const int64_t*, size_t bytes) {
  auto& memory = *static_cast<std::vector<float>*>(context);
  memory.assign(bytes / sizeof(float), NAN);
  return memory.data();
}

/// A call of TensorFlow's: inputs and results in the host's memory.
graft_status run(LoadedEngine& engine, int64_t batch, double share, std::vector<float>& result, graft_error& error) {
  std::vector<float> given = images(batch);
  const int64_t shape[] = {batch, kSide, kSide, 3};
  const graft_tensor input{sizeof(graft_tensor), nullptr,      GRAFT_FLOAT32, 4, shape, nullptr,
                           given.data(),         4 * given.size(), GRAFT_HOST};
  std::vector<graft_tensor> outputs(1);
  outputs[0].struct_size = sizeof(graft_tensor);
  LoadedEngine::Run call(engine, share);
  return call({input}, outputs, {take, &result}, error);
}

std::vector<float> result_of(LoadedEngine& engine, int64_t batch, double share = 0) {
  std::vector<float> result;
  graft_error error{};
  EXPECT_EQ(run(engine, batch, share, result, error), GRAFT_OK) << error.message;
  return result;
}

void expect_near(const std::vector<float>& result, const std::vector<float>& expected) {
  ASSERT_EQ(result.size(), expected.size());
  for (size_t i = 0; i < result.size(); ++i) ASSERT_NEAR(result[i], expected[i], 1e-5) << "element " << i;
}

std::vector<float> expected_of(int64_t batch) {
  static const auto reference = compile("cpu", {-1, kSide, kSide, 3}, "interpret");
  return result_of(*reference, batch);
}

TEST(TensorflowHost, tensors_of_the_host_are_copied_to_the_device_and_back) {
  const auto engine = compile(device(), {-1, kSide, kSide, 3});
  for (const int64_t batch : {1, 2, 5, 2, 2, 2}) expect_near(result_of(*engine, batch), expected_of(batch));
}

TEST(TensorflowHost, a_plan_is_loaded_once_for_all_that_have_it) {
  const auto engine = compile(device(), {-1, kSide, kSide, 3});
  std::string plan;
  graft_error error{};
  const auto allocate = [](void* context, size_t bytes) -> void* {
    static_cast<std::string*>(context)->resize(bytes);
    return static_cast<std::string*>(context)->data();
  };
  ASSERT_EQ(graft_engine_save_bytes(engine->handle(), allocate, &plan, &error), GRAFT_OK) << error.message;
  const std::string copy = plan;
  const auto one = LoadedEngine::of({plan}, device()), other = LoadedEngine::of({copy}, device());
  EXPECT_EQ(one, other);
  plan.clear();  // the engine has its own
  expect_near(result_of(*one, 3), expected_of(3));
}

TEST(TensorflowHost, threads_run_one_engine_at_the_same_time) {
  const auto engine = compile(device(), {-1, kSide, kSide, 3});
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 8; ++round) results[i] = result_of(*engine, static_cast<int64_t>(i) + 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < results.size(); ++i) expect_near(results[i], expected_of(static_cast<int64_t>(i) + 1));
}

/// How many engines were built for these batches one behind the other; results are checked.
uint64_t builds_for(BuiltEngines& engines, const std::vector<int64_t>& batches) {
  const uint64_t before = build_count();
  for (const int64_t batch : batches) {
    expect_near(result_of(*engines.find({{batch, kSide, kSide, 3}}, build), batch), expected_of(batch));
  }
  return build_count() - before;
}

TEST(TensorflowHost, batches_of_1_2_4_and_2_with_room_for_one_engine_do_not_build_for_ever) {
  BuiltEngines engines(1);
  EXPECT_EQ(builds_for(engines, {1, 2, 4, 2}), 3U);  // 1, 1 to 2, 1 to 4
  EXPECT_EQ(builds_for(engines, {1, 4, 3, 2, 1}), 0U);
}

TEST(TensorflowHost, with_room_for_all_each_shape_has_its_own_engine) {
  BuiltEngines engines(3);
  EXPECT_EQ(builds_for(engines, {1, 2, 4, 2, 1, 4}), 3U);
  EXPECT_EQ(builds_for(engines, {5}), 1U);  // instead of that for 2, which was used longest ago, from 2 to 5
  EXPECT_EQ(builds_for(engines, {1, 4, 2, 3}), 0U);
}

TEST(TensorflowHost, an_engine_of_a_range_that_refuses_shapes_gives_way_to_one_for_them_alone) {
  BuiltEngines engines(1);
  builds_for(engines, {1, 2});
  const auto range = engines.find({{2, kSide, kSide, 3}}, build);
  EXPECT_TRUE(engines.refused(*range));
  EXPECT_EQ(builds_for(engines, {2, 2, 1, 1}), 2U);
  EXPECT_FALSE(engines.refused(*engines.find({{1, kSide, kSide, 3}}, build)));  // another would not help
}

TEST(TensorflowHost, what_cannot_be_built_is_tried_again_on_request_only) {
  BuiltEngines engines(2);
  int tried = 0;
  bool works = false;
  const BuiltEngines::Build sometimes = [&](const ShapeRanges& ranges) {
    ++tried;
    if (!works) throw Error(ErrorKind::kUnsupported, "not today");
    return build(ranges);
  };
  for (const int64_t batch : {1, 1, 2}) {
    EXPECT_THROW(engines.find({{batch, kSide, kSide, 3}}, sometimes), Error);
  }
  EXPECT_EQ(tried, 1);
  works = true;
  EXPECT_THROW(engines.find({{1, kSide, kSide, 3}}, sometimes), Error);
  retry_failed();
  expect_near(result_of(*engines.find({{1, kSide, kSide, 3}}, sometimes), 1), expected_of(1));
  EXPECT_EQ(tried, 2);
}

uint64_t memory_of_device() {
  uint64_t bytes = 0;
  graft_error error{};
  EXPECT_EQ(graft_host_device_memory(device().c_str(), &bytes, &error), GRAFT_OK) << error.message;
  return bytes;
}

TEST(TensorflowHost, a_share_of_the_memory_is_kept_and_the_engine_stays_usable) {
  const auto engine = compile(device(), {-1, kSide, kSide, 3});
  expect_near(result_of(*engine, 4, 0.5), expected_of(4));
  const double small = 300e3 / static_cast<double>(memory_of_device());  // a batch of 64 takes 500 kB between layers
  std::vector<float> result;
  graft_error error{};
  EXPECT_EQ(run(*engine, 64, small, result, error), GRAFT_OUT_OF_MEMORY) << error.message;
  EXPECT_NE(std::string(error.message).find("the session may have"), std::string::npos) << error.message;
  expect_near(result_of(*engine, 64), expected_of(64));
}

TEST(TensorflowHost, engines_of_a_process_share_it) {
  const auto engine = compile(device(), {-1, kSide, kSide, 3});
  const double least = 1.0 / static_cast<double>(memory_of_device());  // a byte, and its constants are more
  std::vector<float> result;
  graft_error error{};
  try {
    run(*engine, 1, least, result, error);
    FAIL() << "constants take no memory";
  } catch (const Error& failure) {
    EXPECT_EQ(failure.kind(), ErrorKind::kOutOfMemory);
    EXPECT_NE(std::string(failure.what()).find("raise per_process_gpu_memory_fraction"), std::string::npos);
  }
}

TEST(TensorflowHost, the_memory_of_a_device_that_there_is_not_is_an_error) {
  uint64_t bytes = 0;
  graft_error error{};
  EXPECT_NE(graft_host_device_memory("cuda:97", &bytes, &error), GRAFT_OK);
  EXPECT_NE(graft_host_device_memory("tpu", &bytes, &error), GRAFT_OK);
}

}  // namespace
}  // namespace graft::tensorflow_host
