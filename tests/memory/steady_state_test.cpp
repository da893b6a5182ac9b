// SPDX-License-Identifier: Apache-2.0
// After the first run of a signature, a run allocates nothing and compiles nothing: not in the session, not in the
// thread team, not in the layer of graft.h, whatever the order of the sizes.
#include <gtest/gtest.h>

#include <malloc.h>
#include <sys/mman.h>

#include <cstdlib>
#include <thread>

#include "base/random.h"
#include "graft/graft.h"
#include "memory/count_allocations.h"
#include "plan/temporary_directory.h"
#include "support/text_network.h"

namespace {

using Floats = std::vector<float>;
using Shape = std::vector<int64_t>;

/// Names that fit no small string, so that a copy of one shows.
constexpr const char* kLongNames = R"(graph "long names" {
  opset "" 28
  range rows 1 8 256
  input %the_first_input_of_the_network: f32[rows, 32]
  constant %weights_of_the_only_layer: f32[32, 24] = all 0.3
  %product_of_input_and_weights: ? = MatMul "multiply" (%the_first_input_of_the_network, %weights_of_the_only_layer)
  %the_first_output_of_the_network: ? = Relu "clamp" (%product_of_input_and_weights)
  %the_second_output_of_the_network: ? = Softmax "softmax" (%product_of_input_and_weights)
  output %the_first_output_of_the_network
  output %the_second_output_of_the_network
  output %the_first_input_of_the_network
})";

/// Sizes that are elements of an input.
constexpr const char* kShapeInput = R"(graph "shape input" {
  opset "" 28
  input %x: f32[count]
  input %the_shape_that_is_wanted: i64[2]
  %r: ? = Reshape "reshape" (%x, %the_shape_that_is_wanted)
  %y: ? = Exp "exponential" (%r)
  output %y
})";

/// One call, ready to be made again and again.
struct Call {
  std::vector<graft::TensorView> inputs, outputs;
};

/// Makes the calls once each, then in random order; gives how often those allocated, and fails when one goes wrong.
int64_t allocations_of(graft::Session& session, std::vector<Call>& calls, int runs) {
  const auto make = [&](Call& call) { return session.run(call.inputs, call.outputs); };
  for (Call& call : calls) EXPECT_EQ(make(call).message(), "");
  graft::Random random(3);
  int failures = 0;
  const uint64_t compilations = graft_compilation_count();
  const graft_test::AllocationCount allocations;
  for (int i = 0; i < runs; ++i) {
    Call& call = calls[static_cast<size_t>(random.integer(0, static_cast<int64_t>(calls.size()) - 1))];
    failures += !make(call).ok();
  }
  const int64_t count = allocations.count();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(graft_compilation_count(), compilations);
  return count;
}

graft::Engine engine_of(const char* text) {
  return graft::Engine(graft_test::compile_text(text, {{"threads", "2"}}));
}

TEST(SteadyState, the_count_sees_allocations_of_all_kinds) {
  void* volatile kept = nullptr;  // so that no compiler leaves an allocation out
  int64_t seen[4] = {};
  const graft_test::AllocationCount allocations;
  kept = ::operator new(24);
  seen[0] = allocations.count();
  ::operator delete(kept);
  kept = std::aligned_alloc(64, 128);
  seen[1] = allocations.count();
  std::free(kept);
  std::thread([&] { kept = std::malloc(8); }).join();  // the thread itself takes memory too
  seen[2] = allocations.count();
  std::free(kept);
  kept = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  seen[3] = allocations.count();
  munmap(kept, 4096);
  EXPECT_EQ(seen[0], 1);
  EXPECT_EQ(seen[1], 2);
  EXPECT_GE(seen[2], 4);
  EXPECT_EQ(seen[3], seen[2] + 1);
}

TEST(SteadyState, every_length_of_attention_in_random_order) {
  const graft::Engine engine = engine_of(graft_test::kAttention);
  graft::Session session(engine);
  Floats x(4 * 40 * 32, 0.25f), y(x.size());
  std::vector<Call> calls;
  for (int64_t batch = 1; batch <= 4; ++batch) {
    for (int64_t length = 1; length <= 40; ++length) {
      const Shape shape = {batch, length, 32};
      calls.push_back({{graft::view("x", x.data(), shape)}, {graft::view("y", y.data(), shape)}});
    }
  }
  EXPECT_EQ(allocations_of(session, calls, 1000), 0);
}

TEST(SteadyState, networks_on_two_threads) {
  const std::pair<const char*, Shape> networks[] = {
      {graft_test::kMlp, {64, 48}}, {graft_test::kMlp, {1, 48}}, {graft_test::kConvolutions, {8, 3, 12, 12}}};
  for (const auto& [text, shape] : networks) {
    const graft::Engine engine = engine_of(text);
    graft::Session session(engine);
    session.set_profiling(true);
    Floats x(8 * 3 * 12 * 12, 0.5f), y(64 * 10);
    const int64_t width = engine.outputs()[0].axes[1].size;
    std::vector<Call> calls = {{{graft::view("x", x.data(), shape)}, {graft::view("y", y.data(), {shape[0], width})}}};
    EXPECT_EQ(allocations_of(session, calls, 200), 0);
  }
}

TEST(SteadyState, buffers_that_need_a_copy) {
  const graft::Engine engine = engine_of(kLongNames);
  graft::Session session(engine);
  Floats x(8192), y(8192), z(8192);
  auto* odd = reinterpret_cast<float*>(reinterpret_cast<char*>(y.data()) + 1);
  std::vector<Call> calls;
  for (const int64_t rows : {1, 3, 8, 77}) {
    const auto input = [&](Shape strides) {
      return graft::view("the_first_input_of_the_network", x.data(), {rows, 32}, std::move(strides));
    };
    const auto output = [&](const char* name, float* data, Shape strides = {}) {
      return graft::view(name, data, {rows, 24}, std::move(strides));
    };
    // Column-major in, an odd address and gaps out; row-major, written over the input; by position, without names.
    calls.push_back({{input({1, rows})}, {output("the_first_output_of_the_network", odd),
                                          output("the_second_output_of_the_network", z.data(), {48, 2})}});
    calls.push_back({{input({})}, {output("the_first_output_of_the_network", x.data() + 5)}});
    calls.push_back({{input({})}, {output("", y.data()), output("", z.data())}});
  }
  EXPECT_EQ(allocations_of(session, calls, 500), 0);
}

TEST(SteadyState, intermediate_results_in_memory_of_the_caller) {
  const graft::Engine engine = engine_of(graft_test::kConvolutions);
  graft::Session session(engine);
  Floats memory(1 << 20), x(8 * 3 * 12 * 12), y(8 * 5);
  const auto lend = [](void* context, size_t bytes) -> void* {
    auto& floats = *static_cast<Floats*>(context);
    return bytes <= floats.size() * sizeof(float) ? floats.data() : nullptr;
  };
  session.set_scratch(lend, &memory);
  session.set_memory_limit(1);  // it holds nothing
  std::vector<Call> calls;
  for (const int64_t count : {1, 3, 8}) {
    calls.push_back({{graft::view("x", x.data(), {count, 3, 12, 12})}, {graft::view("y", y.data(), {count, 5})}});
  }
  EXPECT_EQ(allocations_of(session, calls, 200), 0);
}

TEST(SteadyState, outputs_in_memory_of_the_session) {
  const graft::Engine engine = engine_of(kLongNames);
  graft::Session session(engine);
  Floats x(64 * 32);
  const Shape few = {4, 32}, many = {64, 32};
  const graft::TensorView inputs[2] = {graft::view("", x.data(), few), graft::view("", x.data(), many)};
  std::vector<graft::TensorView> outputs(3);
  const auto run = [&](size_t which) {
    for (graft::TensorView& output : outputs) output.data = nullptr;
    return session.run({&inputs[which], 1}, outputs).ok();
  };
  ASSERT_TRUE(run(0) && run(1));
  bool good = true;
  const graft_test::AllocationCount allocations;
  for (size_t i = 0; i < 100; ++i) good = good && run(i * i % 3 % 2);
  EXPECT_EQ(allocations.count(), 0);
  EXPECT_TRUE(good);
}

TEST(SteadyState, sizes_that_an_input_gives) {
  const graft::Engine engine = engine_of(kShapeInput);
  graft::Session session(engine);
  Floats x(24), y(24);
  std::vector<Shape> wanted = {{4, 6}, {24, 1}, {2, 12}};
  std::vector<Call> calls;
  for (const Shape& shape : wanted) {
    calls.push_back({{graft::view("x", x.data(), {24}), graft::view("the_shape_that_is_wanted", shape.data(), {2})},
                     {graft::view("y", y.data(), shape)}});
  }
  EXPECT_EQ(allocations_of(session, calls, 200), 0);
}

TEST(SteadyState, sizes_that_never_come_again_do_not_fill_the_memory) {
  const graft::Engine engine = engine_of(R"(graph "clamp" {
    opset "" 28
    input %x: f32[count]
    %y: ? = Relu "clamp" (%x)
    output %y
  })");
  graft::Session session(engine);
  constexpr int64_t kForgotten = 4096;  // more signatures than this are not remembered
  Floats x(3 * kForgotten, 0.5f), y(x.size());
  const auto run_up_to = [&](int64_t first, int64_t last) {
    for (int64_t count = first; count <= last; ++count) {
      graft::TensorView output = graft::view("y", y.data(), {count});
      EXPECT_TRUE(session.run({graft::view("x", x.data(), {count})}, {&output, 1}).ok());
    }
    return mallinfo2().uordblks;
  };
  const size_t before = run_up_to(1, kForgotten);
  EXPECT_LE(run_up_to(kForgotten + 1, 3 * kForgotten), before + (256 << 10));
}

TEST(SteadyState, loading_compiles_what_the_cache_lacks_and_running_nothing) {
  const graft::TemporaryDirectory folder;
  engine_of(graft_test::kAttention).save(folder / "attention.graft");
  const uint64_t before = graft_compilation_count();
  const graft::Engine engine = graft::load(folder / "attention.graft");
  EXPECT_EQ(graft_compilation_count(), before);  // compiling put them into the cache
  graft::Session session(engine);
  Floats x(40 * 32), y(x.size());
  graft::Random random(5);
  for (int i = 0; i < 100; ++i) {
    const Shape shape = {1, random.integer(1, 40), 32};
    graft::TensorView output = graft::view("y", y.data(), shape);
    ASSERT_TRUE(session.run({graft::view("x", x.data(), shape)}, {&output, 1}).ok());
  }
  EXPECT_EQ(graft_compilation_count(), before);
}

}  // namespace
