// SPDX-License-Identifier: Apache-2.0
#include "support/try_definition.h"

#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "expr/interpreter.h"
#include "expr/region.h"
#include "graph/evaluate_graph.h"

namespace graft {
namespace {

/// A message without the dimensions that it names at its end, which are those of each sample.
std::string without_names(const std::string& message) {
  const size_t name = message.find("size_");
  return name == message.npos ? message : message.substr(0, message.rfind(" (", name));
}

}  // namespace

Tried try_definition(const SampleCase& c, Openness openness) {
  NodeDefinition definition;
  Bindings bindings;
  const Graph graph = make_graph(c, openness);
  try {
    definition = define(graph.nodes[0], graph);
  } catch (const Error& error) {
    const bool refused = error.kind() == ErrorKind::kInvalidModel || error.kind() == ErrorKind::kUnsupported;
    EXPECT_TRUE(refused) << error.what();
    return {.refusal = error.message()};
  }
  verify(definition.region);
  std::string text = print(definition.region);
  for (const SizeSource& source : definition.size_sources) {
    bindings[source.symbol] = c.inputs[source.input].read_integer(source.element);
  }
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.inputs[i]) continue;
    const Value& value = graph.value(graph.nodes[0].inputs[i]);
    if (value.shape) bind_shape({value.name, value.type, *value.shape}, value.type, c.inputs[i].shape(), bindings);
  }
  for (const SizeCheck& check : definition.checks) {
    const int64_t value = check.value.evaluate(bindings);
    if (check.at_least_zero ? value < 0 : value != 0) return {.refusal = without_names(check.message)};
    text += check.message + "\n";
  }
  std::vector<TensorData> inputs;
  for (const int input : definition.inputs) inputs.push_back(c.inputs[input]);
  try {
    interpret(definition.region, inputs, bindings);
  } catch (const Error& error) {
    EXPECT_NE(error.kind(), ErrorKind::kInternal) << error.what();
  }
  return {.definition = std::move(text)};
}

std::vector<std::string> operators_with_samples() {
  std::set<std::string> names;
  for (const SampleCase& sample : all_sample_cases()) names.emplace(sample.op->name);
  return {names.begin(), names.end()};
}

}  // namespace graft
