// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernel_archive.h"

#include <fmt/format.h>

#include "base/error.h"
#include "runtime/kernel_entry.h"

namespace graft {
namespace {

/// The key of an archive's first entry, which holds the generator instead of code.
constexpr std::string_view kHeading = "kernel archive";

}  // namespace

std::vector<std::byte> write_kernel_archive(const KernelArchive& archive) {
  std::vector<std::byte> bytes = encode_kernel_entry(kHeading, std::as_bytes(std::span(archive.generator)));
  for (const auto& [key, code] : archive.kernels) {
    const std::vector<std::byte> entry = encode_kernel_entry(key, code);
    bytes.insert(bytes.end(), entry.begin(), entry.end());
  }
  return bytes;
}

KernelArchive read_kernel_archive(std::span<const std::byte> bytes, const std::string& where) {
  const auto next = [&](const char* what) {
    const auto entry = decode_kernel_entry(bytes);
    GRAFT_USER_CHECK(entry, kInvalidArgument, fmt::format("is {}: export the kernels again", what), where);
    bytes = bytes.subspan(entry->bytes);
    return *entry;
  };
  const KernelEntry heading = next("no kernel archive");
  GRAFT_USER_CHECK(heading.key == kHeading, kInvalidArgument, "is no kernel archive: export the kernels again", where);
  KernelArchive archive{{reinterpret_cast<const char*>(heading.code.data()), heading.code.size()}, {}};
  while (!bytes.empty()) {
    const KernelEntry entry = next("damaged or cut off");
    archive.kernels.emplace(entry.key, std::vector<std::byte>(entry.code.begin(), entry.code.end()));
  }
  return archive;
}

}  // namespace graft
