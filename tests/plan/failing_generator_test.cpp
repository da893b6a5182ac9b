// SPDX-License-Identifier: Apache-2.0
// What a code generator throws comes to who builds, from whatever thread it was called on.
#include <new>

#include <gtest/gtest.h>

#include "fuse/fused_program.h"
#include "graph/infer.h"
#include "plan/build_engine.h"

namespace graft {
namespace {

/// Four kernels, so that several units compile at once.
FusedProgram four_steps() {
  Graph graph = parse_graph(R"(graph "four" {
  opset "" 20
  input %x: f32[8, 16]
  constant %axis: i64[] = {0}
  %a: ? = Softmax "first" (%x) {axis = 0}
  %b: ? = ReduceSum "second" (%x)
  %c: ? = CumSum "third" (%x, %axis)
  %d: ? = Exp "fourth" (%x)
  output %a
  output %b
  output %c
  output %d
})");
  infer_types(graph);
  return fuse(graph);
}

TEST(FailingGenerator, memory_that_a_code_generator_lacks_is_an_error_of_the_caller_s) {
  for (const Tuning tuning : {Tuning::kOff, Tuning::kFast}) {
    BuildOptions options{.target = host_cpu(4), .tuning = tuning};
    options.compile_kernels = [](const std::string&, const Target&) -> std::vector<std::byte> {
      throw std::bad_alloc();
    };
    EXPECT_THROW(build_engine(four_steps(), options), std::bad_alloc);
  }
}

}  // namespace
}  // namespace graft
