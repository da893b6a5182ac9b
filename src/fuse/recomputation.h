// SPDX-License-Identifier: Apache-2.0
// What it costs to compute a value wherever it is read instead of once.
#pragma once

#include "expr/region.h"

namespace graft {

/// How often the form that reads the tensor most reads each of its elements: 1 for maps and sums of rows, the taps of a
/// window. Sizes that are symbols count as some size.
double times_read(const Region& region, int tensor);

/// Work that a reader repeats for each of its readings, beside what writing a value once and reading it back costs.
///
///   RepeatedWork work{.times = times_read(window, input)};
///   if (work.take(map)) ...   // the window computes the map at every tap
struct RepeatedWork {
  double times = 1;
  double operations = 0;  ///< taken so far, once for each element

  /// Takes the maps of a region over, if what is repeated of them stays cheaper than a pass over memory.
  bool take(const Region& maps);
};

}  // namespace graft
