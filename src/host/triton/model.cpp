// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "configuration.h"
#include "failure.h"
#include "message.h"

namespace graft::triton {
namespace {

using nlohmann::json;

constexpr int64_t kDefaultRows = 4;  ///< what Triton's own backends take where nothing says more

json configuration_of(TRITONBACKEND_Model* model) {
  TRITONSERVER_Message* message = nullptr;
  check(TRITONBACKEND_ModelConfig(model, kConfigVersion, &message));
  return read_message(message);
}

/// `--backend-config=default-max-batch-size=N` of the server.
int64_t default_rows_of(TRITONBACKEND_Model* model) {
  TRITONBACKEND_Backend* backend = nullptr;
  check(TRITONBACKEND_ModelBackend(model, &backend));
  const std::string text = backend_option(backend, "default-max-batch-size");
  const int64_t rows = std::atoll(text.c_str());
  return rows > 0 ? rows : kDefaultRows;
}

void set_configuration(TRITONBACKEND_Model* model, const json& config) {
  const std::string text = config.dump();
  TRITONSERVER_Message* message = nullptr;
  check(TRITONSERVER_MessageNewFromSerializedJson(&message, text.data(), text.size()));
  TRITONSERVER_Error* const fault = TRITONBACKEND_ModelSetConfig(model, kConfigVersion, message);
  ignore(TRITONSERVER_MessageDelete(message));
  check(fault);
}

/// The model's file in the folder of its version.
std::string file_of(TRITONBACKEND_Model* model, const json& config, uint64_t version) {
  ArtifactType type{};
  const char* location = nullptr;
  check(TRITONBACKEND_ModelRepository(model, &type, &location));
  if (type != ArtifactType::kFileSystem) throw Error(ErrorKind::kUnsupported, "the repository has no files");
  const std::filesystem::path folder = std::filesystem::path(location) / std::to_string(version);
  const std::string named = config.value("default_model_filename", std::string());
  std::vector<std::string> names = {"model.graft", "model.onnx"};
  if (!named.empty()) names = {named};
  for (const std::string& name : names) {
    if (std::filesystem::exists(folder / name)) return folder / name;
  }
  throw Error(ErrorKind::kInvalidModel, folder.string() + ": there is no " + names.front() +
                                            (named.empty() ? ", and no " + names.back() : std::string()));
}

bool is_plan(std::string_view path) { return path.ends_with(".graft"); }

/// Where the first instance will run, whose engine says what the model is.
std::string first_device(const json& config, const Settings& settings) {
  if (!settings.device.empty()) return settings.device;
  const auto groups = config.find("instance_group");
  if (groups == config.end() || groups->empty()) return "cpu";
  const json& group = groups->front();
  if (group.value("kind", std::string()) != "KIND_GPU") return "cpu";
  const json gpus = group.value("gpus", json::array());
  return "cuda:" + std::to_string(gpus.empty() ? 0 : gpus.front().get<int>());
}

}  // namespace

Model::Model(TRITONBACKEND_Model* model, const MetricFamilies& families, Watch& watch, RunLog& run_log)
    : watch_(watch), run_log_(run_log) {
  const char* name = nullptr;
  uint64_t version = 0;
  check(TRITONBACKEND_ModelName(model, &name));
  check(TRITONBACKEND_ModelVersion(model, &version));
  name_ = name;
  json config = configuration_of(model);
  settings_ = read_settings(config);
  path_ = file_of(model, config, version);
  if (is_plan(path_) && !settings_.compile.empty()) {
    throw Error(ErrorKind::kInvalidArgument, "parameter '" + settings_.compile.front().first + "' is chosen when a "
                "plan is compiled, and " + path_ + " is one: compile it again, or put the ONNX file there");
  }
  const Engine engine = engine_on(first_device(config, settings_));
  signature_ = signature_of(engine);
  bool wanted = false;
  check(TRITONBACKEND_ModelAutoCompleteConfig(model, &wanted));
  if (wanted) {
    complete(config, signature_, default_rows_of(model));
    set_configuration(model, config);
  }
  compare(config, signature_);
  kept_outputs_ = triton::kept_outputs(config, signature_);
  batched_ = config.value("max_batch_size", int64_t{0}) > 0;
  version_ = std::to_string(version);
  metrics_ = ModelMetrics(families, name_, version);
  const json described = json::parse(engine.describe());
  metrics_.interpreted_steps.add(described.at("ways").value("interpreter", 0.0));
}

Engine Model::engine_on(const std::string& device) {
  const std::lock_guard lock(mutex_);
  const auto found = engines_.find(device);
  if (found != engines_.end()) return found->second;
  return engines_.emplace(device, make_engine(device)).first->second;
}

Engine Model::make_engine(const std::string& device) const {
  if (is_plan(path_)) {
    const WeightStorage weights = settings_.weights == "mapped" ? WeightStorage::kMapped : WeightStorage::kCopied;
    return load(path_, device, settings_.threads, weights);
  }
  CompileOptions options{.threads = settings_.threads};
  options.extra = settings_.compile;
  options.extra.emplace_back("device", device);
  return compile(path_, options);
}

}  // namespace graft::triton
