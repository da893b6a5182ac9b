// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

namespace graft {

std::string_view name_of(StepKind kind) {
  switch (kind) {
    case StepKind::kNone:
      return "none";
    case StepKind::kKernel:
      return "generated";
    case StepKind::kLibrary:
      return "library";
    case StepKind::kInterpreter:
      return "interpreter";
    case StepKind::kControl:
      return "control";
    case StepKind::kHost:
      return "host";
  }
  return "none";
}

}  // namespace graft
