// SPDX-License-Identifier: Apache-2.0
// Weights of 2, 4 and 8 bits stay packed, and are decoded by whoever multiplies or takes rows:
//   MatMul(x, Transpose(DQ(codes, scales, zeros)))    -> PackedMatMul(x, codes, scales, zeros)
//   MatMul(x, DQ(codes, ...)), Gemm(x, DQ(...), bias) -> the same of turned codes, plus the bias
//   Gather(DQ(codes, scales, zeros), i), axis 0       -> DQ(Gather(codes, i), Gather(scales, i), Gather(zeros, i))
// Codes are constants of two axes, with one scale, one per column or one per block of the sums.
#include <algorithm>

#include <fmt/format.h>

#include "passes/edit.h"
#include "passes/passes.h"

namespace graft::passes {
namespace {

constexpr std::string_view kPass = "keep_packed_weights";
constexpr int64_t kMostBlock = 512;  ///< of blocks that scales of whole columns are made into

bool is_code(DType type) { return is_integer(type) && bit_width(type) <= 8; }
bool is_signed_code(DType type) { return type == DType::kInt2 || type == DType::kInt4 || type == DType::kInt8; }

/// The type once precision is lowered.
DType lowered(DType type, const PassContext& context) {
  return type == DType::kFloat32 && context.low_type != DType::kUndefined ? context.low_type : type;
}

/// What a DequantizeLinear of constants reads.
struct Coded {
  TensorData codes, scales;
  TensorData zeros;  ///< empty: zero points of 0
  int64_t axis = 0, block = 0;
};

std::optional<Coded> coded(const Graph& graph, const Node& node) {
  if (!is_op(node, {"DequantizeLinear"})) return std::nullopt;
  const TensorData* codes = constant_of(graph, node.inputs[0]);
  const TensorData* scales = constant_of(graph, node.inputs[1]);
  const TensorData* zeros = constant_of(graph, input(node, 2));
  if (!codes || !scales || !is_code(codes->type()) || !is_float(scales->type())) return std::nullopt;
  if (input(node, 2) != kNoValue && !zeros) return std::nullopt;
  Coded found{.codes = *codes,
              .scales = *scales,
              .zeros = zeros ? *zeros : TensorData(),
              .axis = integer(node, "axis", 1),
              .block = integer(node, "block_size", 0)};
  if (found.axis < 0) found.axis += codes->rank();
  return found;
}

/// The codes one a byte, those of signed types moved up to begin at 0.
std::vector<uint8_t> spread(const TensorData& codes) {
  const int bits = bit_width(codes.type()), per_byte = 8 / bits;
  const auto low = static_cast<uint8_t>((1 << bits) - 1);
  const auto shift = static_cast<uint8_t>(is_signed_code(codes.type()) ? 1 << (bits - 1) : 0);
  std::vector<uint8_t> values(static_cast<size_t>(codes.element_count()));
  const auto bytes = codes.bytes();
  for (size_t i = 0; i < values.size(); ++i) {
    const auto byte = static_cast<uint8_t>(bytes[i / static_cast<size_t>(per_byte)]);
    const int part = static_cast<int>(i % static_cast<size_t>(per_byte)) * bits;
    values[i] = static_cast<uint8_t>(((byte >> part) & low) ^ shift);
  }
  return values;
}

/// The product of a matrix with constants [k, n], or [n, k] where it is transposed.
class Packing {
 public:
  Packing(Graph& graph, int index, const PassContext& context)
      : graph_(graph), index_(index), context_(context), name_(graph.nodes[index].name) {}

  bool run() {
    const Node& node = graph_.nodes[index_];
    if (!is_op(node, {"MatMul", "Gemm"}) || !read(node)) return false;
    if (const std::string_view reason = fault(node); !reason.empty()) {
      context_.left(kPass, node, reason);
      return false;
    }
    rewrite(node);
    return true;
  }

 private:
  /// Finds the DequantizeLinear behind casts between floats and an exchange of the axes.
  bool read(const Node& node) {
    ValueId value = node.inputs[1];
    turned_ = is_op(node, {"Gemm"}) && integer(node, "transB", 0) != 0;
    for (const Node* from = producer(graph_, value); from; from = producer(graph_, value)) {
      if (const auto found = coded(graph_, *from)) {
        coded_ = *found;
        return coded_.codes.rank() == 2 && coded_.codes.element_count() >= context_.least_packed_elements;
      }
      const bool cast = is_op(*from, {"Cast"}) && is_float(graph_.value(from->inputs[0]).type) &&
                        is_float(graph_.value(value).type);
      const bool exchange =
          is_op(*from, {"Transpose"}) && integers(*from, "perm") == std::vector<int64_t>{1, 0};
      if (!cast && !exchange) return false;
      if (exchange) turned_ = !turned_;
      value = from->inputs[0];
    }
    return false;
  }

  std::optional<int64_t> rows(const Node& node) const {
    const Shape& shape = *graph_.value(node.inputs[0]).shape;
    Size rows = 1;
    for (size_t d = 0; d + 1 < shape.size(); ++d) rows = rows * shape[d];
    return rows.as_constant();
  }

  int64_t columns() const { return coded_.codes.shape()[turned_ ? 0 : 1]; }
  int64_t depth() const { return coded_.codes.shape()[turned_ ? 1 : 0]; }
  int bits() const { return bit_width(coded_.codes.type()); }

  /// Why the product stays, or nothing. Decides the block.
  std::string_view fault(const Node& node) {
    if (is_op(node, {"Gemm"})) {
      const bool plain = integer(node, "transA", 0) == 0 && real(node, "alpha", 1) == 1 && real(node, "beta", 1) == 1;
      if (!plain) return "it scales or transposes more than a product does";
    }
    if (!is_float(graph_.value(node.inputs[0]).type)) return "it is no product of floats";
    if (rank_of(graph_, node.inputs[0]) < 1) return "its rank is unknown";
    const DType type = lowered(graph_.value(node.inputs[0]).type, context_);
    if (!context_.decodes_weights(type, rows(node))) return "the machine multiplies floats faster";
    const int64_t along_sums = turned_ ? 1 : 0;
    const std::vector<int64_t>& scales = coded_.scales.shape();
    if (coded_.zeros && coded_.zeros.shape() != scales) return "its zero points have another shape than its scales";
    if (coded_.scales.element_count() == 1 || (coded_.block == 0 && scales.size() == 1)) {
      if (coded_.scales.element_count() != 1 && coded_.axis == along_sums) return "its scales go along the sums";
      if (coded_.scales.element_count() != 1 && coded_.scales.element_count() != columns()) {
        return "its scales are not one per column";
      }
      block_ = block_of_columns();
      return "";
    }
    if (scales.size() != 2 || coded_.axis != along_sums) return "its blocks do not go along the sums";
    if (coded_.block < 1 || coded_.block * bits() % 8 != 0) return "its blocks are no whole bytes";
    block_ = coded_.block;
    const int64_t blocks = (depth() + block_ - 1) / block_;
    const std::vector<int64_t> wanted = turned_ ? std::vector{columns(), blocks} : std::vector{blocks, columns()};
    return scales == wanted ? "" : "its scales are not one per block";
  }

  /// Columns of one scale are cut into blocks, so that parts of them can be decoded at a time.
  int64_t block_of_columns() const {
    const int64_t per_byte = 8 / bits(), most = std::min(kMostBlock, depth());
    for (int64_t block = most; block >= 32; --block) {
      if (depth() % block == 0 && block % per_byte == 0) return block;
    }
    return std::min(kMostBlock, (depth() + per_byte - 1) / per_byte * per_byte);
  }

  int64_t blocks() const { return (depth() + block_ - 1) / block_; }

  /// [columns, blocks, bytes]; the last block is filled up.
  TensorData packed_codes() const {
    const int64_t n = columns(), k = depth(), per_byte = 8 / bits(), row = blocks() * block_ / per_byte;
    const std::vector<int64_t> shape{n, blocks(), block_ / per_byte};
    if (turned_ && k == blocks() * block_ && !is_signed_code(coded_.codes.type())) {
      return TensorData::borrow(DType::kUint8, shape, coded_.codes.bytes(),
                                std::make_shared<const TensorData>(coded_.codes));
    }
    const std::vector<uint8_t> values = spread(coded_.codes);
    TensorData packed = TensorData::zeros(DType::kUint8, shape);
    auto bytes = packed.mutable_as<uint8_t>();
    const auto at = [&](int64_t column, int64_t depth) {
      return values[static_cast<size_t>(turned_ ? column * k + depth : depth * n + column)];
    };
    // By stripes of columns, so that both sides stay in a cache.
    constexpr int64_t kStripe = 64;
    for (int64_t first = 0; first < n; first += kStripe) {
      for (int64_t d = 0; d < k; ++d) {
        for (int64_t c = first; c < std::min(n, first + kStripe); ++c) {
          uint8_t& byte = bytes[static_cast<size_t>(c * row + d / per_byte)];
          byte = static_cast<uint8_t>(byte | (at(c, d) << (d % per_byte * bits())));
        }
      }
    }
    return packed;
  }

  /// A parameter of each block, [columns, blocks].
  template <class Read>
  TensorData per_block(DType type, const TensorData& given, const Read& read) const {
    TensorData result = TensorData::zeros(type, {columns(), blocks()});
    const int64_t count = given.element_count();
    for (int64_t c = 0; c < columns(); ++c) {
      for (int64_t b = 0; b < blocks(); ++b) {
        const bool by_block = coded_.block > 0 && given.rank() == 2;
        const int64_t at = count == 1 ? 0 : !by_block ? c : turned_ ? c * blocks() + b : b * columns() + c;
        read(result, c * blocks() + b, at);
      }
    }
    return result;
  }

  TensorData scales() const {
    return per_block(coded_.scales.type(), coded_.scales, [&](TensorData& to, int64_t place, int64_t at) {
      to.write_double(place, coded_.scales.read_double(at));
    });
  }

  /// Zero points of codes that begin at 0; none where they are half of the range.
  std::optional<TensorData> zeros() const {
    const int64_t half = int64_t{1} << (bits() - 1);
    const int64_t shift = is_signed_code(coded_.codes.type()) ? half : 0;
    if (!coded_.zeros && shift == half) return std::nullopt;
    if (!coded_.zeros) {
      return per_block(DType::kUint8, coded_.scales, [](TensorData&, int64_t, int64_t) {});
    }
    bool usual = true;
    TensorData result = per_block(DType::kUint8, coded_.zeros, [&](TensorData& to, int64_t place, int64_t at) {
      const int64_t zero = coded_.zeros.read_integer(at) + shift;
      usual = usual && zero == half;
      to.write_integer(place, zero);
    });
    if (usual) return std::nullopt;
    return result;
  }

  ValueId constant(std::string_view what, TensorData data) {
    return graph_.add_constant(fmt::format("{}/{}", name_, what), std::move(data));
  }

  void rewrite(const Node& node) {
    graph_.opsets.try_emplace("graft", 1);
    const ValueId bias = input(node, 2);
    std::vector<ValueId> inputs{node.inputs[0], constant("codes", packed_codes()), constant("scales", scales())};
    if (auto given = zeros()) inputs.push_back(constant("zeros", std::move(*given)));
    const Attributes attributes{{"bits", int64_t{bits()}}};
    const DType type = graph_.value(node.inputs[0]).type;
    if (bias == kNoValue) {
      replace_node(graph_, index_, "PackedMatMul", std::move(inputs), attributes);
      graph_.nodes[index_].domain = "graft";
      return;
    }
    const ValueId product = append_node(graph_, name_ + "/product", "PackedMatMul", std::move(inputs), type,
                                        std::nullopt, attributes);
    graph_.nodes.back().domain = "graft";
    replace_node(graph_, index_, "Add", {product, bias});
  }

  Graph& graph_;
  const int index_;
  const PassContext& context_;
  const std::string name_;
  Coded coded_;
  bool turned_ = false;  ///< the codes are [n, k]
  int64_t block_ = 0;
};

/// Rows of codes are taken before they become floats.
bool gather_codes(Graph& graph, int index, const PassContext& context) {
  const Node& node = graph.nodes[index];
  if (!is_op(node, {"Gather"}) || integer(node, "axis", 0) != 0) return false;
  const Node* from = producer(graph, node.inputs[0]);
  const auto found = from ? coded(graph, *from) : std::nullopt;
  if (!found || found->codes.element_count() < context.least_packed_elements) return false;
  if (rank_of(graph, node.inputs[1]) < 0 || found->codes.rank() < 2) return false;
  if (!context.decodes_weights(lowered(found->scales.type(), context), std::nullopt)) return false;
  const bool single = found->scales.element_count() == 1;
  const bool by_rows = found->block == 0 && found->axis == 0;
  const bool by_block = found->block > 0 && found->axis != 0 && found->scales.rank() == found->codes.rank();
  const bool other_axis = found->block == 0 && found->axis != 0;
  if (!single && !by_rows && !by_block && !other_axis) return false;
  if (by_rows && found->codes.rank() != 2) return false;
  const ValueId rows = node.inputs[1];
  ValueId scales = from->inputs[1], zeros = input(*from, 2);
  const std::string name = node.name;
  const int64_t moved = rank_of(graph, rows) - 1;
  Attributes attributes = from->attributes;
  attributes["axis"] = (by_rows ? 1 : found->axis) + moved;
  if (by_rows) {  // a row is one block, whatever the rank of the indices
    attributes["block_size"] = found->codes.shape()[1];
    const auto in_column = [&](const char* what, const TensorData& given) {
      return graph.add_constant(fmt::format("{}/{}", name, what), given.reshaped({given.element_count(), 1}));
    };
    scales = in_column("scales_of_rows", found->scales);
    if (zeros != kNoValue) zeros = in_column("zeros_of_rows", found->zeros);
  }
  const bool takes_scales = !single && (by_rows || by_block);
  const auto taken = [&](std::string_view what, ValueId of) {
    return append_node(graph, fmt::format("{}/{}", name, what), "Gather", {of, rows}, graph.value(of).type,
                       std::nullopt, {{"axis", int64_t{0}}});
  };
  std::vector<ValueId> inputs{taken("codes", from->inputs[0])};
  inputs.push_back(takes_scales ? taken("scales", scales) : scales);
  if (zeros != kNoValue) inputs.push_back(takes_scales ? taken("zeros", zeros) : zeros);
  replace_node(graph, index, "DequantizeLinear", std::move(inputs), std::move(attributes));
  return true;
}

}  // namespace

bool keep_packed_weights(Graph& graph, const PassContext& context) {
  if (!context.decodes_weights) return false;
  return rewrite_nodes(graph, [&](Graph& g, const Matcher&, int index) {
    return Packing(g, index, context).run() || gather_codes(g, index, context);
  });
}

}  // namespace graft::passes
