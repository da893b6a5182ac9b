// SPDX-License-Identifier: Apache-2.0
#include "plugin/consumer.h"

namespace graft::plugin {
namespace {

constexpr char kUseCuda[] = R"(
## Building and using it

    cmake -B build && cmake --build build

`NAME.h` says what there is: `NAME_plugin::problem` looks at the sizes, `workspace_bytes` says how much memory the run
needs, and `launch` puts it into a stream; `Kernels::load(NAME_plugin::variants(), NAME_plugin::kVariants)` is called
once before, in the CUDA context. A run neither allocates nor copies, and can be captured in a CUDA graph.
)";

constexpr char kCudaProject[] = R"(
add_library(graft_kernels STATIC ${embedded})
set_target_properties(graft_kernels PROPERTIES LINKER_LANGUAGE CXX POSITION_INDEPENDENT_CODE ON)
target_include_directories(graft_kernels PUBLIC . ${CUDA_INCLUDE})
target_compile_features(graft_kernels PUBLIC cxx_std_17)
if(CUDA_DRIVER)
  target_link_libraries(graft_kernels PUBLIC ${CUDA_DRIVER})
endif()
)";

}  // namespace

std::string_view name_of(Consumer consumer) {
  switch (consumer) {
    case Consumer::kTensorRT:
    case Consumer::kTensorRT8:
      return "TensorRT";
    case Consumer::kTorch:
      return "PyTorch";
    case Consumer::kTensorFlow:
      return "TensorFlow";
    case Consumer::kCuda:
      break;
  }
  return "programs of your own";
}

bool rewrites_model(Consumer consumer) {
  return consumer == Consumer::kTensorRT || consumer == Consumer::kTensorRT8;
}

std::set<DType> types_of(Consumer consumer) {
  std::set<DType> known = {DType::kFloat32, DType::kFloat16, DType::kInt8, DType::kInt32, DType::kBool};
  if (consumer == Consumer::kTensorRT8) return known;
  known.insert({DType::kBFloat16, DType::kInt64});
  if (consumer == Consumer::kTensorRT) return known;
  known.insert({DType::kFloat64, DType::kInt16, DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64});
  return known;
}

ConsumerFiles files_of(Consumer consumer, const std::vector<Definition>& plugins, const std::string& model) {
  switch (consumer) {
    case Consumer::kTensorRT:
    case Consumer::kTensorRT8:
      return tensorrt_files(plugins, model, consumer == Consumer::kTensorRT8);
    case Consumer::kTorch:
      return torch_files(plugins);
    case Consumer::kTensorFlow:
      return tensorflow_files(plugins);
    case Consumer::kCuda:
      break;
  }
  return {.files = {}, .project = kCudaProject, .use = kUseCuda};
}

}  // namespace graft::plugin
