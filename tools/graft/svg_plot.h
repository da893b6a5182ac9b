// SPDX-License-Identifier: Apache-2.0
// Pictures with two axes, as SVG, for pages.
#pragma once

#include <string>

namespace graft::svg {

// A picture with axes, in its own units; the page scales it.
constexpr double kWidth = 578, kHeight = 350, kLeft = 92, kTop = 16, kRight = 566, kBottom = 306;

std::string text(double x, double y, const char* anchor, const std::string& shown, const char* kind = "minor");
std::string line(double x1, double y1, double x2, double y2, const char* kind);
/// The picture with its name, the lines of its axes and what they show.
std::string with_axes(const char* name, const std::string& inside, const char* across, const char* up);

/// A range of powers of ten, and where a value of it lies between two ends.
struct Powers {
  int low = 0, high = 1;
  double from = 0, to = 1;

  double at(double value) const;
};

/// The lines of an axis at powers of ten: vertical ones, or those of the axis that goes up.
std::string grid(const Powers& powers, bool upright);

}  // namespace graft::svg
