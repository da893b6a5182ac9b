// SPDX-License-Identifier: Apache-2.0
// Memory for intermediate results that the caller gives: results are the same, and sessions hold none of their own.
#include <gtest/gtest.h>

#include <malloc.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "api/buffers.h"
#include "support/text_network.h"

namespace {

using graft_test::Bytes;
using graft_test::Shape;

constexpr size_t kFence = 64;  // bytes before and after what is given, which nobody may write

/// Gives a piece of its memory at an odd address, with other contents each time.
struct Lender {
  void* lend(size_t wanted) {
    ++calls;
    bytes = wanted;
    memory.assign(2 * kFence + distance + wanted, std::byte{fill++});
    return refuses ? nullptr : memory.data() + kFence + distance;
  }
  static void* allocate(void* context, size_t wanted) { return static_cast<Lender*>(context)->lend(wanted); }
  bool is_fence_whole() const {
    const size_t begin = kFence + distance;
    const auto byte = static_cast<std::byte>(fill - 1);
    for (size_t i = 0; i < memory.size(); ++i) {
      if ((i < begin || i >= begin + bytes) && memory[i] != byte) return false;
    }
    return true;
  }

  std::vector<std::byte> memory;
  size_t distance = 0, bytes = 0;
  unsigned char fill = 0xFE;  // of floats: no numbers
  int calls = 0;
  bool refuses = false;
};

/// The outputs of a run, in memory of the session, as copies.
std::vector<Bytes> run(graft::Session& session, const graft_test::TextNetwork& network, const Shape& shape) {
  Bytes x = graft_test::random_values(graft::DataType::kFloat32, shape, 3);
  const graft::TensorView input = graft::view("x", reinterpret_cast<float*>(x.data()), shape);
  std::vector<graft::TensorView> outputs(network.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i].name = network.outputs[i].c_str();
  const graft::Status status = session.run({&input, 1}, outputs);
  if (!status.ok()) throw std::runtime_error(status.message());
  std::vector<Bytes> results;
  for (const graft::TensorView& output : outputs) {
    const auto* begin = static_cast<const std::byte*>(output.data);
    results.emplace_back(begin, begin + graft_test::bytes_of(output.dtype) * graft_test::count_of(output.shape));
  }
  return results;
}

/// Bytes that the process has from malloc.
size_t held() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

class Scratch : public testing::TestWithParam<const char*> {
 protected:
  graft::Engine engine(const char* text) const {
    return graft::Engine(graft_test::compile_text(text, {{"mode", GetParam()}, {"threads", "3"}, {"tune", "off"}}));
  }
};

TEST_P(Scratch, results_are_the_same_at_any_address) {
  for (const graft_test::TextNetwork& network : graft_test::kTextNetworks) {
    const graft::Engine compiled = engine(network.text);
    graft::Session own(compiled), borrowing(compiled);
    Lender lender;
    borrowing.set_scratch(Lender::allocate, &lender);
    for (const size_t distance : {size_t{0}, size_t{1}, size_t{24}, size_t{63}}) {
      lender.distance = distance;
      for (const Shape& shape : network.shapes) {
        const int calls = lender.calls;
        EXPECT_EQ(run(borrowing, network, shape), run(own, network, shape)) << network.text;
        EXPECT_LE(lender.calls, calls + 1);
        EXPECT_TRUE(lender.is_fence_whole()) << network.text;
        EXPECT_EQ(borrowing.arena_bytes(), own.arena_bytes());
        EXPECT_TRUE(lender.calls == calls || lender.bytes >= own.arena_bytes());
      }
    }
    EXPECT_EQ(lender.calls > 0, network.text != graft_test::kPositives) << network.text;
  }
}

/// A loop that reads, in each round, an intermediate result of the network around it, and carries another one.
constexpr const char* kRounds = R"(graph "rounds" {
  opset "" 28
  range n 1 8 4096
  input %x: f32[n]
  constant %limit: i64[] = {5}
  constant %axis: i64[] = {0}
  %start: ? = CumSum "start" (%x, %axis)
  %more: ? = Softmax "more" (%x)
  %sum: ? = Loop "loop" (%limit, _, %start, %more) {body = graph "body" {
    input %i: i64[]
    input %c: bool[]
    input %s: f32[n]
    input %m: f32[n]
    %next: ? = Add "add" (%s, %m)
    output %c
    output %next
  }, captures = [1]}
  %y: ? = Mul "last" (%sum, %more)
  output %y
})";

TEST_P(Scratch, loops_read_what_lies_there) {
  const graft_test::TextNetwork network = {kRounds, {}, {"y"}};
  const graft::Engine compiled = engine(kRounds);
  graft::Session own(compiled), borrowing(compiled);
  Lender lender;
  lender.distance = 7;
  borrowing.set_scratch(Lender::allocate, &lender);
  for (const int64_t count : {3, 1000, 8}) {
    EXPECT_EQ(run(borrowing, network, {count}), run(own, network, {count}));
    EXPECT_TRUE(lender.is_fence_whole());
  }
  EXPECT_EQ(lender.calls, 3);
}

INSTANTIATE_TEST_SUITE_P(Modes, Scratch, testing::Values("generated", "interpret"),
                         [](const auto& info) { return std::string(info.param); });

class CompiledScratch : public testing::Test {
 protected:
  CompiledScratch() : engine_(graft_test::compile_text(wide(), {{"threads", "2"}, {"tune", "off"}})) {}
  /// The network for larger batches, whose intermediate results take memory.
  static std::string wide() {
    std::string text = graft_test::kConvolutions;
    const std::string few = "range batch 1 2 8";
    return text.replace(text.find(few), few.size(), "range batch 1 2 512");
  }
  const graft_test::TextNetwork& network_ = graft_test::kTextNetworks[1];
  const Shape many_ = {512, 3, 12, 12};
  graft::Engine engine_;
  Lender lender_;
};

TEST_F(CompiledScratch, what_is_given_does_not_count_against_the_limit) {
  graft::Session session(engine_);
  const std::vector<Bytes> expected = run(session, network_, many_);
  const uint64_t intermediate = session.arena_bytes();
  ASSERT_GT(intermediate, uint64_t{1} << 20);
  graft::Session limited(engine_);
  limited.set_memory_limit(intermediate / 2);
  EXPECT_THROW(run(limited, network_, many_), std::runtime_error);
  limited.set_scratch(Lender::allocate, &lender_);
  EXPECT_EQ(run(limited, network_, many_), expected);
  EXPECT_GE(lender_.bytes, intermediate);
}

TEST_F(CompiledScratch, what_the_session_held_is_freed) {
  graft::Session session(engine_);
  const std::vector<Bytes> expected = run(session, network_, many_);
  lender_.lend(4 * session.arena_bytes());  // its memory is there before and after
  session.set_scratch(Lender::allocate, &lender_);
  const size_t before = held();
  EXPECT_EQ(run(session, network_, many_), expected);
  EXPECT_LE(held() + session.arena_bytes(), before + (64 << 10));
}

TEST_F(CompiledScratch, without_an_allocator_or_what_it_gives_the_session_has_its_own) {
  graft::Session session(engine_);
  session.set_scratch(Lender::allocate, &lender_);
  const std::vector<Bytes> expected = run(session, network_, many_);
  lender_.refuses = true;
  EXPECT_EQ(run(session, network_, many_), expected);
  EXPECT_EQ(lender_.calls, 2);
  lender_.refuses = false;
  EXPECT_EQ(run(session, network_, many_), expected);
  EXPECT_EQ(lender_.calls, 3);
  session.set_scratch(nullptr, nullptr);
  EXPECT_EQ(run(session, network_, many_), expected);
  EXPECT_EQ(lender_.calls, 3);
  graft_session_set_scratch(nullptr, Lender::allocate, &lender_);
}

TEST_F(CompiledScratch, sessions_share_memory_one_after_the_other_and_threads_have_their_own) {
  graft::Session alone(engine_);
  std::vector<std::vector<Bytes>> expected;
  for (const Shape& shape : network_.shapes) expected.push_back(run(alone, network_, shape));
  const auto work = [&] {
    Lender shared;
    graft::Session first(engine_), second(engine_);
    first.set_scratch(Lender::allocate, &shared);
    second.set_scratch(Lender::allocate, &shared);
    for (size_t i = 0; i < 60; ++i) {
      const size_t which = i % network_.shapes.size();
      EXPECT_EQ(run(i % 2 ? first : second, network_, network_.shapes[which]), expected[which]);
    }
    EXPECT_EQ(shared.calls, 60);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
