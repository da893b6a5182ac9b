// SPDX-License-Identifier: Apache-2.0
#include "driver/plan_metadata.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "graph/output_name.h"

namespace graft {
namespace {

constexpr size_t kMostPairs = 1000, kLongestKey = 256, kLongestValue = 65536;
constexpr std::string_view kMade = "graft.made";
constexpr std::string_view kReserved[] = {"graft.", "model."};

std::string text_of(std::time_t time) { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(time)); }

/// Seconds since 1970, as reproducible-builds.org defines the variable, if it is set.
std::optional<std::time_t> stated_time() {
  const char* const given = std::getenv("SOURCE_DATE_EPOCH");
  int64_t seconds = 0;
  if (!given || !*given) return std::nullopt;
  const char* const end = given + std::strlen(given);
  constexpr int64_t kLast = 253402300799;  // of the year 9999
  const auto [stop, fault] = std::from_chars(given, end, seconds);
  GRAFT_USER_CHECK(fault == std::errc() && stop == end && seconds >= 0 && seconds <= kLast, kInvalidArgument,
                   fmt::format("'{}' is no number of seconds since 1970", given), "SOURCE_DATE_EPOCH");
  return static_cast<std::time_t>(seconds);
}

/// The file that stands for a model: itself, or the graph in the folder of a SavedModel. Empty where there is none.
std::filesystem::path file_of(const std::string& path) {
  std::error_code fault;
  const std::filesystem::path given(path);
  if (std::filesystem::is_regular_file(given, fault)) return given;
  const std::filesystem::path graph = given / "saved_model.pb";
  return std::filesystem::is_regular_file(graph, fault) ? graph : std::filesystem::path();
}

void add_bytes(Metadata& metadata, std::span<const std::byte> bytes) {
  metadata.emplace_back("graft.source_sha256", sha256(bytes));
  metadata.emplace_back("graft.source_bytes", std::to_string(bytes.size()));
}

}  // namespace

void add_metadata(Metadata& metadata, std::string_view text) {
  const size_t equals = text.find('=');
  GRAFT_USER_CHECK(equals != text.npos && equals > 0, kInvalidArgument,
                   fmt::format("'{}' is not KEY=VALUE", text.substr(0, kLongestKey)), "metadata");
  const std::string_view key = text.substr(0, equals), value = text.substr(equals + 1);
  GRAFT_USER_CHECK(key.size() <= kLongestKey && value.size() <= kLongestValue, kInvalidArgument,
                   fmt::format("a key has at most {} bytes, a value {}", kLongestKey, kLongestValue), "metadata");
  for (const std::string_view prefix : kReserved) {
    GRAFT_USER_CHECK(!key.starts_with(prefix), kInvalidArgument,
                     fmt::format("keys that begin with '{}' are Graft's own; take another than '{}'", prefix, key),
                     "metadata");
  }
  const bool known = std::any_of(metadata.begin(), metadata.end(), [&](const auto& pair) { return pair.first == key; });
  GRAFT_USER_CHECK(!known, kInvalidArgument, fmt::format("'{}' was given twice", key), "metadata");
  GRAFT_USER_CHECK(metadata.size() < kMostPairs, kInvalidArgument,
                   fmt::format("there may be {} pairs", kMostPairs), "metadata");
  metadata.emplace_back(key, value);
}

void add_origin(Metadata& metadata, const ModelSource& source) {
  Metadata known;
  if (source.bytes) {
    add_bytes(known, *source.bytes);
  } else if (const std::filesystem::path file = file_of(source.path); !file.empty()) {
    const std::filesystem::path named(source.path);
    known.emplace_back("graft.source", (named.has_filename() ? named : named.parent_path()).filename().string());
    add_bytes(known, MappedFile::open(file.string())->bytes());
  }
  if (const auto time = stated_time()) known.emplace_back(kMade, text_of(*time));
  metadata.insert(metadata.begin(), known.begin(), known.end());
}

void add_time_of_file(Metadata& metadata, const std::string& path) {
  const auto is_time = [](const auto& pair) { return pair.first == kMade; };
  const bool known = std::any_of(metadata.begin(), metadata.end(), is_time);
  struct stat file {};
  if (!known && ::stat(path.c_str(), &file) == 0) metadata.emplace_back(kMade, text_of(file.st_mtime));
}

Metadata all_metadata(const Metadata& metadata, const Graph& graph,
                      const std::vector<std::pair<std::string, std::string>>& options) {
  Metadata all = metadata;
  for (const auto& [key, value] : options) {
    if (key == "version") all.emplace_back("graft.version", value);
  }
  for (const auto& [key, value] : graph.metadata) {
    if (!is_output_name(key)) all.emplace_back("model." + key, value);
  }
  return all;
}

}  // namespace graft
