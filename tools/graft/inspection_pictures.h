// SPDX-License-Identifier: Apache-2.0
// The pictures in the page of `graft inspect --html`, as SVG; each is empty where the report has nothing to draw.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace graft {

/// The steps in levels, each below those whose results it reads; levels go on in a new column where they are many. The
/// deeper the colour of a step, the larger its part of the time.
std::string graph_picture(const nlohmann::json& report);

/// Operations per byte against operations per second, in powers of ten, under what the machine can do. A step's circle
/// has the area of its part of the time; those that take the longest have their number beside them.
std::string roofline_picture(const nlohmann::json& report);

/// Bytes of the intermediate results that live during each step.
std::string memory_picture(const nlohmann::json& report);

}  // namespace graft
