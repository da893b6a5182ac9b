// SPDX-License-Identifier: Apache-2.0
// The CUDA C++ of kernels as the golden files of tests/golden/cuda show it: short ones wholly, others as an outline.
// `./dev update` rewrites them; what changed is then to be read, and run by tests/device/cuda_proof.py where there is a
// GPU. GRAFT_KERNEL_TEXTS=FOLDER before and after, and `diff -r`, show the lines behind an outline that changed.
#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "codegen/cuda/kernel_writer.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/cuda/prelude.h"
#include "codegen/progress.h"
#include "kernel_outline.h"
#include "proof_programs.h"
#include "support/golden_file.h"
#include "tile/program.h"

namespace graft::cuda {
namespace {

/// The program of a case; one without a text is the proof program of its name.
std::string program_of(const golden::Case& c) {
  if (!c.input.empty()) return c.input;
  for (const std::string_view program : kProofPrograms) {
    if (program.starts_with("program " + c.name + " {")) return std::string(program);
  }
  throw std::runtime_error("no proof program is called " + c.name);
}

/// The kernel and what its launch needs, or why there is none.
std::string kernel_text(const tile::Program& program) {
  try {
    const Kernel kernel = write_kernel(program, find_target("sm_90a"));
    const bool has_roles = kernel.cluster > 1 || kernel.occupancy > 0;
    return kernel.text + "// threads " + std::to_string(kernel.threads) + ", shared memory " +
           std::to_string(kernel.shared_bytes) + " bytes\n" +
           (has_roles ? "// launch: " + launch_line(program, kernel) + "\n" : "");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    return "// refused: " + error.message() + "\n";
  }
}

std::string kernel_of(const golden::Case& c) { return kernel_text(tile::parse_program(program_of(c))); }

constexpr int kMostLines = 48;  // that are shown wholly

std::string shown_kernel_of(const golden::File& file, const golden::Case& c) {
  return kernel_outline(file.path.stem().string() + "." + c.name, kernel_of(c), kMostLines);
}

/// Outlines of the kernels of the programs for the GPU that a case of tests/golden/lower expects, named by its file and
/// itself.
std::string kernels_of_lowered(const golden::File&, const golden::Case& c) {
  std::string text;
  for (const golden::File& file : golden::read_folder("lower")) {
    for (const golden::Case& lowered : file.cases) {
      if (file.path.stem().string() + "." + lowered.name != c.name) continue;
      constexpr std::string_view kMachine = " on sm_90a:\n", kProgram = "program ", kEnd = "\n}\n";
      const std::string& all = lowered.expectation;
      for (size_t at = all.find(kMachine); at != all.npos; at = all.find(kMachine, at + 1)) {
        const size_t begin = all.find(kProgram, at), end = all.find(kEnd, begin);
        if (end == all.npos) throw std::runtime_error(c.name + " expects no program");
        const tile::Program program = tile::parse_program(all.substr(begin, end + kEnd.size() - begin));
        text += kernel_outline(c.name + "." + program.name, kernel_text(program), 0);
      }
    }
  }
  return text;
}

TEST(GoldenKernels, of_lowered_graphs_are_written_as_the_file_shows) {
  golden::File expected = golden::read_folder("cuda_lowered").at(0);
  std::set<std::string> known, wanted;
  for (const golden::File& file : golden::read_folder("lower")) {
    for (const golden::Case& c : file.cases) wanted.insert(file.path.stem().string() + "." + c.name);
  }
  if (golden::updating()) {
    for (const std::string& name : wanted) golden::has_case(expected.path, name);
    expected = golden::read(expected.path);
  }
  for (const golden::Case& c : expected.cases) known.insert(c.name);
  EXPECT_EQ(known, wanted) << expected.path << " has a case for each of tests/golden/lower";
  for (const golden::Case& c : expected.cases) golden::check(expected.path, c.name, kernels_of_lowered);
}

TEST(GoldenKernels, are_written_as_the_files_show) {
  for (const golden::File& file : golden::read_folder("cuda")) {
    for (const golden::Case& c : file.cases) golden::check(file.path, c.name, shown_kernel_of);
  }
}

TEST(GoldenKernels, are_accepted_by_the_compiler) {
  if (!nvrtc_problem().empty()) GTEST_SKIP() << nvrtc_problem();
  std::string source(prelude());
  for (const DType type : {DType::kFloat16, DType::kFloat32}) {
    for (const int columns : {64, 128}) source += warpgroup_product({columns, type, type});
  }
  for (const golden::File& file : golden::read_folder("cuda")) {
    if (file.path.stem() == "proof_programs") continue;  // those are compiled for every architecture elsewhere
    for (const golden::Case& c : file.cases) source += "\n" + kernel_of(c);
  }
  codegen::Progress progress;
  EXPECT_FALSE(compile_source(source, "sm_90a", progress).empty());
}

}  // namespace
}  // namespace graft::cuda
