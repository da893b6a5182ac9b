// SPDX-License-Identifier: Apache-2.0
// A graph as generated kernels, compiled and run in this process.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/tensor_data.h"
#include "engine/engine.h"
#include "fuse/fused_program.h"
#include "graph/graph.h"
#include "target/target.h"

namespace graft {

/// The CPUs whose kernels are tried here: the machine's own, and of those with shorter vectors the least of each
/// length.
std::vector<std::string> cpu_targets();
/// The graph fused, lowered and compiled for a target by its name, for two threads. The graph has its types.
Engine engine_for(const Graph& graph, const std::string& target);
/// What is done to a fused program before it becomes an engine.
using ChangeProgram = std::function<void(FusedProgram&)>;
/// The same for any target, and without code: the kernels are tile programs.
Engine engine_without_code(const Graph& graph, const Target& target, const ChangeProgram& change = {});
/// One run, on the first GPU when the engine is for one; fills `outputs` if it succeeds.
Status run_engine(Engine engine, const std::map<std::string, TensorData>& inputs, std::vector<TensorData>& outputs);
/// The outputs of one run, on the first GPU when the engine is for one; a failed run fails the test and gives none.
std::vector<TensorData> run_engine(Engine engine, const std::map<std::string, TensorData>& inputs);

}  // namespace graft
