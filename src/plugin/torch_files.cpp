// SPDX-License-Identifier: Apache-2.0
// The files of a folder for PyTorch: operators in C++, and a Python package that loads them.
#include <fmt/format.h>

#include "plugin/consumer.h"
#include "plugin/support_text.h"

namespace graft::plugin {
namespace {

std::string operators_source(const std::vector<Definition>& plugins) {
  std::string text = "// Made by `graft plugin`: the operators of torch.ops.graft.\n" +
                     include_line("\"graft_torch.h\"");
  for (const Definition& plugin : plugins) text += include_line(fmt::format("\"{}.h\"", plugin.name));
  const auto for_each = [&](const std::string& row) {
    for (const Definition& plugin : plugins) text += fmt::format(fmt::runtime(row), fmt::arg("name", plugin.name));
    text += "}\n";
  };
  text += "\nTORCH_LIBRARY_FRAGMENT(graft, library) {\n";
  for_each("  graft_made::define<graft_made::{name}_plugin>(library);\n");
  const std::string implement = "  library.impl(\"{name}\", torch::CppFunction::makeFromBoxedFunction<\n"
                                "      &graft_made::FUNCTION<graft_made::{name}_plugin>>());\n";
  const auto with = [&](const std::string& function) {
    std::string row = implement;
    return row.replace(row.find("FUNCTION"), 8, function);
  };
  text += "\n// What tracing calls: torch.compile, torch.export, tensors without data.\n"
          "TORCH_LIBRARY_IMPL(graft, Meta, library) {\n";
  for_each(with("describe"));
  text += "\n#ifndef GRAFT_SHAPES_ONLY\nTORCH_LIBRARY_IMPL(graft, CUDA, library) {\n";
  for_each(with("run"));
  return text + "#endif\n";
}

std::string package_source(const std::vector<Definition>& plugins) {
  std::string names, list;
  for (const Definition& plugin : plugins) {
    names += fmt::format("{0} = torch.ops.graft.{0}\n", plugin.name);
    list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", plugin.name);
  }
  return R"python("""Made by `graft plugin`: operators over generated kernels, as functions and in torch.ops.graft."""

import os
import pathlib

import torch

_FOLDER = pathlib.Path(__file__).parent
_LIBRARY = pathlib.Path(os.environ.get("GRAFT_TORCH_OPS", _FOLDER / "build/libgraft_torch_ops.so"))
if not _LIBRARY.exists():
    raise ImportError(f"{_LIBRARY} is not built: cmake -B build && cmake --build build, in {_FOLDER}")
torch.ops.load_library(_LIBRARY)

)python" + names + "\n__all__ = [" + list + "]\n";
}

constexpr char kProject[] = R"cmake(
# The torch that it is for: of python3, or -D TORCH=.../site-packages/torch. find_package(Torch) is not used: it wants
# the whole CUDA toolkit that torch was built with.
if(NOT TORCH)
  find_program(PYTHON NAMES python3 python REQUIRED)
  execute_process(COMMAND ${PYTHON} -c "import torch; print(torch.__path__[0])" OUTPUT_VARIABLE TORCH
    OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(NOT EXISTS ${TORCH}/include/torch/library.h)
  message(FATAL_ERROR "no torch in '${TORCH}': -D TORCH=.../site-packages/torch")
endif()
option(SHAPES_ONLY "Without kernels, for tracing on a machine that has no GPU" OFF)
if(SHAPES_ONLY)
  set(embedded)
endif()
add_library(graft_torch_ops SHARED torch_ops.cpp ${embedded})
target_compile_features(graft_torch_ops PRIVATE cxx_std_20)
target_include_directories(graft_torch_ops SYSTEM PRIVATE ${TORCH}/include ${TORCH}/include/torch/csrc/api/include
  ${CUDA_INCLUDE})
target_link_libraries(graft_torch_ops PRIVATE ${TORCH}/lib/libtorch_cpu.so ${TORCH}/lib/libc10.so)
if(SHAPES_ONLY)
  target_compile_definitions(graft_torch_ops PRIVATE GRAFT_SHAPES_ONLY)
else()
  target_link_libraries(graft_torch_ops PRIVATE ${TORCH}/lib/libc10_cuda.so)
  if(CUDA_DRIVER)
    target_link_libraries(graft_torch_ops PRIVATE ${CUDA_DRIVER})
  endif()
endif()
)cmake";

constexpr char kUse[] = R"text(
## Building and using it

    cmake -B build && cmake --build build        # -D TORCH=.../site-packages/torch for another than python3's

From Python, this folder is a package: with its parent on the path, `import NAME_OF_THE_FOLDER` makes each plugin a
function of tensors, which is also in `torch.ops.graft`. Without Python, or for a package of AOTInductor, load
`build/libgraft_torch_ops.so`. The operators run in torch's current stream, take their memory from torch's allocator,
trace with symbolic sizes (torch.compile, torch.export, AOTInductor), and can be captured in a CUDA graph once they have
run on the device. They have no derivative. An index that is out of range reads some element. Where there is no GPU and
its driver, `-D SHAPES_ONLY=ON` builds operators that can be traced and exported.
)text";

}  // namespace

ConsumerFiles torch_files(const std::vector<Definition>& plugins) {
  return {.files = {{"torch_ops.cpp", operators_source(plugins), "the operators of torch.ops.graft"},
                    {"graft_torch.h", torch_header(), "shapes and runs of an operator, as torch asks for them"},
                    {"__init__.py", package_source(plugins), "the folder as a package of Python"}},
          .project = kProject,
          .use = kUse};
}

}  // namespace graft::plugin
