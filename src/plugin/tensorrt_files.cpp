// SPDX-License-Identifier: Apache-2.0
// The files of a folder for TensorRT.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plugin/consumer.h"
#include "plugin/support_text.h"

namespace graft::plugin {
namespace {

/// plugins.cpp: what TensorRT asks a library of plugins for.
std::string plugins_source(const std::vector<Definition>& plugins, bool old) {
  const std::string creator = old ? "nvinfer1::IPluginCreator" : "nvinfer1::IPluginCreatorInterface";
  std::string text = "// Made by `graft plugin`: the library's functions that TensorRT calls.\n" +
                     include_line("\"graft_tensorrt.h\"");
  for (const Definition& plugin : plugins) text += include_line(fmt::format("\"{}.h\"", plugin.name));
  text += R"(
#ifdef _WIN32
#define GRAFT_EXPORT extern "C" __declspec(dllexport)
#else
#define GRAFT_EXPORT extern "C" __attribute__((visibility("default")))
#endif

)";
  text += fmt::format("GRAFT_EXPORT {}* const* {}(int32_t& count) {{\n", creator,
                      old ? "getPluginCreators" : "getCreators");
  std::vector<std::string> addresses;
  for (const Definition& plugin : plugins) {
    text += fmt::format("  static graft_made::Creator<graft_made::{0}_plugin> {0};\n", plugin.name);
    addresses.push_back("&" + plugin.name);
  }
  text += fmt::format("  static {}* const creators[] = {{{}}};\n  count = {};\n  return creators;\n}}\n\n", creator,
                      fmt::join(addresses, ", "), addresses.size());
  text +=
      "GRAFT_EXPORT void setLoggerFinder(nvinfer1::ILoggerFinder* finder) { graft_made::logger_finder() = finder; }\n";
  return text;
}

constexpr char kUseTensorRT[] = R"(
## Building and using it

    cmake -B build -D TENSORRT_INCLUDE=/path/to/TensorRT/include && cmake --build build
    trtexec --onnx={model} --dynamicPlugins=build/libgraft_plugins.so

From Python, before the model is parsed: `tensorrt.get_plugin_registry().load_library("build/libgraft_plugins.so")`.
The sources compile against the headers of TensorRT {versions}, and the library needs nothing of TensorRT's to link. A
run neither allocates nor copies, and can be captured in a CUDA graph. An index that is out of range reads some element:
a plugin cannot report it.
)";

constexpr char kProject[] = R"(
find_path(TENSORRT_INCLUDE NvInferRuntime.h HINTS ENV TENSORRT_HOME PATH_SUFFIXES include REQUIRED)
add_library(graft_plugins SHARED plugins.cpp ${embedded})
target_compile_features(graft_plugins PRIVATE cxx_std_17)
set_target_properties(graft_plugins PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_include_directories(graft_plugins SYSTEM PRIVATE ${TENSORRT_INCLUDE} ${CUDA_INCLUDE})
if(CUDA_DRIVER)  # else the process that loads the library has the driver open
  target_link_libraries(graft_plugins PRIVATE ${CUDA_DRIVER})
endif()
)";

}  // namespace

ConsumerFiles tensorrt_files(const std::vector<Definition>& plugins, const std::string& model, bool old) {
  return {.files = {{"plugins.cpp", plugins_source(plugins, old), "the functions that TensorRT calls"},
                    {"graft_tensorrt.h", old ? tensorrt_8_header() : tensorrt_header(),
                     "the plugins as TensorRT sees them"}},
          .project = kProject,
          .use = fmt::format(kUseTensorRT, fmt::arg("model", model), fmt::arg("versions", old ? "8.6" : "10 and 11"))};
}

}  // namespace graft::plugin
