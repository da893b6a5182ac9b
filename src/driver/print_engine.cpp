// SPDX-License-Identifier: Apache-2.0
// The text of an engine: what a plan holds, for a person to read.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"
#include "driver/compile.h"

namespace graft {
namespace {

std::string shape_text(const Shape& shape) {
  std::vector<std::string> sizes;
  for (const Size& size : shape) sizes.push_back(size.to_string());
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

std::string place_of(const EngineTensor& tensor) {
  switch (tensor.storage) {
    case Storage::kInput: return fmt::format("input {}", tensor.index);
    case Storage::kOutput: return fmt::format("output {}", tensor.index);
    case Storage::kConstant: return fmt::format("constant {}", tensor.index);
    case Storage::kArena: return fmt::format("arena, steps {} to {}", tensor.first_step, tensor.last_step);
    case Storage::kAlias: return fmt::format("memory of {}", tensor.index);
  }
  return "nowhere";
}

/// Each line further in.
std::string indented(const std::string& text) {
  std::string result = "    ";
  for (size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    if (text[i] == '\n' && i + 1 < text.size()) result += "    ";
  }
  return result;
}

std::string step_text(const Engine& engine, const EngineStep& step, size_t number) {
  std::string text = fmt::format("step {} \"{}\" {} of {}\n", number, printable(step.name), name_of(step.kind),
                                 printable(fmt::format("{}", fmt::join(step.operators, " + "))));
  const auto tensors = std::span(step.tensors);
  text += fmt::format("  reads {} writes {}\n", fmt::join(tensors.first(step.input_count), " "),
                      fmt::join(tensors.subspan(step.input_count), " "));
  if (step.kernel >= 0) text += fmt::format("  kernel {}\n", engine.kernels[step.kernel].name);
  if (!step.library.empty()) text += fmt::format("  library {}\n", step.library);
  if (!step.schedule.empty()) text += fmt::format("  schedule {}\n", step.schedule);
  for (const auto& body : step.bodies) text += indented(print(*body));
  for (const SymbolRead& read : step.reads) {
    text += fmt::format("  {} = tensor {} element {}\n", read.symbol, read.tensor, read.element);
  }
  for (const RunCheck& check : step.checks) {
    text += fmt::format("  check {} {} 0: {}\n", check.value.to_string(), check.at_least_zero ? ">=" : "==",
                        printable(check.message));
  }
  for (const Candidate& candidate : step.candidates) {
    text += fmt::format("  not {}: {}\n", candidate.name, printable(candidate.reason));
  }
  return text;
}

}  // namespace

std::string print(const Engine& engine) {
  std::string text = fmt::format("engine \"{}\"\ntarget {}\nthreads {}\n", printable(engine.name), engine.target,
                                 engine.threads);
  for (const auto& [key, value] : engine.options) {
    text += fmt::format("option {} {}\n", printable(key), printable(value));
  }
  for (const auto& [name, range] : engine.symbols) {
    text += fmt::format("symbol {} {}:{}:{}\n", printable(name), range.min, range.opt, range.max);
  }
  for (const EngineSize& derived : engine.derived) {
    text += fmt::format("size {} = {} before step {}\n", derived.size.symbol, derived.size.value.to_string(),
                        derived.before_step);
  }
  for (size_t t = 0; t < engine.tensors.size(); ++t) {
    const EngineTensor& tensor = engine.tensors[t];
    text += fmt::format("tensor {} \"{}\" {}{}: {}\n", t, printable(tensor.name), name_of(tensor.type),
                        printable(shape_text(tensor.shape)), place_of(tensor));
  }
  for (size_t s = 0; s < engine.steps.size(); ++s) text += step_text(engine, engine.steps[s], s);
  for (const EngineKernel& kernel : engine.kernels) {
    text += fmt::format("kernel {} grid {} scratch {}\n", kernel.name, kernel.grid.to_string(),
                        kernel.scratch.to_string());
  }
  return text;
}

}  // namespace graft
