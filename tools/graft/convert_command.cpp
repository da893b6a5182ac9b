// SPDX-License-Identifier: Apache-2.0
// graft convert: a model as a model of mixed precision, in the format that it came in.
#include <CLI/CLI.hpp>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "amp/request.h"
#include "base/error.h"
#include "base/file.h"
#include "commands.h"
#include "console.h"
#include "driver/precision_lists.h"
#include "export/mxnet/mixed_precision.h"
#include "export/onnx/model_file.h"
#include "export/pt2/mixed_precision.h"
#include "export/pt2/write_archive.h"
#include "export/tensorflow/mixed_precision.h"
#include "import/pt2/import.h"
#include "json_output.h"
#include "model_options.h"
#include "onnx_output.h"
#include "output.h"

namespace graft {
namespace {

constexpr std::string_view kSymbolEnding = "-symbol.json";
constexpr std::string_view kParamsEnding = "-0000.params";

struct ConvertCommand {
  std::string model, params, precision, lists, out;
  std::vector<std::string> outputs;
  bool cast_parameters_later = false;
  OnnxOutput onnx;
  JsonOutput json;

  int run() const;
  int convert_graph() const;
  int convert_onnx() const;
  int convert_program() const;
  int convert_symbol() const;
  amp::Request request() const;
  std::string other_remedy() const;
  std::string prefix() const;
  void write_report(const std::string& file, const std::string& params_path, const std::string& inserted, int casts,
                    int multicasts, const std::map<std::string, DType>& parameters) const;
};

amp::Request ConvertCommand::request() const {
  amp::Request request;
  if (!lists.empty()) request = amp::parse_request(read_text_file(lists), lists);
  request.low = amp::low_type_of(precision, "--precision");
  if (cast_parameters_later) request.convert_parameters = false;
  return request;
}

/// What the names of both files begin with.
std::string ConvertCommand::prefix() const {
  if (out.ends_with(kSymbolEnding)) return out.substr(0, out.size() - kSymbolEnding.size());
  if (out.ends_with(".json")) throw UsageError("--output is a prefix, or ends with -symbol.json");
  return out;
}

void ConvertCommand::write_report(const std::string& file, const std::string& params_path, const std::string& inserted,
                                  int casts, int multicasts, const std::map<std::string, DType>& parameters) const {
  const DType low = amp::low_type_of(precision, "--precision");
  size_t converted = 0;
  for (const auto& [name, type] : parameters) converted += type == low ? 1 : 0;
  if (json.leaves_text()) {
    print_to(stdout, "{}: {}; {} of {} parameters are {}\n", file, inserted, converted, parameters.size(),
             mxnet::type_name(low));
  }
  nlohmann::json types = nlohmann::json::object();
  for (const auto& [name, type] : parameters) types[name] = mxnet::type_name(type);
  json.write({{"file", file},
              {"params", params_path},
              {"casts", casts},
              {"multicasts", multicasts},
              {"parameters", types}});
}

int ConvertCommand::convert_onnx() const {
  OnnxOutput::check(out, {model, lists});
  check_output("--json", json.path(), {model, lists});
  json.check_apart("--output", out);
  const amp::Request asked = request();
  const ModelFile whole = ModelFile::open(model);
  check_output_unread("--output", out);
  MixedReport report;
  whole.mixed(asked, default_lists("onnx", asked.low), report).save(out, onnx.weights());
  write_report(out, "", fmt::format("{} Cast", report.casts), report.casts, 0, report.parameters);
  return 0;
}

int ConvertCommand::convert_graph() const {
  check_output("--output", out, {model, lists});
  check_output("--json", json.path(), {model, lists});
  json.check_apart("--output", out);
  const amp::Request asked = request();
  const auto bytes = MappedFile::open(model);
  const tensorflow::GraphFile file(bytes->bytes(), bytes);
  const tensorflow::MixedGraph mixed =
      tensorflow::convert_graph(file, outputs, asked, default_lists("tensorflow", asked.low));
  write_file(out, mixed.bytes);
  write_report(out, "", fmt::format("{} Cast", mixed.casts), mixed.casts, 0, mixed.constants);
  return 0;
}

int ConvertCommand::run() const {
  const bool symbol = model.ends_with(".json"), graph = model.ends_with(".pb");
  if (!symbol && !params.empty()) throw UsageError("--params is for symbols of MXNet; other models hold their weights");
  if (!graph && !outputs.empty()) throw UsageError("--outputs is for graphs of TensorFlow; other models name theirs");
  if (const std::string remedy = other_remedy(); !remedy.empty()) {
    throw Error(ErrorKind::kUnsupported, remedy, model);
  }
  if (graph) return convert_graph();
  if (pt2::is_model(model)) return convert_program();
  return symbol ? convert_symbol() : convert_onnx();
}

int ConvertCommand::convert_program() const {
  check_output("--output", out, {model, lists});
  check_output("--json", json.path(), {model, lists});
  json.check_apart("--output", out);
  const amp::Request asked = request();
  const auto bytes = MappedFile::open(model);
  const pt2::Archive archive(bytes->bytes(), bytes, model);
  const pt2::MixedProgram mixed = pt2::convert_program(archive, asked, default_lists("aten", asked.low));
  pt2::write_archive(out, archive, mixed.entries);
  write_report(out, "", fmt::format("{} aten::to", mixed.casts), mixed.casts, 0, mixed.parameters);
  return 0;
}

/// What makes a model of mixed precision of one that no file is made of here.
std::string ConvertCommand::other_remedy() const {
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

int ConvertCommand::convert_symbol() const {
  const std::string symbol_path = prefix() + std::string(kSymbolEnding);
  const std::string params_path = params.empty() ? "" : prefix() + std::string(kParamsEnding);
  for (const std::string& path : {symbol_path, params_path}) check_output("--output", path, {model, params, lists});
  check_output("--json", json.path(), {model, params, lists});
  json.check_apart("--output", symbol_path);
  const amp::Request asked = request();
  const mxnet::Symbol symbol = mxnet::read_symbol(model);
  std::optional<mxnet::ParamsFile> file;
  std::optional<mxnet::Parameters> parameters;
  if (!params.empty()) {
    file = mxnet::read_params(params);
    parameters = mxnet::parameters_of(*file);
  }
  const mxnet::MixedSymbol mixed = mxnet::convert_symbol(symbol, asked, parameters ? &*parameters : nullptr);
  if (file) {
    mxnet::convert_parameters(*file, mixed.parameter_types);
    mxnet::write_params(*file, params_path);
  }
  write_file(symbol_path, mxnet::symbol_text(mixed.symbol));
  const std::string inserted = fmt::format("{} amp_cast, {} amp_multicast", mixed.casts, mixed.multicasts);
  write_report(symbol_path, params_path, inserted, mixed.casts, mixed.multicasts, mixed.parameter_types);
  return 0;
}

}  // namespace

void add_convert(CLI::App& app, Action& action) {
  CLI::App* sub = app.add_subcommand("convert", "make a model one of mixed precision, for the framework it came from");
  const auto command = std::make_shared<ConvertCommand>();
  sub->add_option("MODEL", command->model,
                  "an ONNX file, a frozen graph of TensorFlow (.pb), a program of torch.export (.pt2), or a\n"
                  "symbol of MXNet: NET-symbol.json")
      ->required()->type_name("FILE");
  sub->add_option("--params", command->params,
                  "a symbol's parameters: NET-0000.params; without them only the symbol is converted")
      ->type_name("FILE");
  sub->add_option("--precision", command->precision, "the type beside f32: fp16 or bf16")
      ->required()->check(CLI::IsMember({"fp16", "bf16"}))->type_name("TYPE");
  sub->add_option("--lists", command->lists,
                  "which operators are of which type, as JSON: the keyword arguments of graft.amp.convert_model")
      ->type_name("FILE");
  sub->add_option("--outputs", command->outputs,
                  "results of a graph of TensorFlow that keep their types: conv,split:1; those that no node takes")
      ->delimiter(',')->type_name("NAME,...");
  sub->add_flag("--cast-parameters-later", command->cast_parameters_later,
                "parameters stay f32 and are cast at every run (cast_optional_params=False)");
  sub->add_option("-o,--output", command->out,
                  "the file to write, or a prefix for PREFIX-symbol.json and PREFIX-0000.params")
      ->required()->type_name("FILE|PREFIX");
  command->onnx.add_weights_option(*sub);
  command->json.add_to(*sub);
  sub->footer(R"(
Inputs and outputs keep their types. docs/AMP.md says which operators become what.
Examples:
  graft convert model.onnx --precision fp16 -o mixed.onnx
  graft convert frozen.pb --precision bf16 -o mixed.pb
  graft convert program.pt2 --precision bf16 -o mixed.pt2
  graft convert net-symbol.json --params net-0000.params --precision fp16 -o mixed
  graft convert net-symbol.json --params net-0000.params --precision bf16 --lists lists.json -o mixed)");
  sub->callback([command, &action] { action = [command] { return command->run(); }; });
}

}  // namespace graft
