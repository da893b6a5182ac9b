// SPDX-License-Identifier: Apache-2.0
#include "quantize/round_blocks.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/call_in_parallel.h"
#include "base/error.h"

namespace graft::quantize {
namespace {

/// Added to the diagonal, as a share of its mean: what samples do not tell apart has a unique answer then.
constexpr double kDamping = 0.01;
constexpr size_t kRowsAtOnce = 32;  // of samples: they stay in the cache
constexpr size_t kPieces = 16;      // for threads

/// The last code of s4 downwards; upwards it is one less.
constexpr double kFirstCode4 = -8;

double code4(double value, float scale) {
  return std::clamp(std::nearbyint(value / scale), kFirstCode4, -kFirstCode4 - 1);
}

/// The scale of a block, of a few, that changes its elements least.
float scale_of_block(std::span<const double> block) {
  double largest = 0;
  for (const double value : block) largest = std::max(largest, std::fabs(value));
  if (largest == 0) return 1;
  float best = 0;
  double least = 0;
  for (const double steps : {7.0, 7.25, 7.5, 7.75, 8.0, 8.5, 9.0, 9.5, 10.0, 11.0}) {
    const float scale = std::max(static_cast<float>(largest / steps), 1e-30F);
    double changed = 0;
    for (const double value : block) {
      const double error = code4(value, scale) * scale - value;
      changed += error * error;
    }
    if (best == 0 || changed < least) best = scale, least = changed;
  }
  return best;
}

/// A matrix of weights as lines along the axis that is summed over, with where its codes and scales are.
struct Lines {
  int64_t length, lines, step, line_step, scale_step, scale_line;
  std::vector<int64_t> of_scales;

  Lines(const TensorData& weights, int64_t axis, int64_t block) : of_scales(weights.shape()) {
    const std::vector<int64_t>& shape = weights.shape();
    length = shape[static_cast<size_t>(axis)], lines = shape[static_cast<size_t>(1 - axis)];
    step = axis == 0 ? lines : 1, line_step = axis == 0 ? 1 : length;
    of_scales[static_cast<size_t>(axis)] = (length + block - 1) / block;
    scale_step = axis == 0 ? lines : 1, scale_line = axis == 0 ? 1 : of_scales[1];
  }
  size_t element(int64_t line, int64_t n) const { return static_cast<size_t>(line * line_step + n * step); }
  int64_t scale(int64_t line, int64_t of_block) const { return of_block * scale_step + line * scale_line; }
};

/// Codes and scales as they are found, line by line.
struct Rounding {
  std::vector<int64_t> codes;
  std::vector<float> scales;

  Rounding(const TensorData& weights, const Lines& lines)
      : codes(static_cast<size_t>(weights.element_count())),
        scales(static_cast<size_t>(lines.of_scales[0] * lines.of_scales[1])) {}

  QuantisedWeights finish(const TensorData& weights, const Lines& lines, int64_t block) const {
    QuantisedWeights made{TensorData::zeros(DType::kInt4, weights.shape()),
                          TensorData::zeros(DType::kFloat32, lines.of_scales), 0};
    const std::span<const float> values = weights.as<float>();
    double signal = 0, noise = 0;
    for (int64_t line = 0; line < lines.lines; ++line) {
      for (int64_t n = 0; n < lines.length; ++n) {
        const size_t i = lines.element(line, n);
        const double scale = scales[static_cast<size_t>(lines.scale(line, n / block))];
        const double value = values[i], error = static_cast<double>(codes[i]) * scale - value;
        signal += value * value, noise += error * error;
      }
    }
    for (size_t n = 0; n < scales.size(); ++n) made.scales.write_double(static_cast<int64_t>(n), scales[n]);
    made.codes.write_integers(0, codes);
    made.noise = signal > 0 ? noise / signal : 0;
    return made;
  }
};

double dot(std::span<const double> a, std::span<const double> b) {
  constexpr size_t kSums = 8;
  double sums[kSums] = {};
  size_t n = 0;
  for (; n + kSums <= a.size(); n += kSums) {
    for (size_t i = 0; i < kSums; ++i) sums[i] += a[n + i] * b[n + i];
  }
  double sum = 0;
  for (; n < a.size(); ++n) sum += a[n] * b[n];
  for (const double each : sums) sum += each;
  return sum;
}

/// U with inverse(H) = U^T U, upper triangular; row k begins at its diagonal. H are the products, damped.
class Inverse {
 public:
  explicit Inverse(const ChannelProducts& products) : size_(static_cast<size_t>(products.channels())) {
    // In reversed order H = L L^T gives H = R R^T with R upper triangular, and U = inverse(R).
    double mean = 0;
    for (size_t n = 0; n < size_; ++n) mean += products.of(n, n) / static_cast<double>(size_);
    std::vector<double> lower(size_ * size_, 0);
    for (size_t i = 0; i < size_; ++i) {
      for (size_t j = 0; j <= i; ++j) lower[i * size_ + j] = products.of(size_ - 1 - i, size_ - 1 - j);
      lower[i * size_ + i] += mean > 0 ? kDamping * mean : 1;
    }
    factor(lower);
    invert(lower);
  }

  /// The row k of U, from its last element to its diagonal.
  std::span<const double> reversed_row(size_t k) const {
    const size_t row = size_ - 1 - k;
    return std::span(inverse_).subspan(row * size_, row + 1);
  }

 private:
  void factor(std::vector<double>& lower) const {
    const auto row = [&](size_t n, size_t count) { return std::span<const double>(lower).subspan(n * size_, count); };
    for (size_t i = 0; i < size_; ++i) {
      for (size_t j = 0; j < i; ++j) {
        lower[i * size_ + j] = (lower[i * size_ + j] - dot(row(i, j), row(j, j))) / lower[j * size_ + j];
      }
      const double left = lower[i * size_ + i] - dot(row(i, i), row(i, i));
      lower[i * size_ + i] = std::sqrt(std::max(left, 1e-300));
    }
  }

  void invert(const std::vector<double>& lower) {
    inverse_.assign(size_ * size_, 0);
    for (size_t i = 0; i < size_; ++i) {
      double* const row = &inverse_[i * size_];
      for (size_t j = 0; j < i; ++j) {
        const double by = lower[i * size_ + j];
        const double* const other = &inverse_[j * size_];
        for (size_t n = 0; n <= j; ++n) row[n] -= by * other[n];
      }
      row[i] = 1;
      const double scale = 1 / lower[i * size_ + i];
      for (size_t n = 0; n <= i; ++n) row[n] *= scale;
    }
  }

  const size_t size_;
  std::vector<double> inverse_;  ///< of L
};

/// Rounds one line; `reversed` has its elements from the last to the first, which what is left is taken from.
void round_line(std::vector<double>& reversed, const Inverse& inverse, int64_t line, const Lines& lines, int64_t block,
                Rounding& made) {
  const size_t length = reversed.size();
  std::vector<double> held;
  float scale = 1;
  for (size_t k = 0; k < length; ++k) {
    const auto place = static_cast<int64_t>(k);
    if (place % block == 0) {
      held.clear();
      for (size_t n = k; n < std::min(length, k + static_cast<size_t>(block)); ++n) {
        held.push_back(reversed[length - 1 - n]);
      }
      scale = scale_of_block(held);
      made.scales[static_cast<size_t>(lines.scale(line, place / block))] = scale;
    }
    const double value = reversed[length - 1 - k], code = code4(value, scale);
    made.codes[lines.element(line, place)] = static_cast<int64_t>(code);
    const std::span<const double> row = inverse.reversed_row(k);
    const double left = (value - code * scale) / row.back();
    for (size_t n = 0; n + 1 < row.size(); ++n) reversed[n] -= left * row[n];
  }
}

void in_pieces(size_t count, int threads, const std::function<void(size_t begin, size_t end)>& work) {
  const size_t pieces = std::min(kPieces, std::max<size_t>(count, 1));
  call_in_parallel(pieces, threads,
                   [&](size_t piece) { work(count * piece / pieces, count * (piece + 1) / pieces); });
}

}  // namespace

QuantisedWeights quantise_blocks(const TensorData& weights, int64_t axis, int64_t block) {
  const Lines lines(weights, axis, block);
  const std::span<const float> values = weights.as<float>();
  Rounding made(weights, lines);
  std::vector<double> held;
  for (int64_t first = 0; first < lines.length; first += block) {
    for (int64_t line = 0; line < lines.lines; ++line) {
      const int64_t count = std::min(block, lines.length - first);
      held.clear();
      for (int64_t i = 0; i < count; ++i) held.push_back(values[lines.element(line, first + i)]);
      const float scale = scale_of_block(held);
      made.scales[static_cast<size_t>(lines.scale(line, first / block))] = scale;
      for (int64_t i = 0; i < count; ++i) {
        made.codes[lines.element(line, first + i)] = static_cast<int64_t>(code4(held[static_cast<size_t>(i)], scale));
      }
    }
  }
  return made.finish(weights, lines, block);
}

ChannelProducts::ChannelProducts(int64_t channels)
    : channels_(channels), sums_(static_cast<size_t>(channels) * static_cast<size_t>(channels), 0) {}

void ChannelProducts::add(std::span<const float> rows, int threads) {
  const size_t width = size(), count = rows.size() / width;
  rows_ += static_cast<int64_t>(count);
  in_pieces(width, threads, [&](size_t begin, size_t end) {
    for (size_t first = 0; first < count; first += kRowsAtOnce) {
      const size_t last = std::min(count, first + kRowsAtOnce);
      for (size_t i = begin; i < end; ++i) {
        double* const sums = &sums_[i * width];
        for (size_t row = first; row < last; ++row) {
          const float* const x = &rows[row * width];
          const double by = x[i];
          for (size_t j = i; j < width; ++j) sums[j] += by * x[j];
        }
      }
    }
  });
}

double product_noise(const TensorData& weights, int64_t axis, int64_t block, const QuantisedWeights& rounded,
                     const ChannelProducts& products, int threads) {
  const Lines lines(weights, axis, block);
  const std::span<const float> values = weights.as<float>();
  const auto length = static_cast<size_t>(lines.length), count = static_cast<size_t>(lines.lines);
  std::vector<double> signal(count, 0), noise(count, 0);
  in_pieces(count, threads, [&](size_t begin, size_t end) {
    std::vector<double> of_line(length), changed(length);
    for (size_t line = begin; line < end; ++line) {
      for (size_t n = 0; n < length; ++n) {
        const auto place = static_cast<int64_t>(n), of = static_cast<int64_t>(line);
        const size_t i = lines.element(of, place);
        of_line[n] = values[i];
        changed[n] = rounded.codes.read_double(static_cast<int64_t>(i)) *
                         rounded.scales.read_double(lines.scale(of, place / block)) - values[i];
      }
      for (size_t i = 0; i < length; ++i) {
        double of_signal = 0, of_noise = 0;
        for (size_t j = i + 1; j < length; ++j) {
          const double product = 2 * products.of(i, j);
          of_signal += product * of_line[j], of_noise += product * changed[j];
        }
        of_signal += products.of(i, i) * of_line[i], of_noise += products.of(i, i) * changed[i];
        signal[line] += of_signal * of_line[i], noise[line] += of_noise * changed[i];
      }
    }
  });
  double all = 0, lost = 0;
  for (size_t n = 0; n < count; ++n) all += signal[n], lost += noise[n];
  return all > 0 ? std::max(lost, 0.0) / all : 0;
}

QuantisedWeights quantise_blocks(const TensorData& weights, int64_t axis, int64_t block,
                                 const ChannelProducts& products, int threads) {
  const Lines lines(weights, axis, block);
  GRAFT_CHECK(products.channels() == lines.length, "products are of the channels that the weights multiply");
  QuantisedWeights nearest = quantise_blocks(weights, axis, block);
  const Inverse inverse(products);
  const std::span<const float> values = weights.as<float>();
  Rounding made(weights, lines);
  in_pieces(static_cast<size_t>(lines.lines), threads, [&](size_t begin, size_t end) {
    std::vector<double> reversed(static_cast<size_t>(lines.length));
    for (size_t line = begin; line < end; ++line) {
      for (size_t n = 0; n < reversed.size(); ++n) {
        reversed[reversed.size() - 1 - n] =
            values[lines.element(static_cast<int64_t>(line), static_cast<int64_t>(n))];
      }
      round_line(reversed, inverse, static_cast<int64_t>(line), lines, block, made);
    }
  });
  QuantisedWeights rounded = made.finish(weights, lines, block);
  const double noise = product_noise(weights, axis, block, rounded, products, threads);
  return noise < product_noise(weights, axis, block, nearest, products, threads) ? rounded : nearest;
}

}  // namespace graft::quantize
