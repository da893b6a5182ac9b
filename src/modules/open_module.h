// SPDX-License-Identifier: Apache-2.0
// Modules of Graft: shared libraries beside this code, opened when they are needed.
#pragma once

#include <string>

namespace graft {

/// The path of libgraft_NAME.so beside this code or in ../lib of it, never along the system's search path. Empty when
/// there is none.
std::string find_module(const std::string& name);

/// Opens a module with its symbols hidden; it stays open. Throws Error{device} with the reason, which may be that it is
/// of another version of Graft; `path` may be empty, as find_module gave it.
void* open_module(const std::string& name, const std::string& path);

/// The address of a module's function, or null.
void* module_function(void* module, const char* function);

}  // namespace graft
