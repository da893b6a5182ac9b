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

std::string project_file(const Generated& generated) {
  std::string text = kProject;
  for (const Definition& plugin : generated.plugins) {
    for (const Variant& variant : plugin.variants) {
      const std::string code = fmt::format("{}_{}", plugin.name, architecture_of(variant));
      if (!variant.kernels.empty()) text += fmt::format("embed({} cubin)\n", code);
      if (has_ptx(variant)) text += fmt::format("embed({} ptx)\n", code);
      if (!variant.constants.empty()) text += fmt::format("embed({} constants)\n", code);
    }
  }
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
  for (const CountedAxis& counted : plugin.counted) {
    text += fmt::format("- axis {} of `{}`: known only after a run, which tells it as output {}, an int32\n",
                        counted.axis, printable(plugin.outputs[static_cast<size_t>(counted.output)].name),
                        counted.count);
  }
  for (const Variant& variant : plugin.variants) {
    text += fmt::format("- {}: {} kernel{}, {} launch{}{}{}{}{}\n", architecture_of(variant), variant.kernels.size(),
                        variant.kernels.size() == 1 ? "" : "s", variant.launches.size(),
                        variant.launches.size() == 1 ? "" : "es",
                        variant.slots.empty() ? "" : fmt::format(", {} parts of the workspace", variant.slots.size()),
                        variant.constants.empty() ? "" : ", constants",
                        variant.cubin.empty() && !variant.kernels.empty() ? ", to be compiled by nvcc" : "",
                        !variant.measured           ? ""
                        : variant.milliseconds == 0 ? ", measured"
                                                    : fmt::format(", measured: {:.4g} ms", variant.milliseconds));
  }
  return text + "\n";
}

std::string readme(const Generated& generated, const Request& request, const ConsumerFiles& consumer) {
  const std::string model = printable(std::filesystem::path(request.model).filename().string());
  bool measured = false;
  for (const Definition& plugin : generated.plugins) {
    for (const Variant& variant : plugin.variants) measured = measured || variant.measured;
  }
  const char* chosen = !request.options.record.empty() ? "a record"
                       : measured ? "measuring where it says so below, else by the cost model"
                                  : "the cost model and have not been measured";
  std::string text = fmt::format("# Kernels for {}\n\nMade by `graft plugin` of Graft " GRAFT_VERSION
                                 " from `{}`. Kernels were chosen by {}.\n\n",
                                 name_of(request.consumer), model, chosen);
  text += "| file | what it is |\n|---|---|\n";
  if (rewrites_model(request.consumer)) {
    text += fmt::format("| `{}` | the model with the plugins in place of the nodes |\n", model);
  }
  for (const ConsumerFiles::File& file : consumer.files) {
    text += fmt::format("| `{}` | {} |\n", file.name, file.meaning);
  }
  text += "| `NAME.h` | tensors, sizes, workspace and launches of a plugin |\n"
          "| `NAME_sm_XY.cu`, `graft_device.cuh` | its kernels for an architecture as CUDA C++ |\n"
          "| `NAME_sm_XY.cubin`, `.ptx` | the same, compiled |\n"
          "| `graft_kernels.h` | loading and launching, through the driver's interface |\n"
          "| `parts/NAME.onnx` | the nodes as a model of their own |\n"
          "| `choices/NAME_sm_XY.txt` | which kernels were chosen; made again here, they are the same |\n"
          "| `CMakeLists.txt`, `embed.cmake` | the project |\n\n## Plugins\n\n";
  for (const Definition& plugin : generated.plugins) text += plugin_text(plugin);
  if (generated.nodes.size() > generated.plugins.size()) {
    text += "| node | plugin |\n|---|---|\n";
    for (const PlacedPlugin& node : generated.nodes) {
      text += fmt::format("| {} | {} |\n", printable(node.node), generated.plugins[node.plugin].name);
    }
  }
  if (!generated.left.empty()) {
    text += "\n## Nodes that TensorRT refuses, without a plugin\n\n| node | why |\n|---|---|\n";
    for (const LeftNode& left : generated.left) {
      text += fmt::format("| {} | {} |\n", printable(left.node), printable(left.why));
    }
  }
  return text + consumer.use;
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
    if (!variant.choices.empty()) folder.write(choices_file(plugin.name, architecture_of(variant)), variant.choices);
  }
}

}  // namespace

std::string choices_file(const std::string& plugin, const std::string& architecture) {
  return fmt::format("choices/{}_{}.txt", plugin, architecture);
}

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
  const std::string model = printable(std::filesystem::path(request.model).filename().string());
  const ConsumerFiles consumer = files_of(request.consumer, generated.plugins, model);
  for (const ConsumerFiles::File& file : consumer.files) folder.write(file.name, file.text);
  folder.write("CMakeLists.txt", project_file(generated) + consumer.project);
  folder.write("README.md", readme(generated, request, consumer));
}

}  // namespace graft::plugin
