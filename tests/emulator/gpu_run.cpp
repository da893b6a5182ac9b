// SPDX-License-Identifier: Apache-2.0
#include "emulator/gpu_run.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <gtest/gtest.h>

#include "fuse/fused_program.h"
#include "graph/evaluate_graph.h"
#include "graph/infer.h"
#include "modules/kernel_source.h"
#include "support/library_case.h"
#include "support/run_generated.h"
#include "target/target.h"

namespace graft {
namespace {

// One GPU of each kind, unless the caller names others, and kernels from nowhere but the emulator; set before anything
// asks for them.
[[maybe_unused]] const int gpus_are_named = setenv("GRAFT_EMULATED_GPU", "sm_90a,sm_80", 0);
[[maybe_unused]] const int cache_is_off = setenv("GRAFT_CACHE", "/dev/null", 1);

}  // namespace

double tolerance_on_gpu(std::string_view type) {
  if (type == "integer") return 0;
  if (type == "f32") return 4e-6;
  if (type == "tf32") return 1.5e-3;
  if (type == "float8") return 0.07;  // one step of the largest
  return type == "f16" ? 2e-3 : 1.6e-2;
}

GpuCase::GpuCase(std::string_view text, Bindings sizes, const std::string& precision)
    : graph_(parse_graph(text)), sizes_(std::move(sizes)) {
  infer_types(graph_);
  given_ = graph_;
  const TensorsByName inputs = random_inputs(graph_, sizes_, 11);
  inputs_ = {inputs.begin(), inputs.end()};
  expected_ = evaluate(graph_, inputs);
  if (!precision.empty()) set_option(options_, {"precision", precision});
  rewrite(graph_, options_);
}

void GpuCase::replace(const std::string& input, TensorData data) {
  inputs_.at(input) = std::move(data);
  const TensorsByName inputs(inputs_.begin(), inputs_.end());
  expected_ = evaluate(given_, inputs);
}

BuiltEngine GpuCase::build(const std::string& target, const Record* record) const {
  BuildOptions options{.target = find_target(target, 2), .record = record};
  options.compile_kernels = kernel_code;
  return build_engine(fuse(graph_, options_), options);
}

std::vector<TensorData> GpuCase::run(const std::string& target, const std::string& step,
                                     const std::string& schedule) const {
  BuiltEngine built = build(target, nullptr);
  if (!schedule.empty()) {
    Record record = built.record;
    for (auto& [key, choice] : record.regions) {
      if (choice.step.find(step) != choice.step.npos) choice.way = "generated " + schedule;
    }
    built = build(target, &record);
    const auto as_asked = [&](const EngineStep& s) { return s.schedule == schedule; };
    EXPECT_TRUE(std::any_of(built.engine.steps.begin(), built.engine.steps.end(), as_asked))
        << schedule << " is refused";
  }
  for (const EngineStep& s : built.engine.steps) {
    const bool generated = s.kind == StepKind::kKernel || s.kind == StepKind::kNone;
    EXPECT_TRUE(generated) << s.name << ": " << (s.candidates.empty() ? "" : s.candidates.back().reason);
  }
  return run_engine(std::move(built.engine), inputs_);
}

double GpuCase::difference(const std::vector<TensorData>& actual) const {
  if (actual.size() != expected_.size()) return HUGE_VAL;
  double apart = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    apart = std::max(apart, LibraryCase::difference(expected_[i], actual[i]));
  }
  return apart;
}

}  // namespace graft
