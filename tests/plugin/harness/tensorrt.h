// SPDX-License-Identifier: Apache-2.0
// TensorRT's part towards a plugin, by its public headers alone: sizes as expressions, a log, and its calls in its
// order, through one interface whatever the version.
#pragma once

#include <NvInferRuntime.h>

#include <dlfcn.h>

#include <deque>
#include <map>
#include <memory>
#include <set>

#include "cases.h"

namespace harness {

/// An expression whose value is known, at least to the harness: that of a size tensor is not constant to a plugin.
class Expression final : public nvinfer1::IDimensionExpr {
 public:
  explicit Expression(int64_t value, bool is_size_tensor = false) : body_(value, is_size_tensor) { mImpl = &body_; }

 private:
  struct Body final : nvinfer1::apiv::VDimensionExpr {
    Body(int64_t number, bool counts) : value(number), is_size_tensor(counts) {}
    bool isConstant() const override { return !is_size_tensor; }
#if NV_TENSORRT_MAJOR >= 10
    int64_t getConstantValue() const override { return value; }
    bool isSizeTensor() const override { return is_size_tensor; }
#else
    int32_t getConstantValue() const override { return static_cast<int32_t>(value); }
#endif
    int64_t value;
    bool is_size_tensor;
  };
  Body body_;
};

/// What the outputs of a case tell as sizes: those of no axes of type i32.
using Counts = std::map<int, int64_t>;
inline Counts counts_of(const Case& given) {
  Counts counts;
  for (size_t o = 0; o < given.outputs.size(); ++o) {
    const Array& output = given.outputs[o];
    if (output.extents.empty() && output.type == "i32" && !output.bytes.empty()) {
      counts[static_cast<int>(o)] = static_cast<int64_t>(element(output, output.bytes, 0));
    }
  }
  return counts;
}

/// Computes expressions at once: with sizes that only a run knows as `counts` has them, or, without it, at their most.
class Builder final : public nvinfer1::IExprBuilder {
 public:
  explicit Builder(const Counts* counts) : body_(counts) { mImpl = &body_; }
  const nvinfer1::IDimensionExpr* number(int64_t value) { return body_.number(value); }

 private:
  using Op = nvinfer1::DimensionOperation;
  struct Body final : nvinfer1::apiv::VExprBuilder {
    explicit Body(const Counts* known) : counts(known) {}
    const nvinfer1::IDimensionExpr* number(int64_t value) { return &made.emplace_back(value); }
#if NV_TENSORRT_MAJOR >= 10
    const nvinfer1::IDimensionExpr* constant(int64_t value) override { return number(value); }
    const nvinfer1::IDimensionExpr* declareSizeTensor(int32_t output, const nvinfer1::IDimensionExpr& usual,
                                                      const nvinfer1::IDimensionExpr& most) override {
      require(declared.insert(output).second, "a size is declared twice");
      require(!usual.isSizeTensor() && !most.isSizeTensor(), "a size depends on another that only a run knows");
      require(usual.getConstantValue() <= most.getConstantValue(), "a size is usually more than the most");
      if (!counts) return &made.emplace_back(most.getConstantValue(), true);
      const auto found = counts->find(output);
      require(found != counts->end(), "a size is declared for an output that is no int32 without axes");
      require(found->second <= most.getConstantValue(), "a size is more than the most");
      return &made.emplace_back(found->second, true);
    }
#else
    const nvinfer1::IDimensionExpr* constant(int32_t value) override { return number(value); }
#endif
    const nvinfer1::IDimensionExpr* operation(Op operation, const nvinfer1::IDimensionExpr& first,
                                              const nvinfer1::IDimensionExpr& second) override {
      const int64_t a = first.getConstantValue(), b = second.getConstantValue();
      switch (operation) {
        case Op::kSUM: return number(a + b);
        case Op::kSUB: return number(a - b);
        case Op::kPROD: return number(a * b);
        case Op::kMAX: return number(std::max(a, b));
        case Op::kMIN: return number(std::min(a, b));
        case Op::kEQUAL: return number(a == b);
        case Op::kLESS: return number(a < b);
        case Op::kFLOOR_DIV: return number((a - (a % b + b) % b) / b);
        case Op::kCEIL_DIV: return number((a + b - 1) / b);
      }
      return nullptr;
    }
    const Counts* counts;
    std::set<int> declared;
    std::deque<Expression> made;
  };
  Body body_;
};

/// Keeps what plugins say.
class Log final : public nvinfer1::ILogger {
 public:
  void log(Severity, const char* message) noexcept override { messages.emplace_back(message); }
  std::vector<std::string> messages;
};

class LogFinder final : public nvinfer1::ILoggerFinder {
 public:
  explicit LogFinder(nvinfer1::ILogger& log) : log_(log) {}
  nvinfer1::ILogger* findLogger() override { return &log_; }

 private:
  nvinfer1::ILogger& log_;
};

inline nvinfer1::DataType type_of(const std::string& type) {
  if (type == "f16") return nvinfer1::DataType::kHALF;
  if (type == "i8") return nvinfer1::DataType::kINT8;
  if (type == "i32") return nvinfer1::DataType::kINT32;
  if (type == "boolean") return nvinfer1::DataType::kBOOL;
#if NV_TENSORRT_MAJOR >= 10
  if (type == "bf16") return nvinfer1::DataType::kBF16;
  if (type == "i64") return nvinfer1::DataType::kINT64;
#endif
  return nvinfer1::DataType::kFLOAT;
}

inline nvinfer1::Dims dims_of(const std::vector<int64_t>& extents) {
  nvinfer1::Dims dims{};
  dims.nbDims = static_cast<int32_t>(extents.size());
  for (size_t a = 0; a < extents.size(); ++a) {
    dims.d[a] = static_cast<std::remove_reference_t<decltype(dims.d[0])>>(extents[a]);
  }
  return dims;
}

inline std::vector<nvinfer1::PluginTensorDesc> described(const std::vector<Array>& arrays) {
  std::vector<nvinfer1::PluginTensorDesc> tensors;
  for (const Array& array : arrays) {
    tensors.push_back({dims_of(array.extents), type_of(array.type), nvinfer1::TensorFormat::kLINEAR, 1.0F});
  }
  return tensors;
}

/// A plugin as TensorRT works with it: made, asked for shapes, formats and memory, written into an engine, read again
/// and attached to a context.
class Plugin {
 public:
  virtual ~Plugin() = default;
  virtual int output_count() = 0;
  /// With `counts` of a run, or else at their most.
  virtual std::vector<int64_t> output_extents(const Case& given, int output, const Counts* counts) = 0;
  virtual bool takes(const Case& given, int position, nvinfer1::DataType type) = 0;
  virtual bool gives(const Case& given, int output) = 0;
  virtual size_t workspace(const Case& largest) = 0;
  /// The plugin as an engine that was written has it, in a context; with `damaged`, of another plugin's engine: null.
  virtual std::unique_ptr<Plugin> attached(bool damaged) = 0;
  /// Told before runs of these sizes; false where they are refused.
  virtual bool change_shapes(const Case& given) = 0;
  virtual bool enqueue(const Case& given, const void* const* inputs, void* const* outputs, void* workspace,
                       cudaStream_t stream) = 0;
};

/// Finds the plugin in a library that was opened; ends the process where it has none of that name.
std::unique_ptr<Plugin> find_plugin(void* library, const std::string& name, nvinfer1::ILoggerFinder& finder);

template <class Function>
Function* function_of(void* library, const char* name) {
  auto* function = reinterpret_cast<Function*>(dlsym(library, name));
  require(function != nullptr, std::string("the library exports no ") + name);
  return function;
}

}  // namespace harness
