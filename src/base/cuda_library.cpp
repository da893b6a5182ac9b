// SPDX-License-Identifier: Apache-2.0
#include "base/cuda_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/own_path.h"

namespace graft {
namespace {

std::vector<std::string> matching_files(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return files;
}

namespace fs = std::filesystem;

/// `key = value` of a pyvenv.cfg, or an empty text.
std::string setting(const fs::path& file, std::string_view key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const size_t equals = line.find('=');
    if (equals == line.npos || line.substr(0, line.find_last_not_of(" \t", equals - 1) + 1) != key) continue;
    const size_t begin = line.find_first_not_of(" \t", equals + 1);
    return begin == line.npos ? "" : line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
  }
  return "";
}

/// Where the packages of the first python3 in PATH lie: its virtual environment, and the installation below it when it
/// sees that one's packages too. As Python itself decides it, without running it.
std::vector<std::string> roots_of_python() {
  const char* path = std::getenv("PATH");
  std::string_view rest = path ? path : "";
  while (!rest.empty()) {
    const fs::path folder(rest.substr(0, rest.find(':')));
    rest.remove_prefix(std::min(rest.size(), rest.find(':') == rest.npos ? rest.size() : rest.find(':') + 1));
    const fs::path python = folder / "python3";
    std::error_code ignored;
    if (folder.empty() || !fs::is_regular_file(python, ignored) || access(python.c_str(), X_OK) != 0) continue;
    const fs::path root = folder.lexically_normal().parent_path();
    const fs::path configuration = root / "pyvenv.cfg";
    if (!fs::exists(configuration, ignored)) {
      return {root.string(), fs::weakly_canonical(python, ignored).parent_path().parent_path().string()};
    }
    std::vector<std::string> roots = {root.string()};
    const fs::path home = setting(configuration, "home");
    if (setting(configuration, "include-system-site-packages") == "true") roots.push_back(home.parent_path().string());
    return roots;
  }
  return {};
}

/// Patterns of folders, the first that holds the library wins.
std::vector<std::string> places() {
  std::vector<std::string> folders;
  const auto add_python = [&](const std::string& root) {
    folders.push_back(root + "/lib/python3*/site-packages/nvidia/*/lib");
  };
  if (const std::string self = own_path(); !self.empty()) {
    // <site-packages>/graft/lib/libgraft.so, or <project>/build/lib/libgraft.so beside <project>/.deps
    const std::string folder = self.substr(0, self.rfind('/'));
    for (const char* up : {"/..", "/../.."}) folders.push_back(folder + up + "/nvidia/*/lib");
    add_python(folder + "/../../.deps/venv");
  }
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const char* root = std::getenv(variable)) add_python(root);
  }
  for (const std::string& root : roots_of_python()) add_python(root);
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

/// The library when the process has it open, which then stays so.
CudaLibrary already_open(const std::string& name) {
  CudaLibrary library{.handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)};
  link_map* place = nullptr;
  if (library.handle && dlinfo(library.handle, RTLD_DI_LINKMAP, &place) == 0 && place) library.path = place->l_name;
  return library;
}

/// Opens what the library opens later by its bare name, and which no path of the loader's leads to where the library
/// comes from a package of Python's: libnvrtc-builtins beside libnvrtc. A library that is open is found by its name.
void open_companions(const CudaLibrary& library, std::string_view stem) {
  const size_t end = library.path.rfind('/');
  if (!library.handle || end == library.path.npos) return;
  const std::string folder = library.path.substr(0, end);
  for (const std::string& file : matching_files(fmt::format("{}/lib{}-builtins.so*", folder, stem))) {
    dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);  // one that does not open is the library's to report
  }
}

/// As open_cuda_library, without the companions.
CudaLibrary open_alone(std::string_view stem, std::initializer_list<int> versions) {
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
  for (const std::string& name : names) {
    if (CudaLibrary found = already_open(name); found.handle) return found;
  }
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

}  // namespace

void* CudaLibrary::find(const char* function) const { return handle ? dlsym(handle, function) : nullptr; }

CudaLibrary open_cuda_library(std::string_view stem, std::initializer_list<int> versions) {
  CudaLibrary library = open_alone(stem, versions);
  open_companions(library, stem);
  return library;
}

}  // namespace graft
