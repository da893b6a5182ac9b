// SPDX-License-Identifier: Apache-2.0
#include "library/libraries.h"

namespace graft {
namespace {

constexpr LibraryInfo kLibraries[] = {
#define GRAFT_LIBRARY(name, target, attention, most_choices, ready, meaning) \
  {#name, TargetKind::target, attention, most_choices, ready, meaning},
#include "library/libraries.inc"
#undef GRAFT_LIBRARY
};

}  // namespace

std::span<const LibraryInfo> all_libraries() { return kLibraries; }

const LibraryInfo* find_library(std::string_view name) {
  for (const LibraryInfo& library : kLibraries) {
    if (library.name == name) return &library;
  }
  return nullptr;
}

}  // namespace graft
