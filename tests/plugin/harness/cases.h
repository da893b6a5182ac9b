// SPDX-License-Identifier: Apache-2.0
// What a plugin is run with: a text file that names arrays beside it.
//
//   case NAME            begins a case; of one called `refused...` the sizes are to be refused
//   input TYPE FILE EXTENTS...
//   output TYPE FILE TOLERANCE EXTENTS...
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>

#include "driver.h"

namespace harness {

struct Array {
  std::string type;  ///< f32, f16, bf16, i8, i32, i64, boolean
  std::vector<int64_t> extents;
  std::vector<char> bytes;
  double tolerance = 0;  ///< of an output, absolute and relative
  bool operator==(const Array&) const = default;
};

struct Case {
  std::string name;
  std::vector<Array> inputs, outputs;
  bool is_refused() const { return name.rfind("refused", 0) == 0; }
};

inline size_t width_of(const std::string& type) {
  if (type == "f32" || type == "i32") return 4;
  if (type == "i64") return 8;
  return type == "f16" || type == "bf16" ? 2 : 1;
}

inline std::vector<char> read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.good(), "cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<Case> read_cases(const std::string& folder) {
  std::ifstream file(folder + "/cases.txt");
  require(file.good(), "cannot read " + folder + "/cases.txt");
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind;
    if (!(words >> kind)) continue;
    if (kind == "case") {
      cases.emplace_back();
      words >> cases.back().name;
      continue;
    }
    Array array;
    std::string path;
    words >> array.type >> path;
    if (kind == "output") words >> array.tolerance;
    for (int64_t extent = 0; words >> extent;) array.extents.push_back(extent);
    if (path != "-") {
      array.bytes = read_bytes(folder + "/" + path);
      size_t expected = width_of(array.type);
      for (const int64_t extent : array.extents) expected *= static_cast<size_t>(extent);
      require(array.bytes.size() == expected, path + " has another size than its extents say");
    }
    (kind == "output" ? cases.back().outputs : cases.back().inputs).push_back(std::move(array));
  }
  return cases;
}

/// An element as a number.
inline double element(const Array& array, const std::vector<char>& bytes, size_t index) {
  const char* at = bytes.data() + index * width_of(array.type);
  const auto as = [&](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  if (array.type == "f32") return as(float{});
  if (array.type == "i32") return as(int32_t{});
  if (array.type == "i64") return static_cast<double>(as(int64_t{}));
  if (array.type == "bf16") {
    const uint32_t bits = uint32_t{as(uint16_t{})} << 16;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  if (array.type != "f16") return as(int8_t{});
  const uint16_t bits = as(uint16_t{});
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  if (exponent == 31) value = fraction ? NAN : INFINITY;
  return bits >> 15 ? -value : value;
}

/// Ends the process naming the first element that differs; gives the largest difference.
inline double compare(const Array& expected, const std::vector<char>& computed, const std::string& what) {
  double largest = 0;
  const size_t count = computed.size() / width_of(expected.type);
  for (size_t i = 0; i < count; ++i) {
    const double wanted = element(expected, expected.bytes, i), given = element(expected, computed, i);
    if (std::isnan(wanted) && std::isnan(given)) continue;
    const double difference = wanted == given ? 0 : std::abs(wanted - given);
    const bool good = difference <= expected.tolerance * (1 + std::abs(wanted));
    require(good, what + ", element " + std::to_string(i) + ": " + std::to_string(given) + " instead of " +
                      std::to_string(wanted));
    largest = std::max(largest, difference);
  }
  return largest;
}

}  // namespace harness
