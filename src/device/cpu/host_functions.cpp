// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/host_functions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/dtype.h"

namespace graft {
namespace {

struct HostFunction {
  std::string_view name;
  void* address;
};

template <class Function>
void* address_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

#define GRAFT_HOST_MATH1(name)                                         \
  {#name "f", address_of(static_cast<float (*)(float)>(::name##f))}, { \
#name, address_of(static_cast <double (*)(double)>(::name))        \
  }
#define GRAFT_HOST_MATH2(name)                                                \
  {#name "f", address_of(static_cast<float (*)(float, float)>(::name##f))}, { \
#name, address_of(static_cast <double (*)(double, double)>(::name))       \
  }

/// Every row is something that LLVM or our own emission calls; names are those of the C library.
const HostFunction kFunctions[] = {
    {"memcpy", address_of(::memcpy)},
    {"memmove", address_of(::memmove)},
    {"memset", address_of(::memset)},
    {"fmaf", address_of(static_cast<float (*)(float, float, float)>(::fmaf))},
    {"fma", address_of(static_cast<double (*)(double, double, double)>(::fma))},
    {"graft_host_sort", address_of(graft_host_sort)},
    GRAFT_HOST_MATH1(sqrt),
    GRAFT_HOST_MATH1(exp),
    GRAFT_HOST_MATH1(exp2),
    GRAFT_HOST_MATH1(log),
    GRAFT_HOST_MATH1(log1p),
    GRAFT_HOST_MATH1(expm1),
    GRAFT_HOST_MATH1(erf),
    GRAFT_HOST_MATH1(sin),
    GRAFT_HOST_MATH1(cos),
    GRAFT_HOST_MATH1(tan),
    GRAFT_HOST_MATH1(asin),
    GRAFT_HOST_MATH1(acos),
    GRAFT_HOST_MATH1(atan),
    GRAFT_HOST_MATH1(sinh),
    GRAFT_HOST_MATH1(cosh),
    GRAFT_HOST_MATH1(tanh),
    GRAFT_HOST_MATH1(asinh),
    GRAFT_HOST_MATH1(acosh),
    GRAFT_HOST_MATH1(atanh),
    GRAFT_HOST_MATH1(floor),
    GRAFT_HOST_MATH1(ceil),
    GRAFT_HOST_MATH1(trunc),
    GRAFT_HOST_MATH1(rint),
    GRAFT_HOST_MATH1(roundeven),
    GRAFT_HOST_MATH2(fmin),  // what LLVM makes of a choice between an f16 that is not NaN and a constant
    GRAFT_HOST_MATH2(fmax),
    GRAFT_HOST_MATH2(pow),
    GRAFT_HOST_MATH2(fmod),
};

#undef GRAFT_HOST_MATH1
#undef GRAFT_HOST_MATH2

/// The bits of an f16 or bf16 ordered like the numbers they stand for; NaN becomes the largest.
template <int kExponentBits>
struct SmallFloat {
  uint16_t bits;
  int32_t order() const {
    const int32_t magnitude = bits & 0x7fff;
    const int32_t infinity = ((1 << kExponentBits) - 1) << (15 - kExponentBits);
    if (magnitude > infinity) return 0x7fff;
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }
};

template <class T>
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(value);
  return false;
}

template <class T>
bool less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return !is_nan(a) && (is_nan(b) || a < b);
  else if constexpr (std::is_integral_v<T>)
    return a < b;
  else
    return a.order() < b.order();
}

/// A row of keys and the positions that move with them.
template <class T>
struct Row {
  T* keys;
  int64_t key_stride;
  int64_t* positions;
  int64_t position_stride;
  bool descending;

  T key(int64_t n) const { return keys[n * key_stride]; }
  /// Whether element b must come before element a although it stands after it.
  bool before(T a, T b) const { return descending ? less(b, a) : less(a, b); }
  void swap(int64_t a, int64_t b) {
    std::swap(keys[a * key_stride], keys[b * key_stride]);
    std::swap(positions[a * position_stride], positions[b * position_stride]);
  }
  void reverse(int64_t first, int64_t last) {
    for (--last; first < last; ++first, --last) swap(first, last);
  }
  void rotate(int64_t first, int64_t middle, int64_t last) {
    if (first == middle || middle == last) return;
    reverse(first, middle);
    reverse(middle, last);
    reverse(first, last);
  }
  void insert(int64_t first, int64_t last) {
    for (int64_t n = first + 1; n < last; ++n) {
      for (int64_t m = n; m > first && before(key(m), key(m - 1)); --m) swap(m, m - 1);
    }
  }
  /// Merges two sorted neighbours in place: cuts the longer in half, rotates, goes on with both halves.
  void merge(int64_t first, int64_t middle, int64_t last) {
    while (first < middle && middle < last) {
      if (!before(key(middle), key(middle - 1))) return;
      int64_t left = first, right = middle;
      if (middle - first >= last - middle) {
        left = first + (middle - first) / 2;
        right = lower_bound(middle, last, key(left));
      } else {
        right = middle + (last - middle) / 2;
        left = upper_bound(first, middle, key(right));
      }
      rotate(left, middle, right);
      const int64_t cut = left + (right - middle);
      merge(first, left, cut);
      first = cut;
      middle = right;
    }
  }
  int64_t lower_bound(int64_t first, int64_t last, T value) const {
    while (first < last) {
      const int64_t half = first + (last - first) / 2;
      if (before(key(half), value))
        first = half + 1;
      else
        last = half;
    }
    return first;
  }
  int64_t upper_bound(int64_t first, int64_t last, T value) const {
    while (first < last) {
      const int64_t half = first + (last - first) / 2;
      if (before(value, key(half)))
        last = half;
      else
        first = half + 1;
    }
    return first;
  }
  void sort(int64_t length) {
    constexpr int64_t kRun = 16;
    for (int64_t n = 0; n < length; n += kRun) insert(n, std::min(n + kRun, length));
    for (int64_t width = kRun; width < length; width *= 2) {
      for (int64_t n = 0; n + width < length; n += 2 * width) merge(n, n + width, std::min(n + 2 * width, length));
    }
  }
};

}  // namespace

void* find_host_function(std::string_view name) {
  for (const HostFunction& function : kFunctions) {
    if (function.name == name) return function.address;
  }
  return nullptr;
}

}  // namespace graft

void graft_host_sort(void* keys, int64_t key_stride, int64_t* positions, int64_t position_stride, int64_t length,
                     int32_t type, int32_t descending) {
  using graft::DType;
  auto sort = [&](auto zero) {
    using T = decltype(zero);
    graft::Row<T>{static_cast<T*>(keys), key_stride, positions, position_stride, descending != 0}.sort(length);
  };
  switch (graft::dtype_from_onnx(type).value_or(DType::kUndefined)) {
    case DType::kFloat32:
      return sort(float{});
    case DType::kFloat64:
      return sort(double{});
    case DType::kInt8:
      return sort(int8_t{});
    case DType::kInt16:
      return sort(int16_t{});
    case DType::kInt32:
      return sort(int32_t{});
    case DType::kInt64:
      return sort(int64_t{});
    case DType::kBool:
    case DType::kUint8:
      return sort(uint8_t{});
    case DType::kUint16:
      return sort(uint16_t{});
    case DType::kUint32:
      return sort(uint32_t{});
    case DType::kUint64:
      return sort(uint64_t{});
    case DType::kFloat16:
      return sort(graft::SmallFloat<5>{});
    case DType::kBFloat16:
      return sort(graft::SmallFloat<8>{});
    default:
      return;
  }
}
