// SPDX-License-Identifier: Apache-2.0
// What `graft inspect --losses` shows and writes.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "plan/losses.h"

namespace graft {

/// A table of the regions that lose most, and what better ways of them were refused for.
void print_losses(const Engine& engine, const std::vector<RegionLoss>& regions);
/// All regions as JSON.
void write_losses(const std::string& path, const std::string& model, const Engine& engine,
                  const std::vector<RegionLoss>& regions);

}  // namespace graft
