// SPDX-License-Identifier: Apache-2.0
#include "plugin/support_text.h"

namespace graft::plugin {
namespace {

/// Its parser takes plugins of this kind alone, although the headers call what they derive from outdated.
constexpr char kQuiet[] = R"text(
#ifdef __GNUC__
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#endif
)text";

constexpr char kPluginV2[] = R"text(
/// IPluginV2DynamicExt of TensorRT 8.6.
template <class P>
class Plugin final : public nvinfer1::IPluginV2DynamicExt {
 public:
  const char* getPluginType() const noexcept override { return P::kName; }
  const char* getPluginVersion() const noexcept override { return "1"; }
  void setPluginNamespace(const char* name) noexcept override { namespace_ = name ? name : ""; }
  const char* getPluginNamespace() const noexcept override { return namespace_.c_str(); }
  void destroy() noexcept override { delete this; }
  int32_t initialize() noexcept override { return 0; }
  void terminate() noexcept override {}
  nvinfer1::IPluginV2DynamicExt* clone() const noexcept override {
    Plugin* made = new (std::nothrow) Plugin();
    if (made) made->namespace_ = namespace_;
    return made;
  }
  size_t getSerializationSize() const noexcept override { return sizeof P::kIdentity; }
  void serialize(void* buffer) const noexcept override { std::memcpy(buffer, P::kIdentity, sizeof P::kIdentity); }

  int32_t getNbOutputs() const noexcept override { return P::kOutputs; }
  nvinfer1::DataType getOutputDataType(int32_t output, const nvinfer1::DataType*, int32_t) const noexcept override {
    return type_of(P::outputs()[output].type);
  }
  nvinfer1::DimsExprs getOutputDimensions(int32_t output, const nvinfer1::DimsExprs* inputs, int32_t count,
                                          nvinfer1::IExprBuilder& builder) noexcept override {
    nvinfer1::DimsExprs result{};
    typename Work<P>::Dimensions d;
    if (count == P::kInputs && Work<P>::dimensions(inputs, builder, d)) {
      Work<P>::output_extents(output, d, builder, result);
    } else {
      fail(P::kName, "another number of inputs or of their axes");
      result.nbDims = -1;
    }
    return result;
  }
  bool supportsFormatCombination(int32_t position, const nvinfer1::PluginTensorDesc* tensors, int32_t inputs,
                                 int32_t outputs) noexcept override {
    return inputs == P::kInputs && outputs == P::kOutputs && Work<P>::is_format(position, tensors[position]);
  }
  void configurePlugin(const nvinfer1::DynamicPluginTensorDesc*, int32_t, const nvinfer1::DynamicPluginTensorDesc*,
                       int32_t) noexcept override {}
  size_t getWorkspaceSize(const nvinfer1::PluginTensorDesc* inputs, int32_t, const nvinfer1::PluginTensorDesc*,
                          int32_t) const noexcept override {
    return static_cast<size_t>(Work<P>::workspace_bytes([&](int i) -> const auto& { return inputs[i].dims; }));
  }
  // This interface tells sizes with a run alone. Code is there since the context took the plugin.
  int32_t enqueue(const nvinfer1::PluginTensorDesc* descriptions, const nvinfer1::PluginTensorDesc*,
                  const void* const* inputs, void* const* outputs, void* workspace,
                  cudaStream_t stream) noexcept override {
    const int32_t prepared = work_.prepare(descriptions);
    return prepared == 0 ? work_.run(descriptions, inputs, outputs, workspace, stream) : prepared;
  }
  void attachToContext(cudnnContext*, cublasContext*, nvinfer1::IGpuAllocator*) noexcept override {
    work_.load();  // where it fails, the first run says so
  }
  void detachFromContext() noexcept override {}

 private:
  Work<P> work_;
  std::string namespace_;
};

template <class P>
class Creator final : public nvinfer1::IPluginCreator {
 public:
  nvinfer1::IPluginV2* createPlugin(const char*, const nvinfer1::PluginFieldCollection*) noexcept override {
    return new (std::nothrow) Plugin<P>();
  }
  nvinfer1::IPluginV2* deserializePlugin(const char*, const void* data, size_t bytes) noexcept override {
    if (data && bytes == sizeof P::kIdentity && std::memcmp(data, P::kIdentity, bytes) == 0) {
      return new (std::nothrow) Plugin<P>();
    }
    fail(P::kName, "the engine was built with another version of this plugin: build it again, or load that library");
    return nullptr;
  }
  const nvinfer1::PluginFieldCollection* getFieldNames() noexcept override { return &fields_; }
  const char* getPluginName() const noexcept override { return P::kName; }
  const char* getPluginVersion() const noexcept override { return "1"; }
  void setPluginNamespace(const char* name) noexcept override { namespace_ = name ? name : ""; }
  const char* getPluginNamespace() const noexcept override { return namespace_.c_str(); }

 private:
  nvinfer1::PluginFieldCollection fields_{};
  std::string namespace_;
};

}  // namespace graft_made
)text";

}  // namespace

std::string tensorrt_8_header() {
  return "// Made by `graft plugin`: plugins of TensorRT 8.6 over the kernels of this folder. Needs C++17.\n" +
         tensorrt_common() + kQuiet + kPluginV2;
}

}  // namespace graft::plugin
