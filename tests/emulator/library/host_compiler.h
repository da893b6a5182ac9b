// SPDX-License-Identifier: Apache-2.0
// C++ -> a shared object, by the compiler that built this, kept by the hash of all that goes into it.
#pragma once

#include <string>

namespace graft::emulator {

/// What a compilation gave.
struct Compiled {
  std::string name;    ///< by which place() knows it
  std::string object;  ///< the bytes of the shared object; empty when the text was rejected
  std::string log;
};

/// Compiles a translated unit for an architecture ("90"). GRAFT_EMULATOR_CACHE names the folder of results, and
/// GRAFT_EMULATOR_FLAGS more flags ("-g -O0"), with which the text stays there beside the result. Thread-safe.
Compiled compile_for_host(const std::string& text, const std::string& architecture);
/// The file of a result, written anew where it is gone.
std::string place(const std::string& name, const std::string& object);

}  // namespace graft::emulator
