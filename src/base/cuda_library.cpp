// SPDX-License-Identifier: Apache-2.0
#include "base/cuda_library.h"

#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace graft {
namespace {

std::vector<std::string> matching_files(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return files;
}

/// Patterns of folders, the first that holds the library wins.
std::vector<std::string> places() {
  std::vector<std::string> folders;
  const auto add_python = [&](const std::string& root) {
    folders.push_back(root + "/lib/python3*/site-packages/nvidia/*/lib");
  };
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&matching_files), &self) && self.dli_fname) {
    // <site-packages>/graft/lib/libgraft.so, or <project>/build/lib/libgraft.so beside <project>/.deps
    const std::string path(self.dli_fname);
    const std::string folder = path.find('/') == path.npos ? "." : path.substr(0, path.rfind('/'));
    for (const char* up : {"/..", "/../.."}) folders.push_back(folder + up + "/nvidia/*/lib");
    add_python(folder + "/../../.deps/venv");
  }
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const char* root = std::getenv(variable)) add_python(root);
  }
  folders.emplace_back("/usr/local/lib/python3*/dist-packages/nvidia/*/lib");
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* root = std::getenv(variable);
    if (!root) continue;
    for (const char* below : {"/lib64", "/lib"}) folders.push_back(std::string(root) + below);
  }
  for (const char* root : {"/usr/local/cuda", "/usr/local/cuda-*"}) {
    for (const char* below : {"/lib64", "/lib"}) folders.push_back(std::string(root) + below);
  }
  folders.emplace_back("/usr/lib/x86_64-linux-gnu");
  return folders;
}

}  // namespace

void* CudaLibrary::find(const char* function) const { return handle ? dlsym(handle, function) : nullptr; }

CudaLibrary open_cuda_library(std::string_view stem, std::initializer_list<int> versions) {
  CudaLibrary library;
  std::string fault;
  const auto open = [&](const std::string& path) {
    library.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library.handle) library.path = path;
    const char* reason = library.handle ? nullptr : dlerror();
    if (reason && path.find('/') != path.npos) fault = reason;  // the file is there and does not open
    return library.handle != nullptr;
  };
  std::vector<std::string> names;
  for (const int version : versions) names.push_back(fmt::format("lib{}.so.{}", stem, version));
  for (const std::string& folder : places()) {
    for (const std::string& name : names) {
      for (const std::string& file : matching_files(folder + "/" + name)) {
        if (open(file)) return library;
      }
    }
  }
  for (const std::string& name : names) {
    if (open(name)) return library;
  }
  library.missing = fault.empty() ? fmt::format(
                                        "{} is not found: looked in pip's nvidia folders, CUDA_HOME, "
                                        "/usr/local/cuda and the loader's paths; install the CUDA toolkit or "
                                        "pip's NVIDIA package of it",
                                        fmt::join(names, " or "))
                                  : fmt::format("{} does not open: {}", names.front(), fault);
  return library;
}

}  // namespace graft
