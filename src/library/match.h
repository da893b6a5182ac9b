// SPDX-License-Identifier: Apache-2.0
// From a region to a library call, or the reason why there is none.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "expr/region.h"
#include "library/call.h"
#include "library/libraries.h"
#include "library/schedule.h"
#include "target/target.h"
#include "tile/panel_layout.h"

namespace graft {

/// A region as a library call. Arguments are numbered like the tensors of the step: the region's inputs, then outputs.
struct LibraryMatch {
  LibraryCall call;
  tile::Layouts layouts;  ///< by region tensor: how its constant weights must lie
};

/// The call that computes a normalised region: one product or convolution, and maps at the same point that the library
/// knows. A string says what does not fit.
std::variant<LibraryMatch, std::string> match_library(const Region& region, const LibrarySchedule& schedule);

/// A way to run a region in a library.
struct LibraryCandidate {
  LibrarySchedule schedule;
  tile::Layouts layouts;  ///< by region tensor
};

/// What of a library is worth measuring, the most promising first; none when the region does not fit, and then why.
/// `constant[t]`: region tensor t is known when compiling. Only calls as accurate as the region's type asks.
std::vector<LibraryCandidate> library_candidates(const LibraryInfo& library, const Region& region,
                                                 const std::vector<bool>& constant, const Bindings& typical,
                                                 const Target& target, std::string& reason);

}  // namespace graft
