// SPDX-License-Identifier: Apache-2.0
// The frame of a plan file: magic, version, and a table of sections with their checksums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace graft {

/// What a section of a plan holds.
enum class SectionKind : uint32_t {
  kPortable = 1,  ///< FlatBuffer `Portable`: the graph and where its constants lie
  kRecord = 2,    ///< text of the record of choices for one target; there may be none or several
  kWeights = 3,   ///< raw bytes of the constants, each at a multiple of 64
};
std::string_view name_of(SectionKind kind);

inline constexpr char kPlanMagic[8] = {'G', 'R', 'A', 'F', 'T', 'P', 'L', 'N'};
inline constexpr uint32_t kPlanVersion = 2;
inline constexpr uint64_t kSectionAlignment = 64;
inline constexpr uint32_t kMostRecords = 62;

/// One row of the section table, as it lies in the file.
struct Section {
  uint32_t kind = 0;
  uint32_t reserved = 0;  ///< zero
  uint64_t offset = 0;    ///< from the start of the file, a multiple of 64
  uint64_t bytes = 0;
  Hash128 checksum;  ///< of the section
};

/// The start of the file, before the section table.
struct PlanHeader {
  char magic[8] = {};
  uint32_t version = 0;
  uint32_t section_count = 0;
  uint64_t file_bytes = 0;
  uint64_t checksum = 0;  ///< XXH3-64 of header and table with this field zero
};

/// Rows and offsets for sections of these sizes, one after the other behind header and table.
std::vector<Section> place_sections(std::span<const SectionKind> kinds, std::span<const uint64_t> sizes);
/// Header and table as bytes; the rows' own checksums are set before.
std::vector<std::byte> print_section_table(std::span<const Section> sections);

/// The bytes of the sections.
struct PlanSections {
  std::span<const std::byte> portable, weights;
  std::vector<std::span<const std::byte>> records;
};
/// Finds the sections and verifies their checksums; throws invalid_model naming `where`, the section, what is damaged
/// and the remedy when the file is not a whole plan of this version.
PlanSections read_sections(std::span<const std::byte> file, const std::string& where);

/// Throws invalid_model for a plan's section: what is wrong, and that the model should be compiled again.
[[noreturn]] void refuse_plan(const std::string& where, const std::string& section, const std::string& problem);

}  // namespace graft
