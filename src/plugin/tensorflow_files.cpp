// SPDX-License-Identifier: Apache-2.0
// The files of a folder for TensorFlow.
#include <cctype>

#include <fmt/format.h>

#include "plugin/consumer.h"
#include "plugin/support_text.h"

namespace graft::plugin {
namespace {

/// Operators of TensorFlow begin with a capital letter.
std::string operator_name(const Definition& plugin) {
  std::string name = plugin.name;
  name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return name;
}

std::string operators_source(const std::vector<Definition>& plugins) {
  std::string text = "// Made by `graft plugin`: the operators as TensorFlow registers them.\n" +
                     include_line("\"graft_tensorflow.h\"");
  for (const Definition& plugin : plugins) text += include_line(fmt::format("\"{}.h\"", plugin.name));
  text += "\nnamespace {\n";
  for (const Definition& plugin : plugins) {
    text += fmt::format("const bool {0}_is_there = graft_made::register_operator<graft_made::{0}_plugin>(\"{1}\");\n",
                        plugin.name, operator_name(plugin));
  }
  text += "}  // namespace\n\n#ifndef GRAFT_SHAPES_ONLY\n";
  for (const Definition& plugin : plugins) {
    text += fmt::format("REGISTER_KERNEL_BUILDER(Name(\"{1}\").Device(tensorflow::DEVICE_GPU),\n"
                        "                        graft_made::Operator<graft_made::{0}_plugin>);\n",
                        plugin.name, operator_name(plugin));
  }
  return text + "#endif\n";
}

constexpr char kProject[] = R"cmake(
# The TensorFlow that it is for: of python3, or -D TENSORFLOW=.../site-packages/tensorflow
if(NOT TENSORFLOW)
  find_program(PYTHON NAMES python3 python REQUIRED)
  execute_process(COMMAND ${PYTHON} -c "import tensorflow; print(tensorflow.sysconfig.get_lib())"
    OUTPUT_VARIABLE TENSORFLOW OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(NOT EXISTS ${TENSORFLOW}/include/tensorflow/core/framework/op_kernel.h)
  message(FATAL_ERROR "no TensorFlow in '${TENSORFLOW}': -D TENSORFLOW=.../site-packages/tensorflow")
endif()
option(SHAPES_ONLY "Without kernels, for building graphs on a machine that has no GPU" OFF)
if(SHAPES_ONLY)
  set(embedded)
endif()
add_library(graft_tensorflow_ops SHARED tensorflow_ops.cpp ${embedded})
target_compile_features(graft_tensorflow_ops PRIVATE cxx_std_20)
# As tf.sysconfig.get_compile_flags() says.
target_compile_definitions(graft_tensorflow_ops PRIVATE _GLIBCXX_USE_CXX11_ABI=1 EIGEN_MAX_ALIGN_BYTES=64)
target_include_directories(graft_tensorflow_ops SYSTEM PRIVATE ${TENSORFLOW}/include ${CUDA_INCLUDE})
target_link_libraries(graft_tensorflow_ops PRIVATE ${TENSORFLOW}/libtensorflow_framework.so.2)
if(SHAPES_ONLY)
  target_compile_definitions(graft_tensorflow_ops PRIVATE GRAFT_SHAPES_ONLY)
elseif(CUDA_DRIVER)
  target_link_libraries(graft_tensorflow_ops PRIVATE ${CUDA_DRIVER})
endif()
)cmake";

constexpr char kUse[] = R"text(
## Building and using it

    cmake -B build && cmake --build build        # -D TENSORFLOW=.../site-packages/tensorflow for another than python3's

From Python: `ops = tensorflow.load_op_library("build/libgraft_tensorflow_ops.so")` has a function for each plugin, by
its name in small letters with _ between the words. Its arguments are a0, a1 and so on, in the order of the inputs
above, its operator's name the plugin's with a capital first letter. Operators run on GPUs, in the stream of
TensorFlow's device, and give shapes while a graph is built. They have no gradient. An index that is out of range reads
some element.
Where there is no GPU and its driver, `-D SHAPES_ONLY=ON` builds operators that graphs can be made of.
)text";

}  // namespace

ConsumerFiles tensorflow_files(const std::vector<Definition>& plugins) {
  return {.files = {{"tensorflow_ops.cpp", operators_source(plugins), "the operators as TensorFlow registers them"},
                    {"graft_tensorflow.h", tensorflow_header(), "shapes and runs of an operator"}},
          .project = kProject,
          .use = kUse};
}

}  // namespace graft::plugin
