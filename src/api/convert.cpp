// SPDX-License-Identifier: Apache-2.0
// The C interface of the conversion to mixed precision.
#include <cstddef>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "api/given_tensor.h"
#include "api/handles.h"
#include "base/spelling.h"
#include "base/words.h"
#include "driver/convert_model.h"
#include "export/mxnet/mixed_precision.h"

namespace graft::api_detail {
namespace {

mxnet::Parameters parameters_of(const graft_tensor* given, size_t count) {
  mxnet::Parameters parameters;
  for (size_t i = 0; i < count; ++i) {
    const graft_tensor& tensor = tensor_at(given, i, "graft_convert_symbol");
    GRAFT_USER_CHECK(tensor.name, kInvalidArgument, fmt::format("parameter {} has no name", i),
                     "graft_convert_symbol");
    parameters.insert_or_assign(tensor.name, parameter_of(tensor, tensor.name));
  }
  return parameters;
}

/// As JSON: texts are MXNet's names, in which quotes and controls are escaped.
std::string report_of(const mxnet::MixedSymbol& mixed) {
  std::string types;
  for (const auto& [name, type] : mixed.parameter_types) {
    types += fmt::format("{}{}: \"{}\"", types.empty() ? "" : ", ", mxnet::json_text(name), mxnet::type_name(type));
  }
  return fmt::format("{{\"amp_cast\": {}, \"amp_multicast\": {}, \"parameters\": {{{}}}}}", mixed.casts,
                     mixed.multicasts, types);
}

/// Sets what an option says.
void set_option(ConversionFiles& files, amp::Request& request, const graft_option& option, size_t number) {
  GRAFT_USER_CHECK(option.key && option.value, kInvalidArgument, fmt::format("number {} has a NULL", number),
                   "options");
  const std::string key = option.key;
  if (key == "precision") {
    request.low = amp::low_type_of(option.value, "precision");
  } else if (key == "params") {
    files.params = option.value;
  } else if (key == "outputs") {
    files.outputs = words_of(option.value);
  } else if (key == "request") {
    request = amp::parse_request(option.value, "request", std::move(request));
  } else {
    const std::vector<std::string> known = {"precision", "params", "outputs", "request"};
    throw Error(ErrorKind::kInvalidArgument, fmt::format("there is no such option{}", did_you_mean(key, known)), key);
  }
}

std::string report_of(const ConversionReport& report) {
  std::string types;
  for (const auto& [name, type] : report.parameters) {
    types += fmt::format("{}{}: \"{}\"", types.empty() ? "" : ", ", mxnet::json_text(name), mxnet::type_name(type));
  }
  return fmt::format(R"({{"file": {}, "params": {}, "casts": {}, "multicasts": {}, "parameters": {{{}}}}})",
                     mxnet::json_text(report.file), mxnet::json_text(report.params), report.casts, report.multicasts,
                     types);
}

}  // namespace
}  // namespace graft::api_detail

using graft::api_detail::guarded;

graft_status graft_convert(const char* model, const char* output, const graft_option* options, size_t option_count,
                           void* context, void (*take)(void* context, const char* report), graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(model && output && (options || option_count == 0), kInvalidArgument,
                     "the model, the output or the options are NULL", "graft_convert");
    graft::ConversionFiles files{.model = model, .params = {}, .output = output, .outputs = {}, .weights = {}};
    graft::amp::Request request;
    for (size_t i = 0; i < option_count; ++i) graft::api_detail::set_option(files, request, options[i], i);
    const graft::ConversionReport report = graft::convert_model(files, request);
    if (take) take(context, graft::api_detail::report_of(report).c_str());
  });
}

graft_status graft_convert_symbol(const char* symbol, const char* request, const graft_tensor* parameters,
                                  size_t parameter_count, void* context,
                                  void (*take)(void* context, const char* symbol, const char* report),
                                  graft_error* error) {
  return guarded(error, [&] {
    const std::string where = "graft_convert_symbol";
    GRAFT_USER_CHECK(symbol && take && (parameters || parameter_count == 0), kInvalidArgument,
                     "the symbol, the parameters or the function that takes the result is NULL", where);
    const graft::amp::Request asked = request ? graft::amp::parse_request(request, "request") : graft::amp::Request();
    graft::mxnet::Parameters known;
    if (parameters) known = graft::api_detail::parameters_of(parameters, parameter_count);
    const graft::mxnet::MixedSymbol mixed = graft::mxnet::convert_symbol(
        graft::mxnet::parse_symbol(symbol, "symbol"), asked, parameters ? &known : nullptr);
    take(context, graft::mxnet::symbol_text(mixed.symbol).c_str(), graft::api_detail::report_of(mixed).c_str());
  });
}
