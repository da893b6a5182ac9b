// SPDX-License-Identifier: Apache-2.0
// What a caller asks of a conversion to mixed precision, as JSON: the same keys as Python's keyword arguments.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "amp/rules.h"

namespace graft::amp {

/// A conversion that is asked for, beside the model.
struct Request {
  DType low = DType::kFloat16;
  Lists lists = {};
  /// Variables that are no parameters; none given: the format finds them.
  std::optional<std::vector<std::string>> data_names = {};
  std::map<std::string, std::optional<DType>> input_types = {};  ///< by name; nothing: any type may be handed in
  bool convert_parameters = true;
};

/// Reads
///
///   {"target_dtype": "float16",
///    "target_dtype_ops": ["Convolution"], "fp32_ops": ["exp"], "widest_dtype_ops": ["add_n"],
///    "conditional_fp32_ops": [["Activation", "act_type", ["softrelu"]]],
///    "excluded_sym_names": ["fc1"], "data_names": ["data"], "input_dtypes": {"data": "float32", "mask": "any"},
///    "cast_optional_params": true}
///
/// where every key may be missing or null. Throws invalid_argument naming `where` and the key.
Request parse_request(std::string_view json, const std::string& where, Request defaults = {});

/// `float16` or `bfloat16`, also as fp16, f16, bf16. Throws invalid_argument for another.
DType low_type_of(std::string_view name, const std::string& where);

}  // namespace graft::amp
