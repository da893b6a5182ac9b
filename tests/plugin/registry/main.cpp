// SPDX-License-Identifier: Apache-2.0
// `registry RUNTIME LIBRARY PLUGIN...`: the registry of a TensorRT that is installed (libtensorrt_rtx.so.1) loads a
// library of plugins; of each plugin its creator is found there, and a plugin made, cloned, written and read.
#include <NvInferRuntime.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace nvinfer1;

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "FAILED: %s\n", message.c_str());
  std::exit(1);
}

void require(bool good, const std::string& message) {
  if (!good) fail(message);
}

/// Copies of what a plugin writes into an engine.
class Written {
 public:
  explicit Written(IPluginV3& plugin) {
    auto* runtime = static_cast<IPluginV3OneRuntime*>(plugin.getCapabilityInterface(PluginCapabilityType::kRUNTIME));
    require(runtime != nullptr, "it cannot run");
    const PluginFieldCollection* fields = runtime->getFieldsToSerialize();
    require(fields && fields->nbFields > 0, "it writes nothing");
    for (int32_t i = 0; i < fields->nbFields; ++i) {
      const PluginField& field = fields->fields[i];
      require(field.type == PluginFieldType::kCHAR, "it writes another type than text");
      const auto* data = static_cast<const char*>(field.data);
      bytes_.emplace_back(data, data + field.length);
      fields_.emplace_back(field.name, nullptr, field.type, field.length);
    }
    for (size_t i = 0; i < fields_.size(); ++i) fields_[i].data = bytes_[i].data();
  }
  PluginFieldCollection collection() const { return {static_cast<int32_t>(fields_.size()), fields_.data()}; }
  bool operator==(const Written& other) const { return bytes_ == other.bytes_; }
  void damage() { bytes_[0][0] = static_cast<char>(bytes_[0][0] ^ 1); }

 private:
  std::vector<std::vector<char>> bytes_;
  std::vector<PluginField> fields_;
};

void check(IPluginRegistry& registry, const std::string& name) {
  IPluginCreatorInterface* found = registry.getCreator(name.c_str(), "1", "");
  require(found != nullptr, "the registry has no creator of " + name);
  require(std::strcmp(found->getInterfaceInfo().kind, "PLUGIN CREATOR_V3ONE") == 0, "another kind of creator");
  auto& creator = *static_cast<IPluginCreatorV3One*>(found);
  require(creator.getFieldNames() != nullptr, "the creator names no fields");
  const PluginFieldCollection none{};
  const std::unique_ptr<IPluginV3> made(creator.createPlugin("node", &none, TensorRTPhase::kBUILD));
  require(made != nullptr, "no plugin is made");
  const std::unique_ptr<IPluginV3> clone(made->clone());
  require(clone != nullptr, "it has no clone");
  Written written(*clone);
  const PluginFieldCollection fields = written.collection();
  const std::unique_ptr<IPluginV3> read(creator.createPlugin("node", &fields, TensorRTPhase::kRUNTIME));
  require(read != nullptr, "what it writes is not read");
  require(Written(*read) == written, "what is read again differs");
  written.damage();
  const PluginFieldCollection damaged = written.collection();
  const std::unique_ptr<IPluginV3> other(creator.createPlugin("node", &damaged, TensorRTPhase::kRUNTIME));
  require(other == nullptr, "an engine of another plugin is read");
  std::printf("%s: found, made, cloned, written and read\n", name.c_str());
}

}  // namespace

int main(int count, char** words) {
  if (count < 4) fail("registry RUNTIME LIBRARY PLUGIN...");
  void* runtime = dlopen(words[1], RTLD_NOW | RTLD_GLOBAL);
  require(runtime != nullptr, runtime ? "" : dlerror());
  auto* get = reinterpret_cast<IPluginRegistry* (*)()>(dlsym(runtime, "getPluginRegistry"));
  require(get != nullptr, "the runtime has no registry");
  IPluginRegistry* registry = get();
  require(registry != nullptr, "the runtime gives no registry");
  const IPluginRegistry::PluginLibraryHandle library = registry->loadLibrary(words[2]);
  require(library != nullptr, "the registry does not load the library");
  for (int i = 3; i < count; ++i) check(*registry, words[i]);
  registry->deregisterLibrary(library);
  require(registry->getCreator(words[3], "1", "") == nullptr, "a creator stays when its library has gone");
  std::printf("%d plugins: all good\n", count - 3);
  return 0;
}
