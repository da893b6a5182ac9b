// SPDX-License-Identifier: Apache-2.0
// Plans whose files change while they are used, and plans that would become much more in memory than they are.
#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "plan/repair_checksums.h"
#include "plan/sample_plan.h"
#include "plan/temporary_directory.h"

namespace graft {
namespace {

Status run(Session& session) {
  std::vector<float> x(3 * 24, 0.5f), y(3 * 8);
  const BufferView inputs[] = {{x.data(), DType::kFloat32, {3, 24}, {}}};
  BufferView outputs[] = {{y.data(), DType::kFloat32, {3, 8}, {}}};
  return session.run(inputs, outputs);
}

/// What `cp` does: the same file with other bytes.
void write_over(const std::string& path, const std::string& bytes) {
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << bytes;
}

TEST(PlanInUse, a_run_after_the_file_was_written_to_is_an_error) {
  const TemporaryDirectory folder;
  const std::string path = folder / "plan.graft";
  save(sample_compiled().plan, path);
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  const std::string old = read_text_file(path);
  Session mapped(load(open_plan(path))), copied(load(open_plan(path, Weights::kCopied)));
  ASSERT_TRUE(run(mapped).ok());
  write_over(path, std::string(old.size(), 'x'));
  const Status status = run(mapped);
  EXPECT_EQ(status.kind(), ErrorKind::kDevice);
  EXPECT_NE(status.message().find(path), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("load it again"), std::string::npos) << status.message();
  EXPECT_TRUE(run(copied).ok());
}

TEST(PlanInUse, replacing_the_file_is_no_change) {
  const TemporaryDirectory folder;
  const std::string path = folder / "plan.graft";
  save(sample_compiled().plan, path);
  Session session(load(open_plan(path)));
  ASSERT_TRUE(run(session).ok());
  save(sample_compiled(56).plan, path);
  EXPECT_TRUE(run(session).ok());
  std::filesystem::remove(path);
  EXPECT_TRUE(run(session).ok());
}

TEST(MappedFile, a_byte_finds_its_file) {
  const TemporaryDirectory folder;
  write_file(folder / "a", "some text");
  const auto file = MappedFile::open(folder / "a");
  EXPECT_EQ(MappedFile::find(file->bytes().data()), file);
  EXPECT_EQ(MappedFile::find(file->bytes().data() + 8), file);
  EXPECT_EQ(MappedFile::find(file->bytes().data() + 9), nullptr);
  EXPECT_EQ(MappedFile::find(file->bytes().data() - 1), nullptr);
  EXPECT_FALSE(file->was_changed());
}

/// The memory that belongs to this process alone, in bytes.
int64_t own_memory() {
  int64_t pages = 0, resident = 0, shared = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident >> shared;
  return (resident - shared) * 4096;
}

/// `layers` products, all with the same 1 MB of weights, each under a name of its own.
PlanFile repeated_weights(int layers) {
  TensorData weights = TensorData::zeros(DType::kFloat32, {512, 512});
  for (int64_t i = 0; i < weights.element_count(); ++i) weights.write_double(i, static_cast<double>(i % 31) * 0.001);
  std::string text = R"(graph "repeated" {
  opset "" 28
  input %x: f32[n, 512]
)";
  std::map<std::string, TensorData, std::less<>> named;
  for (int l = 0; l < layers; ++l) {
    const std::string number = std::to_string(l);
    named["w" + number] = weights;
    text += "  constant %w" + number + ": f32[512, 512] = weights\n";
    const std::string before = l == 0 ? "%x" : "%y" + std::to_string(l - 1);
    text += "  %y" + number + ": f32[n, 512] = MatMul \"m" + number + "\" (" + before + ", %w" + number + ")\n";
  }
  text += "  output %y" + std::to_string(layers - 1) + "\n}\n";
  CompileOptions options;
  options.threads = 1;
  options.tuning = Tuning::kOff;
  return to_file(compile_from(parse_graph(text, &named), Stage::kImport, options).plan);
}

TEST(PlanInUse, many_names_for_the_same_weights_are_the_same_memory) {
  const std::vector<std::byte> bytes = print_plan(repeated_weights(100));
  EXPECT_LT(bytes.size(), 4u << 20);
  const AlignedCopy copy(bytes);
  const int64_t before = own_memory();
  const auto engine = load(from_file(parse_plan(copy.bytes(), copy.owner(), "sample"), "sample"));
  EXPECT_LT(own_memory() - before, int64_t{60} << 20);  // 100 copies are 105 MB and more
}

TEST(PlanInUse, the_same_bytes_are_not_packed_in_two_ways) {
  if (!why_no_sample_kernels().empty()) GTEST_SKIP() << why_no_sample_kernels();
  PlanFile plan = sample_plan();
  for (const StoredConstant& stored : plan.constants) {
    if (stored.layout.empty()) continue;
    StoredConstant twice = stored;
    twice.name = "another";
    std::swap(twice.view[0], twice.view[1]);
    plan.constants.push_back(twice);
    break;
  }
  const std::vector<std::byte> bytes = print_plan(plan);
  const AlignedCopy copy(bytes);
  EXPECT_THROW(from_file(parse_plan(copy.bytes(), copy.owner(), "sample"), "sample"), Error);
}

}  // namespace
}  // namespace graft
