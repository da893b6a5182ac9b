// SPDX-License-Identifier: Apache-2.0
// The relocations of aarch64 that LLVM emits for position-independent code of the small model: ELF for the Arm 64-bit
// Architecture, 5.7.
#include <elf.h>

#include <cstring>

#include "device/cpu/link_rules.h"

namespace graft {
namespace {

constexpr uint64_t kPage = 4096;  ///< of adrp, whatever the system's pages are

/// Instructions with an offset into the page: `adds` bytes, or loads and stores that count in their own size.
struct InPage {
  uint32_t type;
  unsigned shift;
};

constexpr InPage kInPage[] = {
    {R_AARCH64_ADD_ABS_LO12_NC, 0},     {R_AARCH64_LDST8_ABS_LO12_NC, 0},  {R_AARCH64_LDST16_ABS_LO12_NC, 1},
    {R_AARCH64_LDST32_ABS_LO12_NC, 2},  {R_AARCH64_LDST64_ABS_LO12_NC, 3}, {R_AARCH64_LDST128_ABS_LO12_NC, 4},
    {R_AARCH64_LD64_GOT_LO12_NC, 3},
};

const InPage* find_in_page(uint32_t type) {
  for (const InPage& row : kInPage) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

bool fits(int64_t value, int bits) {
  const int64_t half = int64_t{1} << (bits - 1);
  return value >= -half && value < half;
}

/// Puts `bits` of a value into an instruction, from the bit `at` on.
void set_field(uint8_t* place, uint64_t value, int bits, int at) {
  uint32_t instruction = 0;
  std::memcpy(&instruction, place, sizeof(instruction));
  const uint32_t mask = ((uint32_t{1} << bits) - 1) << at;
  instruction = (instruction & ~mask) | (static_cast<uint32_t>(value << at) & mask);
  std::memcpy(place, &instruction, sizeof(instruction));
}

uint64_t width(uint32_t type) { return type == R_AARCH64_ABS64 || type == R_AARCH64_PREL64 ? 8 : 4; }

constexpr const char* kOutOfReach = "a relocation is out of reach";

std::string apply_to_page(uint8_t* place, int64_t pages) {
  if (!fits(pages, 21)) return kOutOfReach;
  set_field(place, static_cast<uint64_t>(pages), 2, 29);
  set_field(place, static_cast<uint64_t>(pages >> 2), 19, 5);
  return "";
}

std::string apply(const Relocation& relocation, uint8_t* base) {
  const uint32_t type = relocation.type;
  uint8_t* place = base + relocation.place;
  const bool through_table = type == R_AARCH64_ADR_GOT_PAGE || type == R_AARCH64_LD64_GOT_LO12_NC;
  if (through_table && !relocation.is_external) return "a relocation through a table for a symbol of its own";
  const uint64_t to = relocation.symbol + relocation.addend + (through_table ? kStubAddress : 0);
  const auto distance = static_cast<int64_t>(to - relocation.place);
  if (const InPage* row = find_in_page(type)) {
    const uint64_t offset = to % kPage;
    if (offset % (uint64_t{1} << row->shift) != 0) return "a relocation refers to data that is not aligned";
    set_field(place, offset >> row->shift, 12, 10);
    return "";
  }
  switch (type) {
    case R_AARCH64_ABS64: {
      const uint64_t value = reinterpret_cast<uint64_t>(base) + to;
      std::memcpy(place, &value, sizeof(value));
      return "";
    }
    case R_AARCH64_PREL64:
      std::memcpy(place, &distance, sizeof(distance));
      return "";
    case R_AARCH64_PREL32: {
      if (!fits(distance, 32)) return kOutOfReach;
      const auto narrow = static_cast<int32_t>(distance);
      std::memcpy(place, &narrow, sizeof(narrow));
      return "";
    }
    case R_AARCH64_ADR_PREL_PG_HI21:
    case R_AARCH64_ADR_GOT_PAGE:
      return apply_to_page(place, static_cast<int64_t>(to / kPage) - static_cast<int64_t>(relocation.place / kPage));
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
      if (distance % 4 != 0 || !fits(distance, 28)) return kOutOfReach;
      set_field(place, static_cast<uint64_t>(distance) >> 2, 26, 0);
      return "";
    default:
      return "relocation type " + std::to_string(type) + " is not known";
  }
}

/// ldr x16, [pc, #8]; br x16
void write_jump(uint8_t* stub) {
  const uint32_t jump[] = {0x58000050, 0xd61f0200};
  static_assert(sizeof(jump) == kStubAddress);
  std::memcpy(stub, jump, sizeof(jump));
}

}  // namespace

const LinkRules kLinkAArch64{EM_AARCH64, "aarch64", width, apply, write_jump};

}  // namespace graft
