// SPDX-License-Identifier: Apache-2.0
#include "plugin/write_project.h"

#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/printable.h"
#include "plugin/support_text.h"
#include "plugin/write_definition.h"

namespace graft::plugin {
namespace {

std::string heading_of(const Definition& definition, const Request& request) {
  return fmt::format("// Made by `graft plugin` of Graft " GRAFT_VERSION " from {}: {}.\n",
                     printable(std::filesystem::path(request.model).filename().string()),
                     printable(fmt::format("{}", fmt::join(definition.nodes, ", "))));
}

/// plugins.cpp: what TensorRT asks a library of plugins for.
std::string plugins_source(const Generated& generated, const Request& request) {
  const bool old = request.consumer == Consumer::kTensorRT8;
  const std::string creator = old ? "nvinfer1::IPluginCreator" : "nvinfer1::IPluginCreatorInterface";
  std::string text = "// Made by `graft plugin`: the library's functions that TensorRT calls.\n" +
                     include_line("\"graft_tensorrt.h\"");
  for (const Definition& plugin : generated.plugins) text += include_line(fmt::format("\"{}.h\"", plugin.name));
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
  for (const Definition& plugin : generated.plugins) {
    text += fmt::format("  static graft_made::Creator<graft_made::{0}_plugin> {0};\n", plugin.name);
    addresses.push_back("&" + plugin.name);
  }
  text += fmt::format("  static {}* const creators[] = {{{}}};\n  count = {};\n  return creators;\n}}\n\n", creator,
                      fmt::join(addresses, ", "), addresses.size());
  text +=
      "GRAFT_EXPORT void setLoggerFinder(nvinfer1::ILoggerFinder* finder) { graft_made::logger_finder() = finder; }\n";
  return text;
}

constexpr char kProject[] = R"(# Made by `graft plugin`: one library of all plugins of the model.
#   cmake -B build [-D TENSORRT_INCLUDE=.../include] && cmake --build build
cmake_minimum_required(VERSION 3.18)
project(graft_plugins LANGUAGES CXX)
find_path(CUDA_INCLUDE cuda.h HINTS ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES include REQUIRED)
find_library(CUDA_DRIVER cuda HINTS /usr/local/cuda/lib64/stubs ENV CUDA_HOME PATH_SUFFIXES lib64/stubs lib/stubs)
find_program(NVCC nvcc HINTS /usr/local/cuda/bin ENV CUDA_HOME PATH_SUFFIXES bin)

# Embeds CODE.KIND, which came with this folder, or which nvcc makes of CODE.cu.
set(embedded)
function(embed code kind)
  set(file ${CMAKE_CURRENT_SOURCE_DIR}/${code}.${kind})
  if(NOT EXISTS ${file})
    if(NOT NVCC)
      message(FATAL_ERROR "${code}.${kind} did not come with this folder, and there is no nvcc to make it")
    endif()
    string(REGEX MATCH "sm_[0-9a-z]+$" architecture ${code})
    set(source ${CMAKE_CURRENT_SOURCE_DIR}/${code}.cu)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${code}.${kind})
    add_custom_command(OUTPUT ${file} DEPENDS ${source}
      COMMAND ${NVCC} -${kind} -std=c++17 -arch=${architecture} -o ${file} ${source} VERBATIM)
  endif()
  set(made ${CMAKE_CURRENT_BINARY_DIR}/${code}_${kind}.cpp)
  add_custom_command(OUTPUT ${made} DEPENDS ${file} embed.cmake
    COMMAND ${CMAKE_COMMAND} -D FILE=${file} -D NAME=${code}_${kind} -D OUT=${made}
            -P ${CMAKE_CURRENT_SOURCE_DIR}/embed.cmake VERBATIM)
  list(APPEND embedded ${made})
  set(embedded ${embedded} PARENT_SCOPE)
endfunction()
)";

std::string project_file(const Generated& generated, const Request& request) {
  std::string text = kProject;
  for (const Definition& plugin : generated.plugins) {
    for (const Variant& variant : plugin.variants) {
      const std::string code = fmt::format("{}_{}", plugin.name, architecture_of(variant));
      if (!variant.kernels.empty()) text += fmt::format("embed({} cubin)\n", code);
      if (has_ptx(variant)) text += fmt::format("embed({} ptx)\n", code);
      if (!variant.constants.empty()) text += fmt::format("embed({} constants)\n", code);
    }
  }
  if (request.consumer == Consumer::kCuda) {
    text += "\nadd_library(graft_kernels STATIC ${embedded})\n"
            "set_target_properties(graft_kernels PROPERTIES LINKER_LANGUAGE CXX POSITION_INDEPENDENT_CODE ON)\n"
            "target_include_directories(graft_kernels PUBLIC . ${CUDA_INCLUDE})\n"
            "target_compile_features(graft_kernels PUBLIC cxx_std_17)\n"
            "if(CUDA_DRIVER)\n  target_link_libraries(graft_kernels PUBLIC ${CUDA_DRIVER})\nendif()\n";
    return text;
  }
  text += "\nfind_path(TENSORRT_INCLUDE NvInferRuntime.h HINTS ENV TENSORRT_HOME PATH_SUFFIXES include REQUIRED)\n"
          "add_library(graft_plugins SHARED plugins.cpp ${embedded})\n"
          "target_compile_features(graft_plugins PRIVATE cxx_std_17)\n"
          "set_target_properties(graft_plugins PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)\n"
          "target_include_directories(graft_plugins SYSTEM PRIVATE ${TENSORRT_INCLUDE} ${CUDA_INCLUDE})\n"
          "if(CUDA_DRIVER)  # else the process that loads the library has the driver open\n"
          "  target_link_libraries(graft_plugins PRIVATE ${CUDA_DRIVER})\nendif()\n";
  return text;
}

std::string tensors_text(const std::vector<Tensor>& tensors) {
  std::string text;
  for (const Tensor& tensor : tensors) {
    text += fmt::format("{}`{}` {}{}", text.empty() ? "" : ", ", printable(tensor.name), name_of(tensor.type),
                        to_string(tensor.shape));
  }
  return text;
}

std::string plugin_text(const Definition& plugin) {
  std::string text = fmt::format("### {}\n\nDoes {} ({}).\n\n- inputs: {}\n- outputs: {}\n", plugin.name,
                                 printable(fmt::format("{}", fmt::join(plugin.nodes, ", "))),
                                 fmt::join(plugin.operators, ", "), tensors_text(plugin.inputs),
                                 tensors_text(plugin.outputs));
  for (const Variant& variant : plugin.variants) {
    text += fmt::format("- {}: {} kernel{}, {} launch{}{}{}{}\n", architecture_of(variant), variant.kernels.size(),
                        variant.kernels.size() == 1 ? "" : "s", variant.launches.size(),
                        variant.launches.size() == 1 ? "" : "es",
                        variant.slots.empty() ? "" : fmt::format(", {} parts of the workspace", variant.slots.size()),
                        variant.constants.empty() ? "" : ", constants",
                        variant.cubin.empty() && !variant.kernels.empty() ? ", to be compiled by nvcc" : "");
  }
  return text + "\n";
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

constexpr char kUseCuda[] = R"(
## Building and using it

    cmake -B build && cmake --build build

`NAME.h` says what there is: `NAME_plugin::problem` looks at the sizes, `workspace_bytes` says how much memory the run
needs, and `launch` puts it into a stream; `Kernels::load(NAME_plugin::variants(), NAME_plugin::kVariants)` is called
once before, in the CUDA context. A run neither allocates nor copies, and can be captured in a CUDA graph.
)";

std::string readme(const Generated& generated, const Request& request) {
  const bool cuda = request.consumer == Consumer::kCuda;
  const std::string model = printable(std::filesystem::path(request.model).filename().string());
  std::string text = fmt::format("# Kernels for {}\n\nMade by `graft plugin` of Graft " GRAFT_VERSION
                                 " from `{}`. Kernels were chosen by the cost model and have not been measured.\n\n",
                                 cuda ? "programs of your own" : "TensorRT", model);
  text += "| file | what it is |\n|---|---|\n";
  if (!cuda) {
    text += fmt::format("| `{}` | the model with the plugins in place of the nodes |\n", model);
    text += "| `plugins.cpp`, `graft_tensorrt.h` | the plugins as TensorRT sees them |\n";
  }
  text += "| `NAME.h` | tensors, sizes, workspace and launches of a plugin |\n"
          "| `NAME_sm_XY.cu`, `graft_device.cuh` | its kernels for an architecture as CUDA C++ |\n"
          "| `NAME_sm_XY.cubin`, `.ptx` | the same, compiled |\n"
          "| `graft_kernels.h` | loading and launching, through the driver's interface |\n"
          "| `parts/NAME.onnx` | the nodes as a model of their own |\n"
          "| `CMakeLists.txt`, `embed.cmake` | the project |\n\n## Plugins\n\n";
  for (const Definition& plugin : generated.plugins) text += plugin_text(plugin);
  if (generated.nodes.size() > generated.plugins.size()) {
    text += "| node | plugin |\n|---|---|\n";
    for (const PlacedPlugin& node : generated.nodes) {
      text += fmt::format("| {} | {} |\n", printable(node.node), generated.plugins[node.plugin].name);
    }
  }
  if (cuda) return text + kUseCuda;
  const char* versions = request.consumer == Consumer::kTensorRT8 ? "8.6" : "10 and 11";
  return text + fmt::format(kUseTensorRT, fmt::arg("model", model), fmt::arg("versions", versions));
}

void write_plugin(const Definition& plugin, const Request& request, const OutputFolder& folder) {
  const std::string heading = heading_of(plugin, request);
  folder.write(plugin.name + ".h", definition_header(plugin, heading));
  for (const Variant& variant : plugin.variants) {
    const std::string stem = fmt::format("{}_{}", plugin.name, architecture_of(variant));
    if (!variant.kernels.empty()) folder.write(stem + ".cu", kernel_source(plugin, variant, heading));
    if (!variant.cubin.empty()) folder.write(stem + ".cubin", variant.cubin);
    if (!variant.ptx.empty()) folder.write(stem + ".ptx", variant.ptx);
    if (!variant.constants.empty()) folder.write(stem + ".constants", constant_bytes(variant));
  }
}

}  // namespace

void write_project(const Generated& generated, const Request& request, const OutputFolder& folder) {
  std::string prelude;
  for (const Definition& plugin : generated.plugins) {
    for (const Variant& variant : plugin.variants) {
      GRAFT_CHECK(prelude.empty() || variant.prelude.empty() || prelude == variant.prelude,
                  "kernels of one folder need different device functions");
      if (prelude.empty()) prelude = variant.prelude;
    }
    write_plugin(plugin, request, folder);
  }
  folder.write("graft_device.cuh",
               "// Made by `graft plugin`: device functions that kernels are written in. CUDA C++ without any header.\n"
               "#pragma once\n" + prelude);
  folder.write(kMark, kernels_header());
  folder.write("embed.cmake", embed_script());
  folder.write("CMakeLists.txt", project_file(generated, request));
  folder.write("README.md", readme(generated, request));
  if (request.consumer == Consumer::kCuda) return;
  const bool old = request.consumer == Consumer::kTensorRT8;
  folder.write("graft_tensorrt.h", old ? tensorrt_8_header() : tensorrt_header());
  folder.write("plugins.cpp", plugins_source(generated, request));
}

}  // namespace graft::plugin
