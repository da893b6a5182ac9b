// SPDX-License-Identifier: Apache-2.0
// ONNX models, compiled and run by the interpreter and as kernels. Mutations change fields of the node cases of the
// onnx package, which run_onnx.py writes into the folder $GRAFT_FUZZ_SEEDS.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "base/hash.h"
#include "shared/onnx_tree.h"
#include "shared/run_engine.h"

namespace {

using namespace graft;

using Model = std::vector<fuzz::OnnxField>;

/// The models of the folder, in the order of their names.
const std::vector<Model>& seeds() {
  static const auto* const read = [] {
    auto* models = new std::vector<Model>;
    const char* folder = std::getenv("GRAFT_FUZZ_SEEDS");
    std::vector<std::filesystem::path> paths;
    if (folder) {
      for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    for (const std::filesystem::path& path : paths) {
      std::ifstream file(path, std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      models->push_back(fuzz::parse_model(bytes));
    }
    return models;
  }();
  return *read;
}

const Model& draw_seed(Random& random) {
  return seeds()[static_cast<size_t>(random.integer(0, std::ssize(seeds()) - 1))];
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  fuzz::prepare(count, arguments, 32768);
  if (seeds().empty()) {
    std::cerr << "no models to begin from: ./dev fuzz writes them, or name their folder in GRAFT_FUZZ_SEEDS\n";
    std::exit(1);
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  Random random(seed);
  Model model = fuzz::parse_model({reinterpret_cast<const char*>(data), size});
  if (size < 16 || random.chance(0.4)) model = draw_seed(random);
  const int64_t changes = fuzz::draw_changes(random);
  for (int64_t change = 0; change < changes; ++change) fuzz::mutate_model(model, draw_seed(random), random);
  const std::string bytes = fuzz::print_model(model);
  if (bytes.size() > max_size) return size;
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto make = [&](const CompileOptions& options) {
    return compile({.path = "", .bytes = bytes}, options).engine;
  };
  fuzz::run_both_ways(make, hash64(bytes));
  return 0;
}
