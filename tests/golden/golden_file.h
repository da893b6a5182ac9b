// SPDX-License-Identifier: Apache-2.0
// Golden files: cases of text in, text out.
//
//   // case: keeps_transpose_when_axes_differ
//   ...input...
//   // expect
//   ...output...  or  unchanged
#pragma once

#include <filesystem>
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
/// Whether --update was given: expectations are rewritten instead of compared.
bool updating();
void set_updating(bool on);

}  // namespace graft::golden
