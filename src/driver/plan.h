// SPDX-License-Identifier: Apache-2.0
// What a plan file holds, and the way to the file and back.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "driver/plan_metadata.h"
#include "engine/plan_file.h"
#include "engine/record.h"
#include "graph/graph.h"
#include "plan/build_options.h"
#include "target/target.h"

namespace graft {

/// What a plan file holds: enough to build an engine for any machine, and the choices for some.
struct Plan {
  Graph graph;                                               ///< after the passes
  std::vector<std::pair<std::string, std::string>> options;  ///< everything that changed the result of compiling
  std::vector<Record> records;                               ///< one for each target
  std::vector<PackedConstant> packed;                        ///< weights as the kernels of these targets read them
  Metadata metadata = {};                                    ///< of driver/plan_metadata.h
};

/// The record for machines of this kind (instruction set and vector width), or null.
const Record* record_for(const std::vector<Record>& records, const Target& target);

/// A plan as its file has it. Weights that the plan holds packed are stored in that form only.
PlanFile to_file(const Plan& plan);
/// The plan behind a file's contents; weights stay where they are, and packed ones are unpacked when somebody asks.
/// Throws invalid_model naming `where`, what is wrong and the remedy.
Plan from_file(PlanFile file, const std::string& where);

/// Writes a plan; a reader sees the old file or the whole new one.
void save(const Plan& plan, const std::string& path);
/// Reads a plan. Throws Error naming the section and the remedy for a file that is damaged or foreign.
Plan open_plan(const std::string& path, Weights weights = Weights::kMapped);
/// The same from memory: used where it lies where `owner` keeps it and its address is a multiple of 64, else copied.
Plan read_plan(std::span<const std::byte> file, std::shared_ptr<const void> owner);
/// Whether the file begins like a plan (rather than a model); false when it cannot be read.
bool is_plan(const std::string& path);

}  // namespace graft
