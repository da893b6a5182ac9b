// SPDX-License-Identifier: Apache-2.0
#include "output.h"

#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>

#include "base/file.h"
#include "console.h"
#include "model_options.h"

namespace graft {
namespace {

constexpr const char* kStandardOutput = "/dev/stdout";

bool is_standard_output(const std::string& given) {
  const std::string path = output_path(given);
  return path == kStandardOutput || path == "/dev/fd/1" || path == "/proc/self/fd/1";
}

}  // namespace

std::string output_path(const std::string& given) { return given == "-" ? kStandardOutput : given; }

void check_output(const std::string& option, const std::string& given, const std::vector<std::string>& inputs) {
  if (given.empty()) return;
  for (const std::string& input : inputs) {
    if (!is_same_file(output_path(given), input)) continue;
    throw UsageError(fmt::format("{}: '{}' would replace '{}', which is read: they are one file; give another name",
                                 option, given, input));
  }
  check_writable(output_path(given));
}

void check_output_unread(const std::string& option, const std::string& given) {
  if (given.empty() || !was_read(output_path(given))) return;
  throw UsageError(fmt::format("{}: '{}' is a file that the model consists of; give another name", option, given));
}

void check_outputs_apart(const std::vector<std::pair<std::string, std::string>>& outputs) {
  const auto place = [](const std::string& given) {
    std::error_code ignored;
    const std::filesystem::path whole = std::filesystem::absolute(output_path(given), ignored);
    return std::filesystem::weakly_canonical(whole, ignored).string();
  };
  for (size_t n = 0; n < outputs.size(); ++n) {
    for (size_t before = 0; before < n; ++before) {
      const auto& [option, given] = outputs[n];
      const auto& [other, taken] = outputs[before];
      if (given.empty() || taken.empty()) continue;
      if (place(given) != place(taken) && !is_same_file(output_path(given), output_path(taken))) continue;
      throw UsageError(fmt::format("{} and {} both write '{}'; give one another name", option, other, given));
    }
  }
}

void check_no_terminal(const std::string& option, const std::string& given, std::string_view contents) {
  if (given.empty() || !is_standard_output(given) || isatty(STDOUT_FILENO) != 1) return;
  throw UsageError(fmt::format("{}: standard output is a terminal, and {} is no text; send it to a file or a program",
                               option, contents));
}

std::FILE* message_stream(const std::string& given) { return is_standard_output(given) ? stderr : stdout; }

void write_output(const std::string& given, std::string_view text) {
  clear_progress();
  if (is_standard_output(given)) {
    print_text(stdout, text);
  } else {
    write_file(output_path(given), text);
  }
}

}  // namespace graft
