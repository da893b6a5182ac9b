// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "base/import_budget.h"
#include "driver/model_format.h"
#include "driver/shape_choices.h"
#include "driver/stages.h"
#include "import/onnx/import.h"

namespace graft {
namespace {

bool may_be_onnx(const ModelSource&) { return true; }

Graph import_onnx_model(const ModelSource& source, const CompileOptions& options) {
  const ImportOptions imports{.overridable = options.overridable,
                              .operators = read_operator_library(options.operators)};
  return source.bytes ? import_onnx_bytes(*source.bytes, source.path, imports) : import_onnx(source.path, imports);
}

constexpr std::array<std::string_view, 2> kOnnxOptions = {"ops", "overridable"};
constexpr ModelFormat kOnnx = {"ONNX models, which definitions join when they are imported", kOnnxOptions, may_be_onnx,
                               import_onnx_model};

const ModelFormat& format_of(const ModelSource& source) {
  for (const ModelFormat& format : framework_formats()) {
    if (format.is_model(source)) return format;
  }
  return kOnnx;
}

/// An option that is another format's is a mistake.
void check_options_of(const ModelFormat& chosen, const CompileOptions& options) {
  const std::pair<std::string_view, bool> given[] = {
      {"signature", !options.signature.empty()},    {"tag", !options.tags.empty()},
      {"outputs", !options.outputs.empty()},        {"params", !options.params.empty()},
      {"converters", !options.converters.empty()},  {"ops", !options.operators.empty()},
      {"overridable", !options.overridable.empty()}};
  const auto check = [&](const ModelFormat& format) {
    if (&format == &chosen) return;
    for (const auto& [option, is_given] : given) {
      const auto& own = format.own_options;
      GRAFT_USER_CHECK(!is_given || std::find(own.begin(), own.end(), option) == own.end(), kInvalidArgument,
                       fmt::format("it is for {}, and this model is none", format.what), std::string(option));
    }
  };
  for (const ModelFormat& format : framework_formats()) check(format);
  check(kOnnx);
}

}  // namespace

Graph import_model(const ModelSource& source, const CompileOptions& options) {
  report(options, name_of(Stage::kImport), source.bytes ? "from memory" : source.path);
  GRAFT_USER_CHECK(source.bytes || !source.path.ends_with(".keras"), kUnsupported,
                   "Keras alone reads its own files: `python -m graft` exports them first where Keras and TensorFlow "
                   "are; or call keras.saving.load_model(FILE).export(FOLDER), and compile the folder",
                   source.path);
  const ModelFormat& format = format_of(source);
  check_options_of(format, options);
  Graph graph;
  within_import_budget(options.cancelled, source.path, [&] {
    if (source.bytes) allow_import(source.bytes->size());
    graph = format.import(source, options);
  });
  apply_shape_choices(graph, options);
  dump("graph", "import", [&] { return print(graph); });
  if (options.imported) options.imported(graph);
  return graph;
}

}  // namespace graft
