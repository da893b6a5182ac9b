// SPDX-License-Identifier: Apache-2.0
// IPluginV2DynamicExt, of TensorRT 8.6.
#include "tensorrt.h"

#if NV_TENSORRT_MAJOR < 10
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
namespace harness {
namespace {

using namespace nvinfer1;

struct Destroy {
  void operator()(IPluginV2* plugin) const { plugin->destroy(); }
};

class PluginV2 final : public Plugin {
 public:
  PluginV2(IPluginCreator& creator, IPluginV2* plugin)
      : creator_(creator), plugin_(static_cast<IPluginV2DynamicExt*>(plugin)) {
    require(std::string(plugin_->getPluginType()) == creator.getPluginName(), "the plugin has another name");
    require(std::string(plugin_->getPluginVersion()) == "1", "the plugin has another version than 1");
  }

  int output_count() override { return plugin_->getNbOutputs(); }

  std::vector<int64_t> output_extents(const Case& given, int output, const Counts* counts) override {
    Builder builder(counts);
    std::vector<DimsExprs> inputs;
    for (const Array& array : given.inputs) {
      DimsExprs dims{};
      dims.nbDims = static_cast<int32_t>(array.extents.size());
      for (size_t a = 0; a < array.extents.size(); ++a) dims.d[a] = builder.number(array.extents[a]);
      inputs.push_back(dims);
    }
    const DimsExprs dims =
        plugin_->getOutputDimensions(output, inputs.data(), static_cast<int32_t>(inputs.size()), builder);
    std::vector<int64_t> extents;
    for (int32_t a = 0; a < dims.nbDims; ++a) extents.push_back(dims.d[a]->getConstantValue());
    return extents;
  }

  bool takes(const Case& given, int position, DataType type) override {
    std::vector<PluginTensorDesc> tensors = all(given);
    tensors[static_cast<size_t>(position)].type = type;
    return plugin_->supportsFormatCombination(position, tensors.data(), static_cast<int32_t>(given.inputs.size()),
                                              static_cast<int32_t>(given.outputs.size()));
  }

  bool gives(const Case& given, int output) override {
    std::vector<DataType> inputs;
    for (const Array& array : given.inputs) inputs.push_back(type_of(array.type));
    return plugin_->getOutputDataType(output, inputs.data(), static_cast<int32_t>(inputs.size())) ==
           type_of(given.outputs[static_cast<size_t>(output)].type);
  }

  size_t workspace(const Case& largest) override {
    const std::vector<PluginTensorDesc> tensors = all(largest);
    const auto inputs = static_cast<int32_t>(largest.inputs.size());
    std::vector<DynamicPluginTensorDesc> dynamic;
    for (const PluginTensorDesc& tensor : tensors) dynamic.push_back({tensor, tensor.dims, tensor.dims});
    const auto outputs = static_cast<int32_t>(largest.outputs.size());
    plugin_->configurePlugin(dynamic.data(), inputs, dynamic.data() + inputs, outputs);
    return plugin_->getWorkspaceSize(tensors.data(), inputs, tensors.data() + inputs, outputs);
  }

  std::unique_ptr<Plugin> attached(bool damaged) override {
    std::vector<char> written(plugin_->getSerializationSize());
    require(!written.empty(), "nothing is written into an engine");
    plugin_->serialize(written.data());
    if (damaged) written[0] = static_cast<char>(written[0] ^ 1);
    const std::unique_ptr<IPluginV2, Destroy> of_engine(
        creator_.deserializePlugin("", written.data(), written.size()));
    if (!of_engine) return nullptr;
    IPluginV2* copy = of_engine->clone();
    require(copy->initialize() == 0, "initialize failed");
    static_cast<IPluginV2DynamicExt*>(copy)->attachToContext(nullptr, nullptr, nullptr);
    return std::make_unique<PluginV2>(creator_, copy);
  }

  /// This interface tells sizes with runs alone: one without memory says whether they are refused.
  bool change_shapes(const Case& given) override {
    if (!given.is_refused()) return true;
    return enqueue(given, nullptr, nullptr, nullptr, nullptr);
  }

  bool enqueue(const Case& given, const void* const* inputs, void* const* outputs, void* workspace,
               cudaStream_t stream) override {
    return plugin_->enqueue(described(given.inputs).data(), described(given.outputs).data(), inputs, outputs,
                            workspace, stream) == 0;
  }

 private:
  static std::vector<PluginTensorDesc> all(const Case& given) {
    std::vector<PluginTensorDesc> tensors = described(given.inputs);
    for (const PluginTensorDesc& tensor : described(given.outputs)) tensors.push_back(tensor);
    return tensors;
  }

  IPluginCreator& creator_;
  std::unique_ptr<IPluginV2DynamicExt, Destroy> plugin_;
};

}  // namespace

std::unique_ptr<Plugin> find_plugin(void* library, const std::string& name, ILoggerFinder& finder) {
  function_of<void(ILoggerFinder*)>(library, "setLoggerFinder")(&finder);
  int32_t count = 0;
  IPluginCreator* const* creators = function_of<IPluginCreator* const*(int32_t&)>(library, "getPluginCreators")(count);
  for (int32_t i = 0; i < count; ++i) {
    if (creators[i]->getPluginName() != name) continue;
    const PluginFieldCollection none{};
    IPluginV2* plugin = creators[i]->createPlugin("", &none);
    require(plugin != nullptr, "the plugin cannot be made");
    return std::make_unique<PluginV2>(*creators[i], plugin);
  }
  fail("the library has no plugin " + name);
}

}  // namespace harness
#endif
