// SPDX-License-Identifier: Apache-2.0
#include "engine/plan_sections.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"

namespace graft {
namespace {

constexpr uint32_t kMostSections = kMostRecords + 2;

uint64_t aligned(uint64_t offset) { return (offset + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment; }

/// Checksum of header and table, with the field that holds it zero.
uint64_t table_checksum(std::span<const std::byte> table) {
  std::vector<std::byte> bytes(table.begin(), table.end());
  std::memset(bytes.data() + offsetof(PlanHeader, checksum), 0, sizeof(PlanHeader::checksum));
  return hash64(std::span<const std::byte>(bytes));
}

PlanHeader read_header(std::span<const std::byte> file, const std::string& where) {
  PlanHeader header;
  if (file.size() < sizeof header) refuse_plan(where, "header", fmt::format("the file has only {} bytes", file.size()));
  std::memcpy(&header, file.data(), sizeof header);
  if (std::memcmp(header.magic, kPlanMagic, sizeof kPlanMagic) != 0) {
    refuse_plan(where, "header", "this is not a plan of Graft");
  }
  if (header.version != kPlanVersion) {
    refuse_plan(where, "header",
                fmt::format("its format is version {}, this program reads version {}", header.version, kPlanVersion));
  }
  if (header.file_bytes != file.size()) {
    refuse_plan(where, "header",
                fmt::format("the file has {} bytes instead of {}: it is truncated or was written over", file.size(),
                            header.file_bytes));
  }
  const uint64_t table_end = sizeof header + uint64_t{header.section_count} * sizeof(Section);
  if (header.section_count > kMostSections || table_end > file.size() ||
      table_checksum(file.first(table_end)) != header.checksum) {
    refuse_plan(where, "header", "the section table is damaged");
  }
  return header;
}

/// Bytes between sections are zero, so that every byte of a plan is accounted for.
void check_gaps(std::span<const std::byte> file, std::vector<Section> sections, uint64_t table_end,
                const std::string& where) {
  std::sort(sections.begin(), sections.end(), [](const Section& a, const Section& b) { return a.offset < b.offset; });
  uint64_t end = table_end;
  const auto check = [&](uint64_t begin) {
    if (begin < end) refuse_plan(where, "header", "sections overlap");
    const auto gap = file.subspan(end, begin - end);
    const bool clear = std::all_of(gap.begin(), gap.end(), [](std::byte b) { return b == std::byte{0}; });
    if (!clear || gap.size() >= kSectionAlignment) refuse_plan(where, "header", "there are bytes between its sections");
  };
  for (const Section& section : sections) {
    check(section.offset);
    end = section.offset + section.bytes;
  }
  check(file.size());
}

}  // namespace

std::string_view name_of(SectionKind kind) {
  switch (kind) {
    case SectionKind::kPortable:
      return "portable";
    case SectionKind::kRecord:
      return "record";
    case SectionKind::kWeights:
      return "weights";
  }
  return "unknown";
}

void refuse_plan(const std::string& where, const std::string& section, const std::string& problem) {
  throw Error(ErrorKind::kInvalidModel, problem + "; compile the model again (graft compile MODEL -o FILE)",
              fmt::format("plan '{}', section {}", where, section));
}

std::vector<Section> place_sections(std::span<const SectionKind> kinds, std::span<const uint64_t> sizes) {
  std::vector<Section> sections;
  uint64_t end = sizeof(PlanHeader) + kinds.size() * sizeof(Section);
  for (size_t i = 0; i < kinds.size(); ++i) {
    sections.push_back({.kind = static_cast<uint32_t>(kinds[i]), .offset = aligned(end), .bytes = sizes[i]});
    end = sections.back().offset + sizes[i];
  }
  return sections;
}

std::vector<std::byte> print_section_table(std::span<const Section> sections) {
  PlanHeader header{.version = kPlanVersion, .section_count = static_cast<uint32_t>(sections.size())};
  std::memcpy(header.magic, kPlanMagic, sizeof kPlanMagic);
  header.file_bytes = sections.empty() ? sizeof header : sections.back().offset + sections.back().bytes;
  std::vector<std::byte> bytes(sizeof header + sections.size_bytes());
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!sections.empty()) std::memcpy(bytes.data() + sizeof header, sections.data(), sections.size_bytes());
  const uint64_t checksum = table_checksum(bytes);
  std::memcpy(bytes.data() + offsetof(PlanHeader, checksum), &checksum, sizeof checksum);
  return bytes;
}

PlanSections read_sections(std::span<const std::byte> file, const std::string& where) {
  const PlanHeader header = read_header(file, where);
  std::vector<Section> sections(header.section_count);
  const size_t table_bytes = sections.size() * sizeof(Section);
  if (table_bytes > 0) std::memcpy(sections.data(), file.data() + sizeof header, table_bytes);
  for (const Section& section : sections) {
    if (section.offset % kSectionAlignment != 0 || section.offset > file.size() ||
        section.bytes > file.size() - section.offset || section.reserved != 0) {
      refuse_plan(where, "header", "a section lies outside the file or is not aligned");
    }
  }
  check_gaps(file, sections, sizeof header + table_bytes, where);
  PlanSections found;
  int portable = 0, weights = 0;
  for (const Section& section : sections) {
    const auto kind = static_cast<SectionKind>(section.kind);
    const auto bytes = file.subspan(section.offset, section.bytes);
    const std::string_view name = name_of(kind);
    if (name == "unknown") refuse_plan(where, "header", fmt::format("section kind {} is unknown", section.kind));
    if (hash128(bytes) != section.checksum) {
      refuse_plan(where, std::string(name), "its checksum differs: the file is damaged");
    }
    if (kind == SectionKind::kPortable) found.portable = bytes, ++portable;
    if (kind == SectionKind::kWeights) found.weights = bytes, ++weights;
    if (kind == SectionKind::kRecord) found.records.push_back(bytes);
  }
  if (portable != 1 || weights != 1) refuse_plan(where, "header", "a section is missing, or there twice");
  return found;
}

}  // namespace graft
