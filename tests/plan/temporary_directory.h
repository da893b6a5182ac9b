// SPDX-License-Identifier: Apache-2.0
// A directory that goes when the test ends.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace graft {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "graft-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  size_t file_count() const {
    const auto files = std::filesystem::directory_iterator(path_);
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }

 private:
  std::string path_;
};

}  // namespace graft
