// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "engine/plan_file.h"
#include "plan/repair_checksums.h"
#include "plan/sample_engine.h"
#include "plan/temporary_directory.h"
#include "runtime/session.h"

namespace graft {
namespace {

Engine parse(std::span<const std::byte> bytes) {
  const AlignedCopy copy(bytes);
  return parse_plan(copy.bytes(), copy.owner(), "sample");
}

/// The error that the bytes give, or "" when they are a plan.
std::string error_of(std::span<const std::byte> bytes) {
  try {
    parse(bytes);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidModel) << error.what();
    return error.what();
  }
}

std::vector<float> run(const Engine& engine, std::vector<float> x) {
  auto loaded = std::make_shared<LoadedEngine>();
  loaded->engine = std::make_shared<const Engine>(engine);
  Session session(loaded);
  std::vector<float> y(x.size());
  const int64_t rows = static_cast<int64_t>(x.size()) / 8;
  const BufferView inputs[] = {{x.data(), DType::kFloat32, {rows, 8}, {}}};
  BufferView outputs[] = {{y.data(), DType::kFloat32, {rows, 8}, {}}};
  const Status status = session.run(inputs, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  return y;
}

TEST(PlanFile, saving_what_was_loaded_gives_the_same_bytes) {
  const TemporaryDirectory folder;
  const std::string first = folder / "first.graft", second = folder / "second.graft";
  save_plan(sample_engine(), first);
  save_plan(load_plan(first), second);
  EXPECT_EQ(read_text_file(first), read_text_file(second));
  EXPECT_GT(read_text_file(first).size(), 1000u);
  EXPECT_EQ(folder.file_count(), 2u);
}

TEST(PlanFile, every_field_comes_back) {
  const Engine engine = sample_engine(), again = parse(print_plan(engine));
  EXPECT_EQ(again.name, engine.name);
  EXPECT_EQ(again.target, engine.target);
  EXPECT_EQ(again.threads, engine.threads);
  EXPECT_EQ(again.options, engine.options);
  EXPECT_EQ(again.symbols.at("n").opt, 8);
  ASSERT_EQ(again.tensors.size(), engine.tensors.size());
  EXPECT_EQ(again.tensors[3].storage, Storage::kAlias);
  EXPECT_EQ(again.tensors[2].bytes, engine.tensors[2].bytes);
  ASSERT_EQ(again.constants.size(), 3u);
  for (size_t c = 0; c < 3; ++c) EXPECT_TRUE(again.constants[c] == engine.constants[c]) << c;
  ASSERT_EQ(again.steps.size(), 2u);
  EXPECT_EQ(again.steps[0].region, engine.steps[0].region);
  EXPECT_EQ(again.steps[0].schedule, engine.steps[0].schedule);
  EXPECT_EQ(again.steps[0].nodes, engine.steps[0].nodes);
  EXPECT_EQ(again.steps[0].candidates[0].milliseconds, 0.25);
  EXPECT_EQ(again.steps[0].checks[0].value, engine.steps[0].checks[0].value);
  EXPECT_EQ(again.kernels[0].program, engine.kernels[0].program);
  EXPECT_EQ(again.kernels[0].scratch, engine.kernels[0].scratch);
  EXPECT_EQ(again.kernels[0].object, 0);  // units are numbered in the order of their kernels
  EXPECT_EQ(again.kernels[1].object, 1);
  EXPECT_TRUE(again.objects.empty());
}

TEST(PlanFile, constants_lie_in_the_mapped_file) {
  const AlignedCopy copy(print_plan(sample_engine()));
  const Engine engine = parse_plan(copy.bytes(), copy.owner(), "sample");
  for (const int c : {0, 2}) {
    const auto bytes = engine.constants[c].bytes();
    EXPECT_GE(bytes.data(), copy.bytes().data());
    EXPECT_LE(bytes.data() + bytes.size(), copy.bytes().data() + copy.bytes().size());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 64, 0u);
  }
}

TEST(PlanFile, equal_bytes_of_shared_constants_are_stored_once) {
  Engine engine = sample_engine(false, 1000);
  const size_t before = print_plan(engine).size();
  engine.constants.push_back(engine.constants[2]);
  EXPECT_LT(print_plan(engine).size(), before + 200);
}

TEST(PlanFile, a_loaded_engine_computes_the_same) {
  const Engine engine = sample_engine(true);
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3, -4, -5, -6, -7, -8};
  const std::vector<float> expected = run(engine, x);
  EXPECT_EQ(expected[1], 2 + 2 * 2.5f);
  EXPECT_EQ(run(parse(print_plan(engine)), x), expected);
}

TEST(PlanFile, an_output_may_be_an_alias_of_what_a_step_writes) {
  Engine engine = sample_engine(true);
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> expected = run(engine, x);
  const Size n = Size::symbol("n");
  engine.tensors.push_back(sample_tensor("view", {n, 8}, n * Size(32), Storage::kAlias, 4));
  engine.outputs = {7};
  EXPECT_EQ(run(parse(print_plan(engine)), x), expected);
}

TEST(PlanFile, every_truncation_is_an_error_that_says_what_to_do) {
  const std::vector<std::byte> bytes = print_plan(sample_engine());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string error = error_of(std::span(bytes).first(size));
    ASSERT_NE(error.find("compile the model again"), std::string::npos) << size << ": " << error;
  }
}

TEST(PlanFile, bytes_after_the_end_are_an_error) {
  std::vector<std::byte> bytes = print_plan(sample_engine());
  bytes.push_back(std::byte{0});
  EXPECT_NE(error_of(bytes).find("truncated or was written over"), std::string::npos);
}

TEST(PlanFile, every_flipped_bit_is_noticed) {
  const std::vector<std::byte> bytes = print_plan(sample_engine());
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::vector<std::byte> damaged = bytes;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const std::string error = error_of(damaged);
    ASSERT_NE(error.find("plan 'sample', section"), std::string::npos) << "bit " << bit << ": " << error;
  }
}

TEST(PlanFile, a_file_that_cannot_be_written_leaves_nothing_behind) {
  const TemporaryDirectory folder;
  save_plan(sample_engine(), folder / "old.graft");
  const std::string old = read_text_file(folder / "old.graft");
  const pid_t child = ::fork();
  if (child == 0) {  // a file size limit fails like a full disk
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      save_plan(sample_engine(false, 10'000), folder / "old.graft");
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
  EXPECT_THROW(save_plan(sample_engine(), folder / "missing" + "/x.graft"), Error);
}

}  // namespace
}  // namespace graft
