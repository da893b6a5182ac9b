// SPDX-License-Identifier: Apache-2.0
#include "support/run_generated.h"

#include <set>

#include <gtest/gtest.h>

#include "device/cuda/cuda_device.h"
#include "device/cuda/describe_gpus.h"
#include "fuse/assign_layouts.h"
#include "fuse/fused_program.h"
#include "modules/kernel_source.h"
#include "plan/build_engine.h"
#include "runtime/session.h"
#include "target/cpus.h"
#include "target/target.h"

namespace graft {
namespace {

/// What an allocator of a run fills.
struct Results {
  std::vector<TensorData> tensors;
};

void* allocate_result(void* context, int output, DType type, std::span<const int64_t> shape, size_t) {
  auto& results = *static_cast<Results*>(context);
  results.tensors[output] = TensorData::zeros(type, {shape.begin(), shape.end()});
  return results.tensors[output].mutable_bytes().data();
}

/// The first GPU of the target's architecture; the first one where there is none.
std::shared_ptr<Device> gpu_for(const Target& target) {
  const int count = static_cast<int>(describe_gpus().size());
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    if (cuda_architecture(ordinal) == target.architecture) return open_cuda_device(ordinal);
  }
  return open_cuda_device(0);
}

Engine engine_with(const Graph& graph, BuildOptions options, const ChangeProgram& change = {}) {
  options.compile_kernels = kernel_code;
  FusedProgram program = fuse(graph);
  if (change) change(program);
  if (options.target.kind == TargetKind::kCpu) turn_results(program);
  return build_engine(std::move(program), options).engine;
}

}  // namespace

std::vector<std::string> cpu_targets() {
  const Target machine = host_cpu(1);
  std::vector<std::string> names = {"native"};
  std::set<int> lengths;
  for (const Cpu& cpu : all_cpus()) {
    if (cpu.architecture != machine.architecture || !lengths.insert(cpu.vector_bits).second) continue;
    const bool is_least = lengths.size() == 1;
    if (is_least || cpu.vector_bits < machine.vector_bits) names.emplace_back(is_least ? "portable" : cpu.name);
  }
  return names;
}

Engine engine_for(const Graph& graph, const std::string& target) {
  return engine_with(graph, {.target = find_target(target, 2)});
}

Engine engine_without_code(const Graph& graph, const Target& target, const ChangeProgram& change) {
  return engine_with(graph, {.target = target, .choices_only = true}, change);
}

Status run_engine(Engine engine, const std::map<std::string, TensorData>& inputs, std::vector<TensorData>& outputs) {
  const Target target = parse_target(engine.target);
  const bool on_gpu = target.kind == TargetKind::kCuda;
  auto code = load_code(std::make_shared<const Engine>(std::move(engine)), {}, on_gpu ? gpu_for(target) : nullptr);
  Session session(std::move(code), 2);
  std::vector<BufferView> views;
  for (const int tensor : session.engine().inputs) {
    const TensorData& data = inputs.at(session.engine().tensors[tensor].name);
    views.push_back({const_cast<std::byte*>(data.bytes().data()), data.type(), data.shape(), {}});
  }
  Results results{std::vector<TensorData>(session.engine().outputs.size())};
  std::vector<BufferView> results_views(results.tensors.size());
  const Status status = session.run(views, results_views, allocate_result, &results);
  if (status.ok()) outputs = std::move(results.tensors);
  return status;
}

std::vector<TensorData> run_engine(Engine engine, const std::map<std::string, TensorData>& inputs) {
  std::vector<TensorData> outputs;
  const Status status = run_engine(std::move(engine), inputs, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  return outputs;
}

}  // namespace graft
