// SPDX-License-Identifier: Apache-2.0
// Who calls the kernels of plugins: what each wants in a folder beside them.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "plugin/definition.h"

namespace graft::plugin {

enum class Consumer : uint8_t {
  kTensorRT,   ///< 10 and 11
  kTensorRT8,  ///< 8.6
  kCuda,       ///< a program of the user's own
  kTorch,      ///< PyTorch
  kTensorFlow,
};

/// As a sentence has it: kernels for PyTorch.
std::string_view name_of(Consumer consumer);
/// Whether it runs ONNX models, so that one is written with the plugins in place of the nodes.
bool rewrites_model(Consumer consumer);
/// The types of elements that its tensors can have.
std::set<DType> types_of(Consumer consumer);

/// What a consumer gets beside the kernels, their headers and the part of CMakeLists.txt that embeds them.
struct ConsumerFiles {
  struct File {
    std::string name, text;
    std::string meaning;  ///< for the table of README.md
  };
  std::vector<File> files;
  std::string project;  ///< the end of CMakeLists.txt, which makes the library of `${embedded}`
  std::string use;      ///< the end of README.md
};

/// `model`: the name of the rewritten model's file.
ConsumerFiles files_of(Consumer consumer, const std::vector<Definition>& plugins, const std::string& model);

// Each consumer's, for files_of.
ConsumerFiles tensorrt_files(const std::vector<Definition>& plugins, const std::string& model, bool old);
ConsumerFiles torch_files(const std::vector<Definition>& plugins);
ConsumerFiles tensorflow_files(const std::vector<Definition>& plugins);

}  // namespace graft::plugin
