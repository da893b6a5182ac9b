// SPDX-License-Identifier: Apache-2.0
#include "driver/convert_model.h"

#include <filesystem>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/import_budget.h"
#include "base/stop_if_cancelled.h"
#include "driver/precision_lists.h"
#include "export/mxnet/mixed_precision.h"
#include "export/onnx/model_file.h"
#include "export/pt2/mixed_precision.h"
#include "export/pt2/write_archive.h"
#include "export/tensorflow/mixed_precision.h"
#include "import/pt2/import.h"

namespace graft {
namespace {

constexpr std::string_view kSymbolEnding = "-symbol.json";
constexpr std::string_view kParamsEnding = "-0000.params";

bool is_symbol(const ConversionFiles& files) { return files.model.ends_with(".json"); }
bool is_graph(const ConversionFiles& files) { return files.model.ends_with(".pb"); }

/// What makes a model of mixed precision of one that no file is made of here; empty for others.
std::string other_remedy(const std::string& model) {
  if (std::filesystem::is_directory(model)) {
    return "a folder is converted as the frozen graph of what it is asked for: write that with TensorFlow's "
           "convert_variables_to_constants_v2 and give the .pb file";
  }
  for (const char* ending : {".pt", ".ts", ".pth"}) {
    if (!model.ends_with(ending)) continue;
    return "TorchScript is rewritten with libtorch: graft.torch.script.convert in Python, "
           "graft::torchscript::mix of libgraft_torch.so in C++";
  }
  return "";
}

void tell_read(const ConversionFiles& files) {
  if (files.when_read) files.when_read();
}

ConversionReport convert_onnx(const ConversionFiles& files, const amp::Request& request) {
  const ModelFile whole = ModelFile::open(files.model, files.cancelled);
  tell_read(files);
  MixedReport report;
  const ModelFile mixed = whole.mixed(request, default_lists("onnx", request.low), report);
  stop_if_cancelled(files.cancelled, "convert");
  mixed.save(files.output, files.weights);
  return {files.output, "", fmt::format("{} Cast", report.casts), report.casts, 0, report.parameters};
}

ConversionReport convert_graph(const ConversionFiles& files, const amp::Request& request) {
  const auto bytes = MappedFile::open(files.model);
  const tensorflow::GraphFile file(bytes->bytes(), bytes);
  tell_read(files);
  const tensorflow::MixedGraph mixed =
      tensorflow::convert_graph(file, files.outputs, request, default_lists("tensorflow", request.low));
  stop_if_cancelled(files.cancelled, "convert");
  write_file(files.output, mixed.bytes);
  return {files.output, "", fmt::format("{} Cast", mixed.casts), mixed.casts, 0, mixed.constants};
}

ConversionReport convert_program(const ConversionFiles& files, const amp::Request& request) {
  const auto bytes = MappedFile::open(files.model);
  const pt2::Archive archive(bytes->bytes(), bytes, files.model);
  tell_read(files);
  const pt2::MixedProgram mixed = pt2::convert_program(archive, request, default_lists("aten", request.low));
  stop_if_cancelled(files.cancelled, "convert");
  pt2::write_archive(files.output, archive, mixed.entries);
  return {files.output, "", fmt::format("{} aten::to", mixed.casts), mixed.casts, 0, mixed.parameters};
}

ConversionReport convert_symbol(const ConversionFiles& files, const amp::Request& request) {
  const std::vector<std::string> written = converted_files(files);
  const mxnet::Symbol symbol = mxnet::read_symbol(files.model);
  std::optional<mxnet::ParamsFile> file;
  std::optional<mxnet::Parameters> parameters;
  if (!files.params.empty()) {
    file = mxnet::read_params(files.params);
    parameters = mxnet::parameters_of(*file);
  }
  tell_read(files);
  const mxnet::MixedSymbol mixed = mxnet::convert_symbol(symbol, request, parameters ? &*parameters : nullptr);
  if (file) mxnet::convert_parameters(*file, mixed.parameter_types);
  stop_if_cancelled(files.cancelled, "convert");
  if (file) mxnet::write_params(*file, written[1]);
  write_file(written[0], mxnet::symbol_text(mixed.symbol));
  return {written[0], file ? written[1] : "",
          fmt::format("{} amp_cast, {} amp_multicast", mixed.casts, mixed.multicasts), mixed.casts, mixed.multicasts,
          mixed.parameter_types};
}

ConversionReport convert_format(const ConversionFiles& files, const amp::Request& request) {
  if (is_symbol(files)) return convert_symbol(files, request);
  if (is_graph(files)) return convert_graph(files, request);
  return pt2::is_model(files.model) ? convert_program(files, request) : convert_onnx(files, request);
}

}  // namespace

std::vector<std::string> converted_files(const ConversionFiles& files) {
  if (!is_symbol(files)) return {files.output};
  std::string prefix = files.output;
  if (prefix.ends_with(kSymbolEnding)) {
    prefix.resize(prefix.size() - kSymbolEnding.size());
  } else {
    GRAFT_USER_CHECK(!prefix.ends_with(".json"), kInvalidArgument, "it is a prefix, or ends with -symbol.json",
                     "output");
  }
  std::vector<std::string> written = {prefix + std::string(kSymbolEnding)};
  if (!files.params.empty()) written.push_back(prefix + std::string(kParamsEnding));
  return written;
}

ConversionReport convert_model(const ConversionFiles& files, const amp::Request& request) {
  const std::string remedy = other_remedy(files.model);
  GRAFT_USER_CHECK(remedy.empty(), kUnsupported, remedy, files.model);
  GRAFT_USER_CHECK(files.params.empty() || is_symbol(files), kInvalidArgument,
                   "they are for symbols of MXNet; other models hold their weights", "params");
  GRAFT_USER_CHECK(files.outputs.empty() || is_graph(files), kInvalidArgument,
                   "they are for graphs of TensorFlow; other models name theirs", "outputs");
  ConversionReport report;
  within_import_budget(files.cancelled, files.model, [&] { report = convert_format(files, request); });
  return report;
}

}  // namespace graft
