// SPDX-License-Identifier: Apache-2.0
#include "base/own_path.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <system_error>

namespace graft {
namespace {

namespace fs = std::filesystem;

std::string find_own_path() {
  Dl_info info{};
  link_map* place = nullptr;
  std::error_code fault;
  const bool known = dladdr1(reinterpret_cast<const void*>(&own_path), &info, reinterpret_cast<void**>(&place),
                             RTLD_DL_LINKMAP) != 0;
  // A program's entry has no name, and dladdr gives what the caller typed, which PATH may have completed.
  const bool is_library = known && place && place->l_name && *place->l_name;
  const fs::path path = is_library ? fs::absolute(place->l_name, fault) : fs::read_symlink("/proc/self/exe", fault);
  return fault ? "" : path.string();
}

}  // namespace

std::string own_path() {
  static const std::string path = find_own_path();  // asked for once: the current folder may change
  return path;
}

}  // namespace graft
