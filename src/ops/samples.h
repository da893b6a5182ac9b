// SPDX-License-Identifier: Apache-2.0
// Short spellings for the inputs of samples.
#pragma once

#include <vector>

#include "graph/op_def.h"

namespace graft::samples {

using Dims = std::vector<int64_t>;

/// Random values of `type` in [low, high].
inline SampleInput of(DType type, Dims shape, double low = -2, double high = 2) {
  SampleInput input;
  input.type = type;
  input.shape = std::move(shape);
  input.low = low, input.high = high;
  return input;
}
inline SampleInput f32(Dims shape, double low = -2, double high = 2) {
  return of(DType::kFloat32, std::move(shape), low, high);
}
inline SampleInput f16(Dims shape, double low = -2, double high = 2) {
  return of(DType::kFloat16, std::move(shape), low, high);
}
inline SampleInput i64(Dims shape, double low = -20, double high = 20) {
  return of(DType::kInt64, std::move(shape), low, high);
}
inline SampleInput boolean(Dims shape) { return of(DType::kBool, std::move(shape), 0, 1); }

/// The given values, as an input of a run.
inline SampleInput values(DType type, Dims shape, const std::vector<double>& elements) {
  SampleInput input;
  input.type = type;
  input.shape = shape;
  input.data = TensorData::from_values<double>(type, std::move(shape), elements);
  return input;
}
/// An i64 list, known when compiling.
inline SampleInput list(const std::vector<int64_t>& elements) {
  SampleInput input;
  input.type = DType::kInt64;
  input.shape = {static_cast<int64_t>(elements.size())};
  input.data = TensorData::from_values<int64_t>(DType::kInt64, input.shape, elements);
  input.constant = true;
  return input;
}
/// An i64 list that only the run knows.
inline SampleInput run_list(const std::vector<int64_t>& elements) {
  SampleInput input = list(elements);
  input.constant = false;
  return input;
}
/// A scalar, known when compiling.
inline SampleInput scalar(DType type, double value) {
  SampleInput input = values(type, {}, {value});
  input.constant = true;
  return input;
}
inline SampleInput absent() {
  SampleInput input;
  input.absent = true;
  return input;
}

}  // namespace graft::samples
