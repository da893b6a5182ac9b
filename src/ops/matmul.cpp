// SPDX-License-Identifier: Apache-2.0
// Matrix products: one reduction over k each.
#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

/// numpy.matmul: leading axes broadcast, a vector is a row on the left and a column on the right.
void define_matmul(Definition& d) {
  const Tensor a = d.in(0), b = d.in(1);
  if (a.type() != b.type()) d.reject("its inputs have different types");
  if (a.rank() == 0 || b.rank() == 0) d.reject("its inputs should have at least one axis");
  const bool row = a.rank() == 1, column = b.rank() == 1;
  const Size k = a.size(-1);
  d.require_equal(k, b.size(column ? 0 : -2), "the inner sizes of its inputs differ");
  const Shape a_batch(a.shape().begin(), a.shape().end() - (row ? 1 : 2));
  const Shape b_batch(b.shape().begin(), b.shape().end() - (column ? 1 : 2));
  Shape shape = d.broadcast(a_batch, b_batch);
  const size_t batch = shape.size();
  if (!row) shape.push_back(a.size(-2));
  if (!column) shape.push_back(b.size(-1));
  const auto own = [&](const Indices& i, const Shape& of) {
    Indices indices(i.begin() + static_cast<std::ptrdiff_t>(batch - of.size()),
                    i.begin() + static_cast<std::ptrdiff_t>(batch));
    for (size_t axis = 0; axis < of.size(); ++axis) indices[axis] = d.broadcast_index(of[axis], indices[axis]);
    return indices;
  };
  const Tensor product = d.reduce("product", Intrinsic::kAdd, shape, {k}, [&](const Indices& i, const Indices& r) {
    Indices left = own(i, a_batch), right = own(i, b_batch);
    if (!row) left.push_back(i[batch]);
    left.push_back(r[0]);
    right.push_back(r[0]);
    if (!column) right.push_back(i.back());
    return a.wide(left) * b.wide(right);
  });
  d.out(0, stored_as(d, "y", product, a.type()));
}

void define_gemm(Definition& d) {
  const Tensor a = d.in(0), b = d.in(1);
  if (a.rank() != 2 || b.rank() != 2) d.reject("its first two inputs should be matrices");
  if (a.type() != b.type()) d.reject("its inputs have different types");
  const bool left = d.integer("transA") != 0, right = d.integer("transB") != 0;
  const double alpha = d.real("alpha"), beta = d.real("beta");
  const Size k = a.size(left ? 0 : 1);
  d.require_equal(k, b.size(right ? 1 : 0), "the inner sizes of its inputs differ");
  const Shape shape = {a.size(left ? 1 : 0), b.size(right ? 0 : 1)};
  const Tensor product = d.reduce("product", Intrinsic::kAdd, shape, {k}, [&](const Indices& i, const Indices& r) {
    return a.wide(left ? Indices{r[0], i[0]} : Indices{i[0], r[0]}) *
           b.wide(right ? Indices{i[1], r[0]} : Indices{r[0], i[1]});
  });
  const bool adds = d.has_input(2) && beta != 0;
  if (adds) {
    const Shape both = d.broadcast(shape, d.input_shape(2));
    if (both.size() != 2) d.reject("its third input does not broadcast to the product");
    for (int axis = 0; axis < 2; ++axis) d.require_equal(both[axis], shape[axis], "its third input is too large");
  }
  if (!adds && alpha == 1) return d.out(0, stored_as(d, "y", product, a.type()));
  d.out(0, d.compute("y", a.type(), shape, [&](const Indices& i) {
    // Scales of an integer product are applied in f64 and cut off.
    const DType type = is_float(a.type()) || (alpha == 1 && beta == 1) ? product.type() : DType::kFloat64;
    Expr value = make_cast(type, product(i));
    if (alpha != 1) value = make_constant(type, alpha) * value;
    if (!adds) return value;
    const Expr c = make_cast(type, d.at(d.in(2), i));
    return value + (beta == 1 ? c : make_constant(type, beta) * c);
  }));
}

std::vector<Sample> matmul_samples() {
  return {{.name = "matrices_of_odd_sizes", .inputs = {f32({5, 37}), f32({37, 11})}},
          {.name = "batches", .inputs = {f32({2, 3, 4, 7}), f32({2, 3, 7, 5})}},
          {.name = "batches_broadcast", .inputs = {f32({3, 1, 4, 7}), f32({2, 7, 5})}},
          {.name = "batch_times_matrix", .inputs = {f32({2, 9, 8}), f32({8, 16})}},
          {.name = "vector_times_matrix", .inputs = {f32({7}), f32({7, 5})}},
          {.name = "batch_times_vector", .inputs = {f32({2, 4, 7}), f32({7})}},
          {.name = "vectors", .inputs = {f32({7}), f32({7})}},
          {.name = "half_precision", .inputs = {f16({5, 33}), f16({33, 6})}, .tolerance = 2e-3},
          {.name = "double_precision", .inputs = {of(DType::kFloat64, {3, 5}), of(DType::kFloat64, {5, 2})}},
          {.name = "integers", .inputs = {of(DType::kInt32, {3, 5}, -9, 9), of(DType::kInt32, {5, 2}, -9, 9)}},
          {.name = "nothing_to_sum", .inputs = {f32({3, 0}), f32({0, 2})}}};
}

std::vector<Sample> gemm_samples() {
  return {{.name = "no_bias", .inputs = {f32({5, 7}), f32({7, 3})}},
          {.name = "bias_row", .inputs = {f32({5, 7}), f32({7, 3}), f32({3})}},
          {.name = "bias_column_and_scales", .inputs = {f32({5, 7}), f32({7, 3}), f32({5, 1})},
           .attributes = {{"alpha", 0.5}, {"beta", 0.25}}},
          {.name = "both_transposed", .inputs = {f32({7, 5}), f32({3, 7}), f32({})},
           .attributes = {{"transA", int64_t{1}}, {"transB", int64_t{1}}}},
          {.name = "alpha_only", .inputs = {f32({2, 7}), f32({7, 3})}, .attributes = {{"alpha", 3.0}}},
          {.name = "half_precision", .inputs = {f16({5, 17}), f16({4, 17}), f16({4})},
           .attributes = {{"transB", int64_t{1}}}, .tolerance = 2e-3}};
}

}  // namespace

std::vector<OpDef> matmul_ops() {
  return {
      {.domain = "", .name = "MatMul", .since = 13, .inputs = {"a", "b"}, .outputs = {"y"}, .attributes = {},
       .define = define_matmul, .samples = matmul_samples, .doc = "The matrix product of the last two axes."},
      {.domain = "", .name = "Gemm", .since = 13, .inputs = {"a", "b", "c?"}, .outputs = {"y"},
       .attributes = {{"alpha", 1.0}, {"beta", 1.0}, {"transA", int64_t{0}}, {"transB", int64_t{0}}},
       .define = define_gemm, .samples = gemm_samples, .doc = "alpha a b + beta c."},
  };
}

}  // namespace graft
