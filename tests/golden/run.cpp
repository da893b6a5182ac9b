// SPDX-License-Identifier: Apache-2.0
// Runs each golden file of passes/: one test per case. `graft_golden_tests --update` rewrites the expectations.
#include <cstring>

#include <gtest/gtest.h>

#include "base/error.h"
#include "golden/golden_file.h"
#include "graph/evaluate_graph.h"
#include "graph/infer.h"
#include "passes/pass.h"

namespace graft {
namespace {

/// What the pass makes of the case's graph: its text, or `unchanged`. Near misses follow as `// left:` lines.
std::string apply(const Pass& pass, const golden::Case& c) {
  Graph graph = parse_graph(c.input);
  verify(graph, false);
  infer_types(graph);
  const Graph before = graph;
  std::vector<std::string> reasons;
  const Environment plain;
  PassContext context;
  context.environment = &plain;
  context.reasons = &reasons;
  const bool changed = run_pass(graph, pass, context);
  std::string text;
  for (const std::string& reason : reasons) text += "// left: " + reason + "\n";
  if (!changed) {
    EXPECT_EQ(print(before), print(graph)) << "the pass says that it changed nothing";
    return text + "unchanged\n";
  }
  const auto weights = large_constants(graph);
  EXPECT_EQ(print(parse_graph(print(graph), &weights)), print(graph)) << "the text form does not read back";
  return text + print(graph);
}

/// What a pass made must compute what was there before.
void compare_results(const golden::Case& c, const Pass& pass) {
  Graph before = parse_graph(c.input);
  infer_types(before);
  Graph after = before;
  const Environment plain;
  PassContext context;
  context.environment = &plain;
  run_pass(after, pass, context);
  const NamedTensors inputs = random_inputs(before, 7);
  const auto expected = evaluate(before, inputs), actual = evaluate(after, inputs);
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto difference = first_difference(expected[i], actual[i], usual_tolerance(expected[i].type()));
    EXPECT_FALSE(difference) << after.value(after.outputs[i]).name << ": " << *difference;
    EXPECT_EQ(before.value(before.outputs[i]).name, after.value(after.outputs[i]).name);
  }
}

class GoldenPass : public testing::Test {
 public:
  GoldenPass(std::string path, std::string name) : path_(std::move(path)), name_(std::move(name)) {}

  void TestBody() override {
    golden::File file = golden::read(path_);
    const std::string stem = file.path.stem().string();
    const Pass* pass = find_pass(stem);
    ASSERT_NE(pass, nullptr) << "the pipeline has no pass " << stem;
    for (golden::Case& c : file.cases) {
      if (c.name != name_) continue;
      const std::string actual = apply(*pass, c);
      compare_results(c, *pass);
      if (!golden::updating()) {
        EXPECT_EQ(c.expectation, actual);
      } else if (c.expectation != actual) {
        c.expectation = actual;
        golden::write(file);
      }
    }
  }

 private:
  std::string path_, name_;
};

/// One test per case of each file, so that ctest names them.
void register_tests() {
  for (const golden::File& file : golden::read_folder("passes")) {
    for (const golden::Case& c : file.cases) {
      const std::string path = file.path.string(), name = c.name;
      testing::RegisterTest(file.path.stem().string().c_str(), name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [path, name]() -> testing::Test* { return new GoldenPass(path, name); });
    }
  }
}

}  // namespace
}  // namespace graft

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--update") == 0) graft::golden::set_updating(true);
  }
  graft::register_tests();
  return RUN_ALL_TESTS();
}
