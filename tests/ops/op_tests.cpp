// SPDX-License-Identifier: Apache-2.0
// Every sample of every operator: its definition, run by the interpreter with sizes known, contents open and sizes
// open, against ONNX Runtime or onnx's reference evaluator.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "expr/interpreter.h"
#include "graph/evaluate_graph.h"
#include "support/sample_case.h"
#include "support/test_root.h"

namespace graft {
namespace {

/// The expected outputs by case name, from reference.py, which runs once per process.
const nlohmann::json& references() {
  static const nlohmann::json expected = [] {
    char folder_template[] = "/tmp/graft-ops-XXXXXX";
    const std::filesystem::path folder = mkdtemp(folder_template);
    nlohmann::json cases = nlohmann::json::array();
    for (const SampleCase& c : all_sample_cases()) cases.push_back(to_json(c));
    std::ofstream(folder / "cases.json") << cases;
    const std::string command = fmt::format("{} {}/tests/ops/reference.py {} {}", test_python(), test_root(),
                                            (folder / "cases.json").string(), (folder / "expected.json").string());
    const int status = std::system(command.c_str());
    nlohmann::json result;
    if (status == 0) result = nlohmann::json::parse(std::ifstream(folder / "expected.json"));
    std::filesystem::remove_all(folder);
    return result;
  }();
  return expected;
}

void check_sizes(const NodeDefinition& definition, const Bindings& bindings) {
  for (const SizeCheck& check : definition.checks) {
    const int64_t value = check.value.evaluate(bindings);
    EXPECT_TRUE(check.at_least_zero ? value >= 0 : value == 0) << check.message << ": " << check.value.to_string();
  }
}

/// Runs the case's definition in a graph of the given openness.
std::vector<TensorData> run(const SampleCase& c, Openness openness) {
  const Graph graph = make_graph(c, openness);
  const NodeDefinition definition = define(graph.nodes[0], graph);
  verify(definition.region);
  Bindings bindings;
  for (const SizeSource& source : definition.size_sources) {
    bindings[source.symbol] = c.inputs[source.input].read_integer(source.element);
  }
  std::vector<TensorData> inputs;
  for (size_t k = 0; k < definition.inputs.size(); ++k) {
    inputs.push_back(c.inputs[definition.inputs[k]]);
  }
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.inputs[i]) continue;
    const Value& value = graph.value(graph.nodes[0].inputs[i]);
    if (value.shape) bind_shape({value.name, value.type, *value.shape}, value.type, c.inputs[i].shape(), bindings);
  }
  check_sizes(definition, bindings);
  return interpret(definition.region, inputs, bindings);
}

void compare(const SampleCase& c, const std::vector<TensorData>& actual) {
  ASSERT_TRUE(references().contains(c.name())) << "reference.py has no result";
  const nlohmann::json& expected = references().at(c.name());
  ASSERT_TRUE(expected.contains("outputs")) << expected.value("error", "");
  ASSERT_EQ(actual.size(), expected.at("outputs").size());
  for (size_t k = 0; k < actual.size(); ++k) {
    const auto difference = first_difference(tensor_from_json(expected.at("outputs")[k]), actual[k],
        c.sample.tolerance);
    EXPECT_FALSE(difference) << "output " << k << ": " << *difference;
  }
}

class OperatorSample : public testing::TestWithParam<SampleCase> {};

TEST_P(OperatorSample, agrees_with_the_reference_when_all_is_known) {
  compare(GetParam(), run(GetParam(), Openness::kNothing));
}

TEST_P(OperatorSample, agrees_with_the_reference_when_contents_are_open) {
  compare(GetParam(), run(GetParam(), Openness::kContents));
}

TEST_P(OperatorSample, agrees_with_the_reference_when_sizes_are_open) {
  std::vector<TensorData> actual;
  try {
    actual = run(GetParam(), Openness::kSizes);
  } catch (const Error& error) {
    // Some operators need some size when compiling; they must say so.
    if (error.kind() != ErrorKind::kUnsupported) throw;
    GTEST_SKIP() << error.what();
  }
  compare(GetParam(), actual);
}

std::string case_name(const testing::TestParamInfo<SampleCase>& info) {
  std::string name = info.param.name();
  for (char& c : name) c = c == '.' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(all, OperatorSample, testing::ValuesIn(all_sample_cases()), case_name);

TEST(OperatorTable, names_each_operator_once_with_samples_and_a_sentence) {
  std::set<std::pair<std::string_view, std::string_view>> names;
  for (const OpDef& op : all_ops()) {
    EXPECT_TRUE(names.emplace(op.domain, op.name).second) << op.name;
    EXPECT_EQ(find_op(op.domain, op.name), &op);
    EXPECT_GE(op.samples().size(), 1u) << op.name;
    EXPECT_TRUE(op.doc.ends_with('.')) << op.name;
  }
}

TEST(OperatorTable, every_sample_has_a_reference) {
  for (const auto& [name, expected] : references().items()) EXPECT_EQ(expected.value("error", ""), "") << name;
}

}  // namespace
}  // namespace graft
