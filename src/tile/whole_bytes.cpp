// SPDX-License-Identifier: Apache-2.0
#include "tile/whole_bytes.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "base/error.h"
#include "tile/narrow_conversions.h"

namespace graft::tile {
namespace {

/// How elements narrower than a byte lie in bytes: row by row where whole bytes make a row, else one after the other.
struct Packing {
  DType type;
  int per_byte;
  bool by_rows;
  Shape bytes;  ///< of the u8 tensor
};

Packing packing_of(const TensorDecl& tensor) {
  Packing packing{tensor.type, 8 / bit_width(tensor.type), false, tensor.shape};
  packing.by_rows = !tensor.shape.empty() && tensor.shape.back().is_multiple_of(packing.per_byte);
  if (packing.by_rows) {
    packing.bytes.back() = floor_div(tensor.shape.back(), packing.per_byte);
  } else {
    packing.bytes = {ceil_div(element_count(tensor.shape), packing.per_byte)};
  }
  return packing;
}

/// The number of elements before the one at `indices`.
Expr position_of(const Shape& shape, const std::vector<Expr>& indices) {
  Expr position = make_index(0);
  Size stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    position = indices[axis] * make_size(stride) + position;
    stride = stride * shape[axis];
  }
  return position;
}

/// The indices of the element that `position` others are before.
std::vector<Expr> indices_at(const Shape& shape, const Expr& position) {
  std::vector<Expr> indices(shape.size());
  Size stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    const Expr above = floor_div(position, make_size(stride));
    indices[axis] = axis == 0 ? above : mod(above, make_size(shape[axis]));
    stride = stride * shape[axis];
  }
  return indices;
}

Expr byte_as_word(int tensor, std::vector<Expr> indices) {
  return make_cast(DType::kInt32, make_load(tensor, DType::kUint8, std::move(indices)));
}

/// The element of a packed tensor.
Expr load_packed(const Packing& packing, const Shape& shape, int tensor, std::vector<Expr> indices) {
  const Expr position = packing.by_rows ? indices.back() : position_of(shape, indices);
  if (!packing.by_rows) indices.assign(1, position);
  const Expr per_byte = make_index(packing.per_byte);
  indices.back() = floor_div(position, per_byte);
  const Expr shift = make_cast(DType::kInt32, mod(position, per_byte) * make_index(bit_width(packing.type)));
  return narrow_of_bits(packing.type, byte_as_word(tensor, std::move(indices)) >> shift);
}

/// Why a form cannot be spelled over bytes, or nothing.
std::string why_not(const Region& region, const Form& form) {
  const auto* scatter = std::get_if<Scatter>(&form);
  const bool moves = std::holds_alternative<Compute>(form) || std::holds_alternative<Compact>(form) ||
                     (scatter && scatter->mode == ScatterMode::kSet);
  DType narrow = DType::kUndefined;
  const auto look = [&](DType type) {
    if (is_narrow(type)) narrow = type;
  };
  for (const int tensor : defined_tensors(form)) look(region.tensors[static_cast<size_t>(tensor)].type);
  if (const auto* reduce = std::get_if<Reduce>(&form)) {
    for (const Expr& e : reduce->lift) look(e->type);
  }
  if (const auto* scan = std::get_if<Scan>(&form)) {
    for (const Expr& e : scan->state) look(e->type);
  }
  if (moves || narrow == DType::kUndefined) return "";
  return fmt::format("elements of type {} are combined or put in order", name_of(narrow));
}

/// Rewrites a region; `fault` says why it cannot.
class WholeBytes {
 public:
  WholeBytes(const Region& region, bool converts_float8)
      : given_(region), result_(region), twins_(region.tensors.size(), -1), converts_float8_(converts_float8) {}

  std::variant<Region, std::string> run() {
    result_.forms.clear();
    for (size_t t = 0; t < given_.tensors.size(); ++t) declare(static_cast<int>(t));
    for (const Form& form : given_.forms) {
      if (!std::holds_alternative<Compute>(form)) give_twins(form);
    }
    for (const int input : given_.inputs) {
      if (twins_[static_cast<size_t>(input)] >= 0) unpack(input);
    }
    for (const Form& form : given_.forms) {
      add(form);
      if (!fault_.empty()) return fault_;
    }
    return std::move(result_);
  }

 private:
  bool spelled(DType type) const { return is_narrow(type) && !is_kept(type); }
  /// Whether it is an element type of the code generator's own.
  bool is_kept(DType type) const { return converts_float8_ && is_common_float8(type); }

  const TensorDecl& given(int tensor) const { return given_.tensors[static_cast<size_t>(tensor)]; }
  TensorDecl& made(int tensor) { return result_.tensors[static_cast<size_t>(tensor)]; }
  int twin(int tensor) const { return twins_[static_cast<size_t>(tensor)]; }

  bool is_packed(int tensor) const {
    if (bit_width(given(tensor).type) >= 8 || !spelled(given(tensor).type)) return false;
    const auto among = [&](const std::vector<int>& list) {
      return std::find(list.begin(), list.end(), tensor) != list.end();
    };
    return among(given_.inputs) || among(given_.outputs);
  }

  void declare(int tensor) {
    if (!spelled(given(tensor).type)) return;
    made(tensor).type = DType::kUint8;
    if (is_packed(tensor)) made(tensor).shape = packing_of(given(tensor)).bytes;
  }

  /// A packed tensor that such a form reads or defines as a whole gets a twin of a byte per element.
  void give_twins(const Form& form) {
    std::vector<int> whole = defined_tensors(form);
    if (const auto* scatter = std::get_if<Scatter>(&form)) whole.push_back(scatter->base);
    for (const int tensor : whole) {
      if (!is_packed(tensor) || twin(tensor) >= 0) continue;
      twins_[static_cast<size_t>(tensor)] = static_cast<int>(result_.tensors.size());
      result_.tensors.push_back({given(tensor).name + "_bytes", DType::kUint8, given(tensor).shape});
    }
  }

  void unpack(int tensor) {
    Compute compute{.output = twin(tensor)};
    std::vector<Expr> indices;
    for (const Size& extent : given(tensor).shape) {
      compute.axes.push_back({make_variable(), extent});
      indices.push_back(compute.axes.back().variable);
    }
    const Packing packing = packing_of(given(tensor));
    const Expr element = load_packed(packing, given(tensor).shape, tensor, indices);
    compute.value = make_cast(DType::kUint8, bits_of_narrow(packing.type, element));
    result_.forms.emplace_back(std::move(compute));
  }

  Expr load(const ExprNode& node, std::vector<Expr> indices) {
    if (!spelled(node.type)) return make_load(node.tensor, node.type, std::move(indices));
    if (twin(node.tensor) >= 0) return narrow_of_bits(node.type, byte_as_word(twin(node.tensor), std::move(indices)));
    if (!is_packed(node.tensor)) return narrow_of_bits(node.type, byte_as_word(node.tensor, std::move(indices)));
    return load_packed(packing_of(given(node.tensor)), given(node.tensor).shape, node.tensor, std::move(indices));
  }

  Expr rewritten_node(const ExprNode& node, std::vector<Expr> args) {
    if (node.kind == ExprKind::kLoad) return load(node, std::move(args));
    if (node.kind == ExprKind::kConstant) return narrow_constant(node);
    GRAFT_CHECK(node.kind == ExprKind::kCall, "a state of type " + std::string(name_of(node.type)));
    const DType from = node.args[0]->type;
    const bool converts = spelled(node.type) || spelled(from);
    if (node.intrinsic == Intrinsic::kCast) {
      if (!converts) return make_cast(node.type, args[0]);
      if (is_kept(from)) return convert_narrow(DType::kFloat32, node.type, make_cast(DType::kFloat32, args[0]));
      if (is_kept(node.type)) return make_cast(node.type, convert_narrow(from, DType::kFloat32, args[0]));
      return convert_narrow(from, node.type, args[0]);
    }
    if (node.intrinsic == Intrinsic::kBitcast) {
      if (!converts) return make_bitcast(node.type, args[0]);
      if (is_kept(from)) return bitcast_narrow(DType::kUint8, node.type, make_bitcast(DType::kUint8, args[0]));
      if (is_kept(node.type)) return make_bitcast(node.type, bitcast_narrow(from, DType::kUint8, args[0]));
      return bitcast_narrow(from, node.type, args[0]);
    }
    return make_call(node.intrinsic, std::move(args));
  }

  /// The expression over whole bytes; unchanged trees stay the same pointer.
  Expr rewritten(const Expr& e) {
    for_each(e, [&](const Expr& node) {
      if (done_.contains(node.get())) return;
      std::vector<Expr> args;
      bool changed = spelled(node->type) || node->kind == ExprKind::kLoad;
      for (const Expr& arg : node->args) {
        args.push_back(done_.at(arg.get()));
        changed |= args.back().get() != arg.get();
      }
      done_.emplace(node.get(), changed ? rewritten_node(*node, std::move(args)) : node);
    });
    return done_.at(e.get());
  }

  /// As a form stores it: the bits of what is narrow in a byte.
  Expr stored(const Expr& e) {
    const Expr value = rewritten(e);
    return spelled(e->type) ? make_cast(DType::kUint8, bits_of_narrow(e->type, value)) : value;
  }

  void add(const Form& form) {
    fault_ = why_not(given_, form);
    if (!fault_.empty()) return;
    const auto* compute = std::get_if<Compute>(&form);
    if (compute && is_packed(compute->output)) {
      result_.forms.emplace_back(packed(compute->output, [&](const std::vector<Expr>& indices) {
        std::vector<std::pair<int, Expr>> here;
        for (size_t axis = 0; axis < indices.size(); ++axis) {
          here.emplace_back(compute->axes[axis].variable->variable, indices[axis]);
        }
        return bits_of_narrow(compute->value->type, substitute(rewritten(compute->value), here));
      }));
      return;
    }
    Form changed = map_exprs(form, [&](const Expr& e) { return stored(e); });
    std::visit(
        [&](auto& f) {
          const auto replace = [&](int& tensor) { tensor = twin(tensor) >= 0 ? twin(tensor) : tensor; };
          if constexpr (requires { f.outputs; }) {
            for (int& tensor : f.outputs) replace(tensor);
          } else {
            replace(f.output);
          }
          if constexpr (requires { f.base; }) replace(f.base);
        },
        changed);
    result_.forms.push_back(std::move(changed));
    for (const int tensor : defined_tensors(form)) {
      if (twin(tensor) < 0) continue;
      result_.forms.emplace_back(packed(
          tensor, [&](const std::vector<Expr>& indices) { return byte_as_word(twin(tensor), indices); }));
    }
  }

  /// The form that makes the bytes of a packed tensor of the elements' bits.
  Compute packed(int tensor, const std::function<Expr(const std::vector<Expr>&)>& bits_at) {
    const Shape& shape = given(tensor).shape;
    const Packing packing = packing_of(given(tensor));
    Compute compute{.output = tensor};
    std::vector<Expr> indices;
    for (const Size& extent : packing.bytes) {
      compute.axes.push_back({make_variable(), extent});
      indices.push_back(compute.axes.back().variable);
    }
    const Size count = element_count(shape);
    const bool whole = packing.by_rows || count.is_multiple_of(packing.per_byte);
    const Expr first = indices.back() * make_index(packing.per_byte);
    Expr byte;
    for (int n = 0; n < packing.per_byte; ++n) {
      const Expr position = first + make_index(n);
      if (packing.by_rows) indices.back() = position;
      Expr bits = bits_at(packing.by_rows ? indices : indices_at(shape, position));
      if (n > 0 && !whole) {
        bits = select(lt(position, make_size(count)), bits, make_integer(DType::kInt32, 0));
      }
      bits = bits << make_integer(DType::kInt32, int64_t{n} * bit_width(packing.type));
      byte = byte ? byte | bits : bits;
    }
    compute.value = make_cast(DType::kUint8, byte);
    return compute;
  }

  const Region& given_;
  Region result_;
  std::vector<int> twins_;  ///< by tensor: that of a byte per element, or -1
  const bool converts_float8_;
  std::unordered_map<const ExprNode*, Expr> done_;
  std::string fault_;
};

}  // namespace

bool has_narrow_elements(const Region& region, bool converts_float8) {
  // What is combined or put in order is refused, also what a code generator could load.
  for (const Form& form : region.forms) converts_float8 &= why_not(region, form).empty();
  const auto is_spelled = [&](DType type) { return is_narrow(type) && !(converts_float8 && is_common_float8(type)); };
  for (const TensorDecl& tensor : region.tensors) {
    if (is_spelled(tensor.type)) return true;
  }
  bool found = false;
  for (const Form& form : region.forms) {
    for_each_expr(form, [&](const Expr& e) {
      for_each(e, [&](const Expr& node) { found |= is_spelled(node->type); });
    });
  }
  return found;
}

std::variant<Region, std::string> in_whole_bytes(const Region& region, bool converts_float8) {
  return WholeBytes(region, converts_float8).run();
}

}  // namespace graft::tile
