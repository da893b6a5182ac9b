// SPDX-License-Identifier: Apache-2.0
// Strings, sequences, optionals and maps in JSON files: a tensor is a list of lists, a sequence the list of its
// tensors, an empty optional null, a map an object.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/dynamic_value.h"

namespace graft {

/// A value of a type (`str`, or graft/dynamic_type.h) from a JSON file. Throws invalid_argument naming the file.
DynamicValue read_value(const std::string& path, const std::string& type);
nlohmann::json value_json(const DynamicValue& value);

}  // namespace graft
