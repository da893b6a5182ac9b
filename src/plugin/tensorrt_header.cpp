// SPDX-License-Identifier: Apache-2.0
#include "plugin/support_text.h"

namespace graft::plugin {
namespace {

/// What both interfaces need: sizes as TensorRT's expressions, types, messages.
constexpr char kCommon[] = R"text(
namespace graft_made {

/// A size while a network is built: a number, or an expression of TensorRT. The same text computes it as an int64.
class Expression {
 public:
  Expression(int64_t number = 0) : number_(number) {}
  Expression(const nvinfer1::IDimensionExpr* value, nvinfer1::IExprBuilder* builder)
      : value_(value), builder_(builder) {}

  const nvinfer1::IDimensionExpr* in(nvinfer1::IExprBuilder& builder) const {
    return value_ ? value_ : builder.constant(static_cast<Number>(number_));
  }

  friend Expression operator+(const Expression& a, const Expression& b) { return apply(Op::kSUM, a, b); }
  friend Expression operator-(const Expression& a, const Expression& b) { return apply(Op::kSUB, a, b); }
  friend Expression operator-(const Expression& a) { return apply(Op::kSUB, 0, a); }
  friend Expression operator*(const Expression& a, const Expression& b) { return apply(Op::kPROD, a, b); }
  friend Expression floor_div(const Expression& a, const Expression& b) { return apply(Op::kFLOOR_DIV, a, b); }
  friend Expression min(const Expression& a, const Expression& b) { return apply(Op::kMIN, a, b); }
  friend Expression max(const Expression& a, const Expression& b) { return apply(Op::kMAX, a, b); }
  friend Expression mod(const Expression& a, const Expression& b) { return a - b * floor_div(a, b); }

 private:
  using Op = nvinfer1::DimensionOperation;
#if NV_TENSORRT_MAJOR >= 10
  using Number = int64_t;
#else
  using Number = int32_t;
#endif
  static Expression apply(Op operation, const Expression& a, const Expression& b) {
    nvinfer1::IExprBuilder* builder = a.builder_ ? a.builder_ : b.builder_;
    if (!builder) return {number_of(operation, a.number_, b.number_)};
    return {builder->operation(operation, *a.in(*builder), *b.in(*builder)), builder};
  }
  static int64_t number_of(Op operation, int64_t a, int64_t b) {
    switch (operation) {
      case Op::kSUM: return a + b;
      case Op::kSUB: return a - b;
      case Op::kPROD: return a * b;
      case Op::kMIN: return graft_made::min(a, b);
      case Op::kMAX: return graft_made::max(a, b);
      default: return graft_made::floor_div(a, b);
    }
  }

  const nvinfer1::IDimensionExpr* value_ = nullptr;
  nvinfer1::IExprBuilder* builder_ = nullptr;
  int64_t number_ = 0;
};

inline nvinfer1::DataType type_of(Type type) {
  switch (type) {
    case Type::f16: return nvinfer1::DataType::kHALF;
    case Type::i8: return nvinfer1::DataType::kINT8;
    case Type::i32: return nvinfer1::DataType::kINT32;
    case Type::boolean: return nvinfer1::DataType::kBOOL;
#if NV_TENSORRT_MAJOR >= 10
    case Type::bf16: return nvinfer1::DataType::kBF16;
    case Type::i64: return nvinfer1::DataType::kINT64;
#endif
    default: return nvinfer1::DataType::kFLOAT;
  }
}

/// TensorRT's log, once it has told where it is.
inline nvinfer1::ILoggerFinder*& logger_finder() {
  static nvinfer1::ILoggerFinder* finder = nullptr;
  return finder;
}

/// Logs an error of a plugin; gives what TensorRT takes for failure.
inline int32_t fail(const char* plugin, const char* message) {
  nvinfer1::ILogger* logger = logger_finder() ? logger_finder()->findLogger() : nullptr;
  const std::string text = std::string(plugin) + ": " + message;
  if (logger) logger->log(nvinfer1::ILogger::Severity::kERROR, text.c_str());
  return -1;
}

inline int32_t fail(const char* plugin, CUresult result) {
  const char* text = nullptr;
  cuGetErrorString(result, &text);
  return fail(plugin, result == CUDA_ERROR_NO_BINARY_FOR_GPU
                          ? "it was made for other GPUs than this: add --target to `graft plugin`"
                          : text ? text : "unknown error of the driver");
}

/// A plugin's sizes and launches, whatever interface asks for them.
template <class P>
class Work {
 public:
  static bool is_format(int32_t position, const nvinfer1::PluginTensorDesc& tensor) {
    const Tensor& own = position < P::kInputs ? P::inputs()[position] : P::outputs()[position - P::kInputs];
    return tensor.format == nvinfer1::TensorFormat::kLINEAR && tensor.type == type_of(own.type);
  }

  using Dimensions = typename P::template Dimensions<Expression>;

  /// Sizes as expressions. False where an input has another number of axes.
  static bool dimensions(const nvinfer1::DimsExprs* inputs, nvinfer1::IExprBuilder& builder, Dimensions& d) {
    for (int i = 0; i < P::kInputs; ++i) {
      if (inputs[i].nbDims != P::inputs()[i].rank) return false;
    }
    const auto axis = [&](int input, int number) { return Expression(inputs[input].d[number], &builder); };
    d = P::template dimensions<Expression>(axis);
    return true;
  }

  static void output_extents(int32_t output, const Dimensions& d, nvinfer1::IExprBuilder& builder,
                             nvinfer1::DimsExprs& result) {
    Expression extents[nvinfer1::Dims::MAX_DIMS];
    P::output_extents(output, d, extents);
    result.nbDims = P::outputs()[output].rank;
    for (int32_t a = 0; a < result.nbDims; ++a) result.d[a] = extents[a].in(builder);
  }

  /// `dims(input)`: the nvinfer1::Dims of an input.
  template <class DimsOf>
  static int64_t workspace_bytes(const DimsOf& dims) {
    const auto axis = [&](int input, int number) { return static_cast<int64_t>(dims(input).d[number]); };
    return P::workspace_bytes(P::template dimensions<int64_t>(axis));
  }

  /// Loads the kernels and looks at the sizes of the runs to come.
  int32_t prepare(const nvinfer1::PluginTensorDesc* inputs) {
    for (int i = 0; i < P::kInputs; ++i) {
      if (inputs[i].dims.nbDims != P::inputs()[i].rank) return fail(P::kName, "an input has another number of axes");
    }
    const auto axis = axis_of(inputs);
    if (const char* problem = P::problem(P::template dimensions<int64_t>(axis), axis)) return fail(P::kName, problem);
    return load();
  }
  int32_t load() {
    const CUresult result = kernels_.load(P::variants(), P::kVariants);
    return result == CUDA_SUCCESS ? 0 : fail(P::kName, result);
  }

  int32_t run(const nvinfer1::PluginTensorDesc* descriptions, const void* const* inputs, void* const* outputs,
              void* workspace, cudaStream_t stream) const {
    if (!kernels_.is_loaded()) return fail(P::kName, "it runs before the sizes of its inputs were told");
    const auto d = P::template dimensions<int64_t>(axis_of(descriptions));
    const CUresult result = P::launch(kernels_, d, inputs, outputs, workspace, stream);
    return result == CUDA_SUCCESS ? 0 : fail(P::kName, result);
  }

 private:
  static auto axis_of(const nvinfer1::PluginTensorDesc* tensors) {
    return [tensors](int input, int number) { return static_cast<int64_t>(tensors[input].dims.d[number]); };
  }

  Kernels kernels_;
};
)text";

constexpr char kPluginV3[] = R"text(
/// IPluginV3 of TensorRT 10 and 11.
template <class P>
class Plugin final : public nvinfer1::IPluginV3,
                     public nvinfer1::IPluginV3OneCore,
                     public nvinfer1::IPluginV3OneBuild,
                     public nvinfer1::IPluginV3OneRuntime {
 public:
  nvinfer1::IPluginCapability* getCapabilityInterface(nvinfer1::PluginCapabilityType type) noexcept override {
    switch (type) {
      case nvinfer1::PluginCapabilityType::kCORE: return static_cast<nvinfer1::IPluginV3OneCore*>(this);
      case nvinfer1::PluginCapabilityType::kBUILD: return static_cast<nvinfer1::IPluginV3OneBuild*>(this);
      case nvinfer1::PluginCapabilityType::kRUNTIME: return static_cast<nvinfer1::IPluginV3OneRuntime*>(this);
    }
    return nullptr;
  }
  nvinfer1::IPluginV3* clone() noexcept override { return new (std::nothrow) Plugin(); }

  const char* getPluginName() const noexcept override { return P::kName; }
  const char* getPluginVersion() const noexcept override { return "1"; }
  const char* getPluginNamespace() const noexcept override { return ""; }

  int32_t getNbOutputs() const noexcept override { return P::kOutputs; }
  int32_t configurePlugin(const nvinfer1::DynamicPluginTensorDesc*, int32_t inputs,
                          const nvinfer1::DynamicPluginTensorDesc*, int32_t outputs) noexcept override {
    return inputs == P::kInputs && outputs == P::kOutputs ? 0 : fail(P::kName, "another number of inputs or outputs");
  }
  int32_t getOutputDataTypes(nvinfer1::DataType* types, int32_t count, const nvinfer1::DataType*,
                             int32_t) const noexcept override {
    for (int32_t i = 0; i < count && i < P::kOutputs; ++i) types[i] = type_of(P::outputs()[i].type);
    return count == P::kOutputs ? 0 : -1;
  }
  int32_t getOutputShapes(const nvinfer1::DimsExprs* inputs, int32_t count, const nvinfer1::DimsExprs*, int32_t,
                          nvinfer1::DimsExprs* outputs, int32_t output_count,
                          nvinfer1::IExprBuilder& builder) noexcept override {
    if (count != P::kInputs) return fail(P::kName, "another number of inputs");
    typename Work<P>::Dimensions d;
    if (!Work<P>::dimensions(inputs, builder, d)) return fail(P::kName, "an input has another number of axes");
    if constexpr (P::kCounts > 0) {
      P::declare_counts(d, [&](int output, const Expression& most) {
        const Expression usual = floor_div(most, 2);
        return Expression(builder.declareSizeTensor(output, *usual.in(builder), *most.in(builder)), &builder);
      });
    }
    for (int32_t i = 0; i < output_count; ++i) Work<P>::output_extents(i, d, builder, outputs[i]);
    return 0;
  }
  bool supportsFormatCombination(int32_t position, const nvinfer1::DynamicPluginTensorDesc* tensors, int32_t inputs,
                                 int32_t outputs) noexcept override {
    return inputs == P::kInputs && outputs == P::kOutputs && Work<P>::is_format(position, tensors[position].desc);
  }
  size_t getWorkspaceSize(const nvinfer1::DynamicPluginTensorDesc* inputs, int32_t,
                          const nvinfer1::DynamicPluginTensorDesc*, int32_t) const noexcept override {
    return static_cast<size_t>(Work<P>::workspace_bytes([&](int i) -> const auto& { return inputs[i].max; }));
  }

  int32_t onShapeChange(const nvinfer1::PluginTensorDesc* inputs, int32_t count, const nvinfer1::PluginTensorDesc*,
                        int32_t) noexcept override {
    return count == P::kInputs ? work_.prepare(inputs) : fail(P::kName, "another number of inputs");
  }
  int32_t enqueue(const nvinfer1::PluginTensorDesc* descriptions, const nvinfer1::PluginTensorDesc*,
                  const void* const* inputs, void* const* outputs, void* workspace,
                  cudaStream_t stream) noexcept override {
    return work_.run(descriptions, inputs, outputs, workspace, stream);
  }
  nvinfer1::IPluginV3* attachToContext(nvinfer1::IPluginResourceContext*) noexcept override {
    return new (std::nothrow) Plugin();
  }
  const nvinfer1::PluginFieldCollection* getFieldsToSerialize() noexcept override {
    field_ = {"kernels", P::kIdentity, nvinfer1::PluginFieldType::kCHAR, static_cast<int32_t>(sizeof P::kIdentity)};
    fields_.nbFields = 1;
    fields_.fields = &field_;
    return &fields_;
  }

 private:
  Work<P> work_;
  nvinfer1::PluginField field_;
  nvinfer1::PluginFieldCollection fields_;
};

template <class P>
class Creator final : public nvinfer1::IPluginCreatorV3One {
 public:
  nvinfer1::IPluginV3* createPlugin(const char*, const nvinfer1::PluginFieldCollection* fields,
                                    nvinfer1::TensorRTPhase) noexcept override {
    for (int32_t i = 0; fields && i < fields->nbFields; ++i) {
      const nvinfer1::PluginField& field = fields->fields[i];
      if (!field.name || std::strcmp(field.name, "kernels") != 0) continue;
      const bool same = field.data && field.length == static_cast<int32_t>(sizeof P::kIdentity) &&
                        std::memcmp(field.data, P::kIdentity, sizeof P::kIdentity) == 0;
      if (same) continue;
      fail(P::kName, "the engine was built with another version of this plugin: build it again, or load that library");
      return nullptr;
    }
    return new (std::nothrow) Plugin<P>();
  }
  const nvinfer1::PluginFieldCollection* getFieldNames() noexcept override { return &fields_; }
  const char* getPluginName() const noexcept override { return P::kName; }
  const char* getPluginVersion() const noexcept override { return "1"; }
  const char* getPluginNamespace() const noexcept override { return ""; }

 private:
  nvinfer1::PluginFieldCollection fields_;
};

}  // namespace graft_made
)text";

std::string includes() {
  return include_line("<NvInferRuntime.h>") + "\n" + include_line("<cstring>") +
         include_line("<new>") + include_line("<string>") + "\n" + include_line("\"graft_kernels.h\"");
}

}  // namespace

std::string tensorrt_common() { return "#pragma once\n\n" + includes() + kCommon; }

std::string tensorrt_header() {
  return "// Made by `graft plugin`: plugins of TensorRT 10 and 11 over the kernels of this folder. Needs C++17.\n" +
         tensorrt_common() + kPluginV3;
}

}  // namespace graft::plugin
