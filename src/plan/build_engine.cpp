// SPDX-License-Identifier: Apache-2.0
#include "plan/build_engine.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/large_memory.h"
#include "base/log.h"
#include "base/run_limits.h"
#include "base/stop_if_cancelled.h"
#include "fuse/rewrite_region.h"
#include "plan/choose_ways.h"
#include "plan/divide_steps.h"
#include "plan/kernel_table.h"
#include "plan/place_derived.h"
#include "plan/refused_ways.h"
#include "plan/roofline.h"
#include "plan/typical_sizes.h"
#include "plan/warn_of_interpreter.h"
#include "plan/whole_network.h"
#include "runtime/session.h"

namespace graft {
namespace {

/// A packed form of a constant that some step wants.
struct Packing {
  int tensor = -1;  ///< of the fused program
  tile::PanelLayout layout;
  Shape view;  ///< the shape of the constant that the layout is of
  int engine_tensor = -1;
  std::vector<int> others = {};  ///< tensors of the fused program that are the same weights under other names
};

/// Tensors in memory that vectors can be loaded from without crossing cache lines: all in one piece.
std::vector<TensorData> allocate_together(const std::vector<std::pair<DType, std::vector<int64_t>>>& tensors) {
  constexpr int64_t kAlignment = 64;
  constexpr std::string_view kWhat = "packed weights";
  std::vector<int64_t> places = {0};
  for (const auto& [type, shape] : tensors) {
    const int64_t bytes = packed_bytes(type, checked_element_count(type, shape));
    places.push_back(checked_aligned(places.back() + bytes, kAlignment, kWhat));
  }
  const std::shared_ptr<std::byte> memory = large_memory(places.back(), kWhat);
  std::vector<TensorData> made;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [type, shape] = tensors[i];
    const auto bytes = static_cast<size_t>(packed_bytes(type, checked_element_count(type, shape)));
    made.push_back(TensorData::borrow(type, shape, {memory.get() + places[i], bytes}, memory));
  }
  return made;
}

class EngineBuilder {
 public:
  /// What a candidate that is measured does not: take another way where the code generator refuses the chosen one.
  enum class Refused : uint8_t { kReplaced, kReported };

  EngineBuilder(FusedProgram program, const BuildOptions& options, Refused refused = Refused::kReplaced)
      : program_(std::move(program)), options_(options), replaces_(refused == Refused::kReplaced) {}

  /// Chooses the ways of all regions.
  void judge() {
    engine_.threads = std::max(1, options_.target.threads);
    engine_.target = built_.record.target = print(options_.target);
    set_symbols();
    divide_steps(program_, typical_, options_, rewrites_);
    engine_.typical = typical_;
    if (options_.compile_kernels) choose_ways(program_, typical_, options_, built_.record);
  }
  const Record& record() const { return built_.record; }
  /// A step that a record has a choice for.
  struct ChosenStep {
    size_t step;
    std::string key;  ///< the record's name of the region
    std::string way;
  };
  const std::vector<ChosenStep>& chosen() const { return chosen_; }

  /// Builds what was judged.
  BuiltEngine build() {
    make_tensors();
    for (size_t s = 0; s < program_.steps.size(); ++s) {
      const FusedStep& step = program_.steps[s];
      if (options_.progress) options_.progress(step.name, static_cast<int>(s), static_cast<int>(program_.steps.size()));
      add_step(step);
    }
    engine_.kernels = kernels_.kernels();
    if (options_.compile_kernels && !options_.choices_only) kernels_.compile(options_, engine_);
    if (!options_.choices_only) replace_refused();
    engine_.derived = place_derived(program_, engine_.steps);
    if (!options_.choices_only) pack_constants();
    drop_unused_constants();
    set_lifetimes();
    built_.engine = std::move(engine_);
    return std::move(built_);
  }

 private:
  void set_symbols() {
    for (const auto& [name, range] : program_.symbol_ranges) engine_.symbols[name] = {range.min, range.opt, range.max};
    typical_ = typical_sizes(program_);
  }

  static Size bytes_of_tensor(const FusedTensor& tensor) {
    const Size elements = element_count(tensor.shape);
    const int bits = bit_width(tensor.type);
    return bits >= 8 ? elements * Size(bits / 8) : ceil_div(elements * Size(bits), 8);
  }

  void make_tensors() {
    for (const FusedTensor& tensor : program_.tensors) {
      EngineTensor out{.name = tensor.name,
                       .type = tensor.type,
                       .shape = tensor.shape,
                       .bytes = bytes_of_tensor(tensor),
                       .handles = tensor.handles,
                       .storage = Storage::kArena,
                       .index = -1};
      if (tensor.constant) {
        out.storage = Storage::kConstant;
        out.index = static_cast<int>(engine_.constants.size());
        engine_.constants.push_back(*tensor.constant);
      } else if (tensor.alias_of >= 0) {
        out.storage = Storage::kAlias;
        out.index = tensor.alias_of;
      }
      engine_.tensors.push_back(std::move(out));
    }
    engine_.inputs = program_.inputs;
    engine_.outputs = program_.outputs;
    for (size_t i = 0; i < engine_.inputs.size(); ++i) {
      engine_.tensors[engine_.inputs[i]].storage = Storage::kInput;
      engine_.tensors[engine_.inputs[i]].index = static_cast<int>(i);
    }
    for (size_t i = 0; i < engine_.outputs.size(); ++i) {
      int root = engine_.outputs[i];
      while (engine_.tensors[root].storage == Storage::kAlias) root = engine_.tensors[root].index;
      if (engine_.tensors[root].storage != Storage::kArena) continue;  // copied at the end of a run
      engine_.tensors[root].storage = Storage::kOutput;
      engine_.tensors[root].index = static_cast<int>(i);
    }
  }

  void add_step(const FusedStep& fused) {
    EngineStep step;
    step.name = fused.name;
    step.nodes = fused.nodes;
    step.operators = fused.operators;
    for (const SymbolSource& source : fused.sources)
      step.reads.push_back({source.symbol, source.tensor, source.element});
    for (const SizeCheck& check : fused.checks)
      step.checks.push_back({check.value, check.at_least_zero, check.message});
    step.tensors = fused.inputs;
    step.input_count = static_cast<int>(fused.inputs.size());
    step.tensors.insert(step.tensors.end(), fused.outputs.begin(), fused.outputs.end());
    step.count_symbol = fused.count_symbol;
    if (!fused.bodies.empty()) add_bodies(fused, step);
    if (fused.host) {
      step.kind = StepKind::kHost;
      step.host = fused.host;
      step.control = fused.control;
    }
    if (!fused.region.forms.empty()) {
      Region region = fused.region;
      step.reference_inputs = fused.inputs;
      step.region = print(region);
      step.operations = operations_of(region);
      step.bytes = bytes_of(region);
      RewriteContext rewrites = rewrites_;
      rewrites.dumps = true;
      normalise(region, rewrites);
      const auto counts = [&](const Form& form) {
        const auto* compact = std::get_if<Compact>(&form);
        return compact && compact->count == step.count_symbol;
      };
      GRAFT_CHECK(step.count_symbol.empty() || std::any_of(region.forms.begin(), region.forms.end(), counts),
                  "nothing is left that counts the elements of " + step.name);
      take_way(region, fused, step);
    }
    engine_.steps.push_back(std::move(step));
  }

  /// The engines of the bodies, with their choices and weights.
  void add_bodies(const FusedStep& fused, EngineStep& step) {
    step.kind = StepKind::kControl;
    step.control = fused.control;
    for (const auto& body : fused.bodies) {
      FusedProgram program = *body;
      program.prefix = program_.prefix + program.prefix;
      BuiltEngine built = build_engine(std::move(program), options_);
      built.engine.name = body->prefix.substr(0, body->prefix.size() - 1);
      for (auto& [key, choice] : built.record.regions) built_.record.regions.try_emplace(key, std::move(choice));
      for (PackedConstant& packed : built.packed) built_.packed.push_back(std::move(packed));
      step.bodies.push_back(std::make_shared<const Engine>(std::move(built.engine)));
    }
  }

  void take_way(const Region& region, const FusedStep& fused, EngineStep& step) {
    step.kind = StepKind::kInterpreter;
    if (!options_.compile_kernels) return;
    const RegionTask task = task_of(region, fused, program_.tensors);
    const std::string key = region_key(task, typical_);
    const RegionChoice& choice = built_.record.regions.at(key);
    chosen_.push_back({engine_.steps.size(), key, choice.way});
    follow(choice, task, step);
  }

  /// The step in the chosen way; in the interpreter where that is none.
  void follow(const RegionChoice& choice, const RegionTask& task, EngineStep& step) {
    step.candidates = choice.lost;
    step.milliseconds = choice.milliseconds;
    Way way = find_way(task, choice.way, typical_, options_);
    if (!way.reason.empty()) return;
    step.schedule = way.schedule;
    step.library = way.library;
    step.kind = way.library.empty() ? StepKind::kKernel : StepKind::kLibrary;
    if (way.program) {
      add_workspaces(*way.program, step);
      if (!step.count_symbol.empty()) step.tensors.push_back(add_count(step));
      step.kernel = kernels_.add(*std::move(way.program));
      if (step.kind == StepKind::kKernel) step.offsets = std::move(way.offsets);
    }
    use_layouts(*task.region, way.layouts, step);
  }

  /// Arguments of the kernel that are no tensors of the region: memory that it works in.
  void add_workspaces(const tile::Program& program, EngineStep& step) {
    const size_t known = step.tensors.size() + (step.count_symbol.empty() ? 0 : 1);
    const auto globals = static_cast<size_t>(
        std::count_if(program.buffers.begin(), program.buffers.end(),
                      [](const tile::Buffer& buffer) { return buffer.scope == tile::Scope::kGlobal; }));
    for (size_t i = known; i < globals; ++i) {
      const tile::Buffer& buffer = program.buffers[step.tensors.size()];
      engine_.tensors.push_back({.name = step.name + "." + buffer.name,
                                 .type = buffer.type,
                                 .shape = buffer.shape,
                                 .bytes = element_count(buffer.shape) * Size(std::max(bit_width(buffer.type) / 8, 1)),
                                 .storage = Storage::kArena,
                                 .index = -1});
      step.tensors.push_back(static_cast<int>(engine_.tensors.size()) - 1);
    }
  }

  int add_count(const EngineStep& step) {
    engine_.tensors.push_back({.name = step.name + ".count",
                               .type = DType::kInt64,
                               .shape = {Size(1)},
                               .bytes = Size(8),
                               .storage = Storage::kArena,
                               .index = -1});
    return static_cast<int>(engine_.tensors.size()) - 1;
  }

  void use_layouts(const Region& region, const tile::Layouts& layouts, EngineStep& step) {
    for (size_t i = 0; i < region.inputs.size(); ++i) {
      const auto& layout = layouts[region.inputs[i]];
      if (!layout) continue;
      step.tensors[i] = packed(step.tensors[i], *layout, region.tensors[region.inputs[i]].shape);
    }
  }

  /// Whether two tensors are the same weights, under whatever names: those are packed once.
  bool same_constant(int a, int b) const {
    return a == b || program_.tensors[a].constant->shares_bytes_with(*program_.tensors[b].constant);
  }

  int packed(int tensor, const tile::PanelLayout& layout, const Shape& shape) {
    std::vector<size_t>& alike = packings_of_[tile::print(layout) + to_string(shape)];
    for (const size_t index : alike) {
      Packing& known = packings_[index];
      if (!same_constant(known.tensor, tensor)) continue;
      if (known.tensor != tensor) known.others.push_back(tensor);
      return known.engine_tensor;
    }
    alike.push_back(packings_.size());
    const Shape physical = tile::physical_shape(layout, shape);
    EngineTensor out = engine_.tensors[tensor];
    out.shape = physical;
    out.bytes = element_count(physical) * Size(bit_width(out.type) / 8);
    out.storage = Storage::kConstant;
    out.index = -1;
    engine_.tensors.push_back(out);
    packings_.push_back({tensor, layout, shape, static_cast<int>(engine_.tensors.size()) - 1});
    return packings_.back().engine_tensor;
  }

  /// Steps whose kernel has no code take their next ways, and run in the interpreter where none is left; the reasons
  /// are on record.
  void replace_refused() {
    bool again = false;
    for (ChosenStep& chosen : chosen_) {
      EngineStep& step = engine_.steps[chosen.step];
      if (step.kernel < 0 || engine_.kernels[step.kernel].object >= 0) continue;
      const Candidate failed{chosen.way, 0, kernels_.failure(step.kernel)};
      leave_way(step);
      if (!replaces_) {
        step.candidates.push_back(failed);
        continue;
      }
      const FusedStep& fused = program_.steps[chosen.step];
      Region region = fused.region;
      normalise(region, rewrites_);
      const RegionTask task = task_of(region, fused, program_.tensors);
      RegionChoice& choice = built_.record.regions.at(chosen.key);
      if (choice.way == chosen.way) refused_.replace(choice, failed, chosen.key, task, typical_, options_);
      chosen.way = choice.way;
      follow(choice, task, step);
      again |= step.kernel >= 0;
    }
    if (!again) return;
    engine_.kernels.insert(engine_.kernels.end(), kernels_.kernels().begin() + std::ssize(engine_.kernels),
                           kernels_.kernels().end());
    kernels_.compile(options_, engine_);
    replace_refused();
  }

  /// Makes the step what it was before a way was taken.
  void leave_way(EngineStep& step) {
    step.kind = StepKind::kInterpreter;
    step.kernel = -1;
    step.schedule.clear();
    step.library.clear();
    step.offsets.clear();
    for (size_t i = 0; i < step.reference_inputs.size(); ++i) step.tensors[i] = step.reference_inputs[i];
    step.tensors.resize(parse_region(step.region).outputs.size() + static_cast<size_t>(step.input_count));
  }

  /// On a CPU constants are packed by kernels of the same kind that run the network: a small engine of its own.
  void pack_constants() {
    std::vector<const Packing*> wanted;
    std::vector<bool> used(engine_.tensors.size());
    for (const EngineStep& step : engine_.steps) {
      for (const int tensor : step.tensors) used[tensor] = true;
    }
    for (const Packing& packing : packings_) {
      if (used[packing.engine_tensor] && !use_packed(packing)) wanted.push_back(&packing);
    }
    if (wanted.empty()) return;
    const bool runs_here = options_.target.kind == TargetKind::kCpu &&
                           why_not_runnable(options_.target, host_cpu(options_.target.threads)).empty();
    if (!runs_here) {
      // Constants are on the host now, and may be packed where there is no such device, or another CPU.
      for (const Packing* packing : wanted) {
        const TensorData& source = *program_.tensors[packing->tensor].constant;
        take_packed(*packing, tile::pack(packing->layout, source, concrete(packing->view)));
      }
      return;
    }
    FusedProgram packer;
    for (const Packing* packing : wanted) {
      const FusedTensor& source = program_.tensors[packing->tensor];
      FusedStep step;
      step.name = "pack " + source.name;
      step.nodes = {step.name};
      step.operators = {"pack"};
      step.region = tile::packing_region(packing->layout, source.type, packing->view);
      step.inputs = {static_cast<int>(packer.tensors.size())};
      step.outputs = {static_cast<int>(packer.tensors.size()) + 1};
      packer.tensors.push_back(source);
      packer.tensors.back().shape = packing->view;
      packer.tensors.push_back({step.name, source.type, engine_.tensors[packing->engine_tensor].shape, {}, -1});
      packer.outputs.push_back(step.outputs[0]);
      packer.steps.push_back(std::move(step));
    }
    BuildOptions options = options_;
    options.progress = nullptr;
    options.keep_references = false;
    options.tuning = Tuning::kOff;
    options.record = nullptr;
    run_packer(build_engine(std::move(packer), options).engine, wanted);
  }

  /// Whether the constant was packed like this before.
  bool use_packed(const Packing& packing) {
    if (!options_.packed) return false;
    const FusedTensor& source = program_.tensors[packing.tensor];
    const std::string layout = tile::print(packing.layout);
    for (const PackedConstant& known : *options_.packed) {
      if (known.name != program_.prefix + source.name || known.layout != layout) continue;
      if (known.view != concrete(packing.view)) continue;
      if (known.data.type() != source.type) continue;
      if (known.data.shape() != concrete(engine_.tensors[packing.engine_tensor].shape)) continue;
      take_packed(packing, known.data);
      return true;
    }
    return false;
  }

  void take_packed(const Packing& packing, TensorData data) {
    const std::string layout = tile::print(packing.layout);
    const auto remember = [&](int tensor) {
      built_.packed.push_back({program_.prefix + program_.tensors[tensor].name, layout, concrete(packing.view), data});
    };
    remember(packing.tensor);
    for (const int tensor : packing.others) remember(tensor);
    engine_.tensors[packing.engine_tensor].index = static_cast<int>(engine_.constants.size());
    engine_.constants.push_back(std::move(data));
  }

  void run_packer(Engine packer, const std::vector<const Packing*>& wanted) {
    const auto loaded = load_code(std::make_shared<const Engine>(std::move(packer)), {}, options_.device);
    Session session(loaded);
    std::vector<std::pair<DType, std::vector<int64_t>>> tensors;
    for (const Packing* packing : wanted) {
      const EngineTensor& tensor = engine_.tensors[packing->engine_tensor];
      tensors.emplace_back(tensor.type, concrete(tensor.shape));
    }
    std::vector<TensorData> results = allocate_together(tensors);
    std::vector<BufferView> outputs;
    for (const TensorData& result : results) {
      outputs.push_back({const_cast<std::byte*>(result.bytes().data()), result.type(), result.shape(), {}});
    }
    const Status status = session.run({}, outputs);
    GRAFT_CHECK(status.ok(), "packing weights failed: " + status.message());
    for (size_t i = 0; i < wanted.size(); ++i) take_packed(*wanted[i], std::move(results[i]));
  }

  /// Weights are in memory once: the row-major form goes when only the packed one is read.
  void drop_unused_constants() {
    std::vector<bool> used(engine_.constants.size());
    const auto use = [&](int tensor) {
      while (engine_.tensors[tensor].storage == Storage::kAlias) tensor = engine_.tensors[tensor].index;
      const EngineTensor& root = engine_.tensors[tensor];
      if (root.storage == Storage::kConstant && root.index >= 0) used[root.index] = true;
    };
    for (EngineStep& step : engine_.steps) {
      for (const int tensor : step.tensors) use(tensor);
      for (const SymbolRead& read : step.reads) use(read.tensor);
      if (!options_.keep_references) step.reference_inputs.clear();
      for (const int tensor : step.reference_inputs) use(tensor);
    }
    for (const int tensor : engine_.outputs) use(tensor);
    for (size_t c = 0; c < used.size(); ++c) {
      if (!used[c]) engine_.constants[c] = TensorData::zeros(DType::kUint8, {0});
    }
    program_ = {};
  }

  void set_lifetimes() {
    const auto touch = [&](int tensor, int step) {
      while (engine_.tensors[tensor].storage == Storage::kAlias) tensor = engine_.tensors[tensor].index;
      EngineTensor& root = engine_.tensors[tensor];
      if (root.first_step < 0) root.first_step = step;
      root.last_step = std::max(root.last_step, step);
    };
    for (size_t s = 0; s < engine_.steps.size(); ++s) {
      const EngineStep& step = engine_.steps[s];
      for (const int tensor : step.tensors) touch(tensor, static_cast<int>(s));
      for (const SymbolRead& read : step.reads) {
        touch(read.tensor, static_cast<int>(s));
        int root = read.tensor;
        while (engine_.tensors[root].storage == Storage::kAlias) root = engine_.tensors[root].index;
        engine_.has_computed_symbols |= engine_.tensors[root].storage != Storage::kInput;
      }
      engine_.has_computed_symbols |= !step.count_symbol.empty() || !step.control.symbols.empty();
    }
    const int end = static_cast<int>(engine_.steps.size());
    for (const int output : engine_.outputs) touch(output, end);
    for (EngineTensor& tensor : engine_.tensors) {
      if (tensor.storage == Storage::kArena && tensor.first_step < 0) tensor.bytes = 0;
    }
  }

  FusedProgram program_;
  const BuildOptions& options_;
  RewriteContext rewrites_{.disabled = options_.disabled};
  Engine engine_;
  KernelTable kernels_;
  Bindings typical_;
  std::vector<Packing> packings_;
  std::map<std::string, std::vector<size_t>> packings_of_;  ///< by the texts of layout and shape
  std::vector<ChosenStep> chosen_;
  bool replaces_;
  RefusedWays refused_;
  BuiltEngine built_;
};

constexpr int64_t kMostCompared = int64_t{1} << 30;  // bytes of constants: of more, two copies cost too much
constexpr double kWinningWhole = 0.99;               // of the time of the measured choices, which others then replace

int64_t bytes_of_constants(const FusedProgram& program) {
  int64_t bytes = 0;
  for (const FusedTensor& tensor : program.tensors) {
    if (tensor.constant) bytes += tensor.constant->byte_count();
  }
  return bytes;
}

/// The choices of a record, for a comparison.
std::string ways_of(const Record& record) {
  std::string text = record.target + "\n";
  for (const auto& [key, choice] : record.regions) text += key + " " + choice.way + "\n";
  return text;
}

/// Notes beside the cost model's choices what was measured of their regions alone.
void note_times(const Record& measured, const std::string& reason, const EngineBuilder& builder, BuiltEngine& built) {
  for (auto& [key, choice] : built.record.regions) {
    const auto known = measured.regions.find(key);
    if (known == measured.regions.end()) continue;
    const RegionChoice& alone = known->second;
    if (alone.way == choice.way) {
      choice = alone;
      continue;
    }
    for (const Candidate& each : alone.lost) {
      if (each.name == choice.way) choice.milliseconds = each.milliseconds;
      if (each.name != choice.way) choice.lost.push_back(each);
    }
    choice.lost.push_back({alone.way, alone.milliseconds, reason});
  }
  for (const EngineBuilder::ChosenStep& each : builder.chosen()) {
    const RegionChoice& choice = built.record.regions.at(each.key);
    built.engine.steps[each.step].candidates = choice.lost;
    built.engine.steps[each.step].milliseconds = choice.milliseconds;
  }
}

/// The engine of the measured choices, or that of the cost model's where the whole network is faster by them.
BuiltEngine faster_whole(BuiltEngine measured, EngineBuilder& modelled, const BuildOptions& options) {
  if (measured.engine.has_computed_symbols) return measured;
  std::vector<std::string> keys;
  for (const std::string& chosen : {ways_of(measured.record), ways_of(modelled.record())}) {
    const Hash128 ways = hash128(measured.engine.name + chosen);
    keys.push_back(fmt::format("whole {} {}", static_cast<int>(options.tuning), ways.to_string()));
  }
  try {
    const auto known = options.timings.find_all(keys);
    if (known && (*known)[1] >= kWinningWhole * (*known)[0]) return measured;
    BuiltEngine other = modelled.build();
    const std::vector<double> times =
        known ? *known : time_engines({std::make_shared<const Engine>(measured.engine),
                                       std::make_shared<const Engine>(other.engine)}, keys, options);
    log(LogLevel::kChoice, "the whole network: {:.4f} ms as measured step by step, {:.4f} ms as the cost model chose",
        times[0], times[1]);
    if (times[1] >= kWinningWhole * times[0]) return measured;
    const std::string reason = fmt::format(
        "the whole network is slower by what is fastest alone: {:.4f} against {:.4f} ms", times[0], times[1]);
    note_times(measured.record, reason, modelled, other);
    return other;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kCancelled) throw;
    log(LogLevel::kReason, "the whole network is not compared: {}", error.what());
    return measured;
  }
}

}  // namespace

void stop_if_cancelled(const BuildOptions& options, const std::string& step) {
  stop_if_cancelled(options.cancelled, fmt::format("node '{}'", step));
}

std::optional<std::vector<double>> TimingCache::find_all(const std::vector<std::string>& keys) const {
  std::vector<double> times;
  for (const std::string& key : keys) {
    const auto time = find ? find(key) : std::nullopt;
    if (!time) return std::nullopt;
    times.push_back(*time);
  }
  return times;
}

BuiltEngine build_candidate(FusedProgram program, const BuildOptions& options) {
  EngineBuilder builder(std::move(program), options, EngineBuilder::Refused::kReported);
  builder.judge();
  return builder.build();
}

BuiltEngine build_engine(FusedProgram program, const BuildOptions& options) {
  if (!options.device || options.tuning == Tuning::kOff || bytes_of_constants(program) > kMostCompared) {
    EngineBuilder builder(std::move(program), options);
    builder.judge();
    BuiltEngine built = builder.build();
    if (options.compile_kernels) warn_of_interpreter(built.engine);
    return built;
  }
  BuildOptions untuned = options;
  untuned.tuning = Tuning::kOff;
  EngineBuilder measured(program, options), modelled(std::move(program), untuned);
  measured.judge(), modelled.judge();
  const bool same = ways_of(measured.record()) == ways_of(modelled.record());
  BuiltEngine built = measured.build();
  if (!same) built = faster_whole(std::move(built), modelled, options);
  if (options.compile_kernels) warn_of_interpreter(built.engine);
  return built;
}

}  // namespace graft
