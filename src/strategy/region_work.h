// SPDX-License-Identifier: Apache-2.0
// What there is to do in a region, and what is done where its forms are computed as they are spelled: a value that
// stands under an axis on which it does not depend, or that a window reads at every tap, is computed again and again.
#pragma once

#include "expr/region.h"

namespace graft {

/// Numbers at typical sizes.
struct RegionWork {
  double products = 0;  ///< operations of products of matrices, a multiplication and an addition each
  double elements = 0;  ///< other arithmetic, in simple operations: an addition is 1, an exponential 20
  double bytes = 0;     ///< of what is read from inputs, and of outputs
  double points = 0;    ///< of all forms
};

/// Each different value computed once, each element that is read at all read once.
RegionWork least_work(const Region& region, const Bindings& typical);
/// Each form at each of its points; what the innermost axes do not change is computed outside of them.
RegionWork spelled_work(const Region& region, const Bindings& typical);
/// Of one form; without bytes.
RegionWork spelled_work(const Form& form, const Bindings& typical);

/// A size at typical sizes; of one that names what nobody has chosen, neither a tiny nor a large number.
double size_at(const Size& size, const Bindings& typical);

/// The product under a sum, or null.
Expr summed_product(const Reduce& reduce);
/// Whether a reduction sums products of two sides, each of which goes along axes of the result of its own: what matrix
/// units and micro-kernels are for, whatever the sides are.
bool is_matrix_product(const Reduce& reduce);

}  // namespace graft
