// SPDX-License-Identifier: Apache-2.0
#include "driver/int8.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "quantize/insert.h"
#include "quantize/stated_ranges.h"

namespace graft {
namespace {

// What of the runs is kept to measure the error with: as many samples as calibrate most networks well.
constexpr int64_t kKeptSamples = 64, kKeptBytes = int64_t{64} << 20;

int64_t runs_of(OptionText choice) {
  int64_t runs = 0;
  const char* end = choice.value.data() + choice.value.size();
  const auto [stop, fault] = std::from_chars(choice.value.data(), end, runs);
  GRAFT_USER_CHECK(fault == std::errc() && stop == end && runs >= 0, kInvalidArgument,
                   fmt::format("'{}' is not a number of runs, 0 for those until the calibration is ended",
                               choice.value), std::string(choice.key));
  return runs;
}

/// Without the caller's functions, which may go before a network that learns has learned.
CompileOptions without_callbacks(CompileOptions options) {
  options.progress = {}, options.cancelled = {}, options.imported = {}, options.kernel_use = {};
  return options;
}

TensorData owned(const TensorData& tensor) {
  if (tensor.type() == DType::kString) return tensor;
  return TensorData::from_bytes(tensor.type(), tensor.shape(), tensor.bytes());
}

/// With constants in memory of its own.
Graph owned(const Graph& graph) {
  Graph made = graph;
  for (Value& value : made.values) {
    if (value.constant) value.constant = owned(*value.constant);
  }
  for (Node& node : made.nodes) {
    for (auto& [name, attribute] : node.attributes) {
      if (auto* tensor = std::get_if<TensorData>(&attribute)) *tensor = owned(*tensor);
      auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute);
      if (body && *body) *body = std::make_shared<const Graph>(owned(**body));
    }
  }
  return made;
}

Graph prepared(const Graph& imported, const CompileOptions& options) {
  Graph graph = imported;
  quantize::prepare(graph, {.cancelled = options.cancelled});
  return graph;
}

/// What a calibration file that is there has.
std::vector<quantize::Calibration> calibrations_in(const std::string& file) {
  if (file.empty() || !std::filesystem::exists(file)) return {};
  return quantize::parse_calibrations(read_text_file(file), file);
}

/// Whether a file has the ranges of a network, or those of TensorRT, which names none.
bool has_ranges(const std::vector<quantize::Calibration>& all, const std::string& network) {
  return std::any_of(all.begin(), all.end(), [&](const quantize::Calibration& each) {
    return each.is_foreign() || each.network == network;
  });
}

Int8Engine quantised(const Graph& imported, const Int8Choices& choices, const CompileOptions& options) {
  QuantisedModel made = quantise_model(imported, {}, choices.quantise, options);
  CompileOptions compiling = options;
  compiling.precision = made.floats;
  Compiled compiled = compile_from(std::move(made.graph), Stage::kImport, compiling);
  write_calibration(made);
  return {.compiled = std::move(compiled), .report = std::move(made.report), .learning = nullptr};
}

/// By the ranges that the model itself states; nothing where it states none.
std::optional<Int8Engine> by_stated_ranges(const Graph& imported, const Int8Choices& choices,
                                           const CompileOptions& options) {
  Graph graph = imported;
  quantize::Calibration stated{.method = {}, .samples = 0, .network = {}, .data = {},
                               .tensors = quantize::take_stated_ranges(graph)};
  if (stated.tensors.empty()) return std::nullopt;
  Int8Choices by_model = choices;
  by_model.quantise.calibration_file.clear();
  by_model.quantise.learned = std::move(stated);
  return quantised(graph, by_model, options);
}

/// Whether a graph needs no calibration.
bool has_ranges(const Graph& imported) {
  Graph graph = imported;
  return is_quantised(imported) || !quantize::take_stated_ranges(graph).empty();
}

Int8Engine plain(const Graph& imported, const CompileOptions& options) {
  return {.compiled = compile_from(imported, Stage::kImport, options), .report = {}, .learning = nullptr};
}

Int8Engine learning(const Graph& imported, const Int8Choices& choices, const CompileOptions& options) {
  const std::string& file = choices.quantise.calibration_file;
  if (!file.empty()) check_writable(file);
  return {.compiled = {}, .report = {},
          .learning = std::make_shared<LearningNetwork>(imported, choices.quantise, options)};
}

[[noreturn]] void refuse() {
  throw Error(ErrorKind::kInvalidArgument,
              "int8 needs the ranges of activations: give samples of the inputs to calibrate with, or a calibration "
              "file that is there (docs/PRECISION.md says how, for each framework), or a model that is quantised "
              "already (with Q/DQ); or choose dynamic or float activations, fp16 or bf16", "precision");
}

bool is_nothing_to_quantise(const Graph& imported, const QuantiseOptions& choices, const CompileOptions& options) {
  try {
    check_quantisable(prepared(imported, options), choices);
    return false;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    return true;
  }
}

}  // namespace

bool set_choice(Int8Choices& choices, OptionText choice) {
  const auto codes = choice.key == "precision" ? quantize::parse_codes(choice.value) : std::nullopt;
  if (codes) {
    choices.asked = true, choices.quantise.codes = *codes;
  } else if (choice.key == "precision" && choice.value == kAutomatic) {
    choices.asked = choices.quantise.automatic = true;
  } else if (choice.key == "calibration-iters") {
    choices.learned_runs = runs_of(choice);
  } else {
    return set_choice(choices.quantise, choice);
  }
  return true;
}

LearningNetwork::LearningNetwork(const Graph& imported, QuantiseOptions choices, const CompileOptions& options)
    : imported_(owned(imported)), choices_(std::move(choices)) {
  for (const ValueId id : imported.outputs) {
    const Value& value = imported.value(id);
    GRAFT_USER_CHECK(value.dynamic_type.empty() && value.type != DType::kString, kUnsupported,
                     "the result is no tensor of numbers: networks with such results are not calibrated", value.name);
  }
  const Graph graph = prepared(imported_, options);
  check_quantisable(graph, choices_);
  network_ = quantize::hash_of(graph);
  form_.emplace(graph);
  calibrator_ = std::make_unique<Calibrator>(graph, quantize::find_places(graph), without_callbacks(options));
}

void LearningNetwork::run(const std::vector<TensorData>& inputs,
                          const std::function<void(std::span<const TensorData>)>& use) {
  const std::lock_guard lock(mutex_);
  const std::vector<TensorData>& results = calibrator_->run(inputs);
  use(std::span(results).first(imported_.outputs.size()));
  const int64_t samples = form_->is_batched() ? inputs[0].shape()[0] : 1;
  if (samples == 0) return;
  count_.add(inputs, samples);
  keep(inputs, samples);
}

void LearningNetwork::keep(const std::vector<TensorData>& inputs, int64_t samples) {
  int64_t bytes = 0;
  for (const TensorData& tensor : inputs) bytes += tensor.byte_count();
  const bool fits = kept_samples_ + samples <= kKeptSamples && kept_bytes_ + bytes <= kKeptBytes;
  if (!kept_.empty() && !fits) return;
  kept_.push_back(inputs);
  kept_samples_ += samples, kept_bytes_ += bytes;
}

int64_t LearningNetwork::runs() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(count_.runs);
}

QuantisedModel LearningNetwork::quantise(const CompileOptions& options) const {
  const std::lock_guard lock(mutex_);
  GRAFT_USER_CHECK(count_.runs > 0, kInvalidArgument,
                   "nothing has run yet, so that nothing is known of its activations: run it on samples before",
                   "the calibration");
  QuantiseOptions choices = choices_;
  const quantize::Method method = choices.method.value_or(choices.usual_method());
  choices.learned = quantize::Calibration{.method = method,
                                          .samples = count_.samples,
                                          .network = network_,
                                          .data = fmt::format("{:016x}", count_.hash),
                                          .tensors = calibrator_->ranges(method, choices.codes, nullptr,
                                                                         "the samples")};
  const auto batch = [this](size_t index) -> std::optional<std::vector<TensorData>> {
    if (index >= kept_.size()) return std::nullopt;
    return kept_[index];
  };
  QuantisedModel made = quantise_model(imported_, {batch, kept_.size(), "the samples", true}, choices, options);
  if (kept_samples_ < count_.samples) made.report.calibrated = count_.samples;
  return made;
}

Int8Engine compile_int8(const Graph& imported, const Int8Choices& choices, const CompileOptions& options) {
  if (choices.quantise.automatic) return quantised(imported, choices, options);
  if (is_quantised(imported)) return plain(imported, options);
  if (!choices.quantise.is_static()) return quantised(imported, choices, options);
  if (auto stated = by_stated_ranges(imported, choices, options)) return std::move(*stated);
  if (!calibrations_in(choices.quantise.calibration_file).empty()) return quantised(imported, choices, options);
  if (!choices.learned_runs) refuse();
  return learning(imported, choices, options);
}

Int8Engine compile_int8(const SegmentGraphs& segments, size_t segment, const Int8Choices& choices,
                        const CompileOptions& options) {
  const Graph graph = segments.graph_of(segment);
  if (choices.quantise.automatic) return quantised(graph, choices, options);
  if (is_quantised(graph)) return plain(graph, options);
  const auto elsewhere = [&](const auto& holds) {
    for (size_t other = 0; other < segments.count; ++other) {
      if (other != segment && holds(segments.graph_of(other))) return true;
    }
    return false;
  };
  const auto nothing = [&](const Graph& other) { return is_nothing_to_quantise(other, choices.quantise, options); };
  const auto is_beside_others = [&] {
    return nothing(graph) && elsewhere([&](const Graph& other) { return !nothing(other); });
  };
  if (!choices.quantise.is_static()) {
    return is_beside_others() ? plain(graph, options) : quantised(graph, choices, options);
  }
  if (auto stated = by_stated_ranges(graph, choices, options)) return std::move(*stated);
  const auto known = calibrations_in(choices.quantise.calibration_file);
  if (known.empty() && !choices.learned_runs) {
    if (!elsewhere([](const Graph& other) { return has_ranges(other); })) refuse();
    return plain(graph, options);  // a model that is quantised may have parts that are not
  }
  if (is_beside_others()) return plain(graph, options);
  if (known.empty()) return learning(graph, choices, options);
  const auto is_known = [&](const Graph& other) {
    return has_ranges(known, quantize::hash_of(prepared(other, options)));
  };
  // A file of another model is refused; one that lacks a part of this one is completed.
  if (choices.learned_runs && !is_known(graph) && elsewhere(is_known)) return learning(graph, choices, options);
  return quantised(graph, choices, options);
}

}  // namespace graft
