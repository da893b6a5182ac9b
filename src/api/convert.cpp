// SPDX-License-Identifier: Apache-2.0
// The C interface of the conversion to mixed precision.
#include <cstddef>
#include <map>

#include <fmt/format.h>

#include "api/given_tensor.h"
#include "api/handles.h"
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

}  // namespace
}  // namespace graft::api_detail

using graft::api_detail::guarded;

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
