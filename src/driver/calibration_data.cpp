// SPDX-License-Identifier: Apache-2.0
#include "driver/calibration_data.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/hash.h"

namespace graft {
namespace {

/// The samples from `first` on, in memory of their own.
TensorData rows_of(const TensorData& tensor, int64_t first, int64_t count) {
  std::vector<int64_t> shape = tensor.shape();
  const auto row_bytes = static_cast<size_t>(tensor.byte_count() / shape[0]);
  shape[0] = count;
  return TensorData::from_bytes(tensor.type(), shape, tensor.bytes().subspan(static_cast<size_t>(first) * row_bytes,
                                                                             static_cast<size_t>(count) * row_bytes));
}

TensorData joined(const TensorData& a, const TensorData& b) {
  std::vector<int64_t> shape = a.shape();
  shape[0] += b.shape()[0];
  TensorData whole = TensorData::zeros(a.type(), shape);
  std::memcpy(whole.mutable_bytes().data(), a.bytes().data(), a.bytes().size());
  std::memcpy(whole.mutable_bytes().data() + a.bytes().size(), b.bytes().data(), b.bytes().size());
  return whole;
}

/// Whether samples of both can be in one tensor.
bool are_alike(const std::vector<TensorData>& a, const std::vector<TensorData>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const TensorData& x, const TensorData& y) {
    return std::equal(x.shape().begin() + 1, x.shape().end(), y.shape().begin() + 1, y.shape().end());
  });
}

/// Of one of several samples.
uint64_t hash_of(const std::vector<TensorData>& inputs, int64_t sample, int64_t samples) {
  uint64_t hash = 0;
  for (const TensorData& tensor : inputs) {
    const size_t bytes = tensor.bytes().size() / static_cast<size_t>(samples);
    hash = hash64(tensor.bytes().subspan(static_cast<size_t>(sample) * bytes, bytes), hash);
  }
  return hash;
}

/// One pass over the data.
class Pass {
 public:
  Pass(const SampleForm& form, bool are_runs, const std::function<void(const std::vector<TensorData>&)>& use)
      : form_(form), are_runs_(are_runs), use_(use) {}

  void add(std::vector<TensorData> batch, const std::string& where) {
    std::vector<std::vector<int64_t>> shapes;
    for (size_t n = 0; n < batch.size(); ++n) {
      shapes.push_back(form_.fitted(n, batch[n].type(), batch[n].shape(), where));
      batch[n] = batch[n].reshaped(shapes.back());
    }
    if (!form_.is_batched()) return run(batch, 1);
    const int64_t samples = form_.samples(shapes, where);
    if (samples == 0) return;
    if (are_runs_) return run(batch, samples);
    if (!left_.empty() && are_alike(left_, batch)) {
      for (size_t n = 0; n < batch.size(); ++n) batch[n] = joined(left_[n], batch[n]);
    } else {
      count_.left_out += left();
    }
    left_.clear();
    divide(batch);
  }

  SampleCount finish() {
    count_.left_out += left();
    return count_;
  }

 private:
  int64_t left() const { return left_.empty() ? 0 : left_[0].shape()[0]; }

  void run(const std::vector<TensorData>& inputs, int64_t samples) {
    use_(inputs);
    count_.add(inputs, samples);
  }

  void divide(const std::vector<TensorData>& batch) {
    const int64_t samples = batch[0].shape()[0], most = form_.samples_of_run();
    if (samples == most || (samples < most && !form_.is_fixed())) return run(batch, samples);
    for (int64_t first = 0; first < samples; first += most) {
      const int64_t count = std::min(most, samples - first);
      std::vector<TensorData> rows;
      for (const TensorData& tensor : batch) rows.push_back(rows_of(tensor, first, count));
      if (count < most && form_.is_fixed()) {
        left_ = std::move(rows);
      } else {
        run(rows, count);
      }
    }
  }

  const SampleForm& form_;
  const bool are_runs_;
  const std::function<void(const std::vector<TensorData>&)>& use_;
  std::vector<TensorData> left_;  ///< samples that do not fill a run yet
  SampleCount count_;
};

}  // namespace

SampleForm::SampleForm(const Graph& graph) {
  GRAFT_USER_CHECK(!graph.inputs.empty(), kUnsupported, "the network has no inputs to calibrate with", "int8");
  for (const ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    GRAFT_USER_CHECK(value.dynamic_type.empty() && value.type != DType::kString, kUnsupported,
                     "the input is no tensor of numbers: networks with such inputs are not calibrated", value.name);
    inputs_.push_back({value.name, value.type, value.shape});
  }
  const std::optional<Shape>& first = inputs_[0].shape;
  batched_ = std::all_of(inputs_.begin(), inputs_.end(), [&](const Input& input) {
    return input.shape && !input.shape->empty() && bit_width(input.type) >= 8 && first && !first->empty() &&
           (*input.shape)[0] == (*first)[0];
  });
  if (batched_) fixed_ = (*first)[0].as_constant();
  if (fixed_ && *fixed_ <= 0) batched_ = false;
}

std::vector<int64_t> SampleForm::fitted(size_t number, DType type, std::vector<int64_t> shape,
                                        const std::string& where) const {
  const Input& input = inputs_[number];
  GRAFT_USER_CHECK(type == input.type, kInvalidArgument,
                   fmt::format("it is of {}, and the input '{}' of {}: convert it with array.astype", name_of(type),
                               input.name, name_of(input.type)), where);
  if (!input.shape) return shape;
  const Shape& wanted = *input.shape;
  const std::vector<int64_t> given = shape;
  if (shape.size() + 1 == wanted.size()) shape.insert(shape.begin(), 1);
  bool fits = shape.size() == wanted.size();
  for (size_t d = batched_ ? 1 : 0; fits && d < wanted.size(); ++d) {
    const auto fixed = wanted[d].as_constant();
    fits = !fixed || *fixed == shape[d];
  }
  GRAFT_USER_CHECK(fits, kInvalidArgument,
                   fmt::format("its shape is [{}], and the input '{}' takes {}, or the same without the first axis",
                               fmt::join(given, ", "), input.name, to_string(wanted)), where);
  return shape;
}

int64_t SampleForm::samples(std::span<const std::vector<int64_t>> shapes, const std::string& where) const {
  for (size_t n = 1; n < shapes.size(); ++n) {
    GRAFT_USER_CHECK(shapes[n][0] == shapes[0][0], kInvalidArgument,
                     fmt::format("'{}' has {} samples and '{}' {}", inputs_[0].name, shapes[0][0], inputs_[n].name,
                                 shapes[n][0]), where);
  }
  return shapes[0][0];
}

void SampleCount::add(const std::vector<TensorData>& inputs, int64_t of_run) {
  for (int64_t sample = 0; sample < of_run; ++sample) hash += hash_of(inputs, sample, of_run);
  ++runs, samples += of_run;
}

SampleCount for_each_run(const CalibrationData& data, const SampleForm& form, const CompileOptions& options,
                         std::string_view what, const std::function<void(const std::vector<TensorData>&)>& use) {
  Pass pass(form, data.are_runs, use);
  size_t batches = 0;
  for (; data.count == 0 || batches < data.count; ++batches) {
    if (options.cancelled && options.cancelled()) throw Error(ErrorKind::kCancelled, "quantising was cancelled");
    report(options, "quantize", what, static_cast<int>(batches), static_cast<int>(data.count));
    std::optional<std::vector<TensorData>> batch = data.batch(batches);
    if (!batch) break;
    pass.add(std::move(*batch), fmt::format("{}, batch {}", data.where, batches));
  }
  const SampleCount count = pass.finish();
  GRAFT_USER_CHECK(batches > 0 && (count.runs > 0 || count.left_out > 0), kInvalidArgument,
                   "there are no samples to calibrate with", data.where);
  GRAFT_USER_CHECK(count.runs > 0, kInvalidArgument,
                   fmt::format("it has {} samples, and the network takes {} at a time: give more, or a model whose "
                               "batch is dynamic", count.left_out, form.samples_of_run()), data.where);
  return count;
}

}  // namespace graft
