// SPDX-License-Identifier: Apache-2.0
// Plans that lie, with checksums that hold: each lie is named, or is taken and cannot lead a run out of its memory,
// since memory, kernels and their arguments follow from the graph alone.
#include <functional>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "plan/repair_checksums.h"
#include "plan/sample_plan.h"

namespace graft {
namespace {

/// What loading the bytes says; "" when an engine came of them. `run`: its engine also runs.
std::string error_of(std::span<const std::byte> bytes, bool run = false) {
  const AlignedCopy copy(bytes);
  try {
    const Plan plan = from_file(parse_plan(copy.bytes(), copy.owner(), "sample"), "sample");
    const auto engine = load(plan);
    if (!run || engine->engine->inputs.size() != 1 || engine->engine->outputs.size() != 1) return "";
    Session session(engine);
    std::vector<float> x(3 * 24, 0.5f), y(3 * 8);
    const BufferView inputs[] = {{x.data(), DType::kFloat32, {3, 24}, {}}};
    BufferView outputs[] = {{y.data(), DType::kFloat32, {3, 8}, {}}};
    const Status status = session.run(inputs, outputs);
    EXPECT_TRUE(status.ok() || status.kind() != ErrorKind::kInternal) << status.message();
    return "";
  } catch (const Error& error) {
    EXPECT_NE(error.kind(), ErrorKind::kInternal) << error.what();
    return error.what();
  }
}

/// A change to the sample and what its refusal must say; "" when it is harmless.
struct Lie {
  std::string name;
  std::function<void(PlanFile&)> tell;
  std::string refusal;
};

void replace(std::string& text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  ASSERT_NE(at, text.npos) << from << " in " << text;
  text.replace(at, from.size(), to);
}

StoredConstant& constant(PlanFile& plan, const std::string& name) {
  for (StoredConstant& stored : plan.constants) {
    if (stored.name == name) return stored;
  }
  throw std::logic_error("no constant " + name);
}

std::vector<Lie> lies_about_constants() {
  const auto small = [] { return TensorData::zeros(DType::kFloat32, {7}); };
  return {
      {"too few bytes", [=](PlanFile& p) { constant(p, "b1").data = small(); }, "its two shapes differ"},
      {"too few bytes of a packed one", [=](PlanFile& p) { constant(p, "w1").data = small(); }, "does not fit"},
      {"another element type", [](PlanFile& p) { constant(p, "b1").type = DType::kInt8; }, "not in the weights"},
      {"a missing one", [](PlanFile& p) { constant(p, "b1").name = "b2"; }, "'b1' is not in the text"},
      {"a layout that is none", [](PlanFile& p) { constant(p, "w1").layout = "panels dim=9999999999"; }, "expected"},
      {"a layout of a negative axis",
       [](PlanFile& p) { constant(p, "w1").layout = "panels dim=-1 lanes=32 keep=0 rest=0"; }, "expected"},
      {"a layout without lanes", [](PlanFile& p) { constant(p, "w1").layout = "panels dim=1 lanes=0 keep=0 rest=0"; },
       "lanes is 0"},
      {"a layout that names a dimension twice",
       [](PlanFile& p) { constant(p, "w1").layout = "panels dim=1 lanes=32 keep=0 rest=1"; }, "does not fit"},
      {"a layout with a dimension that is not there",
       [](PlanFile& p) { constant(p, "w1").layout = "panels dim=1 lanes=32 keep=0 rest=7"; }, "does not fit"},
      {"a view of more elements",
       [](PlanFile& p) {
         constant(p, "w1").view = {24, 41};
       },
       "does not fit"},
      {"a negative view",
       [](PlanFile& p) {
         constant(p, "w1").view = {-24, -40};
       },
       "negative"},
      {"another shape",
       [](PlanFile& p) {
         constant(p, "w1").shape = {40, 24};
       },
       "not what the text says"},
  };
}

std::vector<Lie> lies_about_the_graph() {
  return {
      {"no graph", [](PlanFile& p) { p.graph = ""; }, "a graph starts with"},
      {"a cycle", [](PlanFile& p) { replace(p.graph, "(%x, ", "(%y, "); }, "y"},
      {"an unknown operator", [](PlanFile& p) { replace(p.graph, "Relu", "Zelu"); }, "Zelu"},
      {"shapes that contradict each other", [](PlanFile& p) { replace(p.graph, "f32[n, 24]", "f32[n, 25]"); }, "first"},
      {"a wrong shape between nodes", [](PlanFile& p) { replace(p.graph, "%b: f32[n, 40]", "%b: f32[1]"); }, ""},
      {"a wrong type between nodes", [](PlanFile& p) { replace(p.graph, "%b: f32", "%b: i64"); }, ""},
      {"known elements that are false",
       [](PlanFile& p) { replace(p.graph, "%b: f32[n, 40]", "%b: i64[1] as [1000000]"); }, ""},
      {"a size of an input that a node counts",
       [](PlanFile& p) { replace(p.graph, "f32[n, 24]", "f32[:first:count, 24]"); }, "kept for sizes found while"},
      {"a size of an input that is read from data",
       [](PlanFile& p) { replace(p.graph, "f32[n, 24]", "f32[$x:0, 24]"); }, "kept for sizes found while"},
      {"a negative size", [](PlanFile& p) { replace(p.graph, "f32[n, 24]", "f32[n - 5, 24]"); }, ""},
      {"a size without end",
       [](PlanFile& p) { replace(p.graph, "f32[n, 24]", "f32[n*n*n*n*n*n*n*n*n*n*n*9223372036854775807, 24]"); }, ""},
  };
}

std::vector<Lie> lies_about_choices() {
  const auto choose = [](const std::string& way) {
    return [way](PlanFile& p) {
      Record record = parse_record(p.records[0]);
      for (auto& [key, choice] : record.regions) choice.way = way;
      p.records[0] = print(record);
    };
  };
  return {
      {"no target", [](PlanFile& p) { p.records[0] = "record of nothing\n"; }, "name=value"},
      {"no record", [](PlanFile& p) { p.records[0] = "hello"; }, "a record starts with"},
      {"a line of something else", [](PlanFile& p) { p.records[0] += "extra\n"; }, "expected"},
      {"a region twice",
       [](PlanFile& p) {
         const std::string line = p.records[0].substr(p.records[0].find("region"));
         p.records[0] += line;
       },
       "there twice"},
      {"a time that is none", [](PlanFile& p) { replace(p.records[0], "use 0 ms", "use nan ms"); }, "not a time"},
      {"a way that is none", choose("by magic"), ""},
      {"a schedule beyond every ceiling", choose("generated contract m=99999999 n=64"), ""},
      {"panels wider than a tile", choose("generated contract m=56 n=32 k=0 m_chunk=0 panel=256"), ""},
      {"tiles that are no panels", choose("generated contract m=56 n=48 k=0 m_chunk=0 panel=32"), ""},
      {"the largest tile", choose("generated contract m=1024 n=4096 k=0 m_chunk=1048576 panel=256"), ""},
      {"one lane", choose("generated contract m=1 n=1 k=1 m_chunk=1 panel=1"), ""},
      {"a strategy for something else", choose("generated attention queries=1 keys=1"), ""},
      {"a team without end", [](PlanFile& p) { replace(p.records[0], "threads=2", "threads=1099511627776"); }, ""},
      {"a machine without registers",
       [](PlanFile& p) { replace(p.records[0], "vector_registers=", "vector_registers=0"); }, ""},
  };
}

void expect_refusals(const std::vector<Lie>& lies) {
  ASSERT_EQ(error_of(print_plan(sample_plan()), true), "");
  for (const Lie& lie : lies) {
    PlanFile plan = sample_plan();
    lie.tell(plan);
    const std::string error = error_of(print_plan(plan), true);
    if (lie.refusal.empty()) continue;  // it ran, or was refused for a reason of its own
    const size_t bar = lie.refusal.find('|');
    const bool named = error.find(lie.refusal.substr(0, bar)) != std::string::npos ||
                       (bar != std::string::npos && error.find(lie.refusal.substr(bar + 1)) != std::string::npos);
    EXPECT_TRUE(named) << lie.name << ": '" << error << "'";
  }
}

TEST(HostilePlan, lies_about_constants_are_named) {
  if (!why_no_sample_kernels().empty()) GTEST_SKIP() << why_no_sample_kernels();
  expect_refusals(lies_about_constants());
}
TEST(HostilePlan, lies_about_the_graph_are_named_or_harmless) { expect_refusals(lies_about_the_graph()); }
TEST(HostilePlan, lies_about_choices_are_named_or_harmless) { expect_refusals(lies_about_choices()); }

TEST(HostilePlan, a_harmless_lie_about_a_way_changes_no_result) {
  for (const Lie& lie : lies_about_choices()) {
    if (!lie.refusal.empty()) continue;
    PlanFile plan = sample_plan();
    lie.tell(plan);
    EXPECT_EQ(error_of(print_plan(plan), true), "") << lie.name;
  }
}

TEST(HostilePlan, random_bytes_with_repaired_checksums_never_crash) {
  const std::vector<std::byte> bytes = print_plan(sample_plan());
  Random random(20);
  int refused = 0, taken = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> damaged = bytes;
    const int64_t changes = random.integer(1, 4);
    for (int64_t c = 0; c < changes; ++c) {
      // Two thirds hit the graph and the record; the rest of the file is mostly weights.
      const auto end = static_cast<int64_t>(random.chance(0.67) ? std::min<size_t>(bytes.size(), 3000) : bytes.size());
      const auto at = static_cast<size_t>(random.integer(0, end - 1));
      damaged[at] = static_cast<std::byte>(random.chance(0.5) ? random.integer(32, 127) : random.integer(-2, 2));
    }
    repair_checksums(damaged);
    const AlignedCopy copy(damaged);
    try {
      const Plan plan = from_file(parse_plan(copy.bytes(), copy.owner(), "sample"), "sample");
      CompileOptions options = options_of(plan);
      options.interpret = true;  // a kernel of its own for each round would take minutes
      build(plan, host_cpu(2), options);
      ++taken;
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), ErrorKind::kInternal) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 300);
  EXPECT_GT(taken, 100);  // a changed name or weight is still a plan
}

}  // namespace
}  // namespace graft
