// SPDX-License-Identifier: Apache-2.0
#include "driver/range_finder.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "quantize/stated_ranges.h"

namespace graft {
namespace {

using quantize::Calibration;
using quantize::LeftOut;
using quantize::Place;
using quantize::Places;

/// Whether nodes are left out whose activations have no range in `known`; to be asked again until there are none. What
/// stands between products goes first, as products may have ranges behind it.
bool leave_out_unknown(const Graph& graph, const Places& places, const Calibration& known, const std::string& file,
                       LeftOut& left_out, std::set<std::string>& missing) {
  const size_t before = left_out.size();
  for (const bool weighted : {false, true}) {
    for (const Place& place : places.nodes) {
      const Node& node = graph.nodes[static_cast<size_t>(place.node)];
      for (const size_t n : place.activations) {
        const std::string& name = graph.value(places.ranges.at(node.inputs[n])).name;
        if (place.weighted != weighted || known.tensors.contains(name)) continue;
        missing.insert(name);
        left_out.emplace(node.name, fmt::format("{} has no range of '{}'", file, name));
      }
    }
    if (left_out.size() > before) return true;
  }
  return false;
}

}  // namespace

RangeFinder::RangeFinder(const Graph& graph, const SampleForm& form, const CalibrationData& data,
                         const QuantiseOptions& choices, const CompileOptions& options, std::string network,
                         Smoothed smoothed)
    : graph_(graph),
      form_(form),
      data_(data),
      has_samples_(data && !choices.has_random_inputs),
      choices_(choices),
      options_(options),
      method_(choices.method.value_or(choices.usual_method())),
      network_(std::move(network)),
      smoothed_(std::move(smoothed)) {}

void RangeFinder::open() {
  if (!choices_.calibration_file.empty()) read_calibration();
  if (choices_.learned && choices_.learned->is_foreign()) known_ = choices_.learned;
  if (known_ && known_->is_foreign()) quantize::spread_ranges(graph_, known_->tensors);
  if (!has_samples_ && known_ && known_->is_foreign()) leave_out_missing();
  if (!has_samples_) keep_the_bound();
}

void RangeFinder::read_calibration() {
  const std::string& file = choices_.calibration_file;
  use_ = quantize::CalibrationUse{.file = file};
  if (choices_.learned || (!smoothed_.scales.empty() && !smoothed_.is_recorded)) return;
  if (!std::filesystem::exists(file)) {
    GRAFT_USER_CHECK(has_samples_, kInvalidArgument,
                     "there is no such file, and there are no samples to make it from", file);
    check_writable(file);
    return;
  }
  const std::vector<Calibration> all = quantize::parse_calibrations(read_text_file(file), file);
  const auto own = std::find_if(all.begin(), all.end(), [&](const Calibration& each) {
    return each.network == network_;
  });
  known_ = own == all.end() ? all.front() : *own;
  use_->samples = known_->samples;
  if (known_->is_foreign()) return;
  GRAFT_USER_CHECK(!choices_.method || *choices_.method == *known_->method, kInvalidArgument,
                   fmt::format("it was calibrated by the method {}, and {} is asked for: delete it to calibrate anew",
                               name_of(*known_->method), name_of(*choices_.method)), file);
  GRAFT_USER_CHECK(known_->network == network_, kInvalidArgument,
                   "it was calibrated for another network (its nodes, names or weights differ): delete it to "
                   "calibrate anew", file);
  for (const std::string& layer : known_->kept) {
    const bool is_known = std::any_of(graph_.nodes.begin(), graph_.nodes.end(),
                                      [&](const Node& node) { return node.name == layer; });
    GRAFT_USER_CHECK(is_known, kInvalidArgument,
                     fmt::format("it keeps '{}' in fp32, and the network has no such node: delete it to calibrate "
                                 "anew", layer), file);
  }
  method_ = *known_->method;
}

void RangeFinder::leave_out_missing() {
  std::set<std::string> missing;
  const std::string where = use_ ? use_->file : "the model";
  while (leave_out_unknown(graph_, quantize::find_places(graph_, left_out_), *known_, where, left_out_, missing)) {
  }
  if (use_) use_->missing.assign(missing.begin(), missing.end());
}

/// Without samples a bound holds that the file's samples have met.
void RangeFinder::keep_the_bound() {
  if (known_ && (known_->max_error || choices_.least_snr() > 0)) {
    const std::string_view reason = known_->max_error ? kLeftOutForBound : kLeftOutForNoise;
    for (const std::string& layer : known_->kept) left_out_.emplace(layer, reason);
  }
  const bool is_kept = known_ && known_->max_error && choices_.max_error && *known_->max_error <= *choices_.max_error;
  GRAFT_USER_CHECK(is_kept || !choices_.max_error || choices_.has_random_inputs, kInvalidArgument,
                   "the error is measured with samples, and there are none", "max-error");
}

void RangeFinder::find(const Places& places) {
  if (choices_.learned && !known_) {
    ranges_ = choices_.learned->tensors;
    if (use_) make(*choices_.learned);
  } else if (known_ && !known_->is_foreign()) {
    ranges_ = known_->tensors;
    check_complete(places);
  } else if (!has_samples_) {
    ranges_ = known_->tensors;
  } else {
    calibrate(places);
  }
}

void RangeFinder::calibrate(const Places& places) {
  const bool may_smooth = choices_.smooths.value_or(true) && smoothed_.scales.empty() && !known_;
  Calibrator calibrator(graph_, places, options_,
                        may_smooth ? quantize::smoothable(graph_, places) : std::vector<ValueId>());
  const SampleCount count =
      for_each_run(data_, form_, options_, "calibrating",
                   [&](const std::vector<TensorData>& inputs) { calibrator.run(inputs); });
  ranges_ = calibrator.ranges(method_, choices_.codes, known_ ? &*known_ : nullptr, data_.where);
  magnitudes_ = calibrator.magnitudes();
  for (const auto& [name, tensor] : ranges_) {
    if (use_ && known_ && !known_->tensors.contains(name)) use_->missing.push_back(name);
  }
  if (!use_ || known_) return;
  make({.method = method_,
        .samples = count.samples,
        .network = network_,
        .data = fmt::format("{:016x}", count.hash),
        .tensors = ranges_,
        .smoothed = smoothed_.scales});
}

/// A file of this network has all of its ranges, unless somebody has edited it.
void RangeFinder::check_complete(const Places& places) const {
  for (const auto& [value, root] : places.ranges) {
    const std::string& name = graph_.value(root).name;
    GRAFT_USER_CHECK(ranges_.contains(name), kInvalidArgument,
                     fmt::format("it has no range of '{}': delete it to calibrate anew", name), use_->file);
  }
}

void RangeFinder::make(const Calibration& made) {
  made_ = made;
  use_->written = true, use_->samples = made.samples;
}

std::optional<bool> RangeFinder::are_its_samples(uint64_t hash) const {
  if (!known_ || known_->is_foreign()) return std::nullopt;
  return known_->data == fmt::format("{:016x}", hash);
}

std::optional<Calibration> RangeFinder::finish(const std::vector<std::string>& kept) const {
  std::optional<Calibration> made = made_;
  if (made) made->max_error = choices_.max_error, made->kept = kept;
  return made;
}

void write_calibration(const Calibration& made, const std::string& file) {
  std::vector<Calibration> all;
  if (std::filesystem::exists(file)) all = quantize::parse_calibrations(read_text_file(file), file);
  std::erase_if(all, [&](const Calibration& each) { return each.is_foreign() || each.network == made.network; });
  all.push_back(made);
  write_file(file, print(all));
}

}  // namespace graft
