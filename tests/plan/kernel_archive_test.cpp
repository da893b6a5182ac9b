// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernel_archive.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace graft {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

const KernelArchive kArchive{"graft 1 abc", {{"a key", bytes_of("its code")}, {"b", {}}, {"c", bytes_of("more")}}};

TEST(KernelArchive, gives_back_what_was_written) {
  const KernelArchive read = read_kernel_archive(write_kernel_archive(kArchive), "there");
  EXPECT_EQ(read.generator, kArchive.generator);
  EXPECT_EQ(read.kernels, kArchive.kernels);
}

TEST(KernelArchive, every_damage_is_an_error_that_names_the_file) {
  const std::vector<std::byte> whole = write_kernel_archive(kArchive);
  const size_t heading = write_kernel_archive({kArchive.generator, {}}).size();
  for (size_t at = 0; at < whole.size(); ++at) {
    std::vector<std::byte> flipped = whole;
    flipped[at] ^= std::byte{1};
    EXPECT_THROW(read_kernel_archive(flipped, "there"), Error) << at;
    const std::span<const std::byte> cut = std::span(whole).first(at);
    if (at == heading) continue;  // an archive without kernels
    try {
      const KernelArchive read = read_kernel_archive(cut, "there");
      EXPECT_LT(read.kernels.size(), kArchive.kernels.size()) << at;  // cut between two entries
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find("there"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace graft
