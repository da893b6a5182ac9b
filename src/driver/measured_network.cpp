// SPDX-License-Identifier: Apache-2.0
#include "driver/measured_network.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/stopwatch.h"
#include "driver/load.h"

namespace graft {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();
constexpr int kLeastRuns = 3, kMostRuns = 200;

Compiled compiled(Graph graph, CompileOptions& options, const MeasuredForm& form) {
  options.precision = form.precision;
  options.tuning = Tuning::kOff;
  options.device = form.device;
  options.targets.clear();
  options.record.clear();
  return compile_from(std::move(graph), Stage::kImport, options);
}

std::shared_ptr<const LoadedEngine> loaded(Plan& plan, Graph graph, CompileOptions& options,
                                           const MeasuredForm& form) {
  Compiled made = compiled(std::move(graph), options, form);
  plan = std::move(made.plan);
  return load(std::move(made.engine), options.device);
}

}  // namespace

MeasuredNetwork::MeasuredNetwork(Graph graph, CompileOptions options, const MeasuredForm& form)
    : loaded_(graft::loaded(plan_, std::move(graph), options, form)), session_(loaded_) {
  results_.resize(session_.engine().outputs.size());
}

const std::vector<TensorData>& MeasuredNetwork::run(const std::vector<TensorData>& inputs) {
  std::vector<BufferView> given, views(results_.size());
  for (const TensorData& tensor : inputs) {
    given.push_back({const_cast<std::byte*>(tensor.bytes().data()), tensor.type(), tensor.shape(), {}});
  }
  const Status status = session_.run(given, views, allocate, this);
  if (!status.ok()) throw Error(ErrorKind::kInvalidArgument, status.message());
  return results_;
}

NetworkTimes MeasuredNetwork::time(const std::vector<TensorData>& inputs, const CompileOptions& options,
                                   double seconds) {
  const auto ask = [&options] {
    if (options.cancelled && options.cancelled()) throw Error(ErrorKind::kCancelled, "measuring was cancelled");
  };
  NetworkTimes times{.milliseconds = std::numeric_limits<double>::infinity(), .steps = {}};
  times.steps.assign(session_.engine().steps.size(), times.milliseconds);
  run(inputs);  // which also plans the memory
  const double most = seconds / 2;
  const auto repeat = [&](const auto& once) {
    const Stopwatch watch;
    for (int n = 0; n < kMostRuns && (n < kLeastRuns || watch.seconds() < most); ++n) {
      ask();
      once();
    }
  };
  repeat([&] {
    const Stopwatch watch;
    run(inputs);
    times.milliseconds = std::min(times.milliseconds, 1e3 * watch.seconds());
  });
  session_.set_profiling(true);
  repeat([&] {
    run(inputs);
    for (const StepTime& step : session_.profile()) {
      double& shortest = times.steps[static_cast<size_t>(step.step)];
      shortest = std::min(shortest, (step.end_us - step.begin_us) / 1000);
    }
  });
  session_.set_profiling(false);
  for (double& step : times.steps) step = std::isfinite(step) ? step : 0;  // a step that no run reached
  if (loaded_->device) {
    double on_device = 0;
    const bool is_known = session_.time_steps(kLeastRuns, on_device).ok();
    times.milliseconds = is_known ? on_device : std::accumulate(times.steps.begin(), times.steps.end(), 0.0);
  }
  return times;
}

void* MeasuredNetwork::allocate(void* context, int output, DType type, std::span<const int64_t> shape, size_t) {
  TensorData& tensor = static_cast<MeasuredNetwork*>(context)->results_[static_cast<size_t>(output)];
  const std::vector<int64_t> wanted(shape.begin(), shape.end());
  if (tensor.type() != type || tensor.shape() != wanted) tensor = TensorData::zeros(type, wanted);
  return tensor.mutable_bytes().data();
}

void Difference::add(const std::vector<TensorData>& expected, const std::vector<TensorData>& actual) {
  outputs_.resize(expected.size());
  for (size_t n = 0; n < expected.size(); ++n) {
    if (expected[n].shape() != actual[n].shape()) {  // sizes that follow from elements
      outputs_[n].largest = kUnbounded;
    } else if (is_float(expected[n].type())) {
      add_floats(outputs_[n], expected[n], actual[n]);
    } else {
      add_others(outputs_[n], compare(actual[n], expected[n], {}), kind_of(expected[n].type()));
    }
  }
}

void Difference::add_floats(Output& output, const TensorData& expected, const TensorData& actual) {
  for (int64_t i = 0; i < expected.element_count(); ++i) {
    const double wanted = expected.read_double(i), found = actual.read_double(i);
    if (!std::isfinite(wanted)) {
      ++not_finite_;
      if (wanted != found && !(std::isnan(wanted) && std::isnan(found))) output.largest = output.noise = kUnbounded;
      continue;
    }
    output.low = std::min(output.low, wanted), output.high = std::max(output.high, wanted);
    output.sum += wanted, output.squares += wanted * wanted, ++output.count;
    const double difference = std::isfinite(found) ? std::fabs(wanted - found) : kUnbounded;
    output.largest = std::max(output.largest, difference);
    output.noise += difference * difference;
  }
}

void Difference::add_others(Output& output, const Comparison& found, DTypeKind kind) {
  if (kind != DTypeKind::kComplex) {
    output.elements += found.elements, output.differing += found.outside;
    return;
  }
  output.largest = std::max(output.largest, std::isinf(found.worst_difference) ? kUnbounded : found.largest);
  output.low = std::min(output.low, found.reference_low), output.high = std::max(output.high, found.reference_high);
  not_finite_ += found.reference_nan + found.reference_infinite;
}

double Difference::Output::error() const {
  const double share = elements > 0 ? static_cast<double>(differing) / static_cast<double>(elements) : 0;
  if (!(largest > 0) || std::isinf(largest)) return std::max(share, largest);
  const double range = high / 2 - low / 2;  // the whole one may exceed what a double holds
  return std::max(share, range > 0 ? largest / 2 / range : largest);
}

double Difference::error() const {
  double worst = 0;
  for (const Output& output : outputs_) worst = std::max(worst, output.error());
  return worst;
}

double Difference::noise_db() const {
  double signal = 0, noise = 0;
  for (const Output& output : outputs_) signal += output.squares, noise += output.noise;
  return decibels(signal > 0 ? noise / signal : noise);
}

double Difference::Output::noise_share() const {
  if (count == 0 || std::isinf(noise)) return noise;
  const double varying = squares - sum / static_cast<double>(count) * sum;
  constexpr double kExact = 1e-12;  // of the squares: what their sum may be off by
  return varying > kExact * squares ? noise / varying : 0;
}

double Difference::worst_noise_db() const {
  double worst = 0;
  for (const Output& output : outputs_) worst = std::max(worst, output.noise_share());
  return decibels(worst);
}

double decibels(double noise) {
  if (std::isnan(noise)) return -kUnbounded;
  return noise > 0 ? -10 * std::log10(noise) : kUnbounded;
}

double noise_power(double decibels) { return std::pow(10, -decibels / 10); }

}  // namespace graft
