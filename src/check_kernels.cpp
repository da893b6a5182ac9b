// SPDX-License-Identifier: Apache-2.0
#include "check_kernels.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "engine/verify_engine.h"
#include "tile/program.h"

namespace graft {
namespace {

constexpr const char* kRemedy = "; the plan is damaged or foreign: compile the model again";

/// The program behind a kernel, with what the plan says about it confirmed.
tile::Program read_program(const EngineKernel& kernel) {
  const std::string where = fmt::format("kernel {}", kernel.name);
  const auto check = [&](bool good, const std::string& what) {
    GRAFT_USER_CHECK(good, kInvalidModel, what + kRemedy, where);
  };
  tile::Program program;
  try {
    program = tile::parse_program(kernel.program);
  } catch (const Error& error) {
    throw Error(ErrorKind::kInvalidModel, error.message() + kRemedy, where);
  }
  const std::optional<std::string> fault = tile::broken_rule(program);
  check(!fault, fault.value_or(""));
  check(program.name == kernel.name, fmt::format("its program is called {}", program.name));
  check(program.sizes == kernel.sizes, "its sizes are not those of its program");
  check(tile::grid_size(program) == kernel.grid, "its launch size is not that of its program");
  check(tile::scratch_offsets(program).back() == kernel.scratch, "its scratch memory is not that of its program");
  return program;
}

/// Whether element (i0, i1, ...) lies where a row-major tensor has it.
bool is_row_major(const tile::Buffer& buffer) {
  Size stride = 1;
  for (size_t axis = buffer.shape.size(); axis-- > 0; stride = stride * buffer.shape[axis]) {
    if (!(buffer.strides[axis] == stride) && !buffer.shape[axis].is(1)) return false;
  }
  return true;
}

/// A kernel may touch what its step lists, and write what the step writes.
void check_step(Engine& engine, int number, const tile::Program& program) {
  const EngineStep& step = engine.steps[number];
  const auto check = [&](bool good, const std::string& what) {
    GRAFT_USER_CHECK(good, kInvalidModel, what + kRemedy, fmt::format("step '{}'", step.name));
  };
  const auto arguments = static_cast<size_t>(
      std::count_if(program.buffers.begin(), program.buffers.end(),
                    [](const tile::Buffer& buffer) { return buffer.scope == tile::Scope::kGlobal; }));
  check(arguments == step.tensors.size(),
        fmt::format("its kernel takes {} buffers, the step has {}", arguments, step.tensors.size()));
  for (size_t i = 0; i < arguments; ++i) {
    const tile::Buffer& buffer = program.buffers[i];
    const EngineTensor& tensor = engine.tensors[step.tensors[i]];
    check(buffer.type == tensor.type, fmt::format("buffer {} of its kernel has not the type of '{}'", i, tensor.name));
    check(is_row_major(buffer), fmt::format("buffer {} of its kernel is not row-major", i));
    require_bytes(engine, number, step.tensors[i], dense_bytes(buffer.type, buffer.shape), "its kernel");
    check(!buffer.written || static_cast<int>(i) >= step.input_count,
          fmt::format("its kernel writes the input '{}'", tensor.name));
  }
}

}  // namespace

void check_kernels(Engine& engine) {
  std::vector<tile::Program> programs;
  for (const EngineKernel& kernel : engine.kernels) programs.push_back(read_program(kernel));
  for (size_t step = 0; step < engine.steps.size(); ++step) {
    // A library's step may have a kernel too, for when the library is missing.
    const int kernel = engine.steps[step].kernel;
    const bool replaceable = engine.steps[step].kind == StepKind::kLibrary && kernel >= 0;
    if (engine.steps[step].kind != StepKind::kKernel && !replaceable) continue;
    check_step(engine, static_cast<int>(step), programs[kernel]);
  }
}

}  // namespace graft
