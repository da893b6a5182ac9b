// SPDX-License-Identifier: Apache-2.0
// Rows of boxes of which those that a better one covers are left out: what MXNet's operators of detection share. All
// are f32[batch, rows, width], with the corners of a box somewhere in a row.
#pragma once

#include <cstdint>
#include <limits>

#include "frontend/conversion.h"

namespace graft::mxnet {

/// The attributes of a node that carries its definition (graph/custom_operator.h).
Attributes defined(const char* text, Attributes attributes);

struct Rows {
  ValueId rows, counts;  ///< f32[batch, rows, width], and which of them are any
};

/// Which rows are candidates, and how many of the best.
struct Order {
  int64_t score;               ///< its place in a row
  int64_t most;                ///< rows
  double threshold = std::numeric_limits<float>::lowest();  ///< a candidate's score is above
  int64_t id = -1;             ///< the place of its class, or -1
  double background = -1;      ///< a class that is no candidate
};
/// The candidates, the best first; equal ones as they stood.
Rows ordered_boxes(frontend::Conversion& c, ValueId rows, const Order& order);

/// When one box covers another.
struct Cover {
  int64_t coordinates;    ///< the place of the first of four
  double overlap;         ///< what both have over what either has is more
  bool reached = false;   ///< or as much
  int64_t id = -1;        ///< the place of the class, of which both have to be, or -1
  bool center = false;    ///< boxes are their centres and sizes
  bool turned = false;    ///< the area of a box whose corners are turned is negative instead of 0
  double edge = 0;        ///< what is added to each side: 1 where corners are pixels that belong to the box
};
/// bool[batch, rows]: the rows that no kept one before them covers.
ValueId free_boxes(frontend::Conversion& c, const Rows& ordered, const Cover& cover);

}  // namespace graft::mxnet
