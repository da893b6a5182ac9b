// SPDX-License-Identifier: Apache-2.0
#include "runtime/bind.h"

#include <algorithm>
#include <cstring>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/checked_size.h"
#include "base/convert.h"
#include "base/error.h"

namespace graft {

int root_of(const Engine& engine, int tensor) {
  while (engine.tensors[tensor].storage == Storage::kAlias) tensor = engine.tensors[tensor].index;
  return tensor;
}

namespace {

void check_range(const Engine& engine, const std::string& symbol, int64_t value, const std::string& where) {
  const auto it = engine.symbols.find(symbol);
  if (it == engine.symbols.end()) return;
  const SymbolRange& range = it->second;
  const bool inside = value >= range.min && (range.max == 0 || value <= range.max);
  GRAFT_USER_CHECK(inside, kInvalidArgument,
                   fmt::format("{} = {} is outside {}..{}, for which the engine was compiled; compile with a wider "
                               "--dim {}=min:opt:max",
                               symbol, value, range.min, range.max ? std::to_string(range.max) : "unbounded", symbol),
                   where);
}

}  // namespace

Bindings bind_inputs(const Engine& engine, std::span<const BufferView> inputs) {
  GRAFT_USER_CHECK(inputs.size() == engine.inputs.size(), kInvalidArgument,
                   fmt::format("{} inputs are expected, {} were given", engine.inputs.size(), inputs.size()), "run");
  Bindings bindings;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const EngineTensor& tensor = engine.tensors[engine.inputs[i]];
    const BufferView& given = inputs[i];
    const std::string where = fmt::format("input '{}'", tensor.name);
    GRAFT_USER_CHECK(given.type == tensor.type, kInvalidArgument,
                     fmt::format("its type is {}, {} was given", name_of(tensor.type), name_of(given.type)), where);
    GRAFT_USER_CHECK(given.shape.size() == tensor.shape.size(), kInvalidArgument,
                     fmt::format("it has {} axes ({}), {} were given ([{}])", tensor.shape.size(),
                                 to_string(tensor.shape), given.shape.size(), fmt::join(given.shape, ", ")),
                     where);
    for (size_t d = 0; d < given.shape.size(); ++d) {
      const int64_t extent = given.shape[d];
      GRAFT_USER_CHECK(extent >= 0, kInvalidArgument, fmt::format("axis {} has extent {}", d, extent), where);
      if (const auto constant = tensor.shape[d].as_constant()) {
        GRAFT_USER_CHECK(*constant == extent, kInvalidArgument,
                         fmt::format("axis {} must be {}, {} was given", d, *constant, extent), where);
      } else if (const auto symbol = tensor.shape[d].as_symbol()) {
        const auto [it, fresh] = bindings.emplace(*symbol, extent);
        GRAFT_USER_CHECK(
            fresh || it->second == extent, kInvalidArgument,
            fmt::format("axis {} ({}) is {}, but {} was {} elsewhere", d, *symbol, extent, *symbol, it->second), where);
        check_range(engine, *symbol, extent, fmt::format("{} axis {}", where, d));
      }
    }
    bool empty = false;
    for (const int64_t extent : given.shape) empty |= extent == 0;
    GRAFT_USER_CHECK(given.data || empty, kInvalidArgument, "its data pointer is null", where);
  }
  return bindings;
}

void check_inputs(const Engine& engine, std::span<const BufferView> inputs, const Bindings& bindings) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const EngineTensor& tensor = engine.tensors[engine.inputs[i]];
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      if (tensor.shape[d].is_constant() || tensor.shape[d].as_symbol()) continue;
      const int64_t expected = tensor.shape[d].evaluate(bindings);
      GRAFT_USER_CHECK(expected == inputs[i].shape[d], kInvalidArgument,
                       fmt::format("axis {} must be {} = {}, {} was given", d, tensor.shape[d].to_string(), expected,
                                   inputs[i].shape[d]),
                       fmt::format("input '{}'", tensor.name));
    }
  }
}

void bind_symbol(Bindings& bindings, const std::string& symbol, int64_t value, const std::string& where) {
  const auto [it, fresh] = bindings.emplace(symbol, value);
  GRAFT_USER_CHECK(fresh || it->second == value, kInvalidArgument,
                   fmt::format("the size {} is {} here and {} elsewhere", symbol, value, it->second), where);
}

namespace {

/// The value of a size; that it overflows is said of `where()`, what it is the size of.
template <class Where>
int64_t evaluate_for(const Where& where, const Size& size, const Bindings& bindings) {
  try {
    return size.evaluate(bindings);
  } catch (const Error& error) {
    throw Error(error.kind(), error.message(), where());
  }
}

/// What the dimensions are that a check is of: `: batch = 2, steps = 3`.
std::string values_of(const Size& value, const Bindings& bindings) {
  std::set<std::string, std::less<>> symbols;
  value.collect_symbols(symbols);
  std::string text;
  for (const std::string& symbol : symbols) {
    if (symbol.find_first_of("$:") != symbol.npos) continue;  // made by inference, and no name of the model's
    text += fmt::format("{}{} = {}", text.empty() ? ": " : ", ", symbol, bindings.at(symbol));
  }
  return text;
}

}  // namespace

void run_checks(const EngineStep& step, const Bindings& bindings) {
  for (const RunCheck& check : step.checks) {
    const auto where = [&] { return fmt::format("node '{}'", step.name); };
    const int64_t value = evaluate_for(where, check.value, bindings);
    const bool good = check.at_least_zero ? value >= 0 : value == 0;
    GRAFT_USER_CHECK(good, kInvalidArgument, check.message + values_of(check.value, bindings), where());
  }
}

std::vector<int64_t> output_shape(const Engine& engine, std::span<const BufferView> inputs, int output) {
  Bindings bindings = bind_inputs(engine, inputs);
  for (const EngineSize& derived : engine.derived) bind_derived({&derived.size, 1}, bindings);
  check_inputs(engine, inputs, bindings);
  EngineTensor known = engine.tensors[engine.outputs[output]];
  std::vector<size_t> unknown;
  for (size_t axis = 0; axis < known.shape.size(); ++axis) {
    std::set<std::string, std::less<>> symbols;
    known.shape[axis].collect_symbols(symbols);
    const auto is_bound = [&](const std::string& symbol) { return bindings.contains(symbol); };
    if (std::all_of(symbols.begin(), symbols.end(), is_bound)) continue;
    unknown.push_back(axis);
    known.shape[axis] = 1;
  }
  std::vector<int64_t> shape = concrete_shape(known, bindings);
  for (const size_t axis : unknown) shape[axis] = -1;
  return shape;
}

std::vector<int64_t> concrete_shape(const EngineTensor& tensor, const Bindings& bindings) {
  std::vector<int64_t> shape;
  for (const Size& size : tensor.shape) {
    shape.push_back(evaluate_for([&] { return fmt::format("tensor '{}'", tensor.name); }, size, bindings));
    GRAFT_USER_CHECK(shape.back() >= 0, kInvalidArgument,
                     fmt::format("axis {} would have the negative extent {}", shape.size() - 1, shape.back()),
                     fmt::format("tensor '{}'", tensor.name));
  }
  try {
    checked_element_count(tensor.type, shape);
  } catch (const Error& error) {
    throw Error(ErrorKind::kOutOfMemory,
                fmt::format("{}: at most {} bytes can be had; use smaller sizes", error.message(), kMostBytes),
                fmt::format("tensor '{}'", tensor.name));
  }
  return shape;
}

int64_t evaluate_bytes(const Size& size, const Bindings& bindings, const std::string& what) {
  try {
    return checked_bytes(size.evaluate(bindings), what);
  } catch (const Error& error) {
    throw Error(ErrorKind::kOutOfMemory, error.message(), "run");
  }
}

int64_t concrete_bytes(const EngineTensor& tensor, const Bindings& bindings) {
  try {
    return checked_bytes(tensor.bytes.evaluate(bindings), "it");
  } catch (const Error& error) {
    throw Error(ErrorKind::kOutOfMemory, error.message(), fmt::format("tensor '{}'", tensor.name));
  }
}

int64_t read_element(const void* data, DType type, int64_t element) {
  const int64_t bytes = bit_width(type) / 8;
  int64_t value = 0;
  std::memcpy(&value, static_cast<const char*>(data) + element * bytes, static_cast<size_t>(bytes));
  if (is_float(type)) return double_to_integer(DType::kInt64, decode_float(type, static_cast<uint64_t>(value)));
  if (is_unsigned(type) || type == DType::kBool || bytes == 8) return value;
  const int shift = 64 - static_cast<int>(bytes) * 8;
  return static_cast<int64_t>(static_cast<uint64_t>(value) << shift) >> shift;
}

}  // namespace graft
