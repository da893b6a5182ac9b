// SPDX-License-Identifier: Apache-2.0
// Normal forms keep their meaning: every sample's region, before and after normalise(), in the interpreter.
#include <gtest/gtest.h>

#include "base/error.h"
#include "expr/interpreter.h"
#include "fuse/rewrite_region.h"
#include "graph/evaluate_graph.h"
#include "support/sample_case.h"

namespace graft {
namespace {

std::vector<int64_t> shape_of(const TensorDecl& decl, const Bindings& bindings) {
  std::vector<int64_t> shape;
  for (const Size& size : decl.shape) shape.push_back(size.evaluate(bindings));
  return shape;
}

class NormalisedSample : public testing::TestWithParam<SampleCase> {};

TEST_P(NormalisedSample, computes_the_same) {
  const SampleCase& c = GetParam();
  const Graph graph = make_graph(c, Openness::kContents);
  const NodeDefinition definition = define(graph.nodes[0], graph);
  Bindings bindings;
  for (const SizeSource& source : definition.size_sources) {
    bindings[source.symbol] = c.inputs[source.input].read_integer(source.element);
  }
  std::vector<TensorData> inputs;
  for (const int input : definition.inputs) inputs.push_back(c.inputs[input]);
  const Bindings given = bindings;
  const std::vector<TensorData> expected = interpret(definition.region, inputs, bindings);

  Region region = definition.region;
  normalise(region);
  verify(region);
  for (size_t k = 0; k < inputs.size(); ++k) {
    inputs[k] = inputs[k].reshaped(shape_of(region.tensors[region.inputs[k]], bindings));
  }
  Bindings again = given;
  const std::vector<TensorData> actual = interpret(region, inputs, again);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t k = 0; k < actual.size(); ++k) {
    const TensorData same_shape = actual[k].reshaped(expected[k].shape());
    const auto difference = first_difference(expected[k], same_shape, c.sample.tolerance);
    EXPECT_FALSE(difference) << "output " << k << ": " << *difference << "\n" << print(region);
  }
}

TEST_P(NormalisedSample, is_in_normal_form_already_the_second_time) {
  const Graph graph = make_graph(GetParam(), Openness::kContents);
  Region once = define(graph.nodes[0], graph).region;
  normalise(once);
  Region twice = once;
  normalise(twice);
  EXPECT_EQ(print(once), print(twice));
}

std::string case_name(const testing::TestParamInfo<SampleCase>& info) {
  std::string name = info.param.name();
  for (char& c : name) c = c == '.' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(all, NormalisedSample, testing::ValuesIn(all_sample_cases()), case_name);

}  // namespace
}  // namespace graft
