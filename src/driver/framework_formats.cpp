// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "driver/model_format.h"
#include "import/mxnet/import.h"
#include "import/pt2/import.h"
#include "import/tensorflow/import.h"

namespace graft {
namespace {

bool is_tensorflow(const ModelSource& source) {
  return source.bytes ? tensorflow::is_model(*source.bytes) : tensorflow::is_model(source.path);
}

Graph import_tensorflow(const ModelSource& source, const CompileOptions& options) {
  const tensorflow::ImportOptions choices{
      .signature = options.signature, .tags = options.tags, .outputs = options.outputs, .shapes = options.shapes};
  return source.bytes ? tensorflow::import_model(*source.bytes, choices)
                      : tensorflow::import_model(source.path, choices);
}

bool is_mxnet(const ModelSource& source) { return !source.bytes && mxnet::is_model(source.path); }

Graph import_mxnet(const ModelSource& source, const CompileOptions& options) {
  return mxnet::import_model(source.path, {.params = options.params,
                                           .shapes = options.shapes,
                                           .min_shapes = options.min_shapes,
                                           .max_shapes = options.max_shapes});
}

bool is_exported(const ModelSource& source) { return !source.bytes && pt2::is_model(source.path); }

Graph import_exported(const ModelSource& source, const CompileOptions& options) {
  return pt2::import_model(source.path, options.converters);
}

constexpr std::array<std::string_view, 3> kTensorflowOptions = {"signature", "tag", "outputs"};
constexpr std::array<std::string_view, 1> kMxnetOptions = {"params"}, kExportedOptions = {"converters"};
constexpr ModelFormat kFormats[] = {
    {"a SavedModel or a GraphDef of TensorFlow", kTensorflowOptions, is_tensorflow, import_tensorflow},
    {"a symbol of MXNet", kMxnetOptions, is_mxnet, import_mxnet},
    {"a program of torch.export (.pt2)", kExportedOptions, is_exported, import_exported},
};

}  // namespace

std::span<const ModelFormat> framework_formats() { return kFormats; }

}  // namespace graft
