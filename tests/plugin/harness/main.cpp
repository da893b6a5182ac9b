// SPDX-License-Identifier: Apache-2.0
// Plays TensorRT's part: `harness LIBRARY PLUGIN CASES [REPETITIONS]` loads a library of plugins and takes one through
// its life, runs each case plainly and in a captured graph, and compares. With repetitions it also says how long a run
// in a graph takes.
#include <chrono>

#include "tensorrt.h"

namespace harness {
namespace {

/// Each axis as long as the longest of all cases.
Case largest_of(const std::vector<Case>& cases) {
  Case largest;
  for (const Case& each : cases) {
    if (each.is_refused()) continue;
    if (largest.inputs.empty()) largest = each;
    const auto grow = [](std::vector<Array>& to, const std::vector<Array>& from) {
      for (size_t i = 0; i < to.size(); ++i) {
        for (size_t a = 0; a < to[i].extents.size(); ++a) {
          to[i].extents[a] = std::max(to[i].extents[a], from[i].extents[a]);
        }
      }
    };
    grow(largest.inputs, each.inputs), grow(largest.outputs, each.outputs);
  }
  return largest;
}

/// Shapes and types, as they are asked for while a network is built.
void check_description(Plugin& plugin, const Case& given) {
  const auto inputs = static_cast<int>(given.inputs.size());
  require(plugin.output_count() == static_cast<int>(given.outputs.size()), "another number of outputs");
  for (int i = 0; i < inputs + plugin.output_count(); ++i) {
    const Array& array = i < inputs ? given.inputs[static_cast<size_t>(i)]
                                    : given.outputs[static_cast<size_t>(i - inputs)];
    const nvinfer1::DataType own = type_of(array.type);
    require(plugin.takes(given, i, own), "its own type is refused");
    const nvinfer1::DataType other =
        own == nvinfer1::DataType::kINT32 ? nvinfer1::DataType::kFLOAT : nvinfer1::DataType::kINT32;
    require(!plugin.takes(given, i, other), "a type that its kernels do not read is taken");
  }
  const Counts counts = counts_of(given);
  for (int o = 0; o < plugin.output_count(); ++o) {
    require(plugin.gives(given, o), "an output has another type");
    require(plugin.output_extents(given, o, &counts) == given.outputs[static_cast<size_t>(o)].extents,
            given.name + ": an output has other extents");
  }
}

/// Bytes of each output where sizes that only a run knows are at their most, as TensorRT allocates it.
std::vector<size_t> room_of(Plugin& plugin, const Case& given) {
  std::vector<size_t> bytes;
  for (int o = 0; o < plugin.output_count(); ++o) {
    bytes.push_back(width_of(given.outputs[static_cast<size_t>(o)].type));
    for (const int64_t extent : plugin.output_extents(given, o, nullptr)) bytes.back() *= static_cast<size_t>(extent);
  }
  return bytes;
}

struct Run {
  std::vector<std::unique_ptr<Memory>> inputs, outputs;
  std::vector<const void*> input_data;
  std::vector<void*> output_data;

  Run(const Gpu& gpu, const Case& given, const std::vector<size_t>& room) {
    for (const Array& array : given.inputs) {
      inputs.push_back(std::make_unique<Memory>(gpu, array.bytes.size()));
      inputs.back()->upload(array.bytes);
      input_data.push_back(inputs.back()->data());
    }
    for (const size_t bytes : room) {
      outputs.push_back(std::make_unique<Memory>(gpu, bytes));
      output_data.push_back(outputs.back()->data());
    }
  }
  void clear() const {
    for (const auto& output : outputs) output->clear();
  }
  double compare_with(const Case& given, const std::string& how) const {
    double largest = 0;
    for (size_t o = 0; o < outputs.size(); ++o) {
      const std::string what = given.name + " " + how + ", output " + std::to_string(o);
      std::vector<char> computed = outputs[o]->download(what);
      computed.resize(given.outputs[o].bytes.size());
      largest = std::max(largest, compare(given.outputs[o], computed, what));
    }
    return largest;
  }
};

void run_case(const Gpu& gpu, Plugin& plugin, const Case& given, const std::vector<size_t>& room,
              const Memory& workspace, int repetitions) {
  const Run run(gpu, given, room);
  require(plugin.change_shapes(given), given.name + ": its sizes are refused");
  const auto enqueue = [&] {
    require(plugin.enqueue(given, run.input_data.data(), run.output_data.data(), workspace.data(),
                           reinterpret_cast<cudaStream_t>(gpu.stream())), given.name + ": enqueue failed");
  };
  enqueue();
  gpu.wait();
  const double plain = run.compare_with(given, "plainly");
  run.clear();
  const CUgraphExec graph = gpu.capture(enqueue);
  for (int turn = 0; turn < 2; ++turn) {
    run.clear();
    gpu.replay(graph);
    gpu.wait();
    run.compare_with(given, "in a graph");
  }
  workspace.download("the workspace");
  std::printf("%s: agrees plainly and in a graph, largest difference %.3g", given.name.c_str(), plain);
  if (repetitions > 0) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < repetitions; ++i) gpu.replay(graph);
    gpu.wait();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    std::printf(", %.2f us", time.count() / repetitions);
  }
  std::printf("\n");
}

int run(const std::string& path, const std::string& name, const std::string& folder, int repetitions) {
  const Gpu gpu;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(dlerror());
  Log log;
  LogFinder finder(log);
  const std::vector<Case> cases = read_cases(folder);
  {
    const std::unique_ptr<Plugin> built = find_plugin(library, name, finder);
    for (const Case& each : cases) {
      if (!each.is_refused()) check_description(*built, each);
    }
    const Memory workspace(gpu, built->workspace(largest_of(cases)));
    require(built->attached(/*damaged=*/true) == nullptr, "an engine of another plugin is taken");
    require(log.messages.size() == 1, "it is not said why an engine is refused");
    const std::unique_ptr<Plugin> attached = built->attached(/*damaged=*/false), second = built->attached(false);
    require(attached && second, "the plugin of an engine cannot be made");
    for (const Case& each : cases) {
      if (!each.is_refused()) {
        run_case(gpu, *attached, each, room_of(*built, each), workspace, repetitions);
        continue;
      }
      log.messages.clear();
      require(!attached->change_shapes(each), each.name + ": the sizes are taken");
      require(log.messages.size() == 1, "it is not said why sizes are refused");
      std::printf("%s: %s\n", each.name.c_str(), log.messages[0].c_str());
    }
    for (const Case& each : cases) {
      if (!each.is_refused()) run_case(gpu, *second, each, room_of(*built, each), workspace, 0);
    }
  }
  std::printf("%s on %s: all good\n", name.c_str(), gpu.name().c_str());
  return 0;
}

}  // namespace
}  // namespace harness

int main(int count, char** words) {
  if (count < 4) {
    std::fprintf(stderr, "harness LIBRARY PLUGIN CASES [REPETITIONS]\n");
    return 2;
  }
  return harness::run(words[1], words[2], words[3], count > 4 ? std::atoi(words[4]) : 0);
}
