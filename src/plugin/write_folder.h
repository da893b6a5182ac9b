// SPDX-License-Identifier: Apache-2.0
// A folder that is there whole or not at all.
#pragma once

#include <string>

namespace graft::plugin {

/// A folder under another name beside its place until commit() gives it its own. What is not committed goes.
class OutputFolder {
 public:
  /// `mark`: a file that folders made before have; those are replaced, others that hold anything are not. Throws
  /// invalid_argument naming the path and the remedy.
  OutputFolder(std::string path, std::string mark);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// Where a file of the folder is for now; makes the folders on the way.
  std::string place(const std::string& name) const;
  void write(const std::string& name, std::string_view text) const;
  void commit();

 private:
  std::string path_, mark_, temporary_;
};

}  // namespace graft::plugin
