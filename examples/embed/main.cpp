// SPDX-License-Identifier: Apache-2.0
// embed [MODEL]: loads a plan, or compiles an ONNX file, and runs it once on zeros: what a program needs to know of
// Graft, in one page. Without MODEL it only says which library it found.
#include <graft/graft.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

/// Memory for one input, with every symbolic size as the engine's range suggests.
struct Input {
  std::vector<unsigned char> bytes;
  graft::TensorView view;
};

size_t element_bytes(graft::DataType type) {
  switch (type) {
    case graft::DataType::kFloat64:
    case graft::DataType::kInt64:
    case graft::DataType::kUint64: return 8;
    case graft::DataType::kFloat32:
    case graft::DataType::kInt32:
    case graft::DataType::kUint32: return 4;
    case graft::DataType::kFloat16:
    case graft::DataType::kBFloat16:
    case graft::DataType::kInt16:
    case graft::DataType::kUint16: return 2;
    default: return 1;
  }
}

Input make_input(const graft::ValueInfo& info) {
  Input input;
  size_t count = 1;
  for (const graft::Axis& axis : info.axes) {
    const int64_t size = axis.size >= 0 ? axis.size : axis.opt > 0 ? axis.opt : 1;
    input.view.shape.push_back(size);
    count *= static_cast<size_t>(size);
  }
  input.bytes.resize(count * element_bytes(info.dtype));
  input.view.name = info.name;
  input.view.dtype = info.dtype;
  input.view.data = input.bytes.data();
  return input;
}

int run(const std::string& path) {
  const bool is_model = path.size() > 5 && path.compare(path.size() - 5, 5, ".onnx") == 0;
  const graft::Engine engine = is_model ? graft::compile(path) : graft::load(path);
  std::vector<Input> inputs;
  std::vector<graft::TensorView> views, outputs;
  for (const graft::ValueInfo& info : engine.inputs()) inputs.push_back(make_input(info));
  for (const Input& input : inputs) views.push_back(input.view);
  for (const graft::ValueInfo& info : engine.outputs()) outputs.push_back({.name = info.name});

  graft::Session session(engine);
  if (const graft::Status status = session.run(views, outputs); !status.ok()) {
    std::fprintf(stderr, "embed: %s\n", status.message().c_str());
    return EXIT_FAILURE;
  }
  for (const graft::TensorView& output : outputs) {
    std::printf("%s [", output.name.c_str());
    for (const int64_t size : output.shape) std::printf(" %lld", static_cast<long long>(size));
    float first = 0;
    if (output.dtype == graft::DataType::kFloat32) std::memcpy(&first, output.data, sizeof first);
    std::printf(" ] first %g\n", first);
  }
  return EXIT_SUCCESS;
}

}  // namespace

int main(int count, char** words) {
  std::printf("graft %s\n", std::string(graft::version()).c_str());
  if (count < 2) return EXIT_SUCCESS;
  try {
    return run(words[1]);
  } catch (const graft::Error& error) {
    std::fprintf(stderr, "embed: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
