// SPDX-License-Identifier: Apache-2.0
// Files that options of the command line name for results: checked before the work, written at its end.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace graft {

/// The path behind what an option says: `-` is standard output.
std::string output_path(const std::string& given);

/// Throws UsageError when the output is one of the files that are read, however it is spelt or linked, and Error when
/// the place cannot be written. An empty `given` asks for no file.
void check_output(const std::string& option, const std::string& given, const std::vector<std::string>& inputs);
/// The same for the files that a model names itself; to be called once they have been read.
void check_output_unread(const std::string& option, const std::string& given);
/// Throws UsageError when two of these outputs, by their options, are one file; an empty one asks for none.
void check_outputs_apart(const std::vector<std::pair<std::string, std::string>>& outputs);
/// Throws UsageError when the output is a terminal, which could not show what is no text.
void check_no_terminal(const std::string& option, const std::string& given, std::string_view contents);

/// Where messages go beside such an output: standard output, or standard error when the output takes that.
std::FILE* message_stream(const std::string& given);

/// Writes text that an option asked for.
void write_output(const std::string& given, std::string_view text);

}  // namespace graft
