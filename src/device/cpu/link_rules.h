// SPDX-License-Identifier: Apache-2.0
// What of linking a kernel object differs between processor architectures.
#pragma once

#include <cstdint>
#include <string>

namespace graft {

/// A place in a linked object that depends on where a symbol is. Offsets are from the object's first page.
struct Relocation {
  uint32_t type = 0;
  uint64_t place = 0;   ///< what is changed
  uint64_t symbol = 0;  ///< of an external function its stub
  uint64_t addend = 0;
  bool is_external = false;
};

/// A stub is kStubBytes of code that jumps to the address in its last eight bytes, which is a table entry as well.
constexpr uint64_t kStubBytes = 16, kStubAddress = 8;

struct LinkRules {
  uint16_t machine;  ///< e_machine of ELF
  const char* name;
  /// Bytes at the place that a relocation changes.
  uint64_t (*width)(uint32_t type);
  /// Changes the place in the object at `base`, which is the start of a page. Empty, or what is wrong.
  std::string (*apply)(const Relocation& relocation, uint8_t* base);
  /// The jump of a stub, without the address.
  void (*write_jump)(uint8_t* stub);
};

/// Rows of link_rules_ARCHITECTURE.cpp. Those of other architectures can be tried on bytes, but their code does not run
/// here.
extern const LinkRules kLinkX86, kLinkAArch64;
/// Those of this process.
const LinkRules& host_link_rules();

}  // namespace graft
