// SPDX-License-Identifier: Apache-2.0
#include "import/onnx/import.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "import/onnx/import_graph.h"
#include "import/onnx/onnx.pb.h"
#include "import/onnx/read_model.h"

namespace graft {
namespace {

Graph import_model(std::span<const std::byte> bytes, bool mapped, const std::string& directory,
                   const ImportOptions& options) {
  graft_onnx::ModelProto model;
  read_model(model, bytes, mapped);
  return ModelImporter(model, directory, bytes.size(), options).import();
}

}  // namespace

Graph import_onnx(const std::string& path, const ImportOptions& options) {
  const auto file = MappedFile::open(path);
  try {
    return import_model(file->bytes(), /*mapped=*/true, directory_of(path), options);
  } catch (const Error& error) {
    throw Error(error.kind(), error.message(),
                error.where().empty() ? path : fmt::format("{}: {}", path, error.where()));
  }
}

Graph import_onnx_bytes(std::span<const std::byte> bytes, const std::string& directory, const ImportOptions& options) {
  return import_model(bytes, /*mapped=*/false, directory, options);
}

std::vector<OnnxFunction> functions_of(const MappedFile& file) {
  graft_onnx::ModelProto library;
  read_functions(library, file);
  std::vector<OnnxFunction> functions;
  for (const auto& each : library.functions()) {
    functions.push_back({each.domain(), each.name(), fmt::format("a function of {} nodes", each.node_size())});
  }
  return functions;
}

}  // namespace graft
