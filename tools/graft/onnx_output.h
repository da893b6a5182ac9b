// SPDX-License-Identifier: Apache-2.0
// Where commands that write ONNX files put them.
#pragma once

#include <string>
#include <vector>

#include "command_line.h"
#include "export/onnx/export.h"

namespace graft {

/// `--output FILE.onnx` and whether its weights lie beside it.
class OnnxOutput {
 public:
  /// Adds both options, the first required.
  void add_to(Command command, const std::string& what);
  /// Adds only the second, for commands that also write other files.
  void add_weights_option(Command command);

  const std::string& path() const { return path_; }
  const OnnxWeights& weights() const { return weights_; }
  /// Throws as check_output does, for the model and the file beside it.
  static void check(const std::string& path, const std::vector<std::string>& inputs);

 private:
  std::string path_;
  OnnxWeights weights_;
};

}  // namespace graft
