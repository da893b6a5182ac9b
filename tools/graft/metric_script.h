// SPDX-License-Identifier: Apache-2.0
// A user's function of Python that says how good a network is.
#pragma once

#include <functional>
#include <string>

#include "driver/measured_network.h"

namespace graft {

/// `SCRIPT.py:FUNCTION`. Each question is a Python process of its own, in which the script is imported and the function
/// gets a graft.Engine. What it prints goes to standard error.
class MetricScript {
 public:
  /// Throws UsageError where the text has another form or there is no such file. `stop`: whether somebody asks to
  /// stop, as a deadline does.
  explicit MetricScript(const std::string& text, std::function<bool()> stop = {});

  /// What the function gives, which may be NaN. Throws invalid_argument where it fails or gives no number, behind its
  /// own message; `cancelled`
  /// where it was stopped, and its process killed.
  double operator()(const MeasuredNetwork& network) const;

 private:
  std::string text_, file_, function_;
  std::function<bool()> stop_;
};

}  // namespace graft
