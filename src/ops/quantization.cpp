// SPDX-License-Identifier: Apache-2.0
// Quantized numbers: integers (or small floats) with a scale and a zero point, per tensor, per axis or per block.
#include <utility>

#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

/// The smallest and largest value of a type that is quantized to.
std::pair<double, double> range_of(const Definition& d, DType type) {
  switch (type) {
    case DType::kInt2: return {-2, 1};
    case DType::kUint2: return {0, 3};
    case DType::kInt4: return {-8, 7};
    case DType::kUint4: return {0, 15};
    case DType::kInt8: return {-128, 127};
    case DType::kUint8: return {0, 255};
    case DType::kInt16: return {-32768, 32767};
    case DType::kUint16: return {0, 65535};
    default: d.unsupported("quantization to " + std::string(name_of(type)));
  }
}

/// Where the scale of element `i` of the data stands: a scalar, a list along `axis`, or blocks along it.
Indices scale_indices(Definition& d, const Tensor& x, const Tensor& scale, const Indices& i) {
  if (scale.rank() == 0) return {};
  if (scale.rank() == 1 && scale.size(0).is(1)) return {make_index(0)};
  const int axis = d.axis(d.integer("axis"), x.rank());
  if (scale.rank() == 1 && (x.rank() > 1 || d.integer("block_size") == 0)) {
    d.require_fits(scale, {x.size(axis)}, "its scale or zero point is not one per element of its axis");
    return {d.broadcast_index(scale.size(0), i[axis])};
  }
  if (scale.rank() != x.rank()) d.reject("its scale should be a scalar, a list or of the data's rank");
  const int64_t block = d.integer("block_size");
  if (block < 1) d.reject("its attribute 'block_size' should be positive");
  Indices at = i;
  at[axis] = floor_div(i[axis], make_index(block));
  Shape blocks = x.shape();
  blocks[axis] = ceil_div(blocks[axis], block);
  d.require_shape(scale, blocks, "its scale or zero point is not one per block");
  return at;
}

bool is_small_float(DType type) { return is_float(type) && bit_width(type) < 16; }

/// round(x / scale) + zero point, bounded to the type, halves to even.
Expr quantized(Definition& d, const Expr& x, const Expr& scale, const Expr& zero, DType type) {
  const Expr ratio = x / scale;
  if (is_small_float(type)) return make_cast(type, zero ? ratio + zero : ratio);
  const auto [low, high] = range_of(d, type);
  const Expr rounded = zero ? round(ratio) + zero : round(ratio);
  if (bit_width(type) >= 8) return make_cast(type, rounded);  // a cast saturates
  return make_cast(type, min(max(rounded, make_constant(ratio->type, low)), make_constant(ratio->type, high)));
}

void define_quantize(Definition& d) {
  const Tensor x = d.in(0), scale = d.in(1);
  const int64_t stated = d.integer("output_dtype");
  const DType type = d.has_input(2) ? d.input_type(2) : stated != 0 ? d.type("output_dtype") : DType::kUint8;
  const DType stated_wide = d.integer("precision") != 0 ? d.type("precision") : scale.type();
  // A quotient of integers is none of them.
  const DType wide = is_float(stated_wide) ? compute_type(stated_wide) : DType::kFloat64;
  d.out(0, d.compute("y", type, Shape(x.shape()), [&](const Indices& i) {
    const Indices at = scale_indices(d, x, scale, i);
    const Expr zero = d.has_input(2) ? make_cast(wide, d.in(2)(scale_indices(d, x, d.in(2), i))) : Expr();
    const Expr value = quantized(d, make_cast(wide, x(i)), make_cast(wide, scale(at)), zero, type);
    return value;
  }));
}

void define_dequantize(Definition& d) {
  const Tensor x = d.in(0), scale = d.in(1);
  const DType type = d.integer("output_dtype") != 0 ? d.type("output_dtype") : scale.type();
  const DType wide = compute_type(scale.type());
  d.out(0, d.compute("y", type, Shape(x.shape()), [&](const Indices& i) {
    const Indices at = scale_indices(d, x, scale, i);
    if (!d.has_input(2)) return make_cast(wide, x(i)) * make_cast(wide, scale(at));
    const Expr zero = d.in(2)(scale_indices(d, x, d.in(2), i));
    if (is_float(x.type())) return (make_cast(wide, x(i)) - make_cast(wide, zero)) * make_cast(wide, scale(at));
    // The difference is exact in a wider type, where the types' own would wrap.
    const DType exact = bit_width(x.type()) <= 16 ? DType::kInt32 : DType::kInt64;
    const Expr difference = make_cast(exact, x(i)) - make_cast(exact, zero);
    return make_cast(wide, difference) * make_cast(wide, scale(at));
  }));
}

/// scale = (max(x, 0) - min(x, 0)) / 255; zero point = the u8 that stands for 0.
void define_dynamic_quantize(Definition& d) {
  const Tensor x = d.in(0);
  const Shape all = x.shape();
  const auto extreme = [&](std::string_view name, Intrinsic combine) {
    return d.reduce(name, combine, {}, all, [&](const Indices&, const Indices& k) { return x(k); });
  };
  const Tensor low = extreme("low", Intrinsic::kMin), high = extreme("high", Intrinsic::kMax);
  const auto constant = [](double v) { return make_constant(DType::kFloat32, v); };
  const Tensor scale = d.compute("scale", DType::kFloat32, {}, [&](const Indices& i) {
    return (max(high(i), constant(0)) - min(low(i), constant(0))) / constant(255);
  });
  const Tensor zero = d.compute("zero_point", DType::kUint8, {}, [&](const Indices& i) {
    const Expr shift = select(eq(scale(i), constant(0)), constant(0), -min(low(i), constant(0)) / scale(i));
    return round(min(max(shift, constant(0)), constant(255)));
  });
  d.out(0, d.compute("y", DType::kUint8, all, [&](const Indices& i) {
    const Expr divisor = select(eq(scale({}), constant(0)), constant(1), scale({}));
    return quantized(d, x(i), divisor, make_cast(DType::kFloat32, zero({})), DType::kUint8);
  }));
  d.out(1, scale);
  d.out(2, zero);
}

/// table[code], for all codes from the smallest on.
void define_lookup_table(Definition& d) {
  const Tensor x = d.in(0), table = d.in(1);
  d.require_shape(table, {256}, "its table should have an element for each of 256 codes");
  const int64_t first = x.type() == DType::kInt8 ? -128 : 0;
  d.out(0, d.compute("y", table.type(), Shape(x.shape()), [&](const Indices& i) {
    return table({make_cast(DType::kInt64, x(i)) - make_index(first)});
  }));
}

/// The parameter of a quantized matrix at element `i`, whose batches may be more than the matrix has: a scalar, one per
/// row (left) or column (right), or broadcast.
Expr parameter(Definition& d, int input, const Shape& shape, const Indices& i, bool left) {
  const Tensor t = d.in(input);
  const char* misfit = "a scale or zero point does not fit its matrix";
  if (t.rank() == 0) return t(Indices{});
  if (t.rank() > 1) {
    d.require_fits(t, shape, misfit);
    return d.at(t, i, false);
  }
  const size_t behind = left ? 2 : 1;
  d.require_fits(t, {shape[shape.size() - behind]}, misfit);
  return t({d.broadcast_index(t.size(0), i[i.size() - behind])});
}

/// A product's sizes or indices with the axis that it lacks where a vector is its row or its column.
template <class List, class One>
List with_vector_axes(List list, bool row, bool column, const One& one) {
  if (row) list.insert(column ? list.end() : list.end() - 1, one);
  if (column) list.push_back(one);
  return list;
}

/// sum over k of (a - a zero point) (b - b zero point) in i32, of floats in f32, batches broadcasting; a vector is a
/// row on the left, a column on the right.
Tensor product_of_bytes(Definition& d, int a_input, int a_zero, int b_input, int b_zero) {
  const Tensor a = d.in(a_input), b = d.in(b_input);
  if (a.rank() == 0 || b.rank() == 0) d.reject("its inputs should have one axis at least");
  const bool row = a.rank() == 1, column = b.rank() == 1;
  const Size k = a.size(-1);
  d.require_equal(k, b.size(column ? -1 : -2), "the inner sizes of its inputs differ");
  const Shape left_shape = row ? Shape{1, k} : a.shape(), right_shape = column ? Shape{k, 1} : b.shape();
  Shape shape = d.broadcast(Shape(left_shape.begin(), left_shape.end() - 2),
                            Shape(right_shape.begin(), right_shape.end() - 2));
  if (!row) shape.push_back(a.size(-2));
  if (!column) shape.push_back(b.size(-1));
  const auto less = [&](const Tensor& t, const Indices& at, int zero, const Shape& whole, const Indices& place,
                        bool left) {
    const Expr value = make_cast(is_float(t.type()) ? DType::kFloat32 : DType::kInt32, d.at(t, at, false));
    if (!d.has_input(zero)) return value;
    return value - make_cast(DType::kInt32, parameter(d, zero, whole, place, left));
  };
  return d.reduce("product", Intrinsic::kAdd, shape, {k}, [&](const Indices& i, const Indices& r) {
    Indices left = with_vector_axes(i, row, column, make_index(0)), right = left;
    left.back() = r[0];
    right[right.size() - 2] = r[0];
    const Indices vector{r[0]};
    return less(a, row ? vector : left, a_zero, left_shape, left, true) *
           less(b, column ? vector : right, b_zero, right_shape, right, false);
  });
}

void define_product_of_bytes(Definition& d) { d.out(0, product_of_bytes(d, 0, 2, 1, 3)); }

void define_qlinear_matmul(Definition& d) {
  const Tensor product = product_of_bytes(d, 0, 2, 3, 5);
  const DType type = d.input_type(7);
  const bool row = d.in(0).rank() == 1, column = d.in(3).rank() == 1;
  const Shape whole = with_vector_axes(Shape(product.shape()), row, column, Size(1));
  d.out(0, d.compute("y", type, Shape(product.shape()), [&](const Indices& i) {
    const Indices place = with_vector_axes(i, row, column, make_index(0));
    const auto of_result = [&](int input, bool left) {
      return make_cast(DType::kFloat32, parameter(d, input, whole, place, left));
    };
    const Expr sum = make_cast(DType::kFloat32, product(i)) * (of_result(1, true) * of_result(4, false));
    return quantized(d, sum, of_result(6, true), of_result(7, true), type);
  }));
}

std::vector<Sample> quantize_samples() {
  const auto axis = [](int64_t a) { return Attributes{{"axis", a}}; };
  return {{.name = "one_scale", .inputs = {f32({3, 7}), scalar(DType::kFloat32, 0.013), scalar(DType::kUint8, 128)}},
          {.name = "signed", .inputs = {f32({3, 7}, -9, 9), scalar(DType::kFloat32, 0.05), scalar(DType::kInt8, 3)}},
          {.name = "a_scale_per_channel",
           .inputs = {f32({2, 3, 5}), f32({3}, 0.01, 0.1), of(DType::kInt8, {3}, -9, 9)}, .attributes = axis(1)},
          {.name = "no_zero_point", .inputs = {f32({5}), scalar(DType::kFloat32, 0.013)}},
          {.name = "four_bits", .inputs = {f32({3, 7}, -9, 9), scalar(DType::kFloat32, 0.7), scalar(DType::kInt4, 1)}},
          {.name = "two_bits_without_sign",
           .inputs = {f32({3, 5}, -2, 2), scalar(DType::kFloat32, 0.7), scalar(DType::kUint2, 1)}},
          {.name = "float8",
           .inputs = {f32({3, 7}, -900, 900), scalar(DType::kFloat32, 1.5), scalar(DType::kFloat8E4M3FN, 0)}},
          {.name = "blocks", .inputs = {f32({3, 6}), f32({3, 2}, 0.01, 0.1), of(DType::kUint8, {3, 2}, 0, 200)},
           .attributes = {{"axis", int64_t{1}}, {"block_size", int64_t{3}}}}};
}
std::vector<Sample> dequantize_samples() {
  return {{.name = "one_scale",
           .inputs = {of(DType::kUint8, {3, 7}, 0, 255), scalar(DType::kFloat32, 0.013), scalar(DType::kUint8, 128)}},
          {.name = "a_scale_per_channel",
           .inputs = {of(DType::kInt8, {2, 3, 5}, -128, 127), f32({3}, 0.01, 0.1), of(DType::kInt8, {3}, -9, 9)},
           .attributes = {{"axis", int64_t{-2}}}},
          {.name = "no_zero_point", .inputs = {of(DType::kInt32, {5}, -9999, 9999), scalar(DType::kFloat32, 0.5)}},
          {.name = "four_bits_per_channel",
           .inputs = {of(DType::kInt4, {3, 5}, -8, 7), f32({5}, 0.1, 1), of(DType::kInt4, {5}, -3, 3)},
           .attributes = {{"axis", int64_t{1}}}},
          {.name = "two_bits_without_sign",
           .inputs = {of(DType::kUint2, {3, 5}, 0, 3), scalar(DType::kFloat32, 0.7), scalar(DType::kUint2, 1)}},
          {.name = "float8",
           .inputs = {of(DType::kFloat8E5M2, {3, 7}, -90, 90), scalar(DType::kFloat32, 1.5)}},
          {.name = "blocks",
           .inputs = {of(DType::kInt8, {6, 2}, -128, 127), f32({2, 2}, 0.01, 0.1), of(DType::kInt8, {2, 2}, -9, 9)},
           .attributes = {{"axis", int64_t{0}}, {"block_size", int64_t{3}}}}};
}
std::vector<Sample> dynamic_samples() {
  return {{.name = "both_signs", .inputs = {f32({3, 7})}, .outputs = 3},
          {.name = "positive", .inputs = {f32({11}, 1, 3)}, .outputs = 3},
          {.name = "negative", .inputs = {f32({2, 3}, -3, -1)}, .outputs = 3}};
}
SampleInput bytes(Dims shape) { return of(DType::kUint8, std::move(shape), 0, 255); }
std::vector<Sample> matmul_integer_samples() {
  return {{.name = "no_zero_points", .inputs = {bytes({3, 7}), bytes({7, 5})}},
          {.name = "zero_points",
           .inputs = {bytes({3, 7}), bytes({7, 5}), scalar(DType::kUint8, 9), scalar(DType::kUint8, 4)}},
          {.name = "batches", .inputs = {bytes({2, 3, 4}), bytes({4, 5})}},
          {.name = "batches_and_a_zero_point_per_column",
           .inputs = {bytes({2, 6, 3, 4}), bytes({4, 5}), scalar(DType::kUint8, 9), bytes({5})}},
          {.name = "a_row", .inputs = {bytes({7}), bytes({2, 7, 5}), scalar(DType::kUint8, 9)}},
          {.name = "a_column",
           .inputs = {bytes({3, 7}), bytes({7}), scalar(DType::kUint8, 9), scalar(DType::kUint8, 4)}},
          {.name = "vectors", .inputs = {bytes({7}), bytes({7})}}};
}
/// The matrix units of GPUs sum products of floats of 8 bits with fewer bits than f32.
constexpr double kFloat8Tolerance = 2e-3;
std::vector<Sample> matmul_float8_samples() {
  const auto e4m3 = [](Dims shape) { return of(DType::kFloat8E4M3FN, std::move(shape), -30, 30); };
  const auto e5m2 = [](Dims shape) { return of(DType::kFloat8E5M2, std::move(shape), -30, 30); };
  return {{.name = "e4m3", .inputs = {e4m3({3, 7}), e4m3({7, 5})}, .tolerance = kFloat8Tolerance},
          {.name = "mixed", .inputs = {e4m3({20, 96}), e5m2({96, 24})}, .tolerance = kFloat8Tolerance},
          {.name = "batches", .inputs = {e5m2({2, 3, 4}), e4m3({4, 5})}, .tolerance = kFloat8Tolerance},
          {.name = "many_products", .inputs = {e4m3({70, 256}), e4m3({256, 40})}, .tolerance = kFloat8Tolerance},
          {.name = "e5m2", .inputs = {e5m2({7}), e5m2({7, 5})}, .tolerance = kFloat8Tolerance}};
}
std::vector<Sample> lookup_table_samples() {
  const auto bytes = [](DType type, Dims shape) {
    return type == DType::kInt8 ? of(type, std::move(shape), -128, 127) : of(type, std::move(shape), 0, 255);
  };
  const auto sample = [&](const char* name, DType codes, DType table, Dims shape) {
    return Sample{.name = name, .inputs = {bytes(codes, std::move(shape)), bytes(table, {256})}};
  };
  return {sample("unsigned", DType::kUint8, DType::kUint8, {3, 70}),
          sample("signed", DType::kInt8, DType::kInt8, {5, 7, 9}),
          sample("to_signed", DType::kUint8, DType::kInt8, {130}),
          sample("one", DType::kInt8, DType::kUint8, {1})};
}

std::vector<Sample> qlinear_matmul_samples() {
  const auto parameters = [](double scale, double zero) {
    return std::pair(scalar(DType::kFloat32, scale), scalar(DType::kUint8, zero));
  };
  const auto [sa, za] = parameters(0.007, 113);
  const auto [sb, zb] = parameters(0.0053, 120);
  const auto [sy, zy] = parameters(0.011, 118);
  return {{.name = "matrices", .inputs = {bytes({2, 4}), sa, za, bytes({4, 3}), sb, zb, sy, zy}},
          {.name = "batches", .inputs = {bytes({2, 3, 4}), sa, za, bytes({2, 4, 3}), sb, zb, sy, zy}},
          {.name = "batches_and_a_zero_point_per_column",
           .inputs = {bytes({2, 6, 3, 4}), sa, za, bytes({4, 5}), f32({5}, 0.004, 0.006), bytes({5}), sy, zy}},
          {.name = "a_row", .inputs = {bytes({4}), sa, za, bytes({4, 3}), sb, zb, sy, zy}},
          {.name = "a_column", .inputs = {bytes({2, 4}), sa, za, bytes({4}), sb, zb, sy, zy}}};
}

}  // namespace

std::vector<OpDef> quantization_ops() {
  const AttributeSpec axis{"axis", int64_t{1}}, block{"block_size", int64_t{0}}, type{"output_dtype", int64_t{0}};
  return {
      {.domain = "", .name = "QuantizeLinear", .since = 25, .inputs = {"x", "y_scale", "y_zero_point?"},
       .outputs = {"y"}, .attributes = {axis, block, type, {"precision", int64_t{0}}, {"saturate", int64_t{1}}},
       .define = define_quantize, .samples = quantize_samples, .doc = "x / scale rounded, plus a zero point, bounded."},
      {.domain = "", .name = "DequantizeLinear", .since = 25, .inputs = {"x", "x_scale", "x_zero_point?"},
       .outputs = {"y"}, .attributes = {axis, block, type}, .define = define_dequantize,
       .samples = dequantize_samples, .doc = "(x - zero point) scale."},
      {.domain = "", .name = "DynamicQuantizeLinear", .since = 11, .inputs = {"x"},
       .outputs = {"y", "y_scale", "y_zero_point"}, .attributes = {}, .define = define_dynamic_quantize,
       .samples = dynamic_samples, .doc = "x quantized to u8 by its own range."},
      {.domain = "", .name = "MatMulInteger", .since = 10, .inputs = {"a", "b", "a_zero_point?", "b_zero_point?"},
       .outputs = {"y"}, .attributes = {}, .define = define_product_of_bytes, .samples = matmul_integer_samples,
       .doc = "The matrix product of integers less their zero points, in i32."},
      {.domain = "graft", .name = "MatMulFloat8", .since = 1, .inputs = {"a", "b"}, .outputs = {"y"}, .attributes = {},
       .define = define_product_of_bytes, .samples = matmul_float8_samples,
       .doc = "The matrix product of floats of 8 bits, in f32."},
      {.domain = "graft", .name = "LookupTable", .since = 1, .inputs = {"x", "table"}, .outputs = {"y"},
       .attributes = {}, .define = define_lookup_table, .samples = lookup_table_samples,
       .doc = "The element of a table of 256 that stands for each code of 8 bits."},
      {.domain = "", .name = "QLinearMatMul", .since = 21,
       .inputs = {"a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point", "y_scale", "y_zero_point"},
       .outputs = {"y"}, .attributes = {}, .define = define_qlinear_matmul, .samples = qlinear_matmul_samples,
       .doc = "The matrix product of quantized matrices, quantized again."},
  };
}

}  // namespace graft
