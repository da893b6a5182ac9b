// SPDX-License-Identifier: Apache-2.0
// Reads of tensors that cannot leave them, for regions whose text is not to be trusted.
#pragma once

#include <functional>

#include "expr/region.h"

namespace graft {

/// x[i] -> x[check_index(i, n)] where it is not seen from the axes of the form that 0 <= i < n; the same for the
/// indices that a scatter writes at. `shape_of` gives the shape of a tensor that is read or written.
Form guard_loads(const Form& form, const std::function<const Shape&(int tensor)>& shape_of);

}  // namespace graft
