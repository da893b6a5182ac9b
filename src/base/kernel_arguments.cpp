// SPDX-License-Identifier: Apache-2.0
#include "base/kernel_arguments.h"

#include <fmt/format.h>

namespace graft {

std::string text_of(ElementFault fault, int64_t value) {
  if (fault == ElementFault::kDivisor) return "an integer is divided by zero";
  return fmt::format("index {} is out of range", value);
}

}  // namespace graft
