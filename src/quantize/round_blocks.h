// SPDX-License-Identifier: Apache-2.0
// Weights of 4 bits in blocks: rounded to the nearest code, or so that the products stay near (GPTQ).
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace graft::quantize {

/// Weights as codes, symmetric, with a scale for each index along an axis, or each block of one.
struct QuantisedWeights {
  TensorData codes, scales;
  double noise = 0;  ///< the mean square that rounding changes, as a share of the mean square of the weights
};

/// Rounds weights of f32, a matrix, to s4 codes from -8 to 7, with a scale for each `block` of elements along `axis`
/// (the last one may be shorter): the scale whose square error is the smallest of a few near the largest magnitude.
QuantisedWeights quantise_blocks(const TensorData& weights, int64_t axis, int64_t block);

/// Sums of products of each two channels of what multiplies a matrix, over the rows of samples.
class ChannelProducts {
 public:
  explicit ChannelProducts(int64_t channels);
  /// Rows of as many elements as there are channels.
  void add(std::span<const float> rows, int threads);

  int64_t channels() const { return channels_; }
  int64_t rows() const { return rows_; }
  /// Of channels i and j.
  double of(size_t i, size_t j) const { return sums_[i < j ? i * size() + j : j * size() + i]; }

 private:
  size_t size() const { return static_cast<size_t>(channels_); }

  int64_t channels_;
  int64_t rows_ = 0;
  std::vector<double> sums_;  ///< row by row; what is below the diagonal is not there
};

/// The same blocks, rounded one element after another along `axis`. What rounding changes moves into the elements
/// behind, so that the products of the samples change least (GPTQ; Frantar et al., 2022). Where the nearest codes keep
/// the products better, it is these.
QuantisedWeights quantise_blocks(const TensorData& weights, int64_t axis, int64_t block,
                                 const ChannelProducts& products, int threads);

/// The mean square of what codes change in the products of the samples with the weights, as a share of the mean square
/// of these.
double product_noise(const TensorData& weights, int64_t axis, int64_t block, const QuantisedWeights& rounded,
                     const ChannelProducts& products, int threads);

/// Weights that were rounded by samples: by the constant, and the axis of its results.
using RoundedWeights = std::map<std::pair<ValueId, int64_t>, QuantisedWeights>;

}  // namespace graft::quantize
