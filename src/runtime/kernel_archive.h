// SPDX-License-Identifier: Apache-2.0
// The kernels of a plan in a file of their own, for machines without a code generator. It is code: whoever imports one
// trusts where it came from.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace graft {

/// Code by kernel-cache key, and what made it.
struct KernelArchive {
  std::string generator;  ///< kernels of another one would not be found
  std::map<std::string, std::vector<std::byte>> kernels;
};

/// The file's contents; the same for the same kernels.
std::vector<std::byte> write_kernel_archive(const KernelArchive& archive);
/// Throws invalid_argument naming `where` for bytes that are no whole archive.
KernelArchive read_kernel_archive(std::span<const std::byte> bytes, const std::string& where);

}  // namespace graft
