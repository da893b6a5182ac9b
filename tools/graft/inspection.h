// SPDX-License-Identifier: Apache-2.0
// What `graft inspect` knows of an engine, as JSON and as a page.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "machine_peak.h"
#include "measurement.h"

namespace graft {

/// Everything, in the form of docs/schemas/inspect.json; `measured` is null where nothing ran.
nlohmann::json inspection(const LoadedEngine& loaded, const Measurement* measured, const Bindings& bindings,
                          const MachinePeak& peak);

/// The same as a page of HTML that needs nothing beside itself: steps with their times, the graph of steps, a roofline,
/// memory over time and what lost. Tables are sorted by a click on their headings.
std::string inspection_page(const nlohmann::json& report);

}  // namespace graft
