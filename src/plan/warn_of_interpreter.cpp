// SPDX-License-Identifier: Apache-2.0
#include "plan/warn_of_interpreter.h"

#include <fmt/format.h>

#include "base/log.h"

namespace graft {

void warn_of_interpreter(const Engine& engine) {
  constexpr int kMostNamed = 3;
  int interpreted = 0;
  std::string named;
  for (const EngineStep& step : engine.steps) {
    if (step.kind != StepKind::kInterpreter || ++interpreted > kMostNamed) continue;
    std::string reason = "no candidate";
    for (const Candidate& candidate : step.candidates) {
      if (!candidate.reason.empty()) reason = candidate.reason;
    }
    const std::string others = step.nodes.size() > 1 ? fmt::format(" and {} more", step.nodes.size() - 1) : "";
    const std::string operation = step.operators.empty() ? "" : step.operators[0];
    named += fmt::format("{} '{}' ({}){}: {}", named.empty() ? "" : ";", step.name, operation, others, reason);
  }
  if (interpreted > kMostNamed) named += fmt::format("; and {} more", interpreted - kMostNamed);
  if (interpreted == 0) return;
  log(LogLevel::kWarning, "{} of {} steps run in the interpreter, which is slow:{}", interpreted, engine.steps.size(),
      named);
}

}  // namespace graft
