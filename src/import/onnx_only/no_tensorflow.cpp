// SPDX-License-Identifier: Apache-2.0
// In place of import/tensorflow, in a library that reads ONNX files alone.
#include "base/error.h"
#include "import/tensorflow/import.h"

namespace graft::tensorflow {

bool is_model(const std::string&) { return false; }

Graph import_model(const std::string& path, const ImportOptions&) {
  throw Error(ErrorKind::kUnsupported, "this library reads ONNX files alone", path);
}

}  // namespace graft::tensorflow
