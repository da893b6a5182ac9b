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

/// What weights become.
enum class Codes : uint8_t {
  kInt8,    ///< s8 with a scale for each result; static activations are u8
  kFloat8,  ///< f8e4m3fn with a scale for each result, a power of two; static activations, too. None are dynamic
  kInt4,    ///< s4 with a scale for each block of the reduced axis; activations stay floats
};

struct Format {
  Activations activations = Activations::kStatic;
  Codes codes = Codes::kInt8;
  int64_t block = 32;  ///< elements of the reduced axis that share a scale; of kInt4
};
/// `int8`, `fp8`, `int4`: the name of the precision, too.
std::string_view name_of(Codes codes);
/// The codes of that name; nothing for other names.
std::optional<Codes> parse_codes(std::string_view name);

}  // namespace graft::quantize
