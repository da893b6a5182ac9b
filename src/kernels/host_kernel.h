// SPDX-License-Identifier: Apache-2.0
// Plain C++ kernels, called by the names of their operators: for what is no tensor expression.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dynamic_value.h"
#include "base/run_limits.h"
#include "graph/graph.h"

namespace graft {

/// What a node computes. Inputs that are left out are nothing. A tensor that is given lies in memory of the run: what
/// keeps it in a sequence keeps a copy (`kept`). Throws Error without naming the node. Thread-safe.
using HostKernel = std::function<std::vector<DynamicValue>(std::span<const DynamicValue> inputs)>;
/// Prepares the kernel of a node: reads its attributes once. Throws Error without naming the node.
using MakeHostKernel = HostKernel (*)(const Node& node);

/// A kernel of this library, or of the module `module`, which is opened when a network needs it.
struct HostKernelInfo {
  std::string_view domain, op;
  MakeHostKernel make = nullptr;
  std::string_view module = {};
};

/// The kernel of an operator, or null.
const HostKernelInfo* find_host_kernel(std::string_view domain, std::string_view op);
/// Finds what makes kernels of a module. Throws Error{device} when it is not there.
using HostKernelSource = std::function<MakeHostKernel(const HostKernelInfo& kernel)>;

/// A tensor in memory of its own, whatever becomes of the run.
DynamicValue kept(const DynamicValue& value);

/// Reads a node's attributes; a missing one is the given default.
class KernelAttributes {
 public:
  explicit KernelAttributes(const Node& node) : node_(node) {}
  int64_t integer(std::string_view name, int64_t otherwise) const;
  double real(std::string_view name, double otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> integers(std::string_view name) const;
  std::vector<double> reals(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  const TensorData* tensor(std::string_view name) const;
  bool has(std::string_view name) const { return node_.attributes.find(name) != node_.attributes.end(); }

 private:
  template <class T>
  const T* find(std::string_view name) const;
  const Node& node_;
};

/// Characters of strings that a kernel makes, out of the budget of the run while it lives; what the kernel gives, the
/// run then takes for itself. Asked for each string, it also ends the kernel when the run is to end.
class TextMeter {
 public:
  TextMeter() : budget_(current_budget()) {}
  ~TextMeter() {
    if (budget_) budget_->give(taken_);
  }
  TextMeter(const TextMeter&) = delete;
  TextMeter& operator=(const TextMeter&) = delete;
  void take(size_t characters);

 private:
  std::shared_ptr<MemoryBudget> budget_;
  int64_t taken_ = 0;
};

/// Throws invalid_argument.
[[noreturn]] void refuse_input(const std::string& message);
/// The tensor that an input has to be, of this element type unless that is undefined.
const TensorData& tensor_input(std::span<const DynamicValue> inputs, size_t index, DType type = DType::kUndefined);
/// The sequence that an input has to be.
const DynamicValue& sequence_input(std::span<const DynamicValue> inputs, size_t index);
/// The map that an input has to be, with keys of this type and a single value for each.
const DynamicValue& map_input(std::span<const DynamicValue> inputs, size_t index, DType keys);

}  // namespace graft
