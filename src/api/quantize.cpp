// SPDX-License-Identifier: Apache-2.0
// The C interface of quantising.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/given_tensor.h"
#include "api/handles.h"
#include "driver/quantize_model.h"
#include "export/onnx/export.h"

struct graft_quantized {
  graft::QuantisedModel model;
  std::vector<std::pair<std::string, std::string>> options;  ///< of compiling
  std::string report, text;
};

namespace graft::api_detail {
namespace {

/// The choices of quantising, and those of compiling, which stay in `others`.
QuantiseOptions quantise_options(const graft_option* options, size_t count, std::vector<graft_option>& others) {
  GRAFT_USER_CHECK(options || count == 0, kInvalidArgument, "NULL with a count that is not 0", "options");
  QuantiseOptions chosen;
  for (size_t i = 0; i < count; ++i) {
    const std::string_view key = options[i].key && options[i].value ? options[i].key : "";
    if (key.empty() || !set_choice(chosen, {key, options[i].value})) others.push_back(options[i]);
  }
  return chosen;
}

/// What a caller's function says when it failed.
[[noreturn]] void throw_told(const graft_error& told, const char* function) {
  const bool known = told.status > GRAFT_OK && told.status <= GRAFT_INTERNAL;
  const auto kind = known ? static_cast<ErrorKind>(told.status - 1) : ErrorKind::kInvalidArgument;
  throw Error(kind, told.message[0] != '\0' ? told.message : "the caller's function failed", function);
}

/// A tensor of a batch; one of no elements needs no data.
TensorData sample_of(const graft_tensor& given, const std::string& name) {
  TensorData tensor = parameter_of(given, name);
  if (given.data) return tensor;
  const std::vector<int64_t> shape(given.shape, given.shape + given.rank);
  GRAFT_USER_CHECK(std::find(shape.begin(), shape.end(), 0) != shape.end(), kInvalidArgument, "it has no data", name);
  return TensorData::zeros(tensor.type(), shape);
}

/// The samples of a C caller.
CalibrationData data_of(const graft_calibration& calibration, const Graph& graph) {
  std::vector<std::string> names;
  for (const ValueId input : graph.inputs) names.push_back(graph.value(input).name);
  const auto batch = [&calibration, names](size_t index) -> std::optional<std::vector<TensorData>> {
    std::vector<graft_tensor> given(names.size());
    for (size_t n = 0; n < names.size(); ++n) {
      given[n].struct_size = sizeof(graft_tensor), given[n].name = names[n].c_str();
    }
    graft_error told{.status = GRAFT_OK, .message = {}};
    const int32_t answer = calibration.batch(calibration.context, index, given.data(), given.size(), &told);
    if (answer < 0) throw_told(told, "batch");
    if (answer == 0) return std::nullopt;
    std::vector<TensorData> tensors;
    for (size_t n = 0; n < names.size(); ++n) tensors.push_back(sample_of(given[n], names[n]));
    return tensors;
  };
  return {batch, calibration.count, "the samples"};
}

/// The metric of a C caller.
double metric_of(const graft_calibration& calibration, const MeasuredNetwork& network) {
  auto* handle = new graft_engine(network.plan(), network.loaded());
  const std::unique_ptr<graft_engine, void (*)(graft_engine*)> owner(handle, graft_engine_release);
  graft_error told{.status = GRAFT_OK, .message = {}};
  double score = std::nan("");
  if (calibration.metric(calibration.context, handle, &score, &told) != 0) throw_told(told, "metric");
  return score;
}

std::unique_ptr<graft_quantized> quantise(const ModelSource& source, const graft_option* options, size_t count,
                                          const graft_calibration* calibration, graft_progress_function progress,
                                          void* context) {
  GRAFT_USER_CHECK(!calibration || calibration->struct_size >= sizeof(graft_calibration), kInvalidArgument,
                   "the samples have no struct_size", "graft_quantize");
  auto made = std::make_unique<graft_quantized>();
  std::vector<graft_option> others;
  QuantiseOptions choices = quantise_options(options, count, others);
  for (const graft_option& option : others) {
    if (option.key && option.value) made->options.emplace_back(option.key, option.value);
  }
  if (calibration && calibration->metric) {
    choices.metric = [calibration](const MeasuredNetwork& network) { return metric_of(*calibration, network); };
  }
  std::atomic<bool> stopped = false;
  const CompileOptions compiling = make_options(others.data(), others.size(), progress, context, stopped);
  run_by_deadline(compiling, [&](const CompileOptions& limited) {
    const Graph graph = import_model(source, limited);
    const bool has_data = calibration && calibration->batch;
    const CalibrationData data = has_data ? data_of(*calibration, graph) : CalibrationData();
    choices.low_floats = fast_floats(limited);
    made->model = quantise_model(graph, data, choices, limited);
  });
  made->report = quantize::json_of(made->model.report);
  made->text = print(made->model.report);
  write_calibration(made->model);
  return made;
}

}  // namespace
}  // namespace graft::api_detail

using graft::api_detail::guarded;

graft_status graft_quantize(const char* path, const void* bytes, size_t byte_count, const graft_option* options,
                            size_t option_count, const graft_calibration* calibration,
                            graft_progress_function progress, void* context, graft_quantized** quantized,
                            graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK((path || bytes) && quantized, kInvalidArgument, "the model or the place for the result is NULL",
                     "graft_quantize");
    graft::ModelSource source{.path = path ? path : ""};
    if (bytes) source.bytes = std::span(static_cast<const std::byte*>(bytes), byte_count);
    *quantized =
        graft::api_detail::quantise(source, options, option_count, calibration, progress, context).release();
  });
}

void graft_quantized_destroy(graft_quantized* quantized) { delete quantized; }

const char* graft_quantized_report(const graft_quantized* quantized) {
  return quantized ? quantized->report.c_str() : "null";
}

const char* graft_quantized_text(const graft_quantized* quantized) { return quantized ? quantized->text.c_str() : ""; }

graft_status graft_quantized_save(const graft_quantized* quantized, const char* path, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(quantized && path, kInvalidArgument, "the model or the path is NULL", "graft_quantized_save");
    graft::export_onnx(quantized->model.graph, path);
  });
}

graft_status graft_quantized_save_bytes(const graft_quantized* quantized,
                                        void* (*allocate)(void* context, size_t bytes), void* context,
                                        graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(quantized && allocate, kInvalidArgument, "the model or allocate is NULL",
                     "graft_quantized_save_bytes");
    const std::string file = graft::export_onnx_bytes(quantized->model.graph);
    void* target = allocate(context, file.size());
    GRAFT_USER_CHECK(target, kOutOfMemory, fmt::format("the caller has no memory for {} bytes", file.size()),
                     "graft_quantized_save_bytes");
    std::memcpy(target, file.data(), file.size());
  });
}

graft_status graft_quantized_compile(const graft_quantized* quantized, graft_progress_function progress, void* context,
                                     graft_engine** engine, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(quantized && engine, kInvalidArgument, "the model or the place for the engine is NULL",
                     "graft_quantized_compile");
    std::vector<graft_option> options;
    for (const auto& [key, value] : quantized->options) options.push_back({key.c_str(), value.c_str()});
    std::atomic<bool> stopped = false;
    graft::CompileOptions made =
        graft::api_detail::make_options(options.data(), options.size(), progress, context, stopped);
    made.precision = quantized->model.floats;
    graft::Compiled compiled = graft::compile_from(quantized->model.graph, graft::Stage::kImport, made);
    *engine = graft::api_detail::engine_of(std::move(compiled), made).release();
  });
}
