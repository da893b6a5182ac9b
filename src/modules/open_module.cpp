// SPDX-License-Identifier: Apache-2.0
#include "modules/open_module.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/own_path.h"
#include "base/source_identity.h"

namespace graft {
namespace {

constexpr std::string_view kVersion = GRAFT_VERSION " " GRAFT_SOURCES;

}  // namespace

std::string find_module(const std::string& name) {
  const std::string folder = directory_of(own_path());
  for (const char* place : {"", "/../" GRAFT_LIBRARY_FOLDER, "/../lib", "/../lib64"}) {
    std::string candidate = fmt::format("{}{}/libgraft_{}.so", folder, place, name);
    struct stat status {};
    if (stat(candidate.c_str(), &status) == 0) return candidate;
  }
  return "";
}

void* open_module(const std::string& name, const std::string& path) {
  GRAFT_USER_CHECK(
      !path.empty(), kDevice,
      fmt::format("libgraft_{}.so is neither beside {} nor in ../lib: this build lacks it", name, own_path()),
      "module " + name);
  void* module = dlopen(path.c_str(), RTLD_LOCAL | RTLD_NOW);
  const char* fault = module ? nullptr : dlerror();
  GRAFT_USER_CHECK(module, kDevice, fmt::format("cannot be opened: {}", fault ? fault : "no reason given"), path);
  using VersionFunction = const char* (*)();
  const auto version = reinterpret_cast<VersionFunction>(dlsym(module, "graft_module_version"));
  const std::string_view found = version ? version() : "another version";
  GRAFT_USER_CHECK(
      found == kVersion, kDevice,
      fmt::format("it is of {}, this is {}: build and install the library and its modules together", found, kVersion),
      path);
  return module;
}

void* module_function(void* module, const char* function) { return dlsym(module, function); }

}  // namespace graft
