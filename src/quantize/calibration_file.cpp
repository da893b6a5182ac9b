// SPDX-License-Identifier: Apache-2.0
#include "quantize/calibration_file.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/parse_json.h"

namespace graft::quantize {
namespace {

constexpr std::string_view kFormat = "graft calibration 1";
constexpr std::string_view kTensorRt = "TRT-";
constexpr std::string_view kRemedy = "; delete the file to calibrate anew";

[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw Error(ErrorKind::kInvalidArgument, why + std::string(kRemedy), where);
}

const nlohmann::json& member(const nlohmann::json& object, const char* name, nlohmann::json::value_t type,
                             const std::string& where) {
  const auto found = object.find(name);
  if (found == object.end() || (found->type() != type && !(type == nlohmann::json::value_t::number_float &&
                                                            found->is_number()))) {
    refuse(where, fmt::format("it has no '{}' of the right type", name));
  }
  return *found;
}

double number(const nlohmann::json& object, const char* name, const std::string& where) {
  return member(object, name, nlohmann::json::value_t::number_float, where).get<double>();
}

void check_range(const Range& range, const std::string& name, const std::string& where) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  const bool fits = range.low <= 0 && range.high >= 0 && range.low >= -kLargest && range.high <= kLargest;
  if (!fits) refuse(where, fmt::format("the range of '{}' is no finite one around 0", name));
}

CalibratedTensor parse_tensor(const nlohmann::json& object, const std::string& name, const std::string& where) {
  if (!object.is_object()) refuse(where, fmt::format("'{}' has no range", name));
  const Range range{number(object, "low", where), number(object, "high", where)};
  const CalibratedTensor tensor{range, number(object, "noise", where)};
  check_range(tensor.range, name, where);
  if (!(*tensor.noise >= 0)) refuse(where, fmt::format("the noise of '{}' is negative", name));
  return tensor;
}

/// Exponents by activation; smooth() judges whether they fit the network.
Smoothing parse_smoothing(const nlohmann::json& document, const std::string& where) {
  using Type = nlohmann::json::value_t;
  Smoothing smoothing;
  for (const auto& [name, list] : member(document, "smoothed", Type::object, where).items()) {
    std::vector<int>& exponents = smoothing[name];
    if (!list.is_array()) refuse(where, fmt::format("the scales of '{}' are no list", name));
    for (const auto& each : list) {
      const double exponent = each.is_number() ? each.get<double>() : 1e9;
      const bool is_exponent = std::fabs(exponent) <= 64 && exponent == std::trunc(exponent);
      if (!is_exponent) refuse(where, fmt::format("a scale of '{}' is no exponent", name));
      exponents.push_back(static_cast<int>(exponent));
    }
  }
  return smoothing;
}

/// What a calibration of one network found.
Calibration parse_network(const nlohmann::json& document, const std::string& where) {
  using Type = nlohmann::json::value_t;
  if (!document.is_object()) refuse(where, "one of its networks is no object");
  Calibration calibration;
  calibration.method = parse_method(member(document, "method", Type::string, where).get<std::string>());
  if (!calibration.method) refuse(where, "its method is not mse, entropy, percentile or minmax");
  const double samples = number(document, "samples", where);
  if (!(samples >= 1 && samples < 0x1p53)) refuse(where, "its number of samples is not above 0");
  calibration.samples = static_cast<int64_t>(samples);
  calibration.network = member(document, "network", Type::string, where).get<std::string>();
  calibration.data = member(document, "data", Type::string, where).get<std::string>();
  for (const auto& [name, tensor] : member(document, "tensors", Type::object, where).items()) {
    calibration.tensors.emplace(name, parse_tensor(tensor, name, where));
  }
  if (document.contains("smoothed")) calibration.smoothed = parse_smoothing(document, where);
  if (document.contains("max_error")) {
    calibration.max_error = number(document, "max_error", where);
    if (!(*calibration.max_error > 0)) refuse(where, "its bound of the error is not above 0");
  } else if (!document.contains("kept")) {
    return calibration;
  }
  for (const auto& name : member(document, "kept", Type::array, where)) {
    if (!name.is_string()) refuse(where, "a layer that is kept has no name");
    calibration.kept.push_back(name.get<std::string>());
  }
  return calibration;
}

std::vector<Calibration> parse_own(std::string_view text, const std::string& where) {
  const auto document = parse_json(text, ErrorKind::kInvalidArgument, where);
  const auto format = document.is_object() ? document.find("format") : document.end();
  if (format == document.end() || !format->is_string() || format->get_ref<const std::string&>() != kFormat) {
    refuse(where, fmt::format("it is neither a calibration file (\"format\": \"{}\") nor a calibration cache of "
                              "TensorRT", kFormat));
  }
  if (!document.contains("networks")) return {parse_network(document, where)};
  std::vector<Calibration> calibrations;
  for (const auto& each : member(document, "networks", nlohmann::json::value_t::array, where)) {
    calibrations.push_back(parse_network(each, where));
  }
  if (calibrations.empty()) refuse(where, "it has no networks");
  return calibrations;
}

/// `name: 3c010a14`; names may hold colons themselves.
void parse_line(std::string_view line, size_t number, const std::string& where, Calibration& calibration) {
  const size_t colon = line.rfind(": ");
  const std::string_view digits = colon == line.npos ? "" : line.substr(colon + 2);
  uint32_t bits = 0;
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  if (digits.empty() || digits.size() > 8 || fault != std::errc() || end != digits.data() + digits.size()) {
    refuse(where, fmt::format("line {} is not `name: 8 hexadecimal digits`", number));
  }
  const std::string name(line.substr(0, colon));
  const double limit = 127.0 * std::bit_cast<float>(bits);
  const Range range{-limit, limit};
  check_range(range, name, where);
  calibration.tensors.insert_or_assign(name, CalibratedTensor{range, std::nullopt});
}

Calibration parse_tensorrt(std::string_view text, const std::string& where) {
  Calibration calibration;
  for (size_t begin = 0, number = 1; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (number > 1 && !line.empty()) parse_line(line, number, where, calibration);
    begin = end + 1;
  }
  if (calibration.tensors.empty()) refuse(where, "the calibration cache has no tensors");
  return calibration;
}

}  // namespace

std::string hash_of(const Graph& graph) {
  Graph plain = graph;
  plain.name.clear(), plain.symbol_ranges.clear(), plain.metadata.clear();
  for (Value& value : plain.values) {
    if (!value.constant) value.shape.reset(), value.content.reset();
  }
  return hash128(print(plain)).to_string();
}

namespace {

nlohmann::ordered_json json_of(const Calibration& calibration) {
  nlohmann::json tensors = nlohmann::json::object();
  for (const auto& [name, tensor] : calibration.tensors) {
    tensors[name] = {{"low", tensor.range.low}, {"high", tensor.range.high}, {"noise", tensor.noise.value_or(0)}};
  }
  nlohmann::ordered_json document = {{"method", name_of(calibration.method.value_or(Method::kMinMax))},
                                     {"samples", calibration.samples},
                                     {"network", calibration.network},
                                     {"data", calibration.data},
                                     {"tensors", tensors}};
  if (!calibration.smoothed.empty()) document["smoothed"] = calibration.smoothed;
  if (calibration.max_error) document["max_error"] = *calibration.max_error;
  if (calibration.max_error || !calibration.kept.empty()) document["kept"] = calibration.kept;
  return document;
}

}  // namespace

std::string print(std::span<const Calibration> calibrations) {
  nlohmann::ordered_json document = {{"format", kFormat}};
  if (calibrations.size() == 1) {
    document.update(json_of(calibrations[0]));
  } else {
    nlohmann::ordered_json networks = nlohmann::ordered_json::array();
    for (const Calibration& each : calibrations) networks.push_back(json_of(each));
    document["networks"] = std::move(networks);
  }
  return document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::vector<Calibration> parse_calibrations(std::string_view text, const std::string& where) {
  if (text.starts_with(kTensorRt)) return {parse_tensorrt(text, where)};
  return parse_own(text, where);
}

}  // namespace graft::quantize
