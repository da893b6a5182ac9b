// SPDX-License-Identifier: Apache-2.0
#include "load.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "device/cuda/cuda_device.h"
#include "engine/plan_sections.h"
#include "graph/infer.h"
#include "library_source.h"
#include "tile/panel_layout.h"

namespace graft {
namespace {

constexpr size_t kMostThreads = 4096;

int64_t count_of(const std::vector<int64_t>& shape, DType type) {
  return checked_element_count(type, shape, "constant");
}

/// A packed constant whose layout and shapes fit each other.
PackedConstant checked_packing(const StoredConstant& stored) {
  const tile::PanelLayout layout = tile::parse_panel_layout(stored.layout);
  const auto check = [&](bool good) {
    GRAFT_USER_CHECK(good, kInvalidModel, fmt::format("the layout '{}' does not fit its shape", stored.layout),
                     fmt::format("constant '{}'", stored.name));
  };
  check(bit_width(stored.type) >= 8 && stored.type != DType::kString && fits(layout, stored.view.size()));
  check(count_of(stored.view, stored.type) == count_of(stored.shape, stored.type));
  const Shape physical = physical_shape(layout, Shape(stored.view.begin(), stored.view.end()));
  check(Shape(stored.data.shape().begin(), stored.data.shape().end()) == physical);
  return {stored.name, stored.layout, stored.view, stored.data};
}

/// The graph's own form of a constant that is stored packed.
TensorData unpacked(const PackedConstant& packed, const std::vector<int64_t>& shape) {
  return TensorData::deferred(packed.data.type(), shape, [packed, shape] {
    return tile::unpack(tile::parse_panel_layout(packed.layout), packed.data, packed.view).reshaped(shape);
  });
}

Plan read_contents(PlanFile file) {
  Plan plan;
  std::map<std::string, TensorData, std::less<>> weights;
  for (StoredConstant& stored : file.constants) {
    if (stored.layout.empty()) {
      GRAFT_USER_CHECK(stored.data.shape() == stored.shape, kInvalidModel, "its two shapes differ",
                       fmt::format("constant '{}'", stored.name));
      weights.insert_or_assign(stored.name, std::move(stored.data));
    } else {
      plan.packed.push_back(checked_packing(stored));
      weights.try_emplace(stored.name, unpacked(plan.packed.back(), stored.shape));
    }
  }
  plan.graph = parse_graph(file.graph, &weights);
  verify(plan.graph, false);
  infer_types(plan.graph);
  plan.options = std::move(file.options);
  for (const std::string& text : file.records) {
    plan.records.push_back(parse_record(text));
    parse_target(plan.records.back().target);
  }
  return plan;
}

}  // namespace

PlanFile to_file(const Plan& plan) {
  PlanFile file{.producer = "graft " GRAFT_VERSION, .graph = print(plan.graph, LargeConstants::kWeights)};
  file.options = plan.options;
  for (const Record& record : plan.records) file.records.push_back(print(record));
  const auto constants = large_constants(plan.graph);
  for (const PackedConstant& packed : plan.packed) {
    const auto known = constants.find(packed.name);
    if (known == constants.end()) continue;
    file.constants.push_back(
        {packed.name, packed.data.type(), known->second.shape(), packed.layout, packed.view, packed.data});
  }
  const std::vector<StoredConstant> packed = file.constants;
  for (const auto& entry : constants) {
    const TensorData& constant = entry.second;
    const bool stored = std::any_of(packed.begin(), packed.end(),
                                    [&](const StoredConstant& other) { return other.name == entry.first; });
    if (stored && constant.is_deferred()) continue;
    file.constants.push_back({entry.first, constant.type(), constant.shape(), "", {}, constant});
  }
  return file;
}

Plan from_file(PlanFile file, const std::string& where) {
  try {
    return read_contents(std::move(file));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kOutOfMemory) throw;
    refuse_plan(where, "portable", error.what());
  }
}

void save(const Plan& plan, const std::string& path) { save_plan(to_file(plan), path); }

Plan open_plan(const std::string& path) { return from_file(read_plan(path), path); }

bool is_plan(const std::string& path) {
  try {
    return looks_like_plan(MappedFile::open(path)->bytes());
  } catch (const Error&) {
    return false;
  }
}

CompileOptions options_of(const Plan& plan) {
  CompileOptions options;
  options.tuning = Tuning::kOff;
  for (const auto& [key, value] : plan.options) {
    const bool matters = key == "mode" || key == "disable" || key == "threads" || key == "precision";
    if (matters) set_option(options, {key, value});
  }
  return options;
}

std::shared_ptr<const LoadedEngine> load(const Plan& plan, const std::string& device) {
  CompileOptions options = options_of(plan);
  options.device = device;
  if (options.threads == 0 && !plan.records.empty()) options.threads = parse_target(plan.records[0].target).threads;
  options.threads = std::clamp(options.threads, 0, static_cast<int>(kMostThreads));
  return load(build(plan, targets_of(options)[0], options), device);
}

std::shared_ptr<const LoadedEngine> load(Engine engine, const std::string& device) {
  const int gpu = gpu_of(device);
  if (!engine.kernels.empty()) {
    const Target target = parse_target(engine.target);
    const Target here = gpu >= 0 ? find_target(cuda_architecture(gpu)) : host_cpu(target.threads);
    const std::string reason = why_not_runnable(target, here);
    GRAFT_USER_CHECK(reason.empty(), kUnsupported,
                     "this machine cannot run it: " + reason + "; compile the model here, or with another --target",
                     engine.name.empty() ? "engine" : engine.name);
  }
  const auto on = gpu >= 0 ? open_cuda_device(gpu) : nullptr;
  return load_code(std::make_shared<const Engine>(std::move(engine)), library_source(), on);
}

}  // namespace graft
