// SPDX-License-Identifier: Apache-2.0
#include "base/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/convert.h"
#include "base/error.h"

namespace graft {
namespace {

constexpr int64_t kBlock = 1 << 12;
using Number = std::complex<double>;

bool is_inexact(DType type) { return is_float(type) || kind_of(type) == DTypeKind::kComplex; }

/// Elements first, first + 1, ... of a float or complex tensor.
void read_numbers(const TensorData& tensor, int64_t first, std::span<Number> numbers) {
  if (kind_of(tensor.type()) == DTypeKind::kComplex) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      const size_t at = 2 * (static_cast<size_t>(first) + i);
      numbers[i] = tensor.type() == DType::kComplex64 ? Number(tensor.as<float>()[at], tensor.as<float>()[at + 1])
                                                      : Number(tensor.as<double>()[at], tensor.as<double>()[at + 1]);
    }
    return;
  }
  std::array<double, kBlock> values;
  tensor.read_doubles(first, std::span(values.data(), numbers.size()));
  std::copy_n(values.begin(), numbers.size(), numbers.begin());
}

bool is_nan(Number x) { return std::isnan(x.real()) || std::isnan(x.imag()); }
bool is_infinite(Number x) { return !is_nan(x) && (std::isinf(x.real()) || std::isinf(x.imag())); }
bool is_finite(Number x) { return std::isfinite(x.real()) && std::isfinite(x.imag()); }

/// Calls `work(first, count)` for all elements, in blocks.
template <class Work>
void in_blocks(int64_t elements, const std::function<void()>& between, const Work& work) {
  for (int64_t first = 0; first < elements; first += kBlock) {
    if (between) between();
    work(first, static_cast<size_t>(std::min(kBlock, elements - first)));
  }
}

/// Notes how the elements of a comparison differ, one after the other.
class Counter {
 public:
  explicit Counter(int64_t elements) { found_.elements = elements; }

  /// `severity` is the difference in units of what is allowed.
  void add(int64_t at, bool agrees, double difference, double severity) {
    if (!agrees && found_.outside++ == 0) found_.first = at;
    if (severity > worst_) {
      worst_ = severity;
      found_.worst = at;
      found_.worst_difference = difference;
    }
  }
  void add_number(int64_t at, Number result, Number reference, const Tolerance& tolerance) {
    found_.nan += is_nan(result), found_.reference_nan += is_nan(reference);
    found_.infinite += is_infinite(result), found_.reference_infinite += is_infinite(reference);
    if (is_finite(reference)) note_range(reference.real());
    if (!is_finite(result) || !is_finite(reference)) {
      const bool same = (is_nan(result) && is_nan(reference)) || result == reference;
      if (!same) add(at, false, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity());
      return;
    }
    const double difference = std::abs(result - reference);
    found_.largest = std::max(found_.largest, difference);
    if (difference == 0) return;
    const double allowed = tolerance.relative * std::abs(reference) + tolerance.absolute;
    // Differences that are not allowed at all are still told apart by their size.
    const double size = difference / (1 + difference);
    const double severity = allowed > 0 ? difference / allowed : std::numeric_limits<double>::max() * size;
    add(at, difference <= allowed, difference, severity);
  }
  const Comparison& found() const { return found_; }

 private:
  void note_range(double value) {
    found_.reference_low = ranged_ ? std::min(found_.reference_low, value) : value;
    found_.reference_high = ranged_ ? std::max(found_.reference_high, value) : value;
    ranged_ = true;
  }

  Comparison found_;
  double worst_ = 0;
  bool ranged_ = false;
};

/// The elements in another float type, which has room for them.
TensorData widened(const TensorData& tensor, DType type) {
  TensorData wide = TensorData::zeros(type, tensor.shape());
  std::array<double, kBlock> values;
  in_blocks(tensor.element_count(), {}, [&](int64_t first, size_t count) {
    tensor.read_doubles(first, std::span(values.data(), count));
    wide.write_doubles(first, std::span<const double>(values.data(), count));
  });
  return wide;
}

/// `; NaN 3` when both have as many, `; NaN 3, reference 0` otherwise, nothing when there are none.
std::string counts_text(const char* what, int64_t count, int64_t of_reference) {
  if (count == 0 && of_reference == 0) return "";
  const std::string text = fmt::format("; {} {}", what, count);
  return count == of_reference ? text : fmt::format("{}, reference {}", text, of_reference);
}

std::string words_for(const Judgement& judgement, const TensorData& result, const TensorData& reference) {
  const Comparison& found = judgement.found;
  const Tolerance& allowed = judgement.allowed;
  std::string text = "agrees";
  if (!found.agrees()) {
    text = fmt::format("WRONG: {} of {}; worst {}: {}, reference {}", found.outside, found.elements,
                       index_text(result, found.worst), show_element(result, found.worst),
                       show_element(reference, found.worst));
    if (allowed.relative > 0 || allowed.absolute > 0) {
      text += fmt::format(" (allowed {:.2g} of it + {:.2g})", allowed.relative, allowed.absolute);
    }
  }
  return text + counts_text("NaN", found.nan, found.reference_nan) +
         counts_text("infinite", found.infinite, found.reference_infinite);
}

/// Integers and bools as they stand.
void compare_exactly(const TensorData& result, const TensorData& reference, const std::function<void()>& between,
                     Counter& counter) {
  std::array<int64_t, kBlock> a, b;
  in_blocks(reference.element_count(), between, [&](int64_t first, size_t count) {
    result.read_integers(first, std::span(a.data(), count));
    reference.read_integers(first, std::span(b.data(), count));
    for (size_t i = 0; i < count; ++i) {
      if (a[i] == b[i]) continue;
      const DType type = result.type();
      const double difference = std::fabs(integer_to_double(type, a[i]) - integer_to_double(type, b[i]));
      counter.add(first + static_cast<int64_t>(i), false, difference, 1 + difference);
    }
  });
}

}  // namespace

Tolerance default_tolerance(DType type, double magnitude) {
  switch (type) {
    case DType::kFloat64:
    case DType::kComplex128:
      return {1e-9, 1e-9 * magnitude};
    case DType::kFloat32:
    case DType::kComplex64:
      return {5e-5, 5e-5 * magnitude};
    case DType::kFloat16:
      return {1e-2, 1e-3 * magnitude};
    case DType::kBFloat16:
      return {2e-2, 8e-3 * magnitude};
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ:
      return {0.125, 2e-3 * magnitude};
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ:
      return {0.25, 2e-3 * magnitude};
    case DType::kFloat4E2M1:
      return {0.5, 0.1 * magnitude};
    case DType::kFloat8E8M0:
      return {1, 0};
    default:
      return {};
  }
}

double largest_magnitude(const TensorData& tensor) {
  if (!is_inexact(tensor.type())) return 0;
  double largest = 0;
  std::array<Number, kBlock> numbers;
  in_blocks(tensor.element_count(), {}, [&](int64_t first, size_t count) {
    read_numbers(tensor, first, std::span(numbers.data(), count));
    for (size_t i = 0; i < count; ++i) {
      if (is_finite(numbers[i])) largest = std::max(largest, std::abs(numbers[i]));
    }
  });
  return largest;
}

Comparison compare(const TensorData& result, const TensorData& reference, const Tolerance& tolerance,
                   const std::function<void()>& between) {
  GRAFT_CHECK(result.type() == reference.type() && result.shape() == reference.shape(),
              describe(result) + " is compared with " + describe(reference));
  Counter counter(reference.element_count());
  if (reference.type() == DType::kString) {
    for (size_t i = 0; i < reference.strings().size(); ++i) {
      if (result.strings()[i] != reference.strings()[i]) counter.add(static_cast<int64_t>(i), false, 0, 1);
    }
  } else if (!is_inexact(reference.type())) {
    compare_exactly(result, reference, between, counter);
  } else {
    std::array<Number, kBlock> a, b;
    in_blocks(reference.element_count(), between, [&](int64_t first, size_t count) {
      read_numbers(result, first, std::span(a.data(), count));
      read_numbers(reference, first, std::span(b.data(), count));
      for (size_t i = 0; i < count; ++i) counter.add_number(first + static_cast<int64_t>(i), a[i], b[i], tolerance);
    });
  }
  return counter.found();
}

Judgement judge(const TensorData& result, const TensorData& reference, const ToleranceChoice& choice,
                const std::function<void()>& between) {
  const bool floats = is_float(result.type()) && is_float(reference.type());
  if (result.shape() != reference.shape() || (result.type() != reference.type() && !floats)) {
    return {.words = "WRONG: the reference is " + describe(reference)};
  }
  if (result.type() != reference.type()) {
    const bool result_is_wide = bit_width(result.type()) > bit_width(reference.type());
    const DType wide = result_is_wide ? result.type() : reference.type();
    ToleranceChoice narrow = choice;
    if (narrow.rounds_to == DType::kUndefined) narrow.rounds_to = result_is_wide ? reference.type() : result.type();
    // Two types of one width hold different numbers: f32 has room for both.
    const DType common = bit_width(result.type()) == bit_width(reference.type()) ? DType::kFloat32 : wide;
    return judge(widened(result, common), widened(reference, common), narrow, between);
  }
  Judgement judgement{.compared = true, .exact = !is_inexact(result.type())};
  if (!judgement.exact) {
    const bool lowered = result.type() == DType::kFloat32 && choice.rounds_to != DType::kUndefined;
    const double magnitude = choice.absolute ? 0 : largest_magnitude(reference);
    const Tolerance usual = default_tolerance(lowered ? choice.rounds_to : result.type(), magnitude);
    judgement.allowed = {choice.relative.value_or(usual.relative), choice.absolute.value_or(usual.absolute)};
  }
  judgement.found = compare(result, reference, judgement.allowed, between);
  judgement.agrees = judgement.found.agrees();
  judgement.words = words_for(judgement, result, reference);
  return judgement;
}

std::string show_element(const TensorData& tensor, int64_t index) {
  if (tensor.type() == DType::kString) return fmt::format("\"{}\"", tensor.strings()[static_cast<size_t>(index)]);
  if (kind_of(tensor.type()) == DTypeKind::kComplex) {
    Number number;
    read_numbers(tensor, index, std::span(&number, 1));
    return fmt::format("{:.7g}{:+.7g}i", number.real(), number.imag());
  }
  if (is_float(tensor.type())) return fmt::format("{:.7g}", tensor.read_double(index));
  const int64_t value = tensor.read_integer(index);
  return tensor.type() == DType::kUint64 ? std::to_string(static_cast<uint64_t>(value)) : std::to_string(value);
}

std::string index_text(const TensorData& tensor, int64_t index) {
  std::vector<int64_t> place(tensor.shape().size());
  for (size_t axis = place.size(); axis-- > 0;) {
    place[axis] = index % tensor.shape()[axis];
    index /= tensor.shape()[axis];
  }
  return fmt::format("[{}]", fmt::join(place, ", "));
}

}  // namespace graft
