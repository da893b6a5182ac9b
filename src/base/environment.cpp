// SPDX-License-Identifier: Apache-2.0
#include "base/environment.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/printable.h"

namespace graft {
namespace {

constexpr std::array<std::string_view, 6> kDumpKinds = {"graph", "region", "tile", "kernels", "plan", "record"};

/// Splits at commas outside brackets, dropping blanks and empty words.
std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> words(1);
  int depth = 0;
  for (const char c : text) {
    depth += (c == '[') - (c == ']');
    if (c == ',' && depth == 0) {
      words.emplace_back();
    } else if (c != ' ') {
      words.back() += c;
    }
  }
  std::erase_if(words, [](const std::string& word) { return word.empty(); });
  return words;
}

[[noreturn]] void reject(Variable variable, std::string_view value, std::string_view allowed) {
  const VariableInfo& row = all_variables()[static_cast<size_t>(variable)];
  throw Error(ErrorKind::kInvalidArgument, fmt::format("the value '{}' is not {}", value, allowed),
              std::string(row.name));
}

uint64_t parse_number(Variable variable, const std::string& text, uint64_t most, std::string_view allowed) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number > most) reject(variable, text, allowed);
  return number;
}

/// `graph[a,b]` -> {graph, {a, b}}
DumpRequest parse_dump(const std::string& word) {
  const size_t open = word.find('[');
  DumpRequest request{word.substr(0, open), {}};
  const bool known = std::find(kDumpKinds.begin(), kDumpKinds.end(), request.kind) != kDumpKinds.end();
  if (!known || (open != std::string::npos && word.back() != ']')) {
    reject(Variable::kDump, word,
           fmt::format("one of {}, with a filter in brackets or none", fmt::join(kDumpKinds, ", ")));
  }
  if (open != std::string::npos) request.filter = split_list(word.substr(open + 1, word.size() - open - 2));
  return request;
}

}  // namespace

const std::vector<VariableInfo>& all_variables() {
  static const std::vector<VariableInfo> rows = {
#define GRAFT_VARIABLE(enumerator, name, default_value, meaning) {Variable::enumerator, name, default_value, meaning},
#include "base/environment.inc"
#undef GRAFT_VARIABLE
  };
  return rows;
}

bool Environment::is_disabled(std::string_view name) const {
  return std::find(disabled.begin(), disabled.end(), name) != disabled.end();
}

bool Environment::wants_dump(std::string_view kind, std::string_view name) const {
  const auto contained = [&](const std::string& word) { return name.find(word) != std::string_view::npos; };
  return std::any_of(dumps.begin(), dumps.end(), [&](const DumpRequest& request) {
    return request.kind == kind &&
           (request.filter.empty() || std::any_of(request.filter.begin(), request.filter.end(), contained));
  });
}

Environment parse_environment(const std::vector<std::string>& values) {
  GRAFT_CHECK(values.size() == all_variables().size(), "one value per variable");
  const auto value = [&](Variable variable) -> const std::string& { return values[static_cast<size_t>(variable)]; };
  Environment result;
  result.debug = static_cast<int>(parse_number(Variable::kDebug, value(Variable::kDebug), 5, "a number from 0 to 5"));
  for (const std::string& word : split_list(value(Variable::kDump))) result.dumps.push_back(parse_dump(word));
  result.dump_directory = value(Variable::kDumpDirectory);
  result.disabled = split_list(value(Variable::kDisable));
  result.validate = parse_number(Variable::kValidate, value(Variable::kValidate), 1, "0 or 1") == 1;
  result.cache_directory = value(Variable::kCache);
  const std::string& ranges = value(Variable::kRanges);
  if (!ranges.empty() && ranges != "nvtx") reject(Variable::kRanges, ranges, "nvtx, or empty");
  result.nvtx_ranges = !ranges.empty();
  result.seed = parse_number(Variable::kSeed, value(Variable::kSeed), UINT64_MAX, "a non-negative whole number");
  return result;
}

std::string value_of(Variable variable) {
  const VariableInfo& row = all_variables()[static_cast<size_t>(variable)];
  const char* value = std::getenv(std::string(row.name).c_str());
  return value && *value ? value : std::string(row.default_value);
}

const Environment& environment() {
  static const Environment parsed = [] {
    std::vector<std::string> values;
    for (const VariableInfo& row : all_variables()) values.push_back(value_of(row.variable));
    return parse_environment(values);
  }();
  return parsed;
}

void write_dump(const Environment& environment, std::string_view kind, std::string_view name, std::string_view text) {
  const std::string ending = text.ends_with('\n') ? "" : "\n";
  if (environment.dump_directory.empty()) {
    fmt::print(stderr, "# {} {}\n{}{}", kind, printable(name), printable_lines(text), ending);
    return;
  }
  std::string stem(name);
  for (char& c : stem) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-' && c != '.') c = '_';
  }
  const std::filesystem::path path =
      std::filesystem::path(environment.dump_directory) / fmt::format("{}.{}.txt", stem, kind);
  std::error_code ignored;
  std::filesystem::create_directories(environment.dump_directory, ignored);
  write_file(path.string(), fmt::format("{}{}", text, ending), {.follow_links = false, .durable = false});
}

}  // namespace graft
