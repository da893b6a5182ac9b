// SPDX-License-Identifier: Apache-2.0
// The relocations of x86-64 that LLVM emits for position-independent code: System V ABI, AMD64 supplement, 4.4.1.
#include <elf.h>

#include <cstring>

#include "device/cpu/link_rules.h"

namespace graft {
namespace {

bool is_wide(uint32_t type) { return type == R_X86_64_64 || type == R_X86_64_PC64; }

uint64_t width(uint32_t type) { return is_wide(type) ? 8 : 4; }

std::string apply(const Relocation& relocation, uint8_t* base) {
  const auto [type, place, symbol, addend, is_external] = relocation;
  uint64_t value = 0;
  switch (type) {
    case R_X86_64_64:
      value = reinterpret_cast<uint64_t>(base) + symbol + addend;
      break;
    case R_X86_64_PC64:
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
      value = symbol + addend - place;
      break;
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
      if (!is_external) return "a relocation through a table for a symbol of its own";
      value = symbol + kStubAddress + addend - place;
      break;
    default:
      return "relocation type " + std::to_string(type) + " is not known";
  }
  const auto narrow = static_cast<int32_t>(static_cast<uint32_t>(value));
  if (!is_wide(type) && static_cast<int64_t>(value) != narrow) return "a relocation is out of reach";
  std::memcpy(base + place, &value, width(type));
  return "";
}

/// jmp *[rip+2]; pad
void write_jump(uint8_t* stub) {
  const uint8_t jump[kStubAddress] = {0xff, 0x25, 0x02, 0, 0, 0, 0xcc, 0xcc};
  std::memcpy(stub, jump, sizeof(jump));
}

}  // namespace

const LinkRules kLinkX86{EM_X86_64, "x86-64", width, apply, write_jump};

}  // namespace graft
