// SPDX-License-Identifier: Apache-2.0
#include "plan/kernel_table.h"

#include <algorithm>
#include <mutex>

#include <fmt/format.h>

#include "base/available_threads.h"
#include "base/call_in_parallel.h"
#include "base/error.h"
#include "base/hash.h"

namespace graft {
namespace {

constexpr size_t kKernelsOfUnit = 4, kMostUnits = 16;

}  // namespace

int compiling_threads(const BuildOptions& options) {
  if (options.target.kind == TargetKind::kCuda) return available_threads();
  return std::clamp(options.target.threads, 1, available_threads());
}

int KernelTable::add(tile::Program program) {
  program.name = "kernel";
  // Buffer names come from the model; kernels that differ in nothing else are the same.
  for (size_t b = 0; b < program.buffers.size(); ++b) program.buffers[b].name = fmt::format("b{}", b);
  const std::string text = tile::print(program);
  if (const auto it = by_text_.find(text); it != by_text_.end()) return it->second;
  program.name = fmt::format("k_{:016x}", hash64(text));
  EngineKernel kernel;
  kernel.name = program.name;
  kernel.sizes = program.sizes;
  kernel.grid = tile::grid_size(program);
  kernel.scratch = tile::scratch_offsets(program).back();
  kernel.program = tile::print(program);
  const int index = static_cast<int>(kernels_.size());
  kernels_.push_back(std::move(kernel));
  failures_.emplace_back();
  by_text_.emplace(text, index);
  return index;
}

void KernelTable::compile(const BuildOptions& options, Engine& engine) {
  std::vector<int> order;
  for (size_t k = 0; k < kernels_.size(); ++k) {
    if (engine.kernels[k].object < 0 && failures_[k].empty()) order.push_back(static_cast<int>(k));
  }
  if (order.empty()) return;
  // Units of nearly equal text, so that all threads compile; the same on every machine, since the kernel cache knows
  // units.
  const size_t count = std::clamp<size_t>(order.size() / kKernelsOfUnit, 1, kMostUnits);
  std::vector<Unit> units(count);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return kernels_[a].program.size() > kernels_[b].program.size(); });
  for (const int k : order) {
    Unit& smallest = *std::min_element(units.begin(), units.end(),
                                       [](const Unit& a, const Unit& b) { return a.text.size() < b.text.size(); });
    smallest.kernels.push_back(k);
    smallest.text += kernels_[k].program + "\n";
  }
  std::mutex mutex;
  call_in_parallel(count, compiling_threads(options), [&](size_t u) {
    try {
      std::vector<std::byte> object = options.compile_kernels(units[u].text, options.target);
      const std::lock_guard lock(mutex);
      engine.objects.push_back(std::move(object));
      for (const int k : units[u].kernels) engine.kernels[k].object = static_cast<int>(engine.objects.size()) - 1;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kCancelled) throw;  // others are found again kernel by kernel
    }
  });
  for (const Unit& unit : units) compile_unit(unit, options, engine);
}

/// A unit that failed is compiled kernel by kernel, so that one bad kernel costs only itself.
void KernelTable::compile_unit(const Unit& unit, const BuildOptions& options, Engine& engine) {
  for (const int k : unit.kernels) {
    if (engine.kernels[k].object >= 0) continue;
    try {
      engine.objects.push_back(options.compile_kernels(engine.kernels[k].program, options.target));
      engine.kernels[k].object = static_cast<int>(engine.objects.size()) - 1;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kCancelled) throw;
      failures_[k] = error.message();
    }
  }
}

}  // namespace graft
