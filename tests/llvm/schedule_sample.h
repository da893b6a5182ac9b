// SPDX-License-Identifier: Apache-2.0
// A region whose kernels are held against the interpreter, whatever schedule makes them.
#pragma once

#include "base/random.h"
#include "expr/interpreter.h"
#include "fuse/fused_program.h"
#include "fuse/rewrite_region.h"
#include "graph/evaluate_graph.h"
#include "graph/infer.h"
#include "llvm/kernel_runner.h"
#include "strategy/strategy.h"

namespace graft::codegen {

/// A region with what it reads and what the interpreter makes of that.
struct Sample {
  Region region;
  std::vector<TensorData> inputs, expected;
  Bindings sizes;
};

/// The one region that a graph of the given lines becomes, normalised.
inline Sample make_sample(const std::string& lines) {
  Graph graph = parse_graph("graph \"g\" {\n  opset \"\" 28\n" + lines + "}\n");
  infer_types(graph);
  const TensorsByName named = random_inputs(graph, 3);
  FusedProgram program = fuse(graph);
  if (program.steps.size() != 1) throw std::runtime_error("not one step:\n" + print(program));
  Sample sample{std::move(program.steps[0].region), {}, {}, {}};
  normalise(sample.region);
  for (size_t i = 0; i < program.steps[0].inputs.size(); ++i) {
    const FusedTensor& tensor = program.tensors[program.steps[0].inputs[i]];
    const TensorData data = tensor.constant ? *tensor.constant : named.at(tensor.name);
    bind_shape({tensor.name, tensor.type, tensor.shape}, data.type(), data.shape(), sample.sizes);
    std::vector<int64_t> shape;
    const TensorDecl& decl = sample.region.tensors[sample.region.inputs[i]];
    for (const Size& size : decl.shape) shape.push_back(size.evaluate(sample.sizes));
    sample.inputs.push_back(data.reshaped(shape));
  }
  Bindings sizes = sample.sizes;
  sample.expected = interpret(sample.region, sample.inputs, sizes);
  return sample;
}

/// The input in the layout that a schedule wants it in.
inline TensorData packed(const tile::PanelLayout& layout, const TensorData& data) {
  const Shape shape(data.shape().begin(), data.shape().end());
  Bindings none;
  return interpret(tile::packing_region(layout, data.type(), shape), std::span(&data, 1), none)[0];
}

/// The text of a region, with random inputs.
inline Sample sample_of_region(const std::string& text, Bindings sizes = {}) {
  Sample sample{parse_region(text), {}, {}, std::move(sizes)};
  normalise(sample.region);
  Random random(5);
  for (const int input : sample.region.inputs) {
    const TensorDecl& decl = sample.region.tensors[static_cast<size_t>(input)];
    std::vector<int64_t> shape;
    for (const Size& size : decl.shape) shape.push_back(size.evaluate(sample.sizes));
    TensorData data = TensorData::zeros(decl.type, shape);
    for (int64_t i = 0; i < data.element_count(); ++i) {
      if (is_float(decl.type)) {
        data.write_double(i, random.uniform(-2, 2));
      } else {
        data.write_integer(i, random.integer(0, 100));
      }
    }
    sample.inputs.push_back(std::move(data));
  }
  Bindings bound = sample.sizes;
  sample.expected = interpret(sample.region, sample.inputs, bound);
  return sample;
}

/// Lowers, compiles, runs and compares.
inline void check(const Sample& sample, const tile::Schedule& schedule, const Target& target,
           const tile::Layouts& layouts = {}, double tolerance = 1e-5) {
  SCOPED_TRACE(target.name + ": " + tile::print(schedule));
  const tile::Lowered lowered = tile::lower(sample.region, layouts, schedule, target);
  ASSERT_TRUE(std::holds_alternative<tile::Program>(lowered)) << std::get<std::string>(lowered);
  const auto& program = std::get<tile::Program>(lowered);
  std::vector<TensorData> tensors = sample.inputs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto tensor = static_cast<size_t>(sample.region.inputs[i]);
    if (tensor < layouts.size() && layouts[tensor]) tensors[i] = packed(*layouts[tensor], tensors[i]);
  }
  for (const TensorData& output : sample.expected) {
    tensors.push_back(TensorData::zeros(output.type(), output.shape()));
  }
  std::vector<void*> buffers;
  for (TensorData& tensor : tensors) buffers.push_back(tensor.mutable_bytes().data());
  Kernel kernel(program, target);
  EXPECT_EQ(kernel.run(buffers, sample.sizes), 0);
  for (size_t i = 0; i < sample.expected.size(); ++i) {
    const auto difference = first_difference(sample.expected[i], tensors[sample.inputs.size() + i], tolerance);
    EXPECT_FALSE(difference) << "output " << i << ": " << *difference << "\n" << tile::print(program);
  }
}

}  // namespace graft::codegen
