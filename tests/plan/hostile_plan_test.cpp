// SPDX-License-Identifier: Apache-2.0
// Plans that lie, with checksums that hold: each lie is named, and none reaches a run.
#include <functional>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "engine/plan_file.h"
#include "plan/repair_checksums.h"
#include "plan/sample_engine.h"
#include "runtime/session.h"

namespace graft {
namespace {

std::string error_of(std::span<const std::byte> bytes) {
  const AlignedCopy copy(bytes);
  try {
    parse_plan(copy.bytes(), copy.owner(), "sample");
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidModel) << error.what();
    return error.what();
  }
}

/// A change to the sample's engine and what its refusal must say.
struct Lie {
  std::string name;
  std::function<void(Engine&)> tell;
  std::string refusal;
};

const Size kN = Size::symbol("n");

std::vector<Lie> lies_about_tensors() {
  return {
      {"a constant that is not there", [](Engine& e) { e.tensors[1].index = 3; }, "there is no constant 3"},
      {"a constant with too few bytes", [](Engine& e) { e.constants[0] = TensorData::zeros(DType::kFloat32, {7}); },
       "has 28 bytes of memory"},
      {"a constant that was dropped", [](Engine& e) { e.tensors[1].index = -1; }, "has 0 bytes of memory"},
      {"an alias of nothing", [](Engine& e) { e.tensors[3].index = 70; }, "there is no tensor 70"},
      {"an alias of itself", [](Engine& e) { e.tensors[3].index = 3; }, "a circle"},
      {"a circle of aliases",
       [](Engine& e) {
         e.tensors[2].storage = Storage::kAlias;
         e.tensors[2].index = 3;
       }, "a circle"},
      {"arena memory smaller than its shape", [](Engine& e) { e.tensors[2].bytes = kN * Size(31); }, "fewer than"},
      {"arena memory of negative size", [](Engine& e) { e.tensors[2].bytes = Size(-64); }, "fewer than 0 bytes"},
      {"an alias larger than its memory",
       [](Engine& e) {
         e.tensors[3].bytes = kN * Size(64);
         e.steps[1].tensors[0] = 3;
       }, "bytes of memory"},
      {"an input that is stored elsewhere", [](Engine& e) { e.inputs = {1}; }, "not stored in input 0|no input of"},
      {"an input of no tensor", [](Engine& e) { e.inputs = {-1}; }, "input -1 is not a tensor"},
      {"an output of no tensor", [](Engine& e) { e.outputs = {99}; }, "output 99 is not a tensor"},
      {"an output in an output that is not there", [](Engine& e) { e.tensors[4].index = 1; }, "no output of"},
      {"an output that nothing computes",
       [](Engine& e) {
         e.tensors.push_back(sample_tensor("ghost", {kN, 8}, kN * Size(32), Storage::kArena, -1));
         e.outputs.push_back(7);
       }, "nothing computes this output"},
      {"memory that is freed too early", [](Engine& e) { e.tensors[2].last_step = 0; }, "its memory is kept for 0..0"},
      {"memory that begins too late", [](Engine& e) { e.tensors[2].first_step = 1; }, "its memory is kept for 1..1"},
      {"a lifetime that ends before it begins", [](Engine& e) { e.tensors[2].last_step = -1; }, "is not one"},
      {"65 axes", [](Engine& e) { e.tensors[2].shape.assign(65, Size(1)); }, "rank"},
  };
}

std::vector<Lie> lies_about_steps() {
  return {
      {"a kernel that is not there", [](Engine& e) { e.steps[0].kernel = 2; }, "there is no kernel 2"},
      {"a negative kernel", [](Engine& e) { e.steps[0].kernel = -1; }, "there is no kernel -1"},
      {"an argument that is not there", [](Engine& e) { e.steps[0].tensors[2] = 7; }, "there is no tensor 7"},
      {"a missing argument", [](Engine& e) { e.steps[0].tensors.pop_back(); }, "do not fit its 2 tensors"},
      {"more inputs than arguments", [](Engine& e) { e.steps[1].input_count = 4; }, "4 of its 3 tensors"},
      {"one input fewer", [](Engine& e) { e.steps[1].input_count = 1; }, "is an input or a constant"},
      {"writing to a constant", [](Engine& e) { e.steps[0].tensors[2] = 6; }, "an input or a constant"},
      {"writing to an input", [](Engine& e) { e.steps[1].tensors[2] = 0; }, "an input or a constant"},
      {"reading what is not there yet", [](Engine& e) { std::swap(e.steps[0], e.steps[1]); },
       "before anything is there"},
      {"a reference that is not there", [](Engine& e) { e.steps[0].reference_inputs = {0, 44}; }, "reference input"},
      {"too few references", [](Engine& e) { e.steps[0].reference_inputs = {0}; }, "reference inputs"},
      {"a region that reads beyond its tensor",
       [](Engine& e) {
         std::string& region = e.steps[1].region;
         region.replace(region.find("w: f32[8]"), 9, "w: f32[9]");
       },
       "has 32 bytes of memory, fewer than the 36"},
      {"a region that is not one", [](Engine& e) { e.steps[1].region = "region"; }, "section target"},
      {"a region of another step", [](Engine& e) { e.steps[1].region = ""; }, "no region"},
      {"a negative grid", [](Engine& e) { e.kernels[0].grid = Size(-1); }, "negative grid"},
      {"negative scratch memory", [](Engine& e) { e.kernels[0].scratch = Size(-64); }, "negative scratch"},
      {"scratch memory without end", [](Engine& e) { e.kernels[0].scratch = Size(int64_t{1} << 40); },
       "too much scratch"},
      {"no threads", [](Engine& e) { e.threads = 0; }, "0 threads"},
      {"a count without a place",
       [](Engine& e) {
         e.steps[0].count_symbol = "c";
         e.has_computed_symbols = true;
       }, "do not fit|not an i64"},
      {"a count that the engine denies", [](Engine& e) { e.steps[1].count_symbol = "c"; }, "the engine denies it"},
      {"a size read from complex numbers",
       [](Engine& e) {
         e.tensors.push_back({.name = "c", .type = DType::kComplex64, .shape = {Size(1)}, .bytes = Size(8)});
         e.steps[1].reads = {{"m", static_cast<int>(e.tensors.size()) - 1, 0}};
       }, "elements of type c64"},
      {"a size that redefines an input's axis",
       [](Engine& e) {
         e.tensors[0].type = DType::kInt64;
         e.steps[0].reads = {{"n", 0, 0}};
       }, "two sources"},
      {"a size from a negative element",
       [](Engine& e) {
         e.tensors[0].type = DType::kInt64;
         e.steps[0].reads = {{"m", 0, -1}};
       }, "no element -1"},
      {"a symbol's range upside down", [](Engine& e) { e.symbols["n"] = {9, 8, 7}; }, "its range 9:8:7"},
      {"a negative symbol", [](Engine& e) { e.symbols["n"] = {-1, 8, 9}; }, "its range -1:8:9"},
  };
}

void expect_refusals(const std::vector<Lie>& lies) {
  ASSERT_EQ(error_of(print_plan(sample_engine())), "");
  for (const Lie& lie : lies) {
    Engine engine = sample_engine();
    lie.tell(engine);
    const std::string error = error_of(print_plan(engine));
    const size_t bar = lie.refusal.find('|');
    const bool named = error.find(lie.refusal.substr(0, bar)) != std::string::npos ||
                       (bar != std::string::npos && error.find(lie.refusal.substr(bar + 1)) != std::string::npos);
    EXPECT_TRUE(named) << lie.name << ": '" << error << "'";
    EXPECT_NE(error.find("compile the model again"), std::string::npos) << lie.name << ": '" << error << "'";
  }
}

TEST(HostilePlan, lies_about_tensors_are_named) { expect_refusals(lies_about_tensors()); }
TEST(HostilePlan, lies_about_steps_are_named) { expect_refusals(lies_about_steps()); }

TEST(HostilePlan, what_only_a_run_can_tell_becomes_a_bound_of_the_run) {
  Engine engine = sample_engine(true);
  engine.tensors[2].bytes = Size(1024);  // enough for 32 rows
  const AlignedCopy copy(print_plan(engine));
  auto loaded = std::make_shared<LoadedEngine>();
  loaded->engine = std::make_shared<const Engine>(parse_plan(copy.bytes(), copy.owner(), "sample"));
  Session session(loaded);
  std::vector<float> x(33 * 8, 1), y(33 * 8);
  for (const int64_t rows : {32, 33}) {
    const BufferView inputs[] = {{x.data(), DType::kFloat32, {rows, 8}, {}}};
    BufferView outputs[] = {{y.data(), DType::kFloat32, {rows, 8}, {}}};
    const Status status = session.run(inputs, outputs);
    EXPECT_EQ(status.ok(), rows == 32) << status.message();
    if (rows == 33) {
      EXPECT_NE(status.message().find("'first' has 1024 bytes"), std::string::npos) << status.message();
    }
  }
}

TEST(HostilePlan, random_bytes_with_repaired_checksums_never_crash) {
  const std::vector<std::byte> bytes = print_plan(sample_engine());
  Random random(20);
  int refused = 0, taken = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> damaged = bytes;
    const int64_t changes = random.integer(1, 4);
    for (int64_t c = 0; c < changes; ++c) {
      const auto at = static_cast<size_t>(random.integer(0, static_cast<int64_t>(bytes.size()) - 1));
      damaged[at] = static_cast<std::byte>(random.chance(0.5) ? random.integer(0, 255) : random.integer(-2, 2));
    }
    repair_checksums(damaged);
    (error_of(damaged).empty() ? taken : refused) += 1;
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(taken, 100);  // a changed name or weight is still a plan
}

}  // namespace
}  // namespace graft
