// SPDX-License-Identifier: Apache-2.0
#include "driver/quantize_options.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "target/target.h"

namespace graft {
namespace {

double number_of(OptionText choice, std::string_view what) {
  double number = 0;
  const char* end = choice.value.data() + choice.value.size();
  const auto [stop, fault] = std::from_chars(choice.value.data(), end, number);
  GRAFT_USER_CHECK(fault == std::errc() && stop == end && std::isfinite(number), kInvalidArgument,
                   fmt::format("'{}' is not {}", choice.value, what), std::string(choice.key));
  return number;
}

constexpr int64_t kSmallestBlock = 16, kLargestBlock = 256;

int64_t block_of(OptionText choice) {
  const double number = number_of(choice, "a number");
  for (int64_t block = kSmallestBlock; block <= kLargestBlock; block *= 2) {
    if (number == static_cast<double>(block)) return block;
  }
  throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is not 16, 32, 64, 128 or 256", choice.value), "block");
}

}  // namespace

quantize::Format QuantiseOptions::format() const {
  const auto usual = codes == quantize::Codes::kInt4 ? quantize::Activations::kFloat : quantize::Activations::kStatic;
  quantize::Format format{.activations = activations.value_or(usual), .codes = codes};
  if (block) format.block = *block;
  return format;
}

bool set_choice(QuantiseOptions& choices, OptionText choice) {
  if (choice.key == "precision" && choice.value == kAutomatic) {
    choices.automatic = true;
  } else if (choice.key == "weights") {
    const std::optional<quantize::Codes> codes = quantize::parse_codes(choice.value);
    GRAFT_USER_CHECK(codes, kInvalidArgument, fmt::format("'{}' is not int8, fp8 or int4", choice.value), "weights");
    choices.codes = *codes;
  } else if (choice.key == "activations") {
    choices.activations = quantize::parse_activations(choice.value);
    GRAFT_USER_CHECK(choices.activations, kInvalidArgument,
                     fmt::format("'{}' is not static, dynamic or float", choice.value), "activations");
  } else if (choice.key == "block") {
    choices.block = block_of(choice);
  } else if (choice.key == "method") {
    choices.method = quantize::parse_method(choice.value);
    GRAFT_USER_CHECK(choices.method, kInvalidArgument,
                     fmt::format("'{}' is not mse, entropy, percentile or minmax", choice.value), "method");
  } else if (choice.key == "calibration-file") {
    choices.calibration_file = choice.value;
  } else if (choice.key == "max-error") {
    choices.max_error = number_of(choice, "a share of an output's range: 0.02");
  } else if (choice.key == "max-drop") {
    choices.max_drop = number_of(choice, "a number that the metric may lose: 0.5");
  } else if (choice.key == "per-layer") {
    GRAFT_USER_CHECK(choice.value == "0" || choice.value == "1", kInvalidArgument,
                     fmt::format("'{}' is not 0 or 1", choice.value), "per-layer");
    choices.per_layer = choice.value == "1";
  } else if (choice.key == "smooth") {
    GRAFT_USER_CHECK(choice.value == "auto" || choice.value == "off", kInvalidArgument,
                     fmt::format("'{}' is not auto or off", choice.value), "smooth");
    choices.smooths = choice.value == "auto";
  } else if (choice.key == "rounding") {
    GRAFT_USER_CHECK(choice.value == "auto" || choice.value == "nearest", kInvalidArgument,
                     fmt::format("'{}' is not auto or nearest", choice.value), "rounding");
    choices.rounds_by_samples = choice.value == "auto";
  } else if (choice.key == "min-snr") {
    choices.min_snr = number_of(choice, "a number of decibels: 20");
  } else if (choice.key == "search-limit") {
    choices.search_limit = number_of(choice, "a number of seconds");
  } else {
    return false;
  }
  return true;
}

void check_choices(const QuantiseOptions& choices, bool has_samples) {
  const quantize::Format format = choices.format();
  const std::string_view activations = name_of(format.activations);
  GRAFT_USER_CHECK(!choices.automatic || choices.max_error || choices.max_drop, kInvalidArgument,
                   "precision auto takes the fastest network within a bound: give one, the largest difference from "
                   "fp32 as a share of an output's range (0.01)", "max-error");
  const bool is_int8 = format.codes == quantize::Codes::kInt8, is_int4 = format.codes == quantize::Codes::kInt4;
  GRAFT_USER_CHECK(!choices.automatic || is_int8, kInvalidArgument,
                   fmt::format("precision auto chooses among floats and int8; {} is to be asked for",
                               name_of(format.codes)), "weights");
  GRAFT_USER_CHECK(!is_int4 || format.activations == quantize::Activations::kFloat, kUnsupported,
                   fmt::format("{} with weights of 4 bits: their products take floats", activations), "activations");
  GRAFT_USER_CHECK(is_int8 || format.activations != quantize::Activations::kDynamic, kUnsupported,
                   "dynamic with fp8: rows with a scale of their own are integers, with int8", "activations");
  GRAFT_USER_CHECK(!choices.block || is_int4, kInvalidArgument,
                   "blocks are of 4 bits; weights of 8 bits have a scale for each result", "block");
  GRAFT_USER_CHECK(!choices.smooths || is_int8, kInvalidArgument,
                   fmt::format("it moves outliers of activations that become integers of 8 bits; with {} they are "
                               "floats", name_of(format.codes)), "smooth");
  GRAFT_USER_CHECK(!choices.rounds_by_samples || is_int4, kInvalidArgument,
                   "it is for weights of 4 bits; those of 8 bits take the nearest codes", "rounding");
  GRAFT_USER_CHECK(choices.is_static() || !choices.method, kInvalidArgument,
                   fmt::format("it chooses ranges of static activations, and they are {}", activations), "method");
  GRAFT_USER_CHECK(choices.is_static() || choices.calibration_file.empty(), kInvalidArgument,
                   fmt::format("it has ranges of static activations, and they are {}", activations),
                   "calibration-file");
  GRAFT_USER_CHECK(!choices.max_error || (std::isfinite(*choices.max_error) && *choices.max_error > 0),
                   kInvalidArgument, "the bound is a share of an output's range, above 0: 0.02", "max-error");
  GRAFT_USER_CHECK(!choices.max_drop || choices.metric, kInvalidArgument,
                   "it bounds what the metric loses, and there is no metric", "max-drop");
  GRAFT_USER_CHECK(!choices.max_drop || (std::isfinite(*choices.max_drop) && *choices.max_drop >= 0), kInvalidArgument,
                   "the bound is what the metric may lose, 0 or more: 0.5", "max-drop");
  GRAFT_USER_CHECK(has_samples || choices.is_static() || choices.automatic || !choices.max_error, kInvalidArgument,
                   "the error is measured with samples, and there are none", "max-error");
  GRAFT_USER_CHECK(choices.least_snr() >= 0, kInvalidArgument, "it is a number of decibels, 0 or more: 20", "min-snr");
  GRAFT_USER_CHECK(std::isfinite(choices.search_limit) && choices.search_limit >= 0, kInvalidArgument,
                   "it is a number of seconds, 0 or more: 300", "search-limit");
}

double ask_metric(const QuantiseOptions& choices, const MeasuredNetwork& network, std::string_view which,
                  const CompileOptions& options) {
  report(options, "quantize", "asking the metric");
  const double found = choices.metric(network);
  GRAFT_USER_CHECK(std::isfinite(found), kInvalidArgument,
                   fmt::format("of the network {} it is {}: it has to be a finite number", which, found), "metric");
  return found;
}

std::optional<Precision> fast_floats(const CompileOptions& options) {
  if (options.device != "cpu") return Precision::kFp16;
  const std::string features = host_cpu().features;
  const bool has_units = features.find("+amx-bf16") != features.npos || features.find("+avx512bf16") != features.npos;
  return has_units ? std::optional(Precision::kBf16) : std::nullopt;
}

}  // namespace graft
