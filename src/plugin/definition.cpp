// SPDX-License-Identifier: Apache-2.0
#include "plugin/definition.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "runtime/bind.h"
#include "runtime/interpret_step.h"

namespace graft::plugin {
namespace {

[[noreturn]] void refuse(const std::string& message, const std::string& where) {
  throw Error(ErrorKind::kUnsupported, message, where);
}

/// A name for a member in C++ that none of the others has. It ends in an underscore, as no word of C++ or CUDA and no
/// macro of their headers does, nor a name of the text around it: models may call a dimension anything.
std::string identifier_of(const std::string& symbol, std::set<std::string>& taken) {
  std::string name;
  for (const char c : symbol) {
    const bool good = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (good || (!name.empty() && name.back() != '_')) name += good ? c : '_';
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name = "size_" + name;
  while (name.back() == '_') name.pop_back();
  std::string unique = name + '_';
  for (int k = 2; !taken.insert(unique).second; ++k) unique = fmt::format("{}_{}_", name, k);
  return unique;
}

class Describer {
 public:
  Describer(const std::string& name, const Engine& engine) : engine_(engine) { made_.name = name; }

  Definition describe() {
    for (const int t : engine_.inputs) made_.inputs.push_back(tensor(t));
    for (const int t : engine_.outputs) made_.outputs.push_back(tensor(t));
    for (const EngineStep& step : engine_.steps) {
      for (const SymbolRead& read : step.reads) {
        refuse(fmt::format("sizes depend on the values of tensor '{}', which a plugin does not see: make it a "
                           "constant, or choose nodes behind it", engine_.tensors[read.tensor].name), where(step));
      }
      for (const RunCheck& check : step.checks) made_.checks.push_back(check);
    }
    find_dimensions();
    check_known();
    for (const RunCheck& check : made_.checks) check_uncounted(check.value);
    find_counted();
    return std::move(made_);
  }

 private:
  static std::string where(const EngineStep& step) { return fmt::format("node '{}'", step.name); }
  Tensor tensor(int index) const {
    const EngineTensor& tensor = engine_.tensors[index];
    if (bit_width(tensor.type) < 8 || tensor.type == DType::kString) {
      refuse(fmt::format("its elements are {}, which a plugin cannot take or give", name_of(tensor.type)),
             fmt::format("tensor '{}'", tensor.name));
    }
    return {tensor.name, tensor.type, tensor.shape};
  }

  void find_dimensions() {
    std::set<std::string> taken, known;
    for (size_t i = 0; i < made_.inputs.size(); ++i) {
      const Shape& shape = made_.inputs[i].shape;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        const auto symbol = shape[axis].as_symbol();
        if (!symbol || !known.insert(*symbol).second) continue;
        const auto range = engine_.symbols.find(*symbol);
        made_.dimensions.push_back({.symbol = *symbol,
                                    .identifier = identifier_of(*symbol, taken),
                                    .input = static_cast<int>(i),
                                    .axis = static_cast<int>(axis),
                                    .value = {},
                                    .range = range == engine_.symbols.end() ? SymbolRange{} : range->second});
      }
    }
    for (const EngineStep& step : engine_.steps) {
      if (!step.count_symbol.empty() && known.insert(step.count_symbol).second) add_count(step, taken);
    }
    for (const EngineSize& derived : engine_.derived) {
      if (!known.insert(derived.size.symbol).second) continue;
      check_uncounted(derived.size.value);
      made_.dimensions.push_back({.symbol = derived.size.symbol,
                                  .identifier = identifier_of("derived", taken),
                                  .value = derived.size.value,
                                  .range = {}});
    }
  }

  /// A size that a step counts, and the output that tells it.
  void add_count(const EngineStep& step, std::set<std::string>& taken) {
    const Size most = compact_bound(step);
    check_uncounted(most);
    counting_.emplace(step.count_symbol, where(step));
    made_.dimensions.push_back({.symbol = step.count_symbol,
                                .identifier = identifier_of("count", taken),
                                .value = most,
                                .range = {},
                                .counted = static_cast<int>(made_.outputs.size())});
    made_.checks.push_back({Size(INT32_MAX) - most, /*at_least_zero=*/true,
                            fmt::format("more may be counted for {} than an int32 holds", where(step))});
    made_.outputs.push_back({"count of " + step.name, DType::kInt32, {}});
  }

  /// Numbers follow from sizes before a run; throws where one would from a count.
  void check_uncounted(const Size& size) const {
    std::set<std::string, std::less<>> symbols;
    size.collect_symbols(symbols);
    for (const std::string& symbol : symbols) {
      const auto found = counting_.find(symbol);
      if (found == counting_.end()) continue;
      refuse("others compute with the size of its output, which is known only after it has run: let the part end with "
             "it", found->second);
    }
  }

  /// The axes of outputs that are counts, each as a whole.
  void find_counted() {
    for (size_t o = 0; o < made_.outputs.size(); ++o) {
      const Shape& shape = made_.outputs[o].shape;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        const auto symbol = shape[axis].as_symbol();
        if (!symbol) check_uncounted(shape[axis]);
        for (const Dimension& dimension : made_.dimensions) {
          if (!symbol || dimension.counted < 0 || dimension.symbol != *symbol) continue;
          made_.counted.push_back({static_cast<int>(o), static_cast<int>(axis), dimension.counted});
        }
      }
    }
  }

  /// Each size of a tensor follows from the dimensions.
  void check_known() const {
    std::set<std::string, std::less<>> known;
    for (const Dimension& dimension : made_.dimensions) known.insert(dimension.symbol);
    for (const EngineTensor& tensor : engine_.tensors) {
      std::set<std::string, std::less<>> symbols;
      for (const Size& size : tensor.shape) size.collect_symbols(symbols);
      for (const std::string& symbol : symbols) {
        if (known.count(symbol)) continue;
        refuse(fmt::format("its size '{}' is no axis of an input of the plugin and follows from none: fix it with "
                           "--dim {}=SIZE, or choose nodes that read a tensor with that axis", symbol, symbol),
               fmt::format("tensor '{}'", tensor.name));
      }
    }
  }

  const Engine& engine_;
  std::map<std::string, std::string, std::less<>> counting_;  ///< the nodes that count, by the symbol
  Definition made_;
};

}  // namespace

const std::string& architecture_of(const Variant& variant) { return variant.target.architecture; }

Definition describe(const std::string& name, const Engine& engine) { return Describer(name, engine).describe(); }

}  // namespace graft::plugin
