// SPDX-License-Identifier: Apache-2.0
// Functions of libraries that are opened at run time.
#pragma once

namespace graft {

/// Points `function` at what dlsym or its like gave; false where that is null. Of what type it is, the caller knows.
template <class Function>
bool set_function(Function*& function, void* address) {
  function = reinterpret_cast<Function*>(address);
  return function != nullptr;
}

}  // namespace graft
