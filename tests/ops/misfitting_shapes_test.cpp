// SPDX-License-Identifier: Apache-2.0
// Inputs that do not fit each other are refused: every sample again with one size of one input changed, or with an
// axis more or less. A definition that takes such a model may not read outside of its inputs, since kernels do not
// look; in the interpreter it is an internal error.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/op_def.h"
#include "support/golden_file.h"
#include "support/sample_case.h"
#include "support/try_definition.h"

namespace graft {
namespace {

/// The tensor's elements again in another shape; what the new shape has more is taken from the beginning.
TensorData refitted(const TensorData& data, std::vector<int64_t> shape) {
  TensorData result = TensorData::zeros(data.type(), std::move(shape));
  for (int64_t i = 0; i < result.element_count() && data.element_count() > 0; ++i) {
    const int64_t from = i % data.element_count();
    if (is_float(data.type())) {
      result.write_double(i, data.read_double(from));
    } else {
      result.write_integer(i, data.read_integer(from));
    }
  }
  return result;
}

/// Shapes that differ from the given one in a size, an axis or two.
std::vector<std::vector<int64_t>> other_shapes(const std::vector<int64_t>& shape) {
  std::vector<std::vector<int64_t>> all;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    for (const int64_t size : {shape[axis] - 1, shape[axis] + 1, int64_t{1}}) {
      if (size < 0 || size == shape[axis]) continue;
      all.push_back(shape);
      all.back()[axis] = size;
    }
  }
  for (const std::vector<int64_t>& behind : {std::vector<int64_t>{2}, std::vector<int64_t>{2, 2}}) {
    all.push_back(shape);
    all.back().insert(all.back().end(), behind.begin(), behind.end());
  }
  all.push_back(shape);
  all.back().insert(all.back().begin(), 2);
  if (!shape.empty()) all.emplace_back(shape.begin(), shape.end() - 1);
  return all;
}

class MisfittingSample : public testing::TestWithParam<SampleCase> {};

/// Tries the sample with each of its inputs in other shapes; adds the reasons why they are refused.
void try_other_shapes(const SampleCase& sample, std::set<std::string>& reasons) {
  for (size_t input = 0; input < sample.inputs.size(); ++input) {
    const TensorData& data = sample.inputs[input];
    if (!data || data.type() == DType::kString || kind_of(data.type()) == DTypeKind::kComplex) continue;
    for (const std::vector<int64_t>& shape : other_shapes(data.shape())) {
      SampleCase c = sample;
      c.inputs[input] = refitted(data, shape);
      for (const Openness openness : {Openness::kContents, Openness::kSizes}) {
        std::string sizes;
        for (const int64_t size : shape) sizes += std::to_string(size) + " ";
        SCOPED_TRACE("input " + std::to_string(input) + " as [ " + sizes + "]");
        const std::string reason = try_definition(c, openness).refusal;
        if (!reason.empty()) reasons.insert(reason);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST_P(MisfittingSample, is_refused_or_stays_inside_its_inputs) {
  std::set<std::string> reasons;
  try_other_shapes(GetParam(), reasons);
}

/// What the samples of a case's operator are refused for in other shapes, each reason once.
std::string refusals_of(const golden::File&, const golden::Case& c) {
  static const std::vector<SampleCase> samples = all_sample_cases();
  std::set<std::string> reasons;
  for (const SampleCase& sample : samples) {
    if (sample.op->name == c.name) try_other_shapes(sample, reasons);
  }
  std::string text;
  for (const std::string& reason : reasons) text += reason + "\n";
  return text;
}

class Refusals : public testing::TestWithParam<std::string> {};

/// `./dev update` rewrites the file, and adds a case for an operator that is new.
TEST_P(Refusals, are_for_the_reasons_of_the_golden_file) {
  const golden::File file = golden::read_folder("refusals").at(0);
  ASSERT_TRUE(golden::has_case(file.path, GetParam())) << file.path << " lacks " << GetParam() << ": ./dev update";
  golden::check(file.path, GetParam(), refusals_of);
}

INSTANTIATE_TEST_SUITE_P(all, Refusals, testing::ValuesIn(operators_with_samples()),
                         [](const auto& info) { return info.param; });

/// Whether a run of the graph's only node would begin, with these elements of its second input.
bool passes_checks(const std::string& text, const std::vector<int64_t>& elements) {
  const Graph graph = parse_graph(text);
  const NodeDefinition definition = define(graph.nodes[0], graph);
  Bindings bindings = {{"n", 3}};
  for (const SizeSource& source : definition.size_sources) bindings[source.symbol] = elements.at(source.element);
  return std::none_of(definition.checks.begin(), definition.checks.end(), [&](const SizeCheck& check) {
    const int64_t value = check.value.evaluate(bindings);
    return check.at_least_zero ? value < 0 : value != 0;
  });
}

TEST(AxesOfTheRun, are_each_given_once) {
  for (const std::string node : {"ReduceSum \"sum\" (%x, %axes) {keepdims = 0}", "Squeeze \"cut\" (%x, %axes)",
                                 "ReduceMax \"most\" (%x, %axes) {keepdims = 1}", "Unsqueeze \"new\" (%x, %axes)"}) {
    const auto text = [&](int axes) {
      return "graph \"g\" {\n  opset \"\" 28\n  input %x: f32[1, 1, n]\n  input %axes: i64[" + std::to_string(axes) +
             "]\n  %y: ? = " + node + "\n  output %y\n}\n";
    };
    EXPECT_TRUE(passes_checks(text(2), {0, 1})) << node;
    EXPECT_FALSE(passes_checks(text(2), {1, 1})) << node;
    if (!node.starts_with("Unsqueeze")) {
      EXPECT_FALSE(passes_checks(text(2), {1, -2})) << node;
      EXPECT_THROW(passes_checks(text(4), {0, 1, 2, 0}), Error) << node;
    }
  }
}

std::string case_name(const testing::TestParamInfo<SampleCase>& info) {
  std::string name = info.param.name();
  for (char& c : name) c = c == '.' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(all, MisfittingSample, testing::ValuesIn(all_sample_cases()), case_name);

}  // namespace
}  // namespace graft
