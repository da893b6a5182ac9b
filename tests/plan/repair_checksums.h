// SPDX-License-Identifier: Apache-2.0
// Makes a mutated plan pass its checksums, so that the checks behind them are tested.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/plan_sections.h"

namespace graft {

/// Sets size, version, magic and all checksums to what they should be for these bytes.
inline void repair_checksums(std::vector<std::byte>& file) {
  PlanHeader header;
  if (file.size() < sizeof header) return;
  std::memcpy(&header, file.data(), sizeof header);
  const size_t room = (file.size() - sizeof header) / sizeof(Section);
  std::vector<Section> sections(std::min<size_t>({header.section_count, room, 64}));
  if (!sections.empty()) std::memcpy(sections.data(), file.data() + sizeof header, sections.size() * sizeof(Section));
  for (Section& section : sections) {
    if (section.offset > file.size() || section.bytes > file.size() - section.offset) continue;
    section.checksum = hash128(std::span<const std::byte>(file).subspan(section.offset, section.bytes));
  }
  if (!sections.empty()) std::memcpy(file.data() + sizeof header, sections.data(), sections.size() * sizeof(Section));
  std::memcpy(header.magic, kPlanMagic, sizeof kPlanMagic);
  header.version = kPlanVersion;
  header.section_count = static_cast<uint32_t>(sections.size());
  header.file_bytes = file.size();
  header.checksum = 0;
  std::memcpy(file.data(), &header, sizeof header);
  const auto table = std::span<const std::byte>(file).first(sizeof header + sections.size() * sizeof(Section));
  header.checksum = hash64(table);
  std::memcpy(file.data(), &header, sizeof header);
}

/// A copy of bytes at an address that is a multiple of 64, as a mapped file has.
class AlignedCopy {
 public:
  explicit AlignedCopy(std::span<const std::byte> bytes)
      : size_(bytes.size()),
        data_(static_cast<std::byte*>(std::aligned_alloc(64, (bytes.size() + 64) / 64 * 64)),
              [](std::byte* memory) { std::free(memory); }) {
    if (size_ > 0) std::memcpy(data_.get(), bytes.data(), size_);
  }
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }
  std::shared_ptr<const void> owner() const { return data_; }

 private:
  size_t size_;
  std::shared_ptr<std::byte> data_;
};

}  // namespace graft
