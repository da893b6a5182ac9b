// SPDX-License-Identifier: Apache-2.0
// Runs each golden file of passes/, fuse/, regions/, lower/, amp/ and kernels/, one test per case.
// `./dev update` rewrites expectations.
#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "expr/interpreter.h"
#include "fuse/fused_program.h"
#include "fuse/rewrite_region.h"
#include "graph/custom_operator.h"
#include "graph/evaluate_control_flow.h"
#include "graph/evaluate_graph.h"
#include "graph/infer.h"
#include "kernel_digests.h"
#include "lowered.h"
#include "mixed_symbol.h"
#include "passes/pass.h"
#include "support/golden_file.h"

namespace graft {
namespace {

/// The type that a case asks floats to be lowered to, in its first line: `// low type: f16`.
DType low_type(const golden::Case& c) {
  constexpr std::string_view kLine = "// low type: ";
  if (!c.input.starts_with(kLine)) return DType::kUndefined;
  const std::string word = c.input.substr(kLine.size(), c.input.find('\n') - kLine.size());
  return parse_dtype(word).value();
}

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
  context.low_type = low_type(c);
  context.multiplies_bytes = [](DType, DType) { return true; };
  context.looks_up_bytes = true;
  context.decodes_weights = [](DType, std::optional<int64_t>) { return true; };
  context.least_packed_elements = 0;
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
  // What has neither a definition nor a body that is evaluated has no result here: other tests compare it with ONNX
  // Runtime.
  const auto opaque = [](const Node& node) { return !operator_of(node) && !has_evaluated_bodies(node); };
  if (std::any_of(before.nodes.begin(), before.nodes.end(), opaque)) return;
  infer_types(before);
  Graph after = before;
  const Environment plain;
  PassContext context;
  context.environment = &plain;
  context.low_type = low_type(c);
  context.multiplies_bytes = [](DType, DType) { return true; };
  context.looks_up_bytes = true;
  context.decodes_weights = [](DType, std::optional<int64_t>) { return true; };
  context.least_packed_elements = 0;
  run_pass(after, pass, context);
  const TensorsByName inputs = random_inputs(before, 7);
  const auto actual = evaluate(after, inputs);
  std::vector<TensorData> expected;
  try {
    expected = evaluate(before, inputs);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    return;  // the pass is what makes the graph one that can be computed
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const DType type = expected[i].type();
    const bool rounds = pass.rounds && is_float(type);
    const auto difference = first_difference(expected[i], actual[i], usual_tolerance(rounds ? low_type(c) : type));
    EXPECT_FALSE(difference) << after.value(after.outputs[i]).name << ": " << *difference;
    EXPECT_EQ(before.value(before.outputs[i]).name, after.value(after.outputs[i]).name);
  }
}

/// What the pass of the file's name makes of a case.
std::string passed(const golden::File& file, const golden::Case& c) {
  const Pass* pass = find_pass(file.path.stem().string());
  if (!pass) throw std::runtime_error("the pipeline has no pass " + file.path.stem().string());
  compare_results(c, *pass);
  return apply(*pass, c);
}

/// The steps that a graph is fused into; as a GPU wants sums of products, where the first line says so.
std::string fused(const golden::File&, const golden::Case& c) {
  Graph graph = parse_graph(c.input);
  verify(graph, false);
  infer_types(graph);
  return print(fuse(graph, {.sums_with_rows = c.input.starts_with("// sums with rows\n")}));
}

/// What a region makes of random inputs, its symbols all 3. Rewrites drop and merge axes: only elements compare.
std::vector<TensorData> results_of(const Region& region) {
  Random random(7);
  Bindings bindings;
  std::set<std::string, std::less<>> symbols;
  for (const TensorDecl& tensor : region.tensors) {
    for (const Size& size : tensor.shape) size.collect_symbols(symbols);
  }
  for (const std::string& symbol : symbols) bindings[symbol] = 3;
  std::vector<TensorData> inputs;
  for (const int input : region.inputs) {
    std::vector<int64_t> shape;
    for (const Size& size : region.tensors[input].shape) shape.push_back(size.evaluate(bindings));
    inputs.push_back(TensorData::zeros(region.tensors[input].type, shape));
    for (int64_t i = 0; i < inputs.back().element_count(); ++i) inputs.back().write_double(i, random.uniform(-1, 1));
  }
  std::vector<TensorData> results;
  for (const TensorData& result : interpret(region, inputs, bindings)) {
    results.push_back(result.reshaped({result.element_count()}));
  }
  return results;
}

/// What the rewrite of the file's name makes of a region: its shared axes and its text, or `unchanged`.
std::string rewritten(const golden::File& file, const golden::Case& c) {
  const RegionRewrite* rewrite = find_region_rewrite(file.path.stem().string());
  if (!rewrite) throw std::runtime_error("the list has no rewrite " + file.path.stem().string());
  Region region = parse_region(c.input);
  verify(region);
  const auto expected = results_of(region);
  const auto shared = [](const Region& r) { return common_axes(r).size(); };
  const std::string before = fmt::format("{} shared axes\n{}", shared(region), print(region));
  const Environment plain;
  run_rewrite(region, *rewrite, {.environment = &plain});
  verify(region);
  const auto actual = results_of(region);
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto difference = first_difference(expected[i], actual[i], usual_tolerance(expected[i].type()));
    EXPECT_FALSE(difference) << *difference;
  }
  const std::string after = fmt::format("{} shared axes\n{}", shared(region), print(region));
  EXPECT_EQ(print(parse_region(print(region))), print(region)) << "the text form does not read back";
  return after == before ? "unchanged\n" : after;
}

/// The one file of kernels/.
golden::File kernels_file() { return golden::read_folder("kernels").at(0); }

TEST(KernelDigests, has_a_case_for_each_operator_with_samples) {
  const golden::File file = kernels_file();
  for (const std::string& name : operators_without_case(file)) {
    const bool known = golden::has_case(file.path, name, fmt::format("operator {}\n", name));
    EXPECT_TRUE(known) << name << " has samples and no case: ./dev update";
  }
}

/// One test that is skipped, or those of the cases.
void register_kernels() {
  const std::string reason = why_no_digests(kernels_file());
  if (reason.empty()) return golden::register_tests("kernels", kernel_digests);
  class Skipped : public testing::Test {
   public:
    explicit Skipped(std::string why) : why_(std::move(why)) {}
    void TestBody() override { GTEST_SKIP() << why_; }

   private:
    std::string why_;
  };
  testing::RegisterTest("digests", "of_kernels", nullptr, nullptr, __FILE__, __LINE__,
                        [=]() -> testing::Test* { return new Skipped(reason); });
}

}  // namespace
}  // namespace graft

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    fmt::print(stderr, "graft_golden_tests: unknown argument {}: ./dev update renews golden files\n", argv[i]);
    return 2;
  }
  graft::golden::register_tests("passes", graft::passed);
  graft::golden::register_tests("fuse", graft::fused);
  graft::golden::register_tests("regions", graft::rewritten);
  graft::golden::register_tests("lower", graft::lowered);
  graft::golden::register_tests("amp", graft::mixed_symbol);
  graft::register_kernels();
  return RUN_ALL_TESTS();
}
