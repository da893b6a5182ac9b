// SPDX-License-Identifier: Apache-2.0
// Where this code lies, which is where its modules and the libraries installed with it are looked for.
#pragma once

#include <string>

namespace graft {

/// The absolute path of the file that holds this code, libgraft.so or the program, however it was started: never of a
/// file in the current folder that only has its name. Empty where the system does not say.
std::string own_path();

}  // namespace graft
