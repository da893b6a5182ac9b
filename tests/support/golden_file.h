// SPDX-License-Identifier: Apache-2.0
// Golden files: cases of text in, text out.
//
//   // case: keeps_transpose_when_axes_differ
//   ...input...
//   // expect
//   ...output...  or  unchanged
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace graft::golden {

/// One case; the expectation keeps its final newline.
struct Case {
  std::string name;
  std::string input;
  std::string expectation;
};

/// The cases of a file, with the comment lines before the first.
struct File {
  std::filesystem::path path;
  std::string heading;
  std::vector<Case> cases;
};

/// Reads a golden file; throws std::runtime_error naming the line that is not part of a case.
File read(const std::filesystem::path& path);
/// Writes it back in the canonical form.
void write(const File& file);
/// All golden files of a folder below tests/golden, in order of name.
std::vector<File> read_folder(const std::string& folder);
/// Whether expectations are rewritten instead of compared: GRAFT_UPDATE_GOLDEN is set, as ./dev update does.
bool updating();
/// Whether the file has a case of this name. When updating it always does: a missing one is added, expecting nothing.
bool has_case(const std::filesystem::path& path, const std::string& name, const std::string& input = "");

/// The text that a case of a file should expect.
using Transform = std::function<std::string(const File&, const Case&)>;
/// Compares one case, or rewrites it when updating.
void check(const std::filesystem::path& path, const std::string& name, const Transform& transform);
/// One test per case of each file of the folder, so that ctest names them.
void register_tests(const std::string& folder, const Transform& transform);

}  // namespace graft::golden
