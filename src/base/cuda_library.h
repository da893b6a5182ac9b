// SPDX-License-Identifier: Apache-2.0
// NVIDIA's libraries, opened at run time so that one binary runs with and without them.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/set_function.h"

namespace graft {

/// A library that was opened, or why it was not. It stays open for the life of the process.
struct CudaLibrary {
  void* handle = nullptr;  ///< null: `missing` says why
  std::string path;        ///< where it was found
  std::string missing;     ///< "libcublasLt.so.13 is not found: ...", or the first function that it lacks

  /// The address of a function, or null; a library that was not opened has none.
  void* find(const char* function) const;

  /// Points `function` at the library's of that name, or at null, which `missing` then says.
  template <class Function>
  void require(Function*& function, const char* name) {
    if (!set_function(function, find(name)) && missing.empty()) missing = path + " is too old: it has no " + name;
  }
};

/// Opens libSTEM.so of the first of these major versions that is found: the one that the process has open already; in
/// the folders of pip's packages (`nvidia/*/lib` beside this code, below the project's .deps, VIRTUAL_ENV,
/// CONDA_PREFIX, the environment of the first python3 in PATH and the system's Python); in a CUDA toolkit (CUDA_HOME,
/// CUDA_PATH, /usr/local/cuda); along the loader's own paths. libSTEM-builtins beside it is opened with it, since NVRTC
/// looks for its own only along the loader's paths. Thread-safe.
///
///   const CudaLibrary library = open_cuda_library("cublasLt", {13, 12});
///   if (!library.handle) throw Error(ErrorKind::kDevice, library.missing);
CudaLibrary open_cuda_library(std::string_view stem, std::initializer_list<int> versions);

}  // namespace graft
