// SPDX-License-Identifier: Apache-2.0
// The page of `graft compile --html` and `graft convert --html`.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace graft {

/// What quantising did, as a page of HTML that needs nothing beside itself: error against time of the networks that
/// were measured, and for each layer what it adds to the error, what it wins, and why it stays in floats. `report` is
/// that of quantize::json_of, `name` the model's.
std::string quantization_page(const std::string& name, const nlohmann::json& report);

}  // namespace graft
