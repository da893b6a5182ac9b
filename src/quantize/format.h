// SPDX-License-Identifier: Apache-2.0
// What the operands of quantised products become.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace graft::quantize {

enum class Activations : uint8_t {
  kStatic,   ///< u8, by ranges of samples
  kDynamic,  ///< u8, each row of the left matrix by its own largest magnitude, found in each run
  kFloat,    ///< they stay floats: only weights are quantised
};
/// `static`, `dynamic`, `float`.
std::string_view name_of(Activations activations);
std::optional<Activations> parse_activations(std::string_view name);

struct Format {
  Activations activations = Activations::kStatic;
  /// Of weights: 8, with a scale for each result, or 4, with a scale for each block of the reduced axis. 4 bits go with
  /// activations that stay floats.
  int bits = 8;
  int64_t block = 32;  ///< elements of the reduced axis that share a scale; of 4 bits
};
/// `int8`, `int4`: the type of the weights, which is also the name of the precision.
std::string_view weights_name(const Format& format);
/// The bits of weights of that name: 8 or 4; nothing for other names.
std::optional<int> parse_weights(std::string_view name);

}  // namespace graft::quantize
