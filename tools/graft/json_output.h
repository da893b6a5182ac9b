// SPDX-License-Identifier: Apache-2.0
// Results of commands as JSON, for programs: docs/schemas has a schema for each command.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "command_line.h"

namespace graft {

/// `--json FILE`: the results of a command as JSON, beside or instead of its text.
class JsonOutput {
 public:
  void add_to(Command command);
  bool wanted() const { return !path_.empty(); }
  /// Whether the text has standard output for itself: not when the JSON goes there.
  bool leaves_text() const;
  const std::string& path() const { return path_; }
  /// Throws as check_output does. From then on a command that fails says why in the file.
  void check(const std::vector<std::string>& inputs) const;
  /// Throws UsageError when another option's output is the same: one would replace the other.
  void check_apart(const std::string& option, const std::string& other) const;
  /// Writes the results, if they were asked for. Bytes that are no UTF-8 are replaced.
  void write(const nlohmann::json& results) const;

 private:
  std::string path_;
};

/// Writes {"error": ...} where the command's --json asked for JSON: to standard output, or to its file when that was
/// checked, is none that the process has read, and holds no results of this command yet. Never throws.
void write_json_error(int status, std::string_view kind, std::string_view where, std::string_view message) noexcept;

}  // namespace graft
