// SPDX-License-Identifier: Apache-2.0
#include "engine/verify_engine.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "expr/region.h"

namespace graft {
namespace {

constexpr size_t kMostItems = size_t{1} << 18;
constexpr size_t kMostAxes = 64;
constexpr int kMostThreads = 4096;
constexpr int64_t kMostScratch = int64_t{1} << 36;
constexpr size_t kLongestRegion = size_t{16} << 20;

void require(bool good, const std::string& problem, const std::string& where) {
  GRAFT_USER_CHECK(good, kInvalidModel, problem, where);
}

int root_of(const Engine& engine, int tensor) {
  while (engine.tensors[tensor].storage == Storage::kAlias) tensor = engine.tensors[tensor].index;
  return tensor;
}

/// Symbols that data gives a value, which may be negative.
std::set<std::string, std::less<>> read_symbols(const Engine& engine) {
  std::set<std::string, std::less<>> symbols;
  for (const EngineStep& step : engine.steps) {
    for (const SymbolRead& read : step.reads) symbols.insert(read.symbol);
  }
  return symbols;
}

/// Whether the value is at least zero in every run.
bool never_negative(const Size& value, const std::set<std::string, std::less<>>& may_be_negative) {
  if (value.is_constant() || may_be_negative.empty()) return value.is_non_negative();
  std::set<std::string, std::less<>> used;
  value.collect_symbols(used);
  const bool unknown = std::any_of(used.begin(), used.end(),
                                   [&](const std::string& symbol) { return may_be_negative.contains(symbol); });
  return !unknown && value.is_non_negative();
}

void add_bound(EngineStep& step, const Size& value, const std::string& message) {
  const bool known = std::any_of(step.bounds.begin(), step.bounds.end(),
                                 [&](const RunCheck& bound) { return bound.value == value; });
  if (!known) step.bounds.push_back({value, true, message});
}

/// Whether the value is negative in the run that the engine was compiled for, so that no run need be waited for. Only
/// of one symbol: several may be bound to each other by the model's own checks.
bool negative_at_optimum(const Engine& engine, const Size& value) {
  std::set<std::string, std::less<>> used;
  value.collect_symbols(used);
  if (used.size() > 1) return false;
  Bindings bindings;
  for (const std::string& symbol : used) {
    const auto it = engine.symbols.find(symbol);
    if (it == engine.symbols.end()) return false;
    bindings[symbol] = it->second.opt;
  }
  return value.evaluate(bindings) < 0;
}

/// Follows the engine in the order of a run.
class EngineVerifier {
 public:
  explicit EngineVerifier(Engine& engine) : engine_(engine), may_be_negative_(read_symbols(engine)) {}

  void run() {
    for (EngineStep& step : engine_.steps) step.bounds.clear();
    check_counts();
    check_symbols();
    for (size_t t = 0; t < engine_.tensors.size(); ++t) check_tensor(static_cast<int>(t));
    for (size_t t = 0; t < engine_.tensors.size(); ++t) check_alias(static_cast<int>(t));
    check_borders();
    for (const EngineKernel& kernel : engine_.kernels) check_kernel(kernel);
    available_.resize(engine_.tensors.size());
    for (size_t t = 0; t < engine_.tensors.size(); ++t) {
      const Storage storage = engine_.tensors[t].storage;
      available_[t] = storage == Storage::kInput || storage == Storage::kConstant;
    }
    for (size_t s = 0; s < engine_.steps.size(); ++s) check_step(static_cast<int>(s));
    for (const int output : engine_.outputs) check_output(output);
    for (size_t t = 0; t < engine_.tensors.size(); ++t) check_lifetime(static_cast<int>(t));
  }

 private:
  std::string tensor_name(int t) const { return fmt::format("tensor {} '{}'", t, engine_.tensors[t].name); }
  std::string step_name(int s) const { return fmt::format("step {} '{}'", s, engine_.steps[s].name); }
  bool is_tensor(int t) const { return t >= 0 && t < static_cast<int>(engine_.tensors.size()); }

  void check_counts() const {
    require(engine_.tensors.size() <= kMostItems && engine_.steps.size() <= kMostItems &&
                engine_.kernels.size() <= kMostItems && engine_.constants.size() <= kMostItems,
            fmt::format("there are more than {} tensors, steps, kernels or constants", kMostItems), "engine");
    require(engine_.threads >= 1 && engine_.threads <= kMostThreads,
            fmt::format("it asks for {} threads", engine_.threads), "engine");
  }

  /// Each symbol has one source: an axis of an input, an element read once, or a count.
  void check_symbols() {
    for (const auto& [name, range] : engine_.symbols) {
      const bool sane = range.min >= 0 && range.min <= range.opt && (range.max == 0 || range.opt <= range.max);
      require(sane, fmt::format("its range {}:{}:{} is not minimum, optimum, maximum", range.min, range.opt, range.max),
              fmt::format("symbol '{}'", name));
    }
    std::set<std::string, std::less<>> given;
    for (const int input : engine_.inputs) {
      require(is_tensor(input), fmt::format("input {} is not a tensor", input), "engine");
      for (const Size& extent : engine_.tensors[input].shape) extent.collect_symbols(given);
    }
    std::map<std::string, std::pair<int, int64_t>, std::less<>> sources;
    for (size_t s = 0; s < engine_.steps.size(); ++s) {
      const EngineStep& step = engine_.steps[s];
      const std::string where = step_name(static_cast<int>(s));
      for (const SymbolRead& read : step.reads) {
        const std::pair source(read.tensor, read.element);
        const auto [it, fresh] = sources.emplace(read.symbol, source);
        require(!given.contains(read.symbol) && (fresh || it->second == source),
                fmt::format("symbol '{}' has two sources", read.symbol), where);
      }
      if (step.count_symbol.empty()) continue;
      const bool fresh = sources.emplace(step.count_symbol, std::pair(-1, static_cast<int64_t>(s))).second;
      require(fresh && !given.contains(step.count_symbol),
              fmt::format("symbol '{}' has two sources", step.count_symbol), where);
    }
  }

  void check_tensor(int t) const {
    const EngineTensor& tensor = engine_.tensors[t];
    const std::string where = tensor_name(t);
    require(tensor.type != DType::kUndefined && tensor.shape.size() <= kMostAxes, "its type or rank is unknown", where);
    switch (tensor.storage) {
      case Storage::kInput:
        require(tensor.index >= 0 && tensor.index < static_cast<int>(engine_.inputs.size()) &&
                    engine_.inputs[tensor.index] == t, "no input of the engine is this tensor", where);
        break;
      case Storage::kOutput:
        require(tensor.index >= 0 && tensor.index < static_cast<int>(engine_.outputs.size()),
                "no output of the engine is this tensor", where);
        break;
      case Storage::kConstant:  // -1: its bytes were dropped, and nothing may read it
        require(tensor.index >= -1 && tensor.index < static_cast<int>(engine_.constants.size()),
                fmt::format("there is no constant {}", tensor.index), where);
        break;
      case Storage::kAlias:
        require(is_tensor(tensor.index), fmt::format("there is no tensor {} to share memory with", tensor.index),
                where);
        break;
      case Storage::kArena: break;
    }
  }

  /// Chains of aliases end: each is followed for no longer than there are tensors.
  void check_alias(int t) {
    if (ends_.empty()) ends_.assign(engine_.tensors.size(), false);
    std::vector<int> chain;
    for (int at = t; !ends_[at]; at = engine_.tensors[at].index) {
      chain.push_back(at);
      require(chain.size() <= engine_.tensors.size(), "its chain of aliases is a circle", tensor_name(t));
      if (engine_.tensors[at].storage != Storage::kAlias) break;
    }
    for (const int at : chain) ends_[at] = true;
  }

  void check_borders() const {
    for (size_t i = 0; i < engine_.inputs.size(); ++i) {
      const EngineTensor& tensor = engine_.tensors[engine_.inputs[i]];
      require(tensor.storage == Storage::kInput && tensor.index == static_cast<int>(i),
              fmt::format("it is not stored in input {}", i), tensor_name(engine_.inputs[i]));
    }
    for (const int output : engine_.outputs) {
      require(is_tensor(output), fmt::format("output {} is not a tensor", output), "engine");
    }
    for (size_t t = 0; t < engine_.tensors.size(); ++t) {
      const EngineTensor& tensor = engine_.tensors[t];
      if (tensor.storage != Storage::kOutput) continue;
      require(root_of(engine_, engine_.outputs[tensor.index]) == static_cast<int>(t),
              fmt::format("it is not the memory of output {}", tensor.index), tensor_name(static_cast<int>(t)));
    }
  }

  void check_kernel(const EngineKernel& kernel) const {
    require(kernel.object >= -1 && kernel.object < static_cast<int>(std::max(engine_.kernels.size(),
                                                                             engine_.objects.size())),
            fmt::format("it belongs to compilation unit {}", kernel.object), fmt::format("kernel '{}'", kernel.name));
  }

  void require_at_least_zero(int s, const Size& value, const std::string& message) {
    if (never_negative(value, may_be_negative_)) return;
    require(!negative_at_optimum(engine_, value), message, step_name(s));
    add_bound(engine_.steps[s], value, message);
  }

  void check_step(int s) {
    EngineStep& step = engine_.steps[s];
    const std::string where = step_name(s);
    const auto count = static_cast<int>(step.tensors.size());
    for (const int t : step.tensors) require(is_tensor(t), fmt::format("there is no tensor {}", t), where);
    require(step.input_count >= 0 && step.input_count <= count, fmt::format("{} of its {} tensors are inputs",
                                                                            step.input_count, count), where);
    check_reads(s);
    check_references(s);
    for (int a = 0; a < step.input_count; ++a) {
      require(available_[root_of(engine_, step.tensors[a])],
              fmt::format("it reads '{}' before anything is there", engine_.tensors[step.tensors[a]].name), where);
    }
    for (int a = 0; a < count; ++a) check_memory(s, step.tensors[a]);
    for (int a = step.input_count; a < count; ++a) write(s, step.tensors[a]);
    check_work(s);
    check_count(s);
  }

  void check_reads(int s) {
    const EngineStep& step = engine_.steps[s];
    for (const SymbolRead& read : step.reads) {
      require(is_tensor(read.tensor), fmt::format("there is no tensor {}", read.tensor), step_name(s));
      const EngineTensor& tensor = engine_.tensors[read.tensor];
      const int root = root_of(engine_, read.tensor);
      const std::string where = tensor_name(read.tensor);
      for (const DType type : {tensor.type, engine_.tensors[root].type}) {
        require((is_integer(type) || is_float(type) || type == DType::kBool) && bit_width(type) >= 8,
                fmt::format("a size is read from its elements of type {}", name_of(type)), where);
      }
      require(read.element >= 0 && read.element < int64_t{1} << 56, fmt::format("it has no element {}", read.element),
              where);
      require(available_[root], "a size is read from it before anything is there", where);
      const bool given = engine_.tensors[root].storage == Storage::kInput;
      require(given || engine_.has_computed_symbols, "sizes are read while running, and the engine denies it", where);
      const int64_t end = (read.element + 1) * (bit_width(tensor.type) / 8);
      require_bytes(engine_, s, read.tensor, Size(end), "a size that is read from it");
    }
  }

  void check_references(int s) {
    const EngineStep& step = engine_.steps[s];
    const size_t count = step.reference_inputs.size();
    require(count == 0 || count == static_cast<size_t>(step.input_count),
            "its reference inputs are not as many as its inputs", step_name(s));
    for (const int t : step.reference_inputs) {
      require(is_tensor(t) && available_[root_of(engine_, t)], "a reference input is not there", step_name(s));
    }
  }

  /// The tensor lies inside the memory that it shares or is made of, and holds what its shape says.
  void check_memory(int s, int t) {
    const EngineTensor& tensor = engine_.tensors[t];
    require_at_least_zero(s, tensor.bytes, fmt::format("tensor '{}' would have fewer than 0 bytes", tensor.name));
    require_bytes(engine_, s, t, dense_bytes(tensor.type, tensor.shape), "its shape");
    if (tensor.storage != Storage::kArena) require_bytes(engine_, s, t, tensor.bytes, "its size");
  }

  void write(int s, int t) {
    const EngineStep& step = engine_.steps[s];
    const int root = root_of(engine_, t);
    const Storage storage = engine_.tensors[root].storage;
    const bool writable = storage == Storage::kArena || storage == Storage::kOutput;
    require(writable || step.kind == StepKind::kNone,
            fmt::format("it writes to '{}', which is an input or a constant", engine_.tensors[t].name), step_name(s));
    const bool has_memory = root == t || !engine_.has_computed_symbols || available_[root];
    require(has_memory, fmt::format("it writes to '{}' before its memory is there", engine_.tensors[t].name),
            step_name(s));
    if (writable) available_[root] = true;
  }

  /// What the step runs: its kernel's index and sizes, its region against its tensors.
  void check_work(int s) {
    const EngineStep& step = engine_.steps[s];
    const std::string where = step_name(s);
    if (step.kind == StepKind::kNone) return;
    if (step.kind == StepKind::kKernel || (step.kind == StepKind::kLibrary && step.kernel >= 0)) {
      require(step.kernel >= 0 && step.kernel < static_cast<int>(engine_.kernels.size()),
              fmt::format("there is no kernel {}", step.kernel), where);
      const EngineKernel& kernel = engine_.kernels[step.kernel];
      require_at_least_zero(s, kernel.grid, "its kernel would have a negative grid");
      require_at_least_zero(s, kernel.scratch, "its kernel would have negative scratch memory");
      require_at_least_zero(s, Size(kMostScratch) - kernel.scratch, "its kernel wants too much scratch memory");
    }
    require(!step.region.empty() && step.region.size() <= kLongestRegion, "it has no region, or one that is too long",
            where);
    check_region(s);
  }

  void check_region(int s) {
    const EngineStep& step = engine_.steps[s];
    const std::string where = step_name(s);
    const Region region = parse_region(step.region);
    graft::verify(region);
    const bool counts = !step.count_symbol.empty() && step.kind == StepKind::kKernel;
    require(static_cast<int>(region.inputs.size()) == step.input_count &&
                region.inputs.size() + region.outputs.size() + (counts ? 1 : 0) == step.tensors.size(),
            fmt::format("its region has {} inputs and {} outputs, which do not fit its {} tensors",
                        region.inputs.size(), region.outputs.size(), step.tensors.size()), where);
    for (size_t a = 0; a < region.inputs.size() + region.outputs.size(); ++a) {
      const bool is_input = a < region.inputs.size();
      const TensorDecl& decl = region.tensors[is_input ? region.inputs[a] : region.outputs[a - region.inputs.size()]];
      const int t = is_input && !step.reference_inputs.empty() ? step.reference_inputs[a] : step.tensors[a];
      require(decl.type == engine_.tensors[t].type,
              fmt::format("its region takes '{}' for {}", engine_.tensors[t].name, name_of(decl.type)), where);
      require_bytes(engine_, s, t, dense_bytes(decl.type, decl.shape), fmt::format("the region of {}", where));
    }
  }

  void check_count(int s) {
    const EngineStep& step = engine_.steps[s];
    if (step.count_symbol.empty()) return;
    require(engine_.has_computed_symbols, "it computes a size, and the engine denies it", step_name(s));
    require(step.kind == StepKind::kKernel || step.kind == StepKind::kInterpreter, "nothing computes its count",
            step_name(s));
    if (step.kind != StepKind::kKernel) return;
    require(static_cast<int>(step.tensors.size()) > step.input_count, "its count has no place", step_name(s));
    const int last = step.tensors.back();
    require(engine_.tensors[last].type == DType::kInt64, "its count is not an i64", step_name(s));
    require_bytes(engine_, s, last, Size(8), "a count");
  }

  /// Outputs are there after the last step, and what is copied out of them is inside their memory.
  void check_output(int t) {
    const EngineTensor& tensor = engine_.tensors[t];
    require(available_[root_of(engine_, t)], "nothing computes this output", tensor_name(t));
    const int last = static_cast<int>(engine_.steps.size()) - 1;
    require_bytes(engine_, last, t, dense_bytes(tensor.type, tensor.shape), "an output");
  }

  /// What the memory plan is told covers every step that touches the tensor's memory.
  void check_lifetime(int t) {
    if (touched_.empty()) find_touches();
    const EngineTensor& tensor = engine_.tensors[t];
    const int end = static_cast<int>(engine_.steps.size());
    require(tensor.first_step >= -1 && tensor.first_step <= tensor.last_step && tensor.last_step <= end,
            fmt::format("its lifetime {}..{} is not one", tensor.first_step, tensor.last_step), tensor_name(t));
    const auto& [first, last] = touched_[t];
    if (tensor.storage != Storage::kArena || last < 0) return;
    require(tensor.first_step <= first && tensor.last_step >= last,
            fmt::format("it is used in steps {}..{}, but its memory is kept for {}..{}", first, last, tensor.first_step,
                        tensor.last_step), tensor_name(t));
  }

  void find_touches() {
    touched_.assign(engine_.tensors.size(), {INT32_MAX, -1});
    const auto touch = [&](int t, int s) {
      auto& [first, last] = touched_[root_of(engine_, t)];
      first = std::min(first, s);
      last = std::max(last, s);
    };
    const auto count = static_cast<int>(engine_.steps.size());
    for (int s = 0; s < count; ++s) {
      for (const int t : engine_.steps[s].tensors) touch(t, s);
      for (const SymbolRead& read : engine_.steps[s].reads) touch(read.tensor, s);
    }
    for (const int t : engine_.outputs) touch(t, count);
  }

  Engine& engine_;
  std::set<std::string, std::less<>> may_be_negative_;
  std::vector<bool> ends_;       ///< by tensor: its chain of aliases is known to end
  std::vector<bool> available_;  ///< by root tensor: it has memory and contents at this step
  std::vector<std::pair<int, int>> touched_;
};

}  // namespace

Size dense_bytes(DType type, const Shape& shape) {
  const int64_t bits = bit_width(type);
  const Size elements = element_count(shape);
  return bits >= 8 ? elements * Size(bits / 8) : ceil_div(elements * Size(bits), 8);
}

std::vector<Size> capacities(const Engine& engine, int tensor) {
  const EngineTensor& root = engine.tensors[root_of(engine, tensor)];
  switch (root.storage) {
    case Storage::kInput: return {dense_bytes(root.type, root.shape)};
    case Storage::kOutput: {
      const EngineTensor& output = engine.tensors[engine.outputs[root.index]];
      return {dense_bytes(output.type, output.shape), root.bytes};
    }
    case Storage::kConstant:
      return {Size(root.index < 0 ? 0 : engine.constants[root.index].byte_count())};
    case Storage::kArena:
    case Storage::kAlias: break;
  }
  return {root.bytes};
}

void require_bytes(Engine& engine, int step, int tensor, const Size& bytes, const std::string& what) {
  // Most needs are exactly what is there, so that the symbols need not be looked at.
  for (const Size& capacity : capacities(engine, tensor)) {
    if (bytes == capacity) continue;
    const Size spare = capacity - bytes;
    if (never_negative(spare, read_symbols(engine))) continue;
    const std::string message = fmt::format("tensor '{}' has {} bytes of memory, fewer than the {} of {}",
                                            engine.tensors[tensor].name, capacity.to_string(), bytes.to_string(), what);
    require(step >= 0 && !negative_at_optimum(engine, spare), message, "memory");
    add_bound(engine.steps[step], spare, message);
  }
}

void verify(Engine& engine) { EngineVerifier(engine).run(); }

}  // namespace graft
