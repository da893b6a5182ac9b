// SPDX-License-Identifier: Apache-2.0
// IPluginV3, of TensorRT 10 and 11.
#include "tensorrt.h"

#if NV_TENSORRT_MAJOR >= 10
namespace harness {
namespace {

using namespace nvinfer1;

class PluginV3 final : public Plugin {
 public:
  PluginV3(IPluginCreatorV3One& creator, IPluginV3* plugin) : creator_(creator), plugin_(plugin) {
    const auto find = [&](PluginCapabilityType type) {
      IPluginCapability* found = plugin_->getCapabilityInterface(type);
      require(found != nullptr, "a capability is missing");
      return found;
    };
    core_ = static_cast<IPluginV3OneCore*>(find(PluginCapabilityType::kCORE));
    build_ = static_cast<IPluginV3OneBuild*>(find(PluginCapabilityType::kBUILD));
    runtime_ = static_cast<IPluginV3OneRuntime*>(find(PluginCapabilityType::kRUNTIME));
    require(std::string(core_->getPluginName()) == creator.getPluginName(), "the plugin has another name");
    require(std::string(core_->getPluginVersion()) == "1", "the plugin has another version than 1");
    require(std::string(build_->getInterfaceInfo().kind) == "PLUGIN_V3ONE_BUILD", "another interface than asked for");
  }

  int output_count() override { return build_->getNbOutputs(); }

  std::vector<int64_t> output_extents(const Case& given, int output, const Counts* counts) override {
    Builder builder(counts);
    std::vector<DimsExprs> inputs, outputs(given.outputs.size());
    for (const Array& array : given.inputs) {
      DimsExprs dims{};
      dims.nbDims = static_cast<int32_t>(array.extents.size());
      for (size_t a = 0; a < array.extents.size(); ++a) dims.d[a] = builder.number(array.extents[a]);
      inputs.push_back(dims);
    }
    const int32_t result = build_->getOutputShapes(inputs.data(), static_cast<int32_t>(inputs.size()), nullptr, 0,
                                                   outputs.data(), static_cast<int32_t>(outputs.size()), builder);
    require(result == 0, "getOutputShapes failed");
    std::vector<int64_t> extents;
    const DimsExprs& dims = outputs[static_cast<size_t>(output)];
    for (int32_t a = 0; a < dims.nbDims; ++a) extents.push_back(dims.d[a]->getConstantValue());
    return extents;
  }

  bool takes(const Case& given, int position, DataType type) override {
    std::vector<DynamicPluginTensorDesc> tensors = all(given);
    tensors[static_cast<size_t>(position)].desc.type = type;
    return build_->supportsFormatCombination(position, tensors.data(), static_cast<int32_t>(given.inputs.size()),
                                             static_cast<int32_t>(given.outputs.size()));
  }

  bool gives(const Case& given, int output) override {
    std::vector<DataType> types(given.outputs.size(), DataType::kUINT8), inputs;
    for (const Array& array : given.inputs) inputs.push_back(type_of(array.type));
    const int32_t result = build_->getOutputDataTypes(types.data(), static_cast<int32_t>(types.size()), inputs.data(),
                                                      static_cast<int32_t>(inputs.size()));
    const auto number = static_cast<size_t>(output);
    return result == 0 && types[number] == type_of(given.outputs[number].type);
  }

  size_t workspace(const Case& largest) override {
    const std::vector<DynamicPluginTensorDesc> tensors = all(largest);
    const auto inputs = static_cast<int32_t>(largest.inputs.size());
    const auto outputs = static_cast<int32_t>(largest.outputs.size());
    require(build_->configurePlugin(tensors.data(), inputs, tensors.data() + inputs, outputs) == 0,
            "configurePlugin failed");
    return build_->getWorkspaceSize(tensors.data(), inputs, tensors.data() + inputs, outputs);
  }

  std::unique_ptr<Plugin> attached(bool damaged) override {
    const PluginFieldCollection* fields = runtime_->getFieldsToSerialize();
    require(fields && fields->nbFields > 0, "nothing is written into an engine");
    std::vector<std::vector<char>> written;
    std::vector<PluginField> read;
    for (int32_t i = 0; i < fields->nbFields; ++i) {
      const PluginField& field = fields->fields[i];
      require(field.type == PluginFieldType::kCHAR, "a field of another type than this harness writes");
      const auto* data = static_cast<const char*>(field.data);
      written.emplace_back(data, data + field.length);
      if (damaged) written.back()[0] = static_cast<char>(written.back()[0] ^ 1);
      read.emplace_back(field.name, nullptr, field.type, field.length);
    }
    for (size_t i = 0; i < read.size(); ++i) read[i].data = written[i].data();
    const PluginFieldCollection collection{static_cast<int32_t>(read.size()), read.data()};
    const std::unique_ptr<IPluginV3> of_engine(creator_.createPlugin("", &collection, TensorRTPhase::kRUNTIME));
    if (!of_engine) return nullptr;
    const std::unique_ptr<IPluginV3> copy(of_engine->clone());
    auto* runtime = static_cast<IPluginV3OneRuntime*>(copy->getCapabilityInterface(PluginCapabilityType::kRUNTIME));
    return std::make_unique<PluginV3>(creator_, runtime->attachToContext(nullptr));
  }

  bool change_shapes(const Case& given) override {
    const auto inputs = described(given.inputs), outputs = described(given.outputs);
    return runtime_->onShapeChange(inputs.data(), static_cast<int32_t>(inputs.size()), outputs.data(),
                                   static_cast<int32_t>(outputs.size())) == 0;
  }

  bool enqueue(const Case& given, const void* const* inputs, void* const* outputs, void* workspace,
               cudaStream_t stream) override {
    return runtime_->enqueue(described(given.inputs).data(), described(given.outputs).data(), inputs, outputs,
                             workspace, stream) == 0;
  }

 private:
  static std::vector<DynamicPluginTensorDesc> all(const Case& given) {
    std::vector<DynamicPluginTensorDesc> tensors;
    for (const auto* arrays : {&given.inputs, &given.outputs}) {
      for (const PluginTensorDesc& tensor : described(*arrays)) {
        tensors.push_back({tensor, tensor.dims, tensor.dims, tensor.dims});
      }
    }
    return tensors;
  }

  IPluginCreatorV3One& creator_;
  std::unique_ptr<IPluginV3> plugin_;
  IPluginV3OneCore* core_ = nullptr;
  IPluginV3OneBuild* build_ = nullptr;
  IPluginV3OneRuntime* runtime_ = nullptr;
};

}  // namespace

std::unique_ptr<Plugin> find_plugin(void* library, const std::string& name, ILoggerFinder& finder) {
  function_of<void(ILoggerFinder*)>(library, "setLoggerFinder")(&finder);
  int32_t count = 0;
  IPluginCreatorInterface* const* creators =
      function_of<IPluginCreatorInterface* const*(int32_t&)>(library, "getCreators")(count);
  for (int32_t i = 0; i < count; ++i) {
    if (std::string(creators[i]->getInterfaceInfo().kind) != "PLUGIN CREATOR_V3ONE") continue;
    auto& creator = *static_cast<IPluginCreatorV3One*>(creators[i]);
    if (creator.getPluginName() != name) continue;
    require(creator.getFieldNames() != nullptr, "the creator names no fields");
    const PluginFieldCollection none{};
    IPluginV3* plugin = creator.createPlugin("", &none, TensorRTPhase::kBUILD);
    require(plugin != nullptr, "the plugin cannot be made");
    return std::make_unique<PluginV3>(creator, plugin);
  }
  fail("the library has no plugin " + name);
}

}  // namespace harness
#endif
