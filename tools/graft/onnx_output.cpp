// SPDX-License-Identifier: Apache-2.0
#include "onnx_output.h"


#include "output.h"

namespace graft {

void OnnxOutput::add_weights_option(Command command) {
  command.add_option("--external-weights", weights_.external_from,
                     "write weights of at least this many bytes into a separate file, called like the ONNX file with\n"
                     ".data appended (default: 1024 if the model would be larger than 1 GiB)")
      .not_negative().type_name("BYTES");
}

void OnnxOutput::add_to(Command command, const std::string& what) {
  command.add_option("-o,--output", path_, what).required().type_name("FILE.onnx");
  add_weights_option(command);
}

void OnnxOutput::check(const std::string& path, const std::vector<std::string>& inputs) {
  check_output("--output", path, inputs);
  if (!path.empty() && path != "-") check_output("--output", path + ".data", inputs);
}

}  // namespace graft
