// SPDX-License-Identifier: Apache-2.0
// What the lanes of a warp do together: exchanges, loads of matrices, products of fragments.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "cluster.h"
#include "device/interface.h"
#include "elements.h"

namespace graft::emulator {
namespace {

void require_all(unsigned mask) {
  if (mask != 0xffffffffu) fail("lanes of part of a warp meet: not emulated");
}

struct Exchange {
  unsigned value, result;
  int lane, width;
  graft_shuffle_mode mode;
};

/// The lane that a lane reads, itself when that would lie beyond its group of `width`.
int source_of(const Exchange& own, int lane) {
  const int first = lane / own.width * own.width;
  switch (own.mode) {
    case graft_shuffle_from:
      return first + ((own.lane % own.width) + own.width) % own.width;
    case graft_shuffle_up:
      return lane - own.lane >= first ? lane - own.lane : lane;
    case graft_shuffle_down:
      return lane + own.lane < first + own.width ? lane + own.lane : lane;
    case graft_shuffle_xor:
      break;
  }
  return (lane ^ own.lane) < first + own.width ? lane ^ own.lane : lane;
}

void exchange(Warp& warp) {
  const int lanes = static_cast<int>(warp.lanes.size());
  for (int lane = 0; lane < lanes; ++lane) {
    auto& own = *static_cast<Exchange*>(warp.own[lane]);
    const int source = source_of(own, lane);
    if (source >= lanes) fail("a lane reads one that is not there");
    own.result = static_cast<Exchange*>(warp.own[source])->value;
  }
}

struct Vote {
  bool value;
  unsigned result;
};

void vote(Warp& warp) {
  unsigned result = 0;
  const size_t lanes = warp.lanes.size();
  for (size_t lane = 0; lane < lanes; ++lane) {
    result |= static_cast<unsigned>(static_cast<Vote*>(warp.own[lane])->value) << lane;
  }
  for (size_t lane = 0; lane < lanes; ++lane) static_cast<Vote*>(warp.own[lane])->result = result;
}

struct Rows {
  unsigned* const* registers;
  const uint16_t* row;
  int count;
  bool transposed;
};

/// Lane l of matrix m gets the elements (l / 4, l % 4 * 2) and its right neighbour, or those of the transposed one.
void load_matrices(Warp& warp) {
  uint16_t rows[4][8][8];
  const int count = static_cast<Rows*>(warp.own[0])->count;
  for (int lane = 0; lane < count * 8; ++lane) {
    std::memcpy(rows[lane / 8][lane % 8], static_cast<Rows*>(warp.own[lane])->row, sizeof rows[0][0]);
  }
  for (int lane = 0; lane < 32; ++lane) {
    const Rows& own = *static_cast<Rows*>(warp.own[lane]);
    const int row = lane / 4, column = lane % 4 * 2;
    for (int m = 0; m < count; ++m) {
      const unsigned low = own.transposed ? rows[m][column][row] : rows[m][row][column];
      const unsigned high = own.transposed ? rows[m][column + 1][row] : rows[m][row][column + 1];
      *own.registers[m] = low | high << 16;
    }
  }
}

struct Product {
  graft_element a_type, b_type;
  void* const* d;
  const unsigned* const* a;
  const unsigned* const* b;
};

constexpr int kMostDepth = 32;

/// The element of A or B that part `part` of register `i` of a lane holds: (outer, depth), of B (column, depth).
void place(int parts, int lane, int i, int part, bool is_b, int& outer, int& depth) {
  const int group = lane / 4, word = lane % 4;
  const int step = is_b ? i : i / 2;  // along the depth
  outer = group + (is_b ? 0 : i % 2 * 8);
  depth = (step * 4 + word) * parts + part;
}

void gather(const Warp& warp, graft_element type, bool is_b, float (&to)[16][kMostDepth]) {
  const int registers = is_b ? 2 : 4, bits_of_one = element_bits(type), parts = 32 / bits_of_one;
  for (int lane = 0; lane < 32; ++lane) {
    const auto& own = *static_cast<Product*>(warp.own[lane]);
    for (int i = 0; i < registers; ++i) {
      const unsigned bits = *(is_b ? own.b : own.a)[i];
      for (int part = 0; part < parts; ++part) {
        int outer, depth;
        place(parts, lane, i, part, is_b, outer, depth);
        to[outer][depth] = element_value(type, bits >> bits_of_one * part);
      }
    }
  }
}

void multiply(Warp& warp) {
  const auto& any = *static_cast<Product*>(warp.own[0]);
  const int depth = product_depth(any.a_type);
  float a[16][kMostDepth], b[16][kMostDepth];
  gather(warp, any.a_type, false, a);
  gather(warp, any.b_type, true, b);
  for (int lane = 0; lane < 32; ++lane) {
    const auto& own = *static_cast<Product*>(warp.own[lane]);
    for (int e = 0; e < 4; ++e) {
      const int row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
      const bool floats = !is_integer(any.a_type);
      float sum = floats ? *static_cast<float*>(own.d[e]) : 0;
      if (const int bits = kept_bits(any.a_type)) {
        sum = truncated_sum(bits, sum, a[row], b[column], 1, depth);
      } else {
        for (int k = 0; k < depth; ++k) sum += a[row][k] * b[column][k];
      }
      add_product(any.a_type, own.d[e], sum, !floats);
    }
  }
}

}  // namespace

float element_value(graft_element type, unsigned bits) {
  if (type == graft_f16) return graft_f16_value(static_cast<uint16_t>(bits));
  if (type == graft_s8) return static_cast<float>(static_cast<int8_t>(bits));
  if (type == graft_u8) return static_cast<float>(static_cast<uint8_t>(bits));
  if (type == graft_e4m3 || type == graft_e5m2) return graft_float8_value(type, static_cast<uint8_t>(bits));
  bits = type == graft_bf16 ? bits << 16 : bits & 0xffffe000u;  // a unit reads 19 bits of a tf32
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

float truncated_sum(int kept_bits, float sum, const float* a, const float* b, int stride, int count) {
  double terms[kMostDepth + 1] = {sum}, largest = std::fabs(static_cast<double>(sum));
  for (int i = 0; i < count; ++i) {
    terms[i + 1] = static_cast<double>(a[i]) * b[i * stride];
    largest = std::fmax(largest, std::fabs(terms[i + 1]));
    if (!std::isfinite(terms[i + 1])) largest = HUGE_VAL;
  }
  double total = 0;
  if (!std::isfinite(largest) || largest == 0) {
    for (int i = 0; i <= count; ++i) total += terms[i];
    return static_cast<float>(total);
  }
  const double step = std::ldexp(1.0, std::ilogb(largest) - kept_bits);
  for (int i = 0; i <= count; ++i) total += std::trunc(terms[i] / step) * step;
  const auto near = static_cast<float>(total);
  const bool is_cut = std::fabs(static_cast<double>(near)) <= std::fabs(total) || !std::isfinite(near);
  return is_cut ? near : std::nextafterf(near, 0);
}

void add_product(graft_element type, void* sum, float more, bool accumulates) {
  if (!is_integer(type)) {
    auto& value = *static_cast<float*>(sum);
    value = accumulates ? value + more : more;
    return;
  }
  auto& value = *static_cast<uint32_t*>(sum);
  value = (accumulates ? value : 0) + static_cast<uint32_t>(static_cast<int32_t>(more));
}

}  // namespace graft::emulator

using namespace graft::emulator;

unsigned graft_shuffle(unsigned mask, unsigned value, int lane, int width, graft_shuffle_mode mode) {
  require_all(mask);
  Exchange own{value, 0, lane, width, mode};
  meet("a shuffle", &own, &exchange);
  return own.result;
}

unsigned graft_ballot(unsigned mask, bool value) {
  require_all(mask);
  Vote own{value, 0};
  meet("a vote", &own, &vote);
  return own.result;
}

void graft_warp_barrier(unsigned mask) {
  require_all(mask);
  meet("a barrier of the warp", nullptr, [](Warp&) {});
}

void graft_load_matrices(unsigned* const* registers, int count, bool transposed, unsigned row) {
  constexpr unsigned kRowBytes = 16;
  const bool reads = cluster().current()->lane < count * 8;
  const void* elements = reads ? graft_shared_pointer(row, kRowBytes) : nullptr;
  Rows own{registers, static_cast<const uint16_t*>(elements), count, transposed};
  meet(transposed ? "a load of transposed matrices" : "a load of matrices", &own, &load_matrices);
}

void graft_multiply(graft_element a_type, graft_element b_type, void* const* d, const unsigned* const* a,
                    const unsigned* const* b) {
  Product own{a_type, b_type, d, a, b};
  meet("a product of fragments", &own, &multiply);
}

unsigned short graft_f16_bits(float value) {
  const _Float16 half = static_cast<_Float16>(value);
  unsigned short bits;
  std::memcpy(&bits, &half, sizeof bits);
  return value != value ? 0x7fff : bits;  // a GPU's NaN
}

float graft_f16_value(unsigned short bits) {
  _Float16 half;
  std::memcpy(&half, &bits, sizeof half);
  return static_cast<float>(half);
}

namespace {

struct Float8 {
  int mantissa, bias;
  float largest;
};
Float8 float8(graft_element type) { return type == graft_e4m3 ? Float8{3, 7, 448} : Float8{2, 15, 57344}; }

}  // namespace

unsigned char graft_float8_bits(graft_element type, float value) {
  const auto [mantissa, bias, largest] = float8(type);
  if (value != value) return 0x7f;
  const auto unit_of = [&](float x) { return std::max(x > 0 ? std::ilogb(x) : 1 - bias, 1 - bias) - mantissa; };
  float size = std::fmin(std::fabs(value), largest);
  size = std::fmin(std::ldexp(std::rint(std::ldexp(size, -unit_of(size))), unit_of(size)), largest);
  const int unit = unit_of(size), steps = static_cast<int>(std::ldexp(size, -unit));
  const int sign = std::signbit(value) ? 128 : 0;
  return static_cast<unsigned char>(((unit + mantissa + bias - 1) << mantissa) + steps + sign);
}

float graft_float8_value(graft_element type, unsigned char bits) {
  const auto [mantissa, bias, largest] = float8(type);
  const int exponent = bits >> mantissa & (type == graft_e4m3 ? 15 : 31), fraction = bits & ((1 << mantissa) - 1);
  const int steps = exponent == 0 ? fraction : fraction + (1 << mantissa);
  float size = std::ldexp(static_cast<float>(steps), std::max(exponent, 1) - bias - mantissa);
  if (size > largest) size = type == graft_e5m2 && fraction == 0 ? HUGE_VALF : NAN;
  return bits & 128 ? -size : size;
}
