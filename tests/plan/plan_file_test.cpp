// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "modules/library_source.h"
#include "plan/repair_checksums.h"
#include "plan/sample_plan.h"
#include "plan/temporary_directory.h"

namespace graft {
namespace {

PlanFile parse(std::span<const std::byte> bytes) {
  const AlignedCopy copy(bytes);
  return parse_plan(copy.bytes(), copy.owner(), "sample");
}

/// The error that the bytes give, or "" when they are a plan.
std::string error_of(std::span<const std::byte> bytes) {
  try {
    from_file(parse(bytes), "sample");
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidModel) << error.what();
    return error.what();
  }
}

std::vector<float> run(std::shared_ptr<const LoadedEngine> engine, std::vector<float> x) {
  Session session(std::move(engine));
  const auto rows = static_cast<int64_t>(x.size()) / 24;
  std::vector<float> y(static_cast<size_t>(rows) * 8);
  const BufferView inputs[] = {{x.data(), DType::kFloat32, {rows, 24}, {}}};
  BufferView outputs[] = {{y.data(), DType::kFloat32, {rows, 8}, {}}};
  const Status status = session.run(inputs, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  return y;
}

std::vector<float> some_rows(size_t count, float step) {
  std::vector<float> x(count * 24);
  for (size_t i = 0; i < x.size(); ++i) x[i] = step * static_cast<float>(i % 29) - 0.3f;
  return x;
}

TEST(PlanFile, saving_what_was_loaded_gives_the_same_bytes) {
  const TemporaryDirectory folder;
  const std::string first = folder / "first.graft", second = folder / "second.graft";
  save(sample_compiled().plan, first);
  save(open_plan(first), second);
  EXPECT_EQ(read_text_file(first), read_text_file(second));
  EXPECT_GT(read_text_file(first).size(), 4000u);
  EXPECT_EQ(folder.file_count(), 2u);
}

TEST(PlanFile, every_field_comes_back) {
  const PlanFile plan = sample_plan(), again = parse(print_plan(plan));
  EXPECT_EQ(again.producer, plan.producer);
  EXPECT_EQ(again.graph, plan.graph);
  EXPECT_EQ(again.options, plan.options);
  EXPECT_EQ(again.records, plan.records);
  ASSERT_EQ(again.constants.size(), plan.constants.size());
  for (size_t c = 0; c < plan.constants.size(); ++c) {
    EXPECT_EQ(again.constants[c].name, plan.constants[c].name);
    EXPECT_EQ(again.constants[c].shape, plan.constants[c].shape);
    EXPECT_EQ(again.constants[c].layout, plan.constants[c].layout);
    EXPECT_EQ(again.constants[c].view, plan.constants[c].view);
    EXPECT_TRUE(again.constants[c].data == plan.constants[c].data) << c;
  }
}

TEST(PlanFile, constants_lie_in_the_mapped_file) {
  const AlignedCopy copy(print_plan(sample_plan()));
  const PlanFile plan = parse_plan(copy.bytes(), copy.owner(), "sample");
  ASSERT_FALSE(plan.constants.empty());
  for (const StoredConstant& constant : plan.constants) {
    const auto bytes = constant.data.bytes();
    EXPECT_GE(bytes.data(), copy.bytes().data());
    EXPECT_LE(bytes.data() + bytes.size(), copy.bytes().data() + copy.bytes().size());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 64, 0u);
  }
}

TEST(PlanFile, weights_are_stored_once_and_packed_where_kernels_read_them_so) {
  if (!why_no_sample_kernels().empty()) GTEST_SKIP() << why_no_sample_kernels();
  const PlanFile plan = sample_plan();
  std::map<std::string, int> times, packed;
  for (const StoredConstant& constant : plan.constants) {
    ++times[constant.name];
    packed[constant.name] += !constant.layout.empty();
  }
  EXPECT_EQ(times, (std::map<std::string, int>{{"w1", 1}, {"b1", 1}, {"w2", 1}}));
  EXPECT_EQ(packed["w1"], 1);
  EXPECT_EQ(packed["w2"], 1);
  EXPECT_EQ(packed["b1"], 0);
}

TEST(PlanFile, packed_weights_are_unpacked_when_somebody_asks) {
  const Graph original = sample_graph();
  const Plan plan = from_file(parse(print_plan(sample_plan())), "sample");
  for (const char* name : {"w1", "b1", "w2"}) {
    const auto& before = *original.value(original.find_value(name)).constant;
    const auto& after = *plan.graph.value(plan.graph.find_value(name)).constant;
    EXPECT_TRUE(before == after) << name;
  }
}

TEST(PlanFile, equal_bytes_of_shared_constants_are_stored_once) {
  PlanFile plan = sample_plan(1000);
  const size_t before = print_plan(plan).size();
  plan.constants.push_back(plan.constants[0]);
  EXPECT_LT(print_plan(plan).size(), before + 400);
}

TEST(PlanFile, a_loaded_plan_computes_the_same_for_several_sizes) {
  Compiled compiled = sample_compiled();
  const Plan plan = from_file(parse(print_plan(to_file(compiled.plan))), "sample");
  const auto first = load(std::move(compiled.engine)), second = load(plan);
  for (const size_t rows : {1u, 3u, 8u, 100u}) {
    const std::vector<float> expected = run(first, some_rows(rows, 0.1f));
    EXPECT_EQ(run(second, some_rows(rows, 0.1f)), expected);
    EXPECT_NE(run(second, some_rows(rows, 0.2f)), expected);
  }
}

TEST(PlanFile, nothing_is_packed_or_chosen_again_for_a_machine_that_the_plan_was_made_for) {
  const Plan plan = from_file(parse(print_plan(sample_plan())), "sample");
  CompileOptions options = options_of(plan);
  const BuiltEngine built = graft::plan(fuse(plan.graph, options), host_cpu(2), options, &plan);
  EXPECT_EQ(print(built.record), print(plan.records[0]));
  ASSERT_EQ(built.packed.size(), plan.packed.size());
  for (size_t p = 0; p < built.packed.size(); ++p) {
    EXPECT_EQ(built.packed[p].data.bytes().data(), plan.packed[p].data.bytes().data());
  }
}

TEST(PlanFile, a_plan_for_another_kind_of_machine_is_planned_anew) {
  const Compiled other = sample_compiled(40, {"portable"});
  const Plan plan = from_file(parse(print_plan(to_file(other.plan))), "sample");
  const auto here = load(plan);
  EXPECT_EQ(parse_target(here->engine->target).features, host_cpu(2).features);
  EXPECT_EQ(run(here, some_rows(5, 0.1f)), run(load(sample_compiled().engine), some_rows(5, 0.1f)));
}

TEST(PlanFile, one_plan_serves_several_kinds_of_machines) {
  const Compiled both = sample_compiled(40, {"portable", "native"});
  const Plan plan = from_file(parse(print_plan(to_file(both.plan))), "sample");
  ASSERT_EQ(plan.records.size(), 2u);
  EXPECT_NE(plan.records[0].target, plan.records[1].target);
  EXPECT_EQ(run(load(plan), some_rows(5, 0.1f)), run(load(sample_compiled().engine), some_rows(5, 0.1f)));
}

TEST(PlanFile, the_same_record_gives_the_same_bytes) {
  const TemporaryDirectory folder;
  const Compiled first = sample_compiled();
  write_file(folder / "choices.txt", print(first.plan.records[0]));
  CompileOptions options;
  options.threads = 2;
  options.tuning = Tuning::kOff;
  options.record = folder / "choices.txt";
  const Compiled again = compile_from(sample_graph(), Stage::kImport, options);
  EXPECT_EQ(print_plan(to_file(again.plan)), print_plan(to_file(first.plan)));
}

/// The sample with every region that a library knows done there.
Plan library_plan() {
  Compiled compiled = sample_compiled();
  for (auto& [key, choice] : compiled.plan.records[0].regions) choice.way = "onednn cut=rows pieces=2 panel=0";
  compiled.plan.packed.clear();
  compiled.plan.graph = sample_graph();
  return std::move(compiled.plan);
}

TEST(PlanFile, a_record_may_name_a_library) {
  if (!why_no_library("onednn").empty()) GTEST_SKIP() << why_no_library("onednn");
  const auto engine = load(from_file(parse(print_plan(to_file(library_plan()))), "sample"));
  ASSERT_EQ(engine->engine->steps.size(), 2u);
  for (const EngineStep& step : engine->engine->steps) EXPECT_EQ(step.library, "onednn") << step.name;
  const std::vector<float> expected = run(load(sample_compiled().engine), some_rows(9, 0.1f));
  const std::vector<float> actual = run(engine, some_rows(9, 0.1f));
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-5f);
}

TEST(PlanFile, without_the_library_kernels_are_generated) {
  if (!why_no_sample_kernels().empty()) GTEST_SKIP() << why_no_sample_kernels();
  Plan plan = library_plan();
  plan.options.emplace_back("disable", "onednn");
  const auto engine = load(from_file(parse(print_plan(to_file(plan))), "sample"));
  for (const EngineStep& step : engine->engine->steps) EXPECT_EQ(step.kind, StepKind::kKernel) << step.name;
  EXPECT_EQ(run(engine, some_rows(9, 0.1f)), run(load(sample_compiled().engine), some_rows(9, 0.1f)));
}

TEST(PlanFile, every_truncation_is_an_error_that_says_what_to_do) {
  const std::vector<std::byte> bytes = print_plan(sample_plan());
  for (size_t size = 0; size < bytes.size(); size += 7) {
    const std::string error = error_of(std::span(bytes).first(size));
    ASSERT_NE(error.find("compile the model again"), std::string::npos) << size << ": " << error;
  }
}

TEST(PlanFile, bytes_after_the_end_are_an_error) {
  std::vector<std::byte> bytes = print_plan(sample_plan());
  bytes.push_back(std::byte{0});
  EXPECT_NE(error_of(bytes).find("truncated or was written over"), std::string::npos);
}

TEST(PlanFile, every_flipped_bit_is_noticed) {
  const std::vector<std::byte> bytes = print_plan(sample_plan());
  for (size_t bit = 0; bit < bytes.size() * 8; bit += 3) {
    std::vector<std::byte> damaged = bytes;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const std::string error = error_of(damaged);
    ASSERT_NE(error.find("plan 'sample', section"), std::string::npos) << "bit " << bit << ": " << error;
  }
}

TEST(PlanFile, a_file_that_cannot_be_written_leaves_nothing_behind) {
  const TemporaryDirectory folder;
  save_plan(sample_plan(), folder / "old.graft");
  const std::string old = read_text_file(folder / "old.graft");
  const PlanFile large = sample_plan(10'000);
  const pid_t child = ::fork();
  if (child == 0) {  // a file size limit fails like a full disk
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      save_plan(large, folder / "old.graft");
      ::_exit(1);
    } catch (const Error& error) {
      const bool clear = error.kind() == ErrorKind::kDevice && error.where() == folder / "old.graft";
      ::_exit(clear ? 0 : 2);
    }
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_text_file(folder / "old.graft"), old);
  EXPECT_EQ(folder.file_count(), 1u);
  EXPECT_THROW(save_plan(sample_plan(), folder / "missing" + "/x.graft"), Error);
}

}  // namespace
}  // namespace graft
