// SPDX-License-Identifier: Apache-2.0
// Where a plan has the parameters of a framework, so that what runs in the framework takes them from there instead of
// keeping them a second time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor_data.h"
#include "driver/plan.h"

namespace graft {

/// The elements of a parameter within a constant of a plan's graph: `strides` by its axes, in elements of the constant,
/// from `offset` on. Passes transpose weights, put several into one, and round them to the type that they compute with.
struct WeightPlace {
  std::string constant;  ///< as large_constants names it
  int64_t offset = 0;
  std::vector<int64_t> strides;
};

/// `0 1,64 conv1.weight`
std::string print(const WeightPlace& place);
/// Throws invalid_argument for a text that print() does not give.
WeightPlace parse_weight_place(std::string_view text);

/// By weight: where the plan has its elements, as far as its own type keeps them; nothing where it has not. Each
/// constant is read once, and kept no longer than that.
std::vector<std::optional<WeightPlace>> find_weights(const Plan& plan, std::span<const TensorData> weights);

/// The elements at a place as a tensor of that type and shape. Throws invalid_argument where the plan has no such
/// place.
TensorData read_weight(const Plan& plan, const WeightPlace& place, DType type, std::vector<int64_t> shape);

}  // namespace graft
