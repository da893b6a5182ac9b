// SPDX-License-Identifier: Apache-2.0
// In place of import/tensorflow, import/mxnet and import/pt2, in a library that reads ONNX files alone.
#include "base/error.h"
#include "import/mxnet/import.h"
#include "import/pt2/import.h"
#include "import/tensorflow/import.h"

namespace graft {
namespace {

[[noreturn]] void refuse(const std::string& path) {
  throw Error(ErrorKind::kUnsupported, "this library reads ONNX files alone", path);
}

}  // namespace

namespace tensorflow {
bool is_model(const std::string&) { return false; }
bool is_model(std::span<const std::byte>) { return false; }
Graph import_model(const std::string& path, const ImportOptions&) { refuse(path); }
Graph import_model(std::span<const std::byte>, const ImportOptions&) { refuse("model"); }
}  // namespace tensorflow

namespace mxnet {
bool is_model(const std::string&) { return false; }
Graph import_model(const std::string& path, const ImportOptions&) { refuse(path); }
}  // namespace mxnet

namespace pt2 {
bool is_model(const std::string&) { return false; }
Graph import_model(const std::string& path, const std::vector<std::string>&) { refuse(path); }
}  // namespace pt2

}  // namespace graft
