// SPDX-License-Identifier: Apache-2.0
#include "quantize/format.h"

#include <algorithm>
#include <iterator>

namespace graft::quantize {
namespace {

constexpr std::string_view kNames[] = {"static", "dynamic", "float"};
constexpr std::string_view kCodes[] = {"int8", "fp8", "int4"};

}  // namespace

std::string_view name_of(Activations activations) { return kNames[static_cast<size_t>(activations)]; }

std::optional<Activations> parse_activations(std::string_view name) {
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<Activations>(found - std::begin(kNames));
}

std::string_view name_of(Codes codes) { return kCodes[static_cast<size_t>(codes)]; }

std::optional<Codes> parse_codes(std::string_view name) {
  const auto found = std::find(std::begin(kCodes), std::end(kCodes), name);
  if (found == std::end(kCodes)) return std::nullopt;
  return static_cast<Codes>(found - std::begin(kCodes));
}

}  // namespace graft::quantize
