// SPDX-License-Identifier: Apache-2.0
#include "settings.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "graft/graft.h"

namespace graft::triton {
namespace {

constexpr std::string_view kCompileKeys[] = {"dim", "shape", "precision", "tune", "mode", "disable"};

[[noreturn]] void refuse(const std::string& key, const std::string& value, const char* wanted) {
  throw Error(ErrorKind::kInvalidArgument, "parameter '" + key + "': '" + value + "' is no " + wanted);
}

/// A number that is not negative, to its last character.
template <class Number>
Number number_of(const std::string& key, std::string_view text, const char* wanted) {
  Number number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size() || !(number >= 0)) {
    refuse(key, std::string(text), wanted);
  }
  return number;
}

/// `200000`, `512K`, `64M`, `2G`.
uint64_t bytes_of(const std::string& key, const std::string& text) {
  const char* const wanted = "number of bytes: 200000, 512K, 64M or 2G";
  const size_t unit = text.empty() ? std::string::npos : std::string_view("KMG").find(text.back());
  if (unit == std::string::npos) return number_of<uint64_t>(key, text, wanted);
  const auto number = number_of<uint64_t>(key, std::string_view(text).substr(0, text.size() - 1), wanted);
  const unsigned shift = 10 * (static_cast<unsigned>(unit) + 1);
  if (number > UINT64_MAX >> shift) refuse(key, text, wanted);
  return number << shift;
}

void read(const std::string& key, const std::string& value, Settings& settings) {
  if (key == "device") {
    settings.device = value;
  } else if (key == "weights") {
    if (value != "mapped" && value != "copied") refuse(key, value, "place: mapped or copied");
    settings.weights = value;
  } else if (key == "threads") {
    settings.threads = number_of<int>(key, value, "number of threads");
  } else if (key == "memory_limit") {
    settings.memory_limit = bytes_of(key, value);
  } else if (key == "deadline") {
    settings.deadline = number_of<double>(key, value, "number of seconds");
  } else if (std::ranges::find(kCompileKeys, key) != std::end(kCompileKeys)) {
    std::istringstream words(value);
    for (std::string word; words >> word;) settings.compile.emplace_back(key, word);
  } else {
    throw Error(ErrorKind::kInvalidArgument,
                "there is no parameter '" + key + "': device, threads, weights, memory_limit and deadline of any "
                "model, and dim, shape, precision, tune, mode and disable of one that is compiled here");
  }
}

}  // namespace

Settings read_settings(const nlohmann::json& config) {
  Settings settings;
  const auto parameters = config.find("parameters");
  if (parameters == config.end()) return settings;
  for (const auto& [key, value] : parameters->items()) read(key, value.value("string_value", std::string()), settings);
  return settings;
}

}  // namespace graft::triton
