// SPDX-License-Identifier: Apache-2.0
// graft convert: a model as a model of mixed precision, in the format that it came in, or of 8 bits, as ONNX.

#include <cmath>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "amp/request.h"
#include "base/error.h"
#include "base/file.h"
#include "calibration_data.h"
#include "commands.h"
#include "console.h"
#include "driver/convert_model.h"
#include "driver/quantize_model.h"
#include "export/onnx/export.h"
#include "import/mxnet/params_file.h"
#include "import/pt2/import.h"
#include "json_output.h"
#include "model_options.h"
#include "onnx_output.h"
#include "output.h"

namespace graft {
namespace {

struct ConvertCommand {
  std::string model, params, precision, lists, out, calibrate, method, max_error;
  std::vector<std::string> outputs;
  bool cast_parameters_later = false;
  OnnxOutput onnx;
  JsonOutput json;

  int run() const;
  int quantise() const;
  void check_words() const;
  amp::Request request() const;
  void write_report(const ConversionReport& report, DType low) const;
};

amp::Request ConvertCommand::request() const {
  amp::Request request;
  if (!lists.empty()) request = amp::parse_request(read_text_file(lists), lists);
  request.low = amp::low_type_of(precision, "--precision");
  if (cast_parameters_later) request.convert_parameters = false;
  return request;
}

void ConvertCommand::write_report(const ConversionReport& report, DType low) const {
  size_t converted = 0;
  for (const auto& [name, type] : report.parameters) converted += type == low ? 1 : 0;
  if (json.leaves_text()) {
    print_to(stdout, "{}: {}; {} of {} parameters are {}\n", report.file, report.inserted, converted,
             report.parameters.size(), mxnet::type_name(low));
  }
  nlohmann::json types = nlohmann::json::object();
  for (const auto& [name, type] : report.parameters) types[name] = mxnet::type_name(type);
  json.write({{"file", report.file},
              {"params", report.params},
              {"casts", report.casts},
              {"multicasts", report.multicasts},
              {"parameters", types}});
}

/// A number of decibels as JSON has it, which knows no infinity.
nlohmann::json finite(double value) { return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr); }

nlohmann::json json_of(const QuantisedModel& quantised, std::string_view method) {
  nlohmann::json layers = nlohmann::json::array();
  for (const QuantisedLayer& layer : quantised.layers) {
    layers.push_back({{"node", layer.node},
                      {"operator", layer.op},
                      {"precision", layer.quantised ? "int8" : "fp32"},
                      {"noise_db", layer.quantised ? finite(layer.noise_db) : nullptr},
                      {"reason", layer.reason}});
  }
  return {{"method", method},
          {"batches", quantised.batches},
          {"error", finite(quantised.error)},
          {"noise_db", finite(quantised.noise_db)},
          {"layers", layers}};
}

/// The bound, as a number. Throws UsageError.
std::optional<double> bound_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  size_t used = 0;
  double bound = 0;
  try {
    bound = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used != text.size() || !std::isfinite(bound) || bound <= 0) {
    throw UsageError("--max-error is a share of an output's range, above 0: 0.02");
  }
  return bound;
}

void ConvertCommand::check_words() const {
  const bool quantises = precision == "int8";
  if (!quantises && (!calibrate.empty() || !method.empty() || !max_error.empty())) {
    throw UsageError("--calibrate, --method and --max-error are for --precision int8");
  }
  if (!quantises) return;
  if (!lists.empty() || cast_parameters_later) {
    throw UsageError("--lists and --cast-parameters-later are for --precision fp16 and bf16");
  }
  if (calibrate.empty()) {
    throw UsageError("--precision int8 needs samples of the inputs: --calibrate FOLDER with .npy files (numpy.save), "
                     "or .npz files with the names of the inputs");
  }
}

int ConvertCommand::quantise() const {
  OnnxOutput::check(out, {model, calibrate});
  json.check({model, calibrate});
  json.check_apart("--output", out);
  const QuantiseOptions choices{.method = quantize::parse_method(method.empty() ? "mse" : method).value(),
                                .max_error = bound_of(max_error)};
  CompileOptions options;
  options.params = params, options.outputs = outputs;
  options.progress = show_progress, options.cancelled = interrupted;
  const Graph graph = import_model({.path = model}, options);
  check_output_unread("--output", out);
  const QuantisedModel quantised = quantise_model(graph, open_calibration(calibrate, graph), choices, options);
  clear_progress();
  export_onnx(quantised.graph, out, onnx.weights());
  if (json.leaves_text()) {
    const std::string text = print(quantised);
    for (const std::string_view line : split(text, '\n')) print_to(stdout, "{}\n", line);
    print_to(stdout, "{}\n", out);
  }
  json.write({{"file", out},
              {"params", ""},
              {"casts", 0},
              {"multicasts", 0},
              {"parameters", nlohmann::json::object()},
              {"quantization", json_of(quantised, quantize::name_of(choices.method))}});
  return 0;
}

int ConvertCommand::run() const {
  refuse_plan(model);
  check_words();
  if (precision == "int8") return quantise();
  const bool symbol = model.ends_with(".json"), graph = model.ends_with(".pb");
  if (!symbol && !params.empty()) throw UsageError("--params is for symbols of MXNet; other models hold their weights");
  if (!graph && !outputs.empty()) throw UsageError("--outputs is for graphs of TensorFlow; other models name theirs");
  if (symbol && out.ends_with(".json") && !out.ends_with("-symbol.json")) {
    throw UsageError("--output is a prefix, or ends with -symbol.json");
  }
  const ConversionFiles files{model, params, out, outputs, onnx.weights(),
                              [this] { check_output_unread("--output", out); }};
  for (const std::string& path : converted_files(files)) check_output("--output", path, {model, params, lists});
  if (!symbol && !graph && !pt2::is_model(model)) OnnxOutput::check(out, {model, lists});
  json.check({model, params, lists});
  json.check_apart("--output", converted_files(files).front());
  const amp::Request asked = request();
  write_report(convert_model(files, asked), asked.low);
  return 0;
}

}  // namespace

void add_convert(Command app, Action& action) {
  Command sub = app.add_command("convert", "make a model one of mixed precision, for the framework it came from");
  const auto command = std::make_shared<ConvertCommand>();
  sub.add_option("MODEL", command->model,
                  "an ONNX file, a frozen graph of TensorFlow (.pb), a program of torch.export (.pt2), or a\n"
                  "symbol of MXNet: NET-symbol.json")
      .required().type_name("FILE");
  sub.add_option("--params", command->params,
                  "a symbol's parameters: NET-0000.params; without them only the symbol is converted")
      .type_name("FILE");
  sub.add_option("--precision", command->precision, "the type beside f32: fp16, bf16 or int8")
      .required().one_of({"fp16", "bf16", "int8"}).type_name("TYPE");
  sub.add_option("--calibrate", command->calibrate,
                  "for int8: samples of the inputs, as an .npy file, an .npz file (entries named like the inputs),\n"
                  "or a folder of such files; each tensor is a sample or a batch")
      .type_name("FILE|FOLDER");
  sub.add_option("--method", command->method,
                  "for int8: how ranges are chosen: mse (default), entropy, percentile or minmax")
      .one_of({"mse", "entropy", "percentile", "minmax"}).type_name("METHOD");
  sub.add_option("--max-error", command->max_error,
                  "for int8: the largest difference from f32 that is allowed, as a share of an output's range: 0.02;\n"
                  "layers that break it stay f32")
      .type_name("SHARE");
  sub.add_option("--lists", command->lists,
                  "which operators are of which type, as JSON: the keyword arguments of graft.amp.convert_model")
      .type_name("FILE");
  sub.add_option("--outputs", command->outputs,
                  "results of a graph of TensorFlow that keep their types: conv,split:1; those that no node takes")
      .delimiter(',').type_name("NAME,...");
  sub.add_flag("--cast-parameters-later", command->cast_parameters_later,
                "parameters stay f32 and are cast at every run (cast_optional_params=False)");
  sub.add_option("-o,--output", command->out,
                  "the file to write, or a prefix for PREFIX-symbol.json and PREFIX-0000.params")
      .required().type_name("FILE|PREFIX");
  command->onnx.add_weights_option(sub);
  command->json.add_to(sub);
  sub.footer(R"(
Inputs and outputs keep their types. docs/AMP.md says which operators become what. int8 is written as ONNX with
QuantizeLinear and DequantizeLinear, whatever the model came in; docs/PRECISION.md says how.
Examples:
  graft convert model.onnx --precision fp16 -o mixed.onnx
  graft convert model.onnx --precision int8 --calibrate samples/ -o quantized.onnx
  graft convert frozen.pb --precision bf16 -o mixed.pb
  graft convert program.pt2 --precision bf16 -o mixed.pt2
  graft convert net-symbol.json --params net-0000.params --precision fp16 -o mixed
  graft convert net-symbol.json --params net-0000.params --precision bf16 --lists lists.json -o mixed)");
  sub.on_chosen([command, &action] { action = [command] { return command->run(); }; });
}

}  // namespace graft
