// SPDX-License-Identifier: Apache-2.0
#include "driver/calibrator.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "base/available_threads.h"
#include "base/call_in_parallel.h"
#include "base/error.h"

namespace graft {
namespace {

using quantize::CalibratedTensor;
using quantize::Histogram;

/// The mean square of a distribution.
double mean_square(const Histogram& histogram) {
  double sum = 0;
  for (size_t i = 0; i < histogram.bins().size(); ++i) {
    sum += static_cast<double>(histogram.bins()[i]) * histogram.centre(i) * histogram.centre(i);
  }
  return sum / static_cast<double>(std::max<int64_t>(histogram.count(), 1));
}

/// A range with the noise that 8 bits of it add.
CalibratedTensor calibrated(const Histogram& histogram, const quantize::Range& range, quantize::Codes codes) {
  const double signal = mean_square(histogram);
  return {range, signal > 0 ? mean_square_error(histogram, quantize::quantiser_of(range, codes)) / signal : 0};
}

}  // namespace

Calibrator::Calibrator(const Graph& graph, const quantize::Places& places, const CompileOptions& options,
                       const std::vector<ValueId>& by_channel)
    : network_(watch(graph, places, options, by_channel)),
      threads_(options.threads > 0 ? options.threads : available_threads()) {}

void Calibrator::Watched::add(const TensorData& tensor) {
  const std::span<const float> elements = tensor.as<float>();
  histogram.add(elements);
  if (!by_channel || elements.empty()) return;
  const auto channels = static_cast<size_t>(tensor.shape().back());
  magnitudes.resize(channels, 0);
  for (size_t row = 0; row < elements.size(); row += channels) {
    for (size_t c = 0; c < channels; ++c) magnitudes[c] = std::max(magnitudes[c], std::fabs(elements[row + c]));
  }
}

std::unique_ptr<MeasuredNetwork> Calibrator::watch(const Graph& graph, const quantize::Places& places,
                                                   CompileOptions options, const std::vector<ValueId>& by_channel) {
  std::set<std::string, std::less<>> names;
  for (const ValueId value : by_channel) names.insert(graph.value(value).name);
  Graph watched = graph;
  std::set<ValueId> known;
  for (const auto& [value, root] : places.ranges) {
    if (!known.insert(root).second) continue;
    const auto input = std::find(graph.inputs.begin(), graph.inputs.end(), root);
    if (input != graph.inputs.end()) {
      watched_.push_back({graph.value(root).name, true, static_cast<size_t>(input - graph.inputs.begin())});
      continue;
    }
    auto output = std::find(watched.outputs.begin(), watched.outputs.end(), root);
    if (output == watched.outputs.end()) output = watched.outputs.insert(watched.outputs.end(), root);
    watched_.push_back({graph.value(root).name, false, static_cast<size_t>(output - watched.outputs.begin())});
  }
  // A histogram counts the elements of outputs that were added, in whatever order they come.
  options.any_order.assign(watched.outputs.size(), true);
  std::fill_n(options.any_order.begin(), graph.outputs.size(), false);
  for (Watched& each : watched_) {
    each.by_channel = names.contains(each.name);
    if (each.by_channel && !each.is_input) options.any_order[each.number] = false;
  }
  return std::make_unique<MeasuredNetwork>(std::move(watched), options);
}

const std::vector<TensorData>& Calibrator::run(const std::vector<TensorData>& inputs) {
  const std::vector<TensorData>& results = network_->run(inputs);
  call_in_parallel(watched_.size(), threads_, [&](size_t n) {
    Watched& each = watched_[n];
    each.add((each.is_input ? inputs : results)[each.number]);
  });
  return results;
}

std::map<std::string, std::vector<float>, std::less<>> Calibrator::magnitudes() const {
  std::map<std::string, std::vector<float>, std::less<>> found;
  for (const Watched& each : watched_) {
    if (each.by_channel) found[each.name] = each.magnitudes;
  }
  return found;
}

CalibratedTensors Calibrator::ranges(quantize::Method method, quantize::Codes codes, const quantize::Calibration* known,
                                     const std::string& where) const {
  CalibratedTensors ranges;
  for (const Watched& each : watched_) {  // in the order of the network: the first is the cause
    const Histogram& histogram = each.histogram;
    GRAFT_USER_CHECK(histogram.not_finite() == 0, kInvalidArgument,
                     fmt::format("with this data {} elements of '{}' are NaN or infinite in f32: mend the data, or the "
                                 "network", histogram.not_finite(), each.name), where);
    GRAFT_USER_CHECK(histogram.count() > 0, kInvalidArgument,
                     fmt::format("with this data '{}' has no elements: give samples that reach all layers", each.name),
                     where);
    const auto given = known ? known->tensors.find(each.name) : CalibratedTensors::const_iterator();
    const bool is_known = known && given != known->tensors.end();
    ranges[each.name] =
        calibrated(histogram, is_known ? given->second.range : choose_range(histogram, method), codes);
  }
  return ranges;
}

}  // namespace graft
