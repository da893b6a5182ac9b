// SPDX-License-Identifier: Apache-2.0
#include "expr/block_evaluator.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/convert.h"
#include "base/error.h"
#include "base/kernel_arguments.h"

namespace graft {
namespace {

constexpr int kHandleShift = 40;  // bits of a handle that number the element; the tensor is above

bool is_opaque(DType type) { return kind_of(type) == DTypeKind::kOpaque || kind_of(type) == DTypeKind::kComplex; }

LaneMask operator&(LaneMask a, const LaneMask& b) {
  for (size_t i = 0; i < a.words.size(); ++i) a.words[i] &= b.words[i];
  return a;
}
LaneMask without(LaneMask a, const LaneMask& b) {
  for (size_t i = 0; i < a.words.size(); ++i) a.words[i] &= ~b.words[i];
  return a;
}

[[noreturn]] void throw_out_of_range(const Region& region, const std::string& tensor, int64_t value, int64_t extent) {
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("the index {} is out of range: it must be at least 0 and below {}", value, extent),
              fmt::format("tensor '{}' of '{}'", tensor, region.name));
}

}  // namespace

LaneMask LaneMask::first(int count) {
  LaneMask mask;
  for (int word = 0; word * 64 < count; ++word) {
    const int bits = std::min(count - word * 64, 64);
    mask.words[static_cast<size_t>(word)] = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  }
  return mask;
}

bool LaneMask::none() const {
  return std::all_of(words.begin(), words.end(), [](uint64_t word) { return word == 0; });
}

Values::Values(DType type, size_t count) {
  if (is_float(type)) {
    real_.resize(std::max<size_t>(count, 1));
  } else {
    integer_.resize(std::max<size_t>(count, 1));
  }
}

void Values::copy_from(const Column& from, int count, size_t at) {
  if (is_real()) {
    std::copy_n(from.real, count, real_.begin() + static_cast<ptrdiff_t>(at));
  } else {
    std::copy_n(from.integer, count, integer_.begin() + static_cast<ptrdiff_t>(at));
  }
}

void Values::set(size_t to, size_t from) {
  if (is_real()) {
    real_[to] = real_[from];
  } else {
    integer_[to] = integer_[from];
  }
}

BlockEvaluator::BlockEvaluator(const Region& region, std::span<const TensorData> tensors, const Bindings& bindings,
                               const std::vector<Expr>& roots, int lanes, const std::string& target)
    : region_(region), tensors_(tensors), bindings_(bindings), lanes_(std::clamp(lanes, 1, kBlockLanes)) {
  std::unordered_map<const ExprNode*, int> ids;
  for (const Expr& root : roots) {
    // Inner loads come first, so each check is named after the innermost tensor that it guards.
    for_each(root, [&](const Expr& node) {
      if (node->kind != ExprKind::kLoad) return;
      for (const Expr& index : node->args) {
        name_checked_tensors(index, region.tensors[static_cast<size_t>(node->tensor)].name);
      }
    });
    if (!target.empty()) name_checked_tensors(root, target);
    roots_.push_back(add_node(root, ids));
  }
  allocate_columns();
  flat_.resize(static_cast<size_t>(lanes_));
}

void BlockEvaluator::name_checked_tensors(const Expr& index, const std::string& tensor) {
  for_each(index, [&](const Expr& node) {
    if (is_call(node, Intrinsic::kCheckIndex)) index_names_.emplace(node.get(), tensor);
  });
}

int BlockEvaluator::add_node(const Expr& e, std::unordered_map<const ExprNode*, int>& ids) {
  if (const auto it = ids.find(e.get()); it != ids.end()) return it->second;
  if (e->kind == ExprKind::kVariable) {
    if (const auto it = variables_.find(e->variable); it != variables_.end()) return it->second;
  }
  Node node;
  node.kind = e->kind;
  node.type = e->type;
  node.intrinsic = e->intrinsic;
  node.tensor = e->tensor;
  node.given = e->kind != ExprKind::kLoad && e->kind != ExprKind::kCall;
  for (const Expr& arg : e->args) node.args.push_back(add_node(arg, ids));
  if (const auto it = index_names_.find(e.get()); it != index_names_.end()) node.index_of = it->second;
  if (e->kind == ExprKind::kLoad) {
    const TensorData& tensor = tensors_[static_cast<size_t>(e->tensor)];
    const std::string& name = region_.tensors[static_cast<size_t>(e->tensor)].name;
    GRAFT_CHECK(tensor && tensor.type() == e->type && tensor.shape().size() == e->args.size(),
                "'" + name + "' is loaded before it is defined, or as another type or rank");
  }
  const int id = static_cast<int>(nodes_.size());
  nodes_.push_back(std::move(node));
  ids.emplace(e.get(), id);
  if (e->kind == ExprKind::kVariable) variables_.emplace(e->variable, id);
  // The values of constants wait in the first lane until there are columns.
  if (e->kind == ExprKind::kConstant || e->kind == ExprKind::kSize) {
    reals_.push_back(e->real);
    integers_.push_back(e->kind == ExprKind::kSize ? e->size.evaluate(bindings_) : e->integer);
  } else {
    reals_.push_back(0), integers_.push_back(0);
  }
  return id;
}

void BlockEvaluator::allocate_columns() {
  const size_t lanes = static_cast<size_t>(lanes_);
  const std::vector<double> real = std::move(reals_);
  const std::vector<int64_t> integer = std::move(integers_);
  size_t float_columns = 0;
  for (const Node& node : nodes_) float_columns += is_float(node.type);
  reals_.assign(float_columns * lanes, 0);
  integers_.assign((nodes_.size() - float_columns) * lanes, 0);
  double* next_real = reals_.data();
  int64_t* next_integer = integers_.data();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (is_float(nodes_[i].type)) {
      nodes_[i].out.real = next_real;
      std::fill_n(next_real, lanes, real[i]);
      next_real += lanes;
    } else {
      nodes_[i].out.integer = next_integer;
      std::fill_n(next_integer, lanes, integer[i]);
      next_integer += lanes;
    }
  }
}

void BlockEvaluator::begin(int count) {
  GRAFT_CHECK(count <= lanes_, "more lanes than there are columns for");
  count_ = count;
  for (Node& node : nodes_) {
    if (!node.given) node.done = LaneMask();
  }
}

Column BlockEvaluator::variable(const Expr& variable) {
  const auto it = variables_.find(variable->variable);
  if (it != variables_.end()) return nodes_[static_cast<size_t>(it->second)].out;
  unused_real_.resize(static_cast<size_t>(lanes_));
  unused_integer_.resize(static_cast<size_t>(lanes_));
  return {unused_real_.data(), unused_integer_.data()};
}

Column BlockEvaluator::evaluate(size_t root, const LaneMask& mask) {
  compute(roots_[root], mask);
  return nodes_[static_cast<size_t>(roots_[root])].out;
}

void BlockEvaluator::compute(int id, const LaneMask& mask) {
  Node& node = nodes_[static_cast<size_t>(id)];
  if (node.given) return;
  const LaneMask needed = without(mask, node.done);
  if (needed.none()) return;
  if (node.kind == ExprKind::kCall && node.intrinsic == Intrinsic::kSelect) {
    compute_select(node, needed);
  } else {
    for (const int arg : node.args) compute(arg, needed);
  }
  if (node.kind == ExprKind::kLoad) {
    load(node, needed);
  } else {
    // Lanes not asked for compute garbage from garbage, which is harmless: every intrinsic is total.
    Column args[3];
    for (size_t i = 0; i < node.args.size(); ++i) args[i] = nodes_[static_cast<size_t>(node.args[i])].out;
    if (node.intrinsic == Intrinsic::kCheckIndex) check_indices(node, needed);
    if (node.intrinsic == Intrinsic::kCheckDivisor) check_divisors(node, needed);
    const size_t typed = node.intrinsic == Intrinsic::kSelect ? 1 : 0;
    const DType type = nodes_[static_cast<size_t>(node.args[typed])].type;
    evaluate_columns(node.intrinsic, {type, node.type, {args, node.args.size()}, node.out, count_});
  }
  for (size_t i = 0; i < needed.words.size(); ++i) node.done.words[i] |= needed.words[i];
}

void BlockEvaluator::compute_select(Node& node, const LaneMask& needed) {
  compute(node.args[0], needed);
  const int64_t* condition = nodes_[static_cast<size_t>(node.args[0])].out.integer;
  LaneMask holds;
  for (int lane = 0; lane < count_; ++lane) {
    holds.words[static_cast<size_t>(lane) / 64] |= static_cast<uint64_t>(condition[lane] != 0) << (lane % 64);
  }
  const LaneMask taken = needed & holds, other = without(needed, holds);
  if (!taken.none()) compute(node.args[1], taken);
  if (!other.none()) compute(node.args[2], other);
}

void BlockEvaluator::check_indices(const Node& node, const LaneMask& needed) const {
  const int64_t* index = nodes_[static_cast<size_t>(node.args[0])].out.integer;
  const int64_t* extent = nodes_[static_cast<size_t>(node.args[1])].out.integer;
  for (int lane = 0; lane < count_; ++lane) {
    if (needed.test(lane) && (index[lane] < 0 || index[lane] >= extent[lane])) {
      throw_out_of_range(region_, node.index_of, index[lane], extent[lane]);
    }
  }
}

void BlockEvaluator::check_divisors(const Node& node, const LaneMask& needed) const {
  const int64_t* divisor = nodes_[static_cast<size_t>(node.args[0])].out.integer;
  for (int lane = 0; lane < count_; ++lane) {
    if (needed.test(lane) && divisor[lane] == 0) {
      throw Error(ErrorKind::kInvalidArgument, text_of(ElementFault::kDivisor, 0), fmt::format("'{}'", region_.name));
    }
  }
}

void BlockEvaluator::load(Node& node, const LaneMask& needed) {
  const TensorData& tensor = tensors_[static_cast<size_t>(node.tensor)];
  std::fill_n(flat_.begin(), count_, int64_t{0});
  bool outside = tensor.element_count() == 0;
  int64_t stride = 1;
  for (size_t axis = node.args.size(); axis-- > 0;) {
    const int64_t* index = nodes_[static_cast<size_t>(node.args[axis])].out.integer;
    const uint64_t extent = static_cast<uint64_t>(tensor.shape()[axis]);
    for (int lane = 0; lane < count_; ++lane) {
      outside |= static_cast<uint64_t>(index[lane]) >= extent;
      // Of a lane that is not needed, the index may be any number.
      int64_t& flat = flat_[static_cast<size_t>(lane)];
      flat = static_cast<int64_t>(static_cast<uint64_t>(flat) +
                                  static_cast<uint64_t>(index[lane]) * static_cast<uint64_t>(stride));
    }
    stride *= static_cast<int64_t>(std::max<uint64_t>(extent, 1));
  }
  if (!outside) return gather(node, 0, count_);
  for (int lane = 0; lane < count_; ++lane) {
    if (!needed.test(lane)) continue;
    for (size_t axis = 0; axis < node.args.size(); ++axis) {
      const int64_t index = nodes_[static_cast<size_t>(node.args[axis])].out.integer[lane];
      const int64_t extent = tensor.shape()[axis];
      // Kernels do not look: whoever makes a region sees to it, by a check of shapes or check_index.
      GRAFT_CHECK(index >= 0 && index < extent,
                  fmt::format("'{}' reads tensor '{}' at the index {} of axis {}: it must be at least 0 and below {}",
                              region_.name, region_.tensors[static_cast<size_t>(node.tensor)].name, index, axis,
                              extent));
    }
    gather(node, lane, lane + 1);
  }
}

namespace {

template <class T, class Out>
void gather_as(const TensorData& tensor, const int64_t* flat, int begin, int end, Out* out) {
  const T* data = reinterpret_cast<const T*>(tensor.bytes().data());
  for (int lane = begin; lane < end; ++lane) out[lane] = static_cast<Out>(data[flat[lane]]);
}

}  // namespace

void BlockEvaluator::gather(const Node& node, int begin, int end) {
  const TensorData& tensor = tensors_[static_cast<size_t>(node.tensor)];
  const int64_t* flat = flat_.data();
  double* real = node.out.real;
  int64_t* integer = node.out.integer;
  switch (tensor.type()) {
    case DType::kFloat32:
      return gather_as<float>(tensor, flat, begin, end, real);
    case DType::kFloat64:
      return gather_as<double>(tensor, flat, begin, end, real);
    case DType::kInt64:
    case DType::kUint64:
      return gather_as<int64_t>(tensor, flat, begin, end, integer);
    case DType::kInt32:
      return gather_as<int32_t>(tensor, flat, begin, end, integer);
    case DType::kUint8:
      return gather_as<uint8_t>(tensor, flat, begin, end, integer);
    case DType::kInt8:
      return gather_as<int8_t>(tensor, flat, begin, end, integer);
    default:
      break;
  }
  for (int lane = begin; lane < end; ++lane) {
    if (is_opaque(tensor.type())) {
      integer[lane] = element_handle(node.tensor, flat[lane]);
    } else if (real) {
      real[lane] = tensor.read_double(flat[lane]);
    } else {
      integer[lane] = tensor.read_integer(flat[lane]);
    }
  }
}

int64_t element_handle(int tensor, int64_t element) {
  GRAFT_CHECK(element < (int64_t{1} << kHandleShift) && tensor < (1 << 22), "too many elements for handles");
  return (static_cast<int64_t>(tensor) << kHandleShift) | element;
}

void store_block(std::span<const TensorData> tensors, const Column& values, int64_t first, int count,
                 TensorData& output) {
  const size_t size = static_cast<size_t>(count);
  if (output.type() == DType::kFloat8E5M2) {
    // The cast before the store has rounded; an infinity that is left is meant, and a store that clamps would lose it.
    for (int lane = 0; lane < count; ++lane) {
      output.mutable_bytes().data()[first + lane] =
          static_cast<std::byte>(encode_float(DType::kFloat8E5M2, values.real[lane], /*saturate=*/false));
    }
    return;
  }
  if (is_float(output.type())) return output.write_doubles(first, {values.real, size});
  if (!is_opaque(output.type())) return output.write_integers(first, {values.integer, size});
  for (int lane = 0; lane < count; ++lane) {
    const TensorData& source = tensors[static_cast<size_t>(values.integer[lane] >> kHandleShift)];
    const int64_t element = values.integer[lane] & ((int64_t{1} << kHandleShift) - 1);
    if (output.type() == DType::kString) {
      output.mutable_strings()[static_cast<size_t>(first + lane)] = source.strings()[static_cast<size_t>(element)];
    } else {
      const int64_t width = bit_width(output.type()) / 8;
      std::memcpy(output.mutable_bytes().data() + (first + lane) * width, source.bytes().data() + element * width,
                  static_cast<size_t>(width));
    }
  }
}

}  // namespace graft
