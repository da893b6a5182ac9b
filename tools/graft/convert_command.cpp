// SPDX-License-Identifier: Apache-2.0
// graft convert: a model as a model of mixed precision, in the format that it came in, or of 8 bits, as ONNX.

#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "amp/request.h"
#include "base/error.h"
#include "base/file.h"
#include "calibration_options.h"
#include "commands.h"
#include "console.h"
#include "driver/compile.h"
#include "driver/convert_model.h"
#include "export/onnx/export.h"
#include "import/mxnet/params_file.h"
#include "import/pt2/import.h"
#include "json_output.h"
#include "model_options.h"
#include "onnx_output.h"
#include "output.h"
#include "quantize/format.h"

namespace graft {
namespace {

struct ConvertCommand {
  std::string model, params, precision, lists, out;
  std::vector<std::string> outputs;
  bool cast_parameters_later = false;
  CalibrationOptions calibration;
  ModelOptions limits;
  OnnxOutput onnx;
  JsonOutput json;

  int run() const;
  bool quantises() const { return quantize::parse_codes(precision).has_value(); }
  int quantise() const;
  void convert(ConversionFiles files, const CompileOptions& limit) const;
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

void ConvertCommand::check_words() const {
  calibration.check(quantises() ? precision : "");
  if (quantises() && (!lists.empty() || cast_parameters_later)) {
    throw UsageError("--lists and --cast-parameters-later are for --precision fp16 and bf16");
  }
}

int ConvertCommand::quantise() const {
  std::vector<std::string> inputs = calibration.paths();
  inputs.push_back(model);
  calibration.check_apart(out, json);
  OnnxOutput::check(out, inputs);
  json.check(inputs);
  calibration.check_page(inputs);
  QuantisedModel quantised;
  run_by_deadline(limits.time_limit(), [&](CompileOptions options) {
    options.params = params, options.outputs = outputs;
    const Graph graph = import_model({.path = model}, options);
    check_output_unread("--output", out);
    quantised = calibration.quantise(graph, precision, options);
  });
  clear_progress();
  export_onnx(quantised.graph, out, onnx.weights());
  calibration.write_page(model, quantised);
  write_calibration(quantised);
  if (json.leaves_text()) {
    CalibrationOptions::print_report(stdout, quantised);
    print_to(stdout, "{}\n", out);
  }
  json.write({{"file", out},
              {"params", ""},
              {"casts", 0},
              {"multicasts", 0},
              {"parameters", nlohmann::json::object()},
              {"quantization", CalibrationOptions::json_of(quantised)}});
  return 0;
}

/// Reads, converts and writes. Nothing is left of the result when the time is up before it is written.
void ConvertCommand::convert(ConversionFiles files, const CompileOptions& limit) const {
  const amp::Request asked = request();
  report(limit, name_of(Stage::kImport), model);
  files.cancelled = limit.cancelled;
  files.when_read = [&] {
    check_output_unread("--output", out);
    report(limit, "convert", model);
  };
  const ConversionReport made = convert_model(files, asked);
  clear_progress();
  write_report(made, asked.low);
}

int ConvertCommand::run() const {
  refuse_plan(model);
  check_words();
  if (quantises()) return quantise();
  const bool symbol = model.ends_with(".json"), graph = model.ends_with(".pb");
  if (!symbol && !params.empty()) throw UsageError("--params is for symbols of MXNet; other models hold their weights");
  if (!graph && !outputs.empty()) throw UsageError("--outputs is for graphs of TensorFlow; other models name theirs");
  if (symbol && out.ends_with(".json") && !out.ends_with("-symbol.json")) {
    throw UsageError("--output is a prefix, or ends with -symbol.json");
  }
  const ConversionFiles files{.model = model, .params = params, .output = out, .outputs = outputs,
                              .weights = onnx.weights()};
  for (const std::string& path : converted_files(files)) check_output("--output", path, {model, params, lists});
  if (!symbol && !graph && !pt2::is_model(model)) OnnxOutput::check(out, {model, lists});
  json.check({model, params, lists});
  json.check_apart("--output", converted_files(files).front());
  run_by_deadline(limits.time_limit(), [&](const CompileOptions& limit) { convert(files, limit); });
  return 0;
}

}  // namespace

void add_convert(Command app, Action& action) {
  Command sub = app.add_command("convert", "convert a model to mixed precision, int8, fp8 or int4 weights");
  const auto command = std::make_shared<ConvertCommand>();
  sub.add_option("MODEL", command->model,
                  "an ONNX file, a frozen graph of TensorFlow (.pb), a program of torch.export (.pt2), or a\n"
                  "symbol of MXNet: NET-symbol.json")
      .required().type_name("FILE");
  sub.add_option("--params", command->params,
                  "a symbol's parameters: NET-0000.params; without them only the symbol is converted")
      .type_name("FILE");
  sub.add_option("--precision", command->precision,
                 "the lower precision: fp16, bf16, int8, fp8, or int4 (weights alone)")
      .required().one_of({"fp16", "bf16", "int8", "fp8", "int4"}).type_name("TYPE");
  command->calibration.add_to(sub);
  sub.add_option("--lists", command->lists,
                  "lists of operators by type, as JSON: the keyword arguments of graft.amp.convert_model")
      .type_name("FILE");
  sub.add_option("--outputs", command->outputs,
                  "outputs of a graph of TensorFlow, which keep their types: conv,split:1 (those that no node reads)")
      .delimiter(',').type_name("NAME,...");
  sub.add_flag("--cast-parameters-later", command->cast_parameters_later,
                "keep parameters in f32 and cast them in every run (cast_optional_params=False)");
  sub.add_option("-o,--output", command->out,
                  "the file to write, or a prefix for PREFIX-symbol.json and PREFIX-0000.params")
      .required().type_name("FILE|PREFIX");
  command->onnx.add_weights_option(sub);
  command->limits.add_deadline(sub);
  command->json.add_to(sub);
  sub.footer(R"(
Inputs and outputs keep their types. docs/AMP.md has the rule of each operator. int8, fp8 and int4 are written
as ONNX, from any format; see docs/PRECISION.md.
Examples:
  graft convert model.onnx --precision fp16 -o mixed.onnx
  graft convert model.onnx --precision int8 --calibrate samples/ -o quantized.onnx
  graft convert model.onnx --precision int8 --activations dynamic -o quantized.onnx
  graft convert model.onnx --precision int4 --block 32 -o quantized.onnx
  graft convert frozen.pb --precision bf16 -o mixed.pb
  graft convert program.pt2 --precision bf16 -o mixed.pt2
  graft convert net-symbol.json --params net-0000.params --precision fp16 -o mixed
  graft convert net-symbol.json --params net-0000.params --precision bf16 --lists lists.json -o mixed)");
  sub.on_chosen([command, &action] { action = [command] { return command->run(); }; });
}

}  // namespace graft
