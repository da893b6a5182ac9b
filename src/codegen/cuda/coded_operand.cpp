// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/coded_operand.h"

#include <functional>

namespace graft::cuda {
namespace {

constexpr int64_t kOfLane = 16, kUnit = 4 * kOfLane;  // k of a lane that decodes, and of the four of a column

Expr below_casts(Expr e) {
  while (is_call(e, Intrinsic::kCast)) e = e->args[0];
  return e;
}

/// The load below conversions, or null.
Expr load_below(const Expr& e) {
  const Expr inner = below_casts(e);
  return inner->kind == ExprKind::kLoad ? inner : Expr();
}

bool loads_any(const Expr& e) {
  bool any = false;
  for_each(e, [&](const Expr& node) { any |= node->kind == ExprKind::kLoad; });
  return any;
}

class Matcher {
 public:
  Matcher(const tile::Axis& k, const KernelNames& names) : k_(k), names_(names) {}

  std::optional<CodedOperand> match(const Expr& b) {
    if (!is_call(b, Intrinsic::kCast) || !is_half(b->type) || b->args[0]->type != DType::kFloat32) return std::nullopt;
    if (k_.bound < kUnit || k_.bound % kUnit != 0) return std::nullopt;
    found_.type = b->type, found_.block = k_.bound;
    return value(b->args[0]) ? std::optional(found_) : std::nullopt;
  }

 private:
  /// difference * scale, or a difference.
  bool value(const Expr& e) {
    if (!is_call(e, Intrinsic::kMul)) return difference(e);
    for (const size_t i : {0, 1}) {
      const Expr scale = load_below(e->args[i]);
      if (!scale || !is_float(scale->type) || bit_width(scale->type) > 32) continue;
      found_.scale = scale;
      return stands_still(scale) && difference(e->args[1 - i]);
    }
    return false;
  }

  /// code - zero, in f32 or as integers.
  bool difference(const Expr& e) {
    const Expr inner = is_call(e, Intrinsic::kCast) ? e->args[0] : e;
    if (!is_call(inner, Intrinsic::kSub)) return code(inner);
    const Expr& zero = inner->args[1];
    if (loads_any(zero)) {
      found_.zero = load_below(zero);
      const bool good = found_.zero && (is_float(zero->type) || found_.zero->type == DType::kUint8) &&
                        bit_width(found_.zero->type) <= 32;
      if (!good || !stands_still(found_.zero)) return false;
    } else {
      if (zero->kind != ExprKind::kConstant) return false;
      found_.constant_zero = is_float(zero->type) ? static_cast<int64_t>(zero->real) : zero->integer;
      const bool whole = !is_float(zero->type) || zero->real == static_cast<double>(found_.constant_zero);
      if (!whole || found_.constant_zero < 0 || found_.constant_zero > 255) return false;
    }
    return code(is_call(inner->args[0], Intrinsic::kCast) && is_float(inner->args[0]->type) ? inner->args[0]->args[0]
                                                                                          : inner->args[0]);
  }

  /// (byte >> shift) & mask, or a byte.
  bool code(const Expr& e) {
    Expr byte = e;
    if (is_call(e, Intrinsic::kAnd)) {
      const Expr& mask = e->args[1];
      if (mask->kind != ExprKind::kConstant || (mask->integer != 3 && mask->integer != 15)) return false;
      found_.bits = mask->integer == 3 ? 2 : 4;
      if (!is_call(e->args[0], Intrinsic::kShr)) return false;
      const int64_t per_byte = 8 / found_.bits;
      if (!each_place([&](int64_t place) {
            const auto shift = at(below_casts(e->args[0]->args[1]), place);
            return shift && shift->coefficients.empty() && shift->offset.is(place % per_byte * found_.bits);
          })) {
        return false;
      }
      byte = e->args[0]->args[0];
    }
    found_.codes = load_below(byte);
    if (!found_.codes || found_.codes->type != DType::kUint8) return false;
    const int64_t per_byte = 8 / found_.bits;
    const auto first = address(found_.codes, 0);
    const auto is_next = [&](int64_t place) { return lies_behind(found_.codes, *first, place / per_byte, place); };
    if (!first || !each_place(is_next)) return false;
    found_.codes = at_first_place(found_.codes);
    if (found_.scale) found_.scale = at_first_place(found_.scale);
    if (found_.zero) found_.zero = at_first_place(found_.zero);
    return true;
  }

  bool each_place(const std::function<bool(int64_t)>& holds) const {
    for (int64_t place = 0; place < k_.bound; ++place) {
      if (!holds(place)) return false;
    }
    return true;
  }

  std::optional<Affine> at(const Expr& e, int64_t place) const {
    return affine(substitute(e, {{k_.variable->variable, make_index(place)}}));
  }

  Expr at_first_place(const Expr& load) const {
    return substitute(load, {{k_.variable->variable, make_index(0)}});
  }

  std::optional<Affine> address(const Expr& load, int64_t place) const {
    const Expr placed = substitute(load, {{k_.variable->variable, make_index(place)}});
    return names_.address(load->tensor, placed->args);
  }

  bool lies_behind(const Expr& load, const Affine& first, int64_t elements, int64_t place) const {
    const auto here = address(load, place);
    return here && here->coefficients == first.coefficients && here->offset == first.offset + Size(elements);
  }

  /// Whether a load is the same for blocks of places, and the next element for the next block. Narrows the block.
  bool stands_still(const Expr& load) {
    const auto first = address(load, 0);
    if (!first) return false;
    int64_t block = k_.bound;
    for (int64_t place = kOfLane; place < k_.bound; place += kOfLane) {
      if (!lies_behind(load, *first, 0, place)) {
        block = place;
        break;
      }
    }
    if (!each_place([&](int64_t place) { return lies_behind(load, *first, place / block, place); })) return false;
    if (found_.block != k_.bound && found_.block != block) return false;
    found_.block = block;
    return true;
  }

  const tile::Axis& k_;
  const KernelNames& names_;
  CodedOperand found_;
};

}  // namespace

int few_rows(const tile::Contract& contract) {
  const auto rows = contract.m.size() == 1 ? as_integer(contract.m[0].extent) : std::nullopt;
  return rows && *rows >= 1 && *rows <= 8 && contract.m[0].bound <= 16 ? static_cast<int>(*rows) : 0;
}

int most_slices(int64_t places) {
  int slices = 1;
  while (places % (2 * slices * kUnit) == 0) slices *= 2;
  return slices;
}

std::optional<CodedOperand> coded_operand(const Expr& b, const tile::Axis& k, const KernelNames& names) {
  return Matcher(k, names).match(b);
}

}  // namespace graft::cuda
