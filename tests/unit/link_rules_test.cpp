// SPDX-License-Identifier: Apache-2.0
// The relocations of aarch64 on instructions whose encoding is known, on any machine.
#include "device/cpu/link_rules.h"

#include <elf.h>

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "target/cpus.h"

namespace graft {
namespace {

constexpr uint32_t kBranch = 0x94000000;     // bl .
constexpr uint32_t kPage = 0x90000000;       // adrp x0, .
constexpr uint32_t kAdd = 0x91000000;        // add x0, x0, #0
constexpr uint32_t kLoadWord = 0xb9400000;   // ldr w0, [x0]
constexpr uint32_t kLoadDouble = 0xf9400000;  // ldr x0, [x0]
constexpr uint32_t kLoadVector = 0x3dc00000;  // ldr q0, [x0]

struct Patched {
  uint32_t instruction = 0;
  std::string wrong;
};

Patched patch(uint32_t instruction, const Relocation& relocation) {
  std::vector<uint8_t> memory(relocation.place + sizeof(instruction));
  std::memcpy(memory.data() + relocation.place, &instruction, sizeof(instruction));
  Patched patched;
  patched.wrong = kLinkAArch64.apply(relocation, memory.data());
  std::memcpy(&patched.instruction, memory.data() + relocation.place, sizeof(instruction));
  return patched;
}

TEST(LinkRulesAArch64, branches_reach_forward_and_backward) {
  EXPECT_EQ(patch(kBranch, {.type = R_AARCH64_CALL26, .place = 0x100, .symbol = 0x1100}).instruction, 0x94000400u);
  EXPECT_EQ(patch(kBranch, {.type = R_AARCH64_JUMP26, .place = 0x100, .symbol = 0xf8}).instruction, 0x97fffffeu);
}

TEST(LinkRulesAArch64, branches_beyond_128_mebibytes_are_refused) {
  const uint64_t far = uint64_t{128} << 20;
  EXPECT_EQ(patch(kBranch, {.type = R_AARCH64_CALL26, .symbol = far - 4}).wrong, "");
  EXPECT_NE(patch(kBranch, {.type = R_AARCH64_CALL26, .symbol = far}).wrong, "");
  EXPECT_NE(patch(kBranch, {.type = R_AARCH64_CALL26, .symbol = 2}).wrong, "");
}

TEST(LinkRulesAArch64, pages_are_counted_from_the_page_of_the_instruction) {
  const auto pages = [](uint64_t place, uint64_t symbol, uint64_t addend) {
    return patch(kPage, {.type = R_AARCH64_ADR_PREL_PG_HI21, .place = place, .symbol = symbol, .addend = addend})
        .instruction;
  };
  EXPECT_EQ(pages(0xffc, 0x3000, 0), 0xf0000000u);      // 3
  EXPECT_EQ(pages(0x1000, 0x5ffc, 0x1000), 0xb0000020u);  // 5
  EXPECT_EQ(pages(0x2000, 0x1fff, 0), 0xf0ffffe0u);     // -1
}

TEST(LinkRulesAArch64, offsets_into_pages_count_in_the_size_of_the_access) {
  const auto offset = [](uint32_t instruction, uint32_t type) {
    return patch(instruction, {.type = type, .symbol = 0x5000, .addend = 0x120}).instruction;
  };
  EXPECT_EQ(offset(kAdd, R_AARCH64_ADD_ABS_LO12_NC), kAdd | 0x120u << 10);
  EXPECT_EQ(offset(kLoadWord, R_AARCH64_LDST32_ABS_LO12_NC), kLoadWord | 0x48u << 10);
  EXPECT_EQ(offset(kLoadDouble, R_AARCH64_LDST64_ABS_LO12_NC), kLoadDouble | 0x24u << 10);
  EXPECT_EQ(offset(kLoadVector, R_AARCH64_LDST128_ABS_LO12_NC), kLoadVector | 0x12u << 10);
  EXPECT_NE(patch(kLoadVector, {.type = R_AARCH64_LDST128_ABS_LO12_NC, .symbol = 8}).wrong, "");
}

TEST(LinkRulesAArch64, a_table_has_the_addresses_of_external_functions_only) {
  const Relocation page{.type = R_AARCH64_ADR_GOT_PAGE, .symbol = 0x2000, .is_external = true};
  EXPECT_EQ(patch(kPage, page).instruction, kPage | 2u << 29);
  const Relocation load{.type = R_AARCH64_LD64_GOT_LO12_NC, .symbol = 0x2000, .is_external = true};
  EXPECT_EQ(patch(kLoadDouble, load).instruction, kLoadDouble | (kStubAddress / 8) << 10);
  EXPECT_NE(patch(kPage, {.type = R_AARCH64_ADR_GOT_PAGE, .symbol = 0x2000}).wrong, "");
}

TEST(LinkRulesAArch64, unknown_relocations_are_refused) {
  EXPECT_EQ(patch(kAdd, {.type = R_AARCH64_TLSDESC}).wrong,
            "relocation type " + std::to_string(R_AARCH64_TLSDESC) + " is not known");
}

TEST(LinkRules, of_this_process_are_those_of_its_architecture) {
  EXPECT_EQ(host_link_rules().machine, host_architecture().elf_machine);
}

}  // namespace
}  // namespace graft
