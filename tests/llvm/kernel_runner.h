// SPDX-License-Identifier: Apache-2.0
// Compiles tile programs for the CPU targets of the tests, loads them and runs them on vectors of elements.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "codegen/codegen.h"
#include "codegen/llvm/emit_object.h"
#include "device/cpu/load_object.h"
#include "tile/program.h"

namespace graft::codegen {

/// What every processor of this machine's architecture has, and no more.
inline Target least_target() {
  Target target = find_target("portable", 1);
  target.features.clear();
  return target;
}

/// Kinds of x86-64 that the named targets do not have.
inline Target make_test_target(const std::string& name) {
  Target target;
  target.name = name;
  target.architecture = "x86_64";
  if (name == "v4") {
    target.features =
        "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe,+avx512f,+avx512bw,+"
        "avx512cd,"
        "+avx512dq,+avx512vl";
    target.vector_bits = 512;
    target.vector_registers = 32;
    target.masked_memory = true;
  } else if (name == "v3") {
    target.features = "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe";
    target.vector_bits = 256;
    target.masked_memory = false;
  } else if (name == "v3_masked") {
    target = make_test_target("v3");
    target.name = name;
    target.masked_memory = true;
  } else if (name == "v3_wide") {
    target = make_test_target("v3_masked");
    target.name = name;
    target.vector_bits = 512;
    target.vector_registers = 32;
  }
  return target;
}

/// The targets this machine can run. Vectors of v3_wide are as wide as those of v4, and LLVM takes them apart. Of
/// another architecture they are the least and the machine's own.
inline std::vector<Target> runnable_targets() {
  std::vector<Target> targets{least_target()};
  const Target machine = host_cpu(1);
  for (const char* name : {"v3", "v3_masked", "v3_wide", "v4"}) {
    const Target target = make_test_target(name);
    if (why_not_runnable(target, machine).empty()) targets.push_back(target);
  }
  if (machine.architecture != "x86_64") targets.push_back(machine);
  return targets;
}

using KernelFunction = int32_t (*)(const KernelArguments*, int64_t, int64_t);

/// One program, compiled and in memory.
class Kernel {
 public:
  Kernel(const tile::Program& program, const Target& target) : program_(program) {
    tile::verify(program);
    const ObjectCode code = emit_object(std::span(&program, 1), target);
    const auto* bytes = reinterpret_cast<const uint8_t*>(code.elf.data());
    const Status status = LoadedObject::load({bytes, code.elf.size()}, &object_);
    if (!status.ok()) throw std::runtime_error(status.message());
    function_ = reinterpret_cast<KernelFunction>(object_.find(program.name));
    if (!function_) throw std::runtime_error("the kernel is not in its object");
  }

  /// Runs all grid points; returns the status word.
  int64_t run(const std::vector<void*>& buffers, const Bindings& sizes = {}) {
    std::vector<int64_t> values;
    for (const std::string& name : program_.sizes) values.push_back(sizes.at(name));
    const auto scratch_bytes = static_cast<size_t>(tile::scratch_offsets(program_).back().evaluate(sizes));
    std::vector<uint8_t> scratch(scratch_bytes + 64);
    int64_t status[2] = {0, 0};
    void* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64);
    KernelArguments arguments{buffers.data(), values.data(), aligned, status};
    function_(&arguments, 0, tile::grid_size(program_).evaluate(sizes));
    value = status[1];
    return status[0];
  }

  int64_t value = 0;  ///< the offending value of the last run
  KernelFunction function() const { return function_; }

 private:
  tile::Program program_;
  LoadedObject object_;
  KernelFunction function_ = nullptr;
};

inline Shape row_major(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t n = shape.size(); n-- > 1;) strides[n - 1] = strides[n] * shape[n];
  return strides;
}

inline tile::Buffer make_buffer(const std::string& name, DType type, const Shape& shape, bool written = false) {
  return {.name = name,
          .type = type,
          .scope = tile::Scope::kGlobal,
          .shape = shape,
          .strides = row_major(shape),
          .written = written};
}

inline tile::Axis make_axis(const Size& extent) {
  return {make_variable(), make_size(extent), extent.as_constant().value_or(0)};
}

inline tile::Program make_program(std::vector<tile::Buffer> buffers, std::vector<std::string> sizes = {}) {
  tile::Program program;
  program.name = "kernel";
  program.buffers = std::move(buffers);
  program.sizes = std::move(sizes);
  return program;
}

inline tile::Store store_to(int buffer, std::vector<Expr> indices, Expr value = {},
                            ScatterMode mode = ScatterMode::kSet) {
  return {buffer, std::move(indices), std::move(value), mode};
}

}  // namespace graft::codegen
