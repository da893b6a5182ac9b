// SPDX-License-Identifier: Apache-2.0
// The one registry of environment variables (environment.inc), parsed once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace graft {

/// The rows of environment.inc.
enum class Variable : uint8_t {
#define GRAFT_VARIABLE(enumerator, name, default_value, meaning) enumerator,
#include "base/environment.inc"
#undef GRAFT_VARIABLE
};

/// One row of environment.inc.
struct VariableInfo {
  Variable variable;
  std::string_view name;
  std::string_view default_value;
  std::string_view meaning;
};
const std::vector<VariableInfo>& all_variables();

/// A text form that GRAFT_DUMP asks for; an empty filter takes every name.
struct DumpRequest {
  std::string kind;
  std::vector<std::string> filter;
};

/// The meaning of the variables; immutable once parsed.
struct Environment {
  int debug = 0;
  std::vector<DumpRequest> dumps;
  std::string dump_directory;
  std::vector<std::string> disabled;
  bool validate = false;
  std::string cache_directory;
  uint64_t seed = 1;
  bool nvtx_ranges = false;

  /// Whether GRAFT_DISABLE names the pass or candidate.
  bool is_disabled(std::string_view name) const;
  /// Whether GRAFT_DUMP asks for the text of form `kind` called `name`.
  bool wants_dump(std::string_view kind, std::string_view name) const;
};

/// Parses values by variable, in the order of the table; throws invalid_argument naming the variable, its value and
/// what it may be.
Environment parse_environment(const std::vector<std::string>& values);
/// The process's environment, parsed on first use.
const Environment& environment();
/// What the variable is set to, or its default.
std::string value_of(Variable variable);

/// Writes a dump to `<dump_directory>/<name>.<kind>.txt` with unfit characters of the name replaced, or to standard
/// error when there is no directory. Throws Error naming the file; a symbolic link of that name is refused.
void write_dump(const Environment& environment, std::string_view kind, std::string_view name, std::string_view text);

}  // namespace graft
