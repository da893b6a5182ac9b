// SPDX-License-Identifier: Apache-2.0
#include "runtime/interpret_step.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/checked_size.h"
#include "base/compare.h"
#include "base/error.h"
#include "expr/interpreter.h"

namespace graft {
namespace {

ReferenceStep& reference_of(const Engine& engine, int index, std::map<int, ReferenceStep>& references) {
  ReferenceStep& step = references[index];
  if (!step.region) step.region = std::make_shared<const Region>(parse_region(engine.steps[index].region));
  return step;
}

std::vector<TensorData> evaluate(ReferenceStep& step, std::span<void* const> buffers, Bindings& bindings) {
  const Region& region = *step.region;
  std::vector<TensorData> inputs;
  for (size_t i = 0; i < region.inputs.size(); ++i) {
    const TensorDecl& decl = region.tensors[region.inputs[i]];
    std::vector<int64_t> shape;
    for (const Size& size : decl.shape) shape.push_back(size.evaluate(bindings));
    const int64_t bytes = packed_bytes(decl.type, checked_element_count(decl.type, shape, decl.name));
    inputs.push_back(TensorData::from_bytes(decl.type, shape,
                                            {static_cast<const std::byte*>(buffers[i]), static_cast<size_t>(bytes)}));
  }
  return interpret(region, inputs, bindings);
}

std::string compact_symbol(const Region& region) {
  for (const Form& form : region.forms) {
    if (const auto* compact = std::get_if<Compact>(&form)) return compact->count;
  }
  return "";
}

/// What the order of sums may change in a step's results.
Tolerance step_tolerance(const TensorData& expected) {
  const int bits = bit_width(expected.type());
  const double share = bits >= 64 ? 1e-10 : bits == 32 ? 1e-4 : 2e-2;
  return {.absolute = share * largest_magnitude(expected)};
}

}  // namespace

ParsedRegions parse_regions(const Engine& engine) {
  ParsedRegions regions;
  for (size_t s = 0; s < engine.steps.size(); ++s) {
    const EngineStep& step = engine.steps[s];
    if (step.kind != StepKind::kInterpreter && step.count_symbol.empty()) continue;
    regions[static_cast<int>(s)] = std::make_shared<const Region>(parse_region(step.region));
  }
  return regions;
}

void interpret_step(const Engine& engine, int index, std::span<void* const> buffers, const Bindings& bindings,
                    std::map<int, ReferenceStep>& references) {
  ReferenceStep& step = reference_of(engine, index, references);
  Bindings bound = bindings;
  const std::string count = compact_symbol(*step.region);
  if (!count.empty()) bound.erase(count);
  const std::vector<TensorData> outputs = evaluate(step, buffers, bound);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto bytes = outputs[i].bytes();
    if (!bytes.empty()) std::memcpy(buffers[step.region->inputs.size() + i], bytes.data(), bytes.size());
  }
  if (!count.empty()) step.last_count = bound.at(count);
}

void validate_step(const Engine& engine, int index, std::span<void* const> buffers, const Bindings& bindings,
                   std::map<int, ReferenceStep>& references) {
  ReferenceStep& step = reference_of(engine, index, references);
  Bindings bound = bindings;
  const std::string count = compact_symbol(*step.region);
  if (!count.empty()) bound.erase(count);
  const std::vector<TensorData> outputs = evaluate(step, buffers, bound);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const TensorData& expected = outputs[i];
    const void* data = buffers[step.region->inputs.size() + i];
    const TensorData actual =
        TensorData::from_bytes(expected.type(), expected.shape(),
                               {static_cast<const std::byte*>(data), static_cast<size_t>(expected.byte_count())});
    const int64_t at = compare(actual, expected, step_tolerance(expected)).first;
    if (at < 0) continue;
    throw Error(ErrorKind::kInternal,
                fmt::format("validation: output {} differs from the interpreter at element {}: {} instead of {} "
                            "(schedule '{}')",
                            i, at, show_element(actual, at), show_element(expected, at), engine.steps[index].schedule),
                fmt::format("node '{}'", engine.steps[index].name));
  }
}

int64_t compact_bound(const Engine& engine, int index, const Bindings& bindings,
                      std::map<int, ReferenceStep>& references) {
  const Region& region = *reference_of(engine, index, references).region;
  int64_t bound = 0;
  for (const Form& form : region.forms) {
    const auto* compact = std::get_if<Compact>(&form);
    if (!compact) continue;
    int64_t points = 1;
    for (const Axis& axis : compact->axes) {
      const std::string what = "the points of node '" + engine.steps[index].name + "'";
      points = checked_product(points, axis.extent.evaluate(bindings), what);
    }
    bound = std::max(bound, points);
  }
  return bound;
}

Size compact_bound(const EngineStep& step) {
  const Region region = parse_region(step.region);
  const auto counts = [](const Form& form) { return std::holds_alternative<Compact>(form); };
  const auto form = std::find_if(region.forms.begin(), region.forms.end(), counts);
  if (form == region.forms.end()) return 0;
  Size points = 1;
  for (const Axis& axis : std::get<Compact>(*form).axes) points = points * axis.extent;
  return points;
}

}  // namespace graft
