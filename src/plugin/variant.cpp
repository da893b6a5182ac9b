// SPDX-License-Identifier: Apache-2.0
// The kernels and launches of one target, as an engine has them.
#include <algorithm>
#include <functional>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/log.h"
#include "device/cuda/launch_rule.h"
#include "modules/kernel_source.h"
#include "plugin/definition.h"
#include "runtime/bind.h"
#include "tile/program.h"

namespace graft::plugin {
namespace {

[[noreturn]] void refuse(const std::string& message, const std::string& where) {
  throw Error(ErrorKind::kUnsupported, message, where);
}

/// Whether the size never shrinks when an axis grows: the memory that the largest sizes need is enough for all.
bool grows(const Size& size) {
  bool good = true;
  size.for_each_term([&](int64_t coefficient, std::span<const SizeAtom> atoms) {
    if (coefficient < 0 && !atoms.empty()) good = false;
    for (const SizeAtom& atom : atoms) {
      if (atom.function == SizeFunction::kSymbol) continue;
      const auto& [first, second] = *atom.arguments;
      if (atom.function == SizeFunction::kMod) good = false;
      if (atom.function == SizeFunction::kFloorDiv && !second.is_constant()) good = false;
      good = good && grows(first) && grows(second);
    }
  });
  return good;
}

class VariantBuilder {
 public:
  VariantBuilder(const Definition& definition, const Engine& engine, bool compiled)
      : definition_(definition), engine_(engine), compiled_(compiled) {
    made_.target = parse_target(engine.target);
  }

  Variant build() {
    find_counts();
    share_workspace();
    for (const EngineStep& step : engine_.steps) add_launch(step);
    add_time();
    for (size_t i = 0; i < engine_.outputs.size(); ++i) add_copy(static_cast<int>(i));
    for (const Dimension& dimension : definition_.dimensions) {
      if (dimension.counted >= 0) add_count_copy(dimension);
    }
    write_kernels();
    return std::move(made_);
  }

 private:
  void add_launch(const EngineStep& step) {
    const std::string where = fmt::format("node '{}'", step.name);
    if (step.kind == StepKind::kNone && !step.tensors.empty()) {
      refuse("a plugin has no random numbers that differ from run to run: give the node a seed, or choose nodes around "
             "it", where);
    }
    if (step.kind == StepKind::kNone) return;
    if (step.kind == StepKind::kControl) {
      refuse("a plugin runs kernels one after the other, no branches or loops: choose nodes around it", where);
    }
    if (step.kind == StepKind::kHost) {
      refuse(fmt::format("{} runs as plain C++ on the host, not as a kernel: choose nodes around it",
                         step.host->op), where);
    }
    if (step.kind != StepKind::kKernel) {
      std::string reason = "no kernel was found for it";
      for (const Candidate& candidate : step.candidates) {
        if (!candidate.reason.empty()) reason = candidate.reason;
      }
      refuse(fmt::format("no kernel for {} can be generated: {}", made_.target.name, reason), where);
    }
    const EngineKernel& kernel = engine_.kernels[step.kernel];
    Launch launch{.comment = fmt::format("{}", fmt::join(step.operators, ", ")),
                  .kernel = step.kernel,
                  .grid = kernel.grid,
                  .arguments = {}};
    for (size_t a = 0; a < step.tensors.size(); ++a) {
      launch.arguments.push_back(argument(step.tensors[a]));
      if (a < step.offsets.size()) launch.arguments.back().offset = step.offsets[a];
    }
    note_stored(step);
    made_.launches.push_back(std::move(launch));
  }

  void add_time() {
    bool all = true;
    for (const EngineStep& step : engine_.steps) {
      if (step.kind == StepKind::kNone) continue;
      made_.milliseconds += step.milliseconds;
      made_.measured = made_.measured || step.milliseconds > 0;
      all = all && step.milliseconds > 0;
    }
    if (!all) made_.milliseconds = 0;
  }

  /// Where steps note what they count, for those behind them and, in the end, for the caller.
  void find_counts() {
    for (const EngineStep& step : engine_.steps) {
      if (step.count_symbol.empty() || step.kind != StepKind::kKernel) continue;
      counts_.emplace(step.count_symbol, root_of(engine_, step.tensors.back()));
    }
  }

  /// The sizes that a kernel has to read, as they are known only while running: not that which it counts itself, of
  /// which it is told the most.
  void note_stored(const EngineStep& step) {
    for (const std::string& symbol : engine_.kernels[step.kernel].sizes) {
      const auto found = counts_.find(symbol);
      if (found == counts_.end() || symbol == step.count_symbol) continue;
      stored_[step.kernel].emplace(symbol, Argument{Place::kWorkspace, slot_of_.at(found->second)});
    }
  }

  /// An int32 of the int64 that a kernel counted.
  void add_count_copy(const Dimension& dimension) {
    const Argument from{Place::kWorkspace, slot_of_.at(counts_.at(dimension.symbol))};
    made_.copies.push_back({dimension.counted, from, Size(4)});
  }

  Argument argument(int tensor) {
    const int root = root_of(engine_, tensor);
    const EngineTensor& memory = engine_.tensors[root];
    if (memory.storage == Storage::kInput) return {Place::kInput, memory.index};
    if (memory.storage == Storage::kOutput) return {Place::kOutput, memory.index};
    if (memory.storage == Storage::kArena) return {Place::kWorkspace, slot_of_.at(root)};
    const auto known = constants_.find(memory.index);
    if (known != constants_.end()) return {Place::kConstant, known->second};
    const int index = static_cast<int>(made_.constants.size());
    made_.constants.push_back(engine_.constants[memory.index]);
    check_constants(memory.name);
    constants_[memory.index] = index;
    return {Place::kConstant, index};
  }

  /// Constants stand in the source as text.
  void check_constants(const std::string& name) const {
    constexpr int64_t kMost = int64_t{1} << 20;
    int64_t bytes = 0;
    for (const TensorData& constant : made_.constants) bytes += constant.byte_count();
    if (bytes > kMost) {
      refuse(fmt::format("with it the kernels hold {} bytes of constants, at most {} are: choose nodes that do not "
                         "compute with it", bytes, kMost), fmt::format("constant '{}'", name));
    }
  }

  /// Gives each tensor between kernels a slot: large ones first, in the first that is free while they live.
  void share_workspace() {
    std::vector<int> tensors;
    for (size_t t = 0; t < engine_.tensors.size(); ++t) {
      const EngineTensor& tensor = engine_.tensors[t];
      if (tensor.storage != Storage::kArena || tensor.first_step < 0) continue;
      if (!grows(tensor.bytes)) {
        refuse(fmt::format("the memory it takes, {} bytes, can be more for smaller sizes, so that what the largest "
                           "take does not suffice: fix a size with --dim", tensor.bytes.to_string()),
               fmt::format("tensor '{}'", tensor.name));
      }
      tensors.push_back(static_cast<int>(t));
    }
    const auto typical = [&](int t) { return engine_.tensors[t].bytes.evaluate(engine_.typical); };
    std::stable_sort(tensors.begin(), tensors.end(), [&](int a, int b) { return typical(a) > typical(b); });
    std::vector<std::vector<int>> holders;
    for (const int t : tensors) {
      const auto last = [&](int tensor) {
        const auto counts = [&](const auto& count) { return count.second == tensor; };
        const bool kept = std::any_of(counts_.begin(), counts_.end(), counts);
        return kept ? static_cast<int>(engine_.steps.size()) : engine_.tensors[tensor].last_step;
      };
      const auto overlaps = [&](int other) {
        return engine_.tensors[t].first_step <= last(other) && engine_.tensors[other].first_step <= last(t);
      };
      size_t slot = 0;
      while (slot < holders.size() && std::any_of(holders[slot].begin(), holders[slot].end(), overlaps)) ++slot;
      if (slot == holders.size()) holders.emplace_back(), made_.slots.emplace_back();
      holders[slot].push_back(t);
      std::vector<Size>& bytes = made_.slots[slot].bytes;
      if (std::find(bytes.begin(), bytes.end(), engine_.tensors[t].bytes) == bytes.end()) {
        bytes.push_back(engine_.tensors[t].bytes);
      }
      slot_of_[t] = static_cast<int>(slot);
    }
  }

  void add_copy(int output) {
    const int tensor = engine_.outputs[static_cast<size_t>(output)];
    const Argument from = argument(tensor);
    if (from == Argument{Place::kOutput, output}) return;
    made_.copies.push_back({output, from, engine_.tensors[tensor].bytes});
  }

  /// The kernels' texts, under names that say what plugin they are of.
  void write_kernels() {
    if (engine_.kernels.empty()) return;
    std::string programs;
    for (size_t k = 0; k < engine_.kernels.size(); ++k) {
      tile::Program program = tile::parse_program(engine_.kernels[k].program);
      program.name = fmt::format("{}_{}", definition_.name, k);
      made_.kernels.push_back(
          {.name = program.name, .sizes = engine_.kernels[k].sizes, .stored = stored_[static_cast<int>(k)]});
      for (const auto& [symbol, place] : made_.kernels.back().stored) program.stored.push_back(symbol);
      programs += tile::print(program) + "\n";
    }
    const KernelTexts texts = compiled_texts(programs);
    made_.ptx = texts.ptx, made_.cubin = texts.cubin;
    const size_t first = texts.source.find("\nextern \"C\" __global__");
    GRAFT_CHECK(first != texts.source.npos, "the generated source has no kernel");
    made_.prelude = texts.source.substr(0, first + 1);
    made_.source = texts.source.substr(first + 1);
    std::istringstream lines(texts.launch);
    size_t k = 0;
    for (std::string line; std::getline(lines, line); ++k) take_launch_line(line, made_.kernels.at(k));
  }

  /// PTX is for later GPUs, which run that of no architecture with features of its own.
  KernelTexts compiled_texts(const std::string& programs) const {
    const bool lasts = std::isdigit(static_cast<unsigned char>(architecture_of(made_).back())) != 0;
    if (!compiled_) return kernel_texts(programs, made_.target, /*with_ptx=*/false, /*with_cubin=*/false);
    try {
      return kernel_texts(programs, made_.target, lasts, /*with_cubin=*/true);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kCancelled) throw;
      log(LogLevel::kWarning, "{}: kernels stay source, to be compiled by nvcc when the plugin is built: {}",
          definition_.name, error.message());
      return kernel_texts(programs, made_.target, /*with_ptx=*/false, /*with_cubin=*/false);
    }
  }

  void take_launch_line(const std::string& line, Kernel& kernel) const {
    constexpr int kOneMultiprocessor = 1;
    const auto [name, launch] = parse_launch_line(line, kOneMultiprocessor);
    GRAFT_CHECK(name == kernel.name, "kernels came in another order");
    kernel.threads = launch.threads;
    kernel.shared_bytes = launch.shared_bytes;
    if (!launch.rule) return;
    if (!launch.rule->boxes.empty() || launch.rule->cluster > 1) {
      refuse("its kernel copies by descriptors that a plugin does not make", fmt::format("kernel '{}'", name));
    }
    kernel.blocks_per_multiprocessor = launch.rule->most_blocks;
  }

  const Definition& definition_;
  const Engine& engine_;
  const bool compiled_;
  Variant made_;
  std::map<int, int> slot_of_;    ///< by tensor
  std::map<int, int> constants_;  ///< by the engine's constant
  std::map<std::string, int, std::less<>> counts_;        ///< tensors that hold counts, by symbol
  std::map<int, std::map<std::string, Argument>> stored_; ///< by kernel, the sizes that it reads
};

}  // namespace

void add_variant(Definition& definition, const Engine& engine, bool compiled) {
  definition.variants.push_back(VariantBuilder(definition, engine, compiled).build());
}

}  // namespace graft::plugin
