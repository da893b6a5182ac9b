// SPDX-License-Identifier: Apache-2.0
// A tensor in host memory: constants of a graph, inputs and results of the interpreter, files.
#pragma once

#include <complex>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/dtype.h"

namespace graft {

/// The number of elements of a concrete shape; throws invalid_argument naming `where` when an extent is negative or
/// the bytes of the tensor would not fit in 63 bits.
int64_t checked_element_count(DType type, std::span<const int64_t> shape, const std::string& where = "tensor");

/// An immutable-by-default dense row-major tensor. Bytes are packed little-endian: elements narrower than a byte
/// share bytes, lowest bits first, and the unused bits of the last byte are zero. Copies share their bytes until
/// one of them is written to. Distinct objects may be used from distinct threads.
/// Strings (DType::kString) are kept as std::string beside, and have no bytes.
///
///   TensorData x = TensorData::from_values<float>(DType::kFloat32, {2, 2}, {1, 2, 3, 4});
///   x.write_double(3, 0.5);
class TensorData {
 public:
  /// No tensor: type kUndefined.
  TensorData() = default;

  static TensorData zeros(DType type, std::vector<int64_t> shape);
  /// One `T` per element (two for complex given as its component type); packed types take any integer or float.
  template <class T>
  static TensorData from_values(DType type, std::vector<int64_t> shape, const std::vector<T>& values);
  static TensorData from_strings(std::vector<int64_t> shape, std::vector<std::string> values);
  /// Copies packed bytes; throws invalid_argument when their number is not that of the shape.
  static TensorData from_bytes(DType type, std::vector<int64_t> shape, std::span<const std::byte> bytes);
  /// Refers to bytes that `keep_alive` owns (a mapped file, a caller's buffer); misaligned ones are copied.
  static TensorData borrow(DType type, std::vector<int64_t> shape, std::span<const std::byte> bytes,
                           std::shared_ptr<const void> keep_alive);

  /// A tensor whose bytes are made when somebody first asks for them: `make` then gives a tensor of this type and
  /// shape, once for all copies.
  static TensorData deferred(DType type, std::vector<int64_t> shape, std::function<TensorData()> make);

  DType type() const { return type_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int rank() const { return static_cast<int>(shape_.size()); }
  int64_t element_count() const { return count_; }
  int64_t byte_count() const { return static_cast<int64_t>(size_); }
  explicit operator bool() const { return type_ != DType::kUndefined; }

  std::span<const std::byte> bytes() const {
    return deferred_ ? deferred_bytes() : std::span<const std::byte>(data_, size_);
  }
  /// Whether it was made by deferred(): asking for its bytes may cost time and memory.
  bool is_deferred() const { return deferred_ != nullptr; }
  /// Whether both have the same bytes in the same memory (or will have, when deferred), whatever their shapes.
  bool shares_bytes_with(const TensorData& other) const;
  /// Bytes to write to, of this tensor alone: shared or borrowed ones are copied first.
  std::span<std::byte> mutable_bytes();
  const std::vector<std::string>& strings() const;
  std::vector<std::string>& mutable_strings();

  /// The elements as T, which has the element's width: its C++ type, or an unsigned integer for its bits
  /// (uint16_t for f16). Complex tensors also give their components (real, imaginary, ...).
  template <class T>
  std::span<const T> as() const;
  template <class T>
  std::span<T> mutable_as();

  /// One element of any float, integer or bool type as a number (the real part of a complex one).
  double read_double(int64_t index) const;
  /// One element as an integer: floats towards zero, saturating; u64 keeps its bits.
  int64_t read_integer(int64_t index) const;
  /// Stores with the rounding of convert.h.
  void write_double(int64_t index, double value);
  /// Stores an integer, wrapped to the width of an integer type.
  void write_integer(int64_t index, int64_t value);

  /// Bulk forms over elements first, first + 1, ...
  void read_doubles(int64_t first, std::span<double> values) const;
  void read_integers(int64_t first, std::span<int64_t> values) const;
  void write_doubles(int64_t first, std::span<const double> values);
  void write_integers(int64_t first, std::span<const int64_t> values);

  /// The same bytes under another shape of as many elements.
  TensorData reshaped(std::vector<int64_t> shape) const;
  /// Same type, shape and bytes (so NaN equals itself, and -0 differs from 0).
  bool operator==(const TensorData& other) const;

 private:
  TensorData(DType type, std::vector<int64_t> shape);
  void check_view(bool floating, size_t width) const;
  std::span<const std::byte> deferred_bytes() const;

  DType type_ = DType::kUndefined;
  std::vector<int64_t> shape_;
  int64_t count_ = 0;
  struct Deferred;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::shared_ptr<const void> owner_;
  bool borrowed_ = false;
  std::shared_ptr<Deferred> deferred_;  ///< then data_ and owner_ are null
  std::shared_ptr<std::vector<std::string>> strings_;
};

/// `f32[2, 3]`
std::string describe(const TensorData& tensor);

template <class T>
std::span<const T> TensorData::as() const {
  constexpr bool kFloating = std::is_floating_point_v<T> || !std::is_arithmetic_v<T>;
  check_view(kFloating, sizeof(T));
  return {reinterpret_cast<const T*>(bytes().data()), size_ / sizeof(T)};
}

template <class T>
std::span<T> TensorData::mutable_as() {
  const size_t count = as<T>().size();
  return {reinterpret_cast<T*>(mutable_bytes().data()), count};
}

namespace detail {
[[noreturn]] void throw_value_count(DType type, int64_t expected, size_t given);
}

template <class T>
TensorData TensorData::from_values(DType type, std::vector<int64_t> shape, const std::vector<T>& values) {
  TensorData result = zeros(type, std::move(shape));
  if constexpr (!std::is_arithmetic_v<T>) {
    const auto into = result.mutable_as<T>();
    if (into.size() != values.size()) detail::throw_value_count(type, result.count_, values.size());
    for (size_t i = 0; i < values.size(); ++i) into[i] = values[i];
  } else if (kind_of(type) == DTypeKind::kComplex) {
    const auto into = result.mutable_as<T>();
    if (into.size() != values.size()) detail::throw_value_count(type, 2 * result.count_, values.size());
    for (size_t i = 0; i < values.size(); ++i) into[i] = values[i];
  } else {
    if (static_cast<size_t>(result.count_) != values.size()) {
      detail::throw_value_count(type, result.count_, values.size());
    }
    for (size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_floating_point_v<T>) {
        result.write_double(static_cast<int64_t>(i), values[i]);
      } else {
        result.write_integer(static_cast<int64_t>(i), static_cast<int64_t>(values[i]));
      }
    }
  }
  return result;
}

}  // namespace graft
