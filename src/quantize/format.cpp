// SPDX-License-Identifier: Apache-2.0
#include "quantize/format.h"

#include <algorithm>
#include <iterator>

namespace graft::quantize {
namespace {

constexpr std::string_view kNames[] = {"static", "dynamic", "float"};

}  // namespace

std::string_view name_of(Activations activations) { return kNames[static_cast<size_t>(activations)]; }

std::optional<Activations> parse_activations(std::string_view name) {
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<Activations>(found - std::begin(kNames));
}

std::string_view weights_name(const Format& format) { return format.bits == 4 ? "int4" : "int8"; }

std::optional<int> parse_weights(std::string_view name) {
  for (const int bits : {8, 4}) {
    if (name == weights_name({.bits = bits})) return bits;
  }
  return std::nullopt;
}

}  // namespace graft::quantize
