// SPDX-License-Identifier: Apache-2.0
// The plan file: the optimised graph, its weights once, and a record of choices for each target. It holds no code, no
// addresses and no sizes of memory: an engine is built from it as from a model, with the choices already made, so that
// nothing in a file can lead a run out of its memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor_data.h"

namespace graft {

/// A constant of the graph as the file has it: row-major, or packed for the kernels of some target (or both).
struct StoredConstant {
  std::string name;  ///< as graph/large_constants names it
  DType type = DType::kUndefined;
  std::vector<int64_t> shape;  ///< as the graph has it
  std::string layout;          ///< empty for row-major
  std::vector<int64_t> view;   ///< packed: the shape, of as many elements, that the layout is of
  TensorData data;             ///< the bytes, of the shape in memory
};

/// The contents of a plan file.
struct PlanFile {
  std::string producer;  ///< the version that wrote it
  std::string graph;     ///< text of the graph after the passes
  std::vector<StoredConstant> constants;
  std::vector<std::pair<std::string, std::string>> options;  ///< everything that changed the result of compiling
  std::vector<std::string> records;                          ///< texts, one for each target
  std::vector<std::pair<std::string, std::string>> metadata;  ///< of driver/plan_metadata.h; empty in older files
};

/// The plan as the bytes of a file. Equal plans give equal bytes.
std::vector<std::byte> print_plan(const PlanFile& plan);
/// Writes the plan; a reader sees the old file or the whole new one. Throws a device error naming path and remedy, and
/// then leaves nothing behind.
void save_plan(const PlanFile& plan, const std::string& path);

/// Where the weights of a plan are while it is used.
enum class Weights : uint8_t {
  kMapped,  ///< in the file, shared with other processes: it must not be written to meanwhile
  kCopied,  ///< in memory of this process
};

/// Reads a plan; constants lie in the file's mapping, or in a copy, which lives as long as they do. Throws
/// invalid_model naming the section and the remedy for a file that is damaged or foreign.
PlanFile read_plan(const std::string& path, Weights weights = Weights::kMapped);
/// The same from bytes in memory, which are copied; `where` names them in errors.
PlanFile copy_plan(std::span<const std::byte> file, const std::string& where);
/// The same from memory that `keep_alive` owns, at an address that is a multiple of 64; `where` names it in errors.
PlanFile parse_plan(std::span<const std::byte> file, std::shared_ptr<const void> keep_alive, const std::string& where);
/// Whether the bytes begin like a plan, whatever follows.
bool looks_like_plan(std::span<const std::byte> file);

}  // namespace graft
