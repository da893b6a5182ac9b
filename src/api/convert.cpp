// SPDX-License-Identifier: Apache-2.0
// The C interface of the conversion to mixed precision.
#include <cstddef>
#include <map>

#include <fmt/format.h>

#include "api/handles.h"
#include "export/mxnet/mixed_precision.h"

namespace graft::api_detail {
namespace {

/// Whether the strides are those of a row-major tensor.
bool is_row_major(const graft_tensor& tensor) {
  int64_t stride = 1;
  for (int32_t axis = tensor.rank; tensor.strides && axis-- > 0;) {
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != stride) return false;
    stride *= tensor.shape[axis];
  }
  return true;
}

TensorData parameter_of(const graft_tensor& given, const std::string& name) {
  const auto type = dtype_from_onnx(given.dtype);
  GRAFT_USER_CHECK(type, kInvalidArgument, fmt::format("there is no element type {}", given.dtype), name);
  GRAFT_USER_CHECK(given.device == GRAFT_HOST || given.device == GRAFT_CPU, kInvalidArgument,
                   "the parameter does not lie in host memory", name);
  GRAFT_USER_CHECK(is_row_major(given), kInvalidArgument, "the parameter is not row-major", name);
  GRAFT_USER_CHECK(given.rank >= 0 && (given.rank == 0 || given.shape), kInvalidArgument, "it has no shape", name);
  std::vector<int64_t> shape(given.shape, given.shape + given.rank);
  const int64_t bytes = packed_bytes(*type, checked_element_count(*type, shape, name));
  GRAFT_USER_CHECK(given.bytes == 0 || given.bytes >= static_cast<uint64_t>(bytes), kInvalidArgument,
                   fmt::format("it has {} bytes, and its shape {}", given.bytes, bytes), name);
  if (!given.data) return TensorData::zeros(*type, {0});
  const auto* data = static_cast<const std::byte*>(given.data);
  return TensorData::borrow(*type, std::move(shape), {data, static_cast<size_t>(bytes)}, nullptr);
}

mxnet::Parameters parameters_of(const graft_tensor* given, size_t count) {
  mxnet::Parameters parameters;
  for (size_t i = 0; i < count; ++i) {
    // Members that a later version adds follow the first: the caller's struct_size is the distance.
    const auto* bytes = reinterpret_cast<const std::byte*>(given) + i * given->struct_size;
    const auto& tensor = *reinterpret_cast<const graft_tensor*>(bytes);
    GRAFT_USER_CHECK(tensor.struct_size >= sizeof(graft_tensor) && tensor.name, kInvalidArgument,
                     fmt::format("parameter {} has no struct_size or no name", i), "graft_convert_symbol");
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
