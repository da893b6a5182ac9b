// SPDX-License-Identifier: Apache-2.0
// A matrix product whose weights stay as small as they are stored: codes of 2, 4 or 8 bits in blocks along the sums,
// each block with a scale and a zero point. Passes make it of what exporters write.
#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

/// What a code stands for: (code - zero point) scale, rounded to `type`. Without a zero point it is half of the range.
struct Blocks {
  Tensor codes, scales, zeros;
  int64_t bits = 4;
  DType type = DType::kFloat32;

  int64_t per_byte() const { return 8 / bits; }

  Expr weight(const Expr& n, const Expr& block, const Expr& byte, const Expr& part) const {
    Expr code = make_cast(DType::kInt32, codes({n, block, byte}));
    if (bits < 8) {
      const Expr shift = make_cast(DType::kInt32, part * make_index(bits));
      code = (code >> shift) & make_integer(DType::kInt32, (int64_t{1} << bits) - 1);
    }
    const Expr scale = make_cast(DType::kFloat32, scales({n, block}));
    if (zeros && is_float(zeros.type())) {
      return rounded((make_cast(DType::kFloat32, code) - make_cast(DType::kFloat32, zeros({n, block}))) * scale);
    }
    const Expr zero = zeros ? make_cast(DType::kInt32, zeros({n, block}))
                            : make_integer(DType::kInt32, int64_t{1} << (bits - 1));
    return rounded(make_cast(DType::kFloat32, code - zero) * scale);
  }

  Expr rounded(const Expr& value) const {
    return type == DType::kFloat32 ? value : make_cast(DType::kFloat32, make_cast(type, value));
  }
};

Blocks read_blocks(Definition& d) {
  Blocks blocks{d.in(1), d.in(2), {}, d.integer("bits")};
  if (blocks.bits != 2 && blocks.bits != 4 && blocks.bits != 8) {
    d.unsupported("codes of " + std::to_string(blocks.bits) + " bits");
  }
  if (blocks.codes.type() != DType::kUint8) d.reject("its codes should lie in bytes (u8)");
  if (blocks.codes.rank() != 3) d.reject("its codes should have three axes: columns, blocks, bytes");
  const Shape one_per_block{blocks.codes.size(0), blocks.codes.size(1)};
  d.require_shape(blocks.scales, one_per_block, "its scales are not one per block");
  if (d.has_input(3)) {
    blocks.zeros = d.in(3);
    d.require_shape(blocks.zeros, one_per_block, "its zero points are not one per block");
  }
  return blocks;
}

void define_packed_matmul(Definition& d) {
  const Tensor x = d.in(0);
  if (!is_float(x.type())) d.reject("its first input should be of floats");
  if (x.rank() == 0) d.reject("its first input should have at least one axis");
  Blocks blocks = read_blocks(d);
  if (bit_width(x.type()) == 16) blocks.type = x.type();
  const int64_t per_byte = blocks.per_byte();
  const Size bytes = blocks.codes.size(2), count = blocks.codes.size(1), k = x.size(-1);
  const Size block = bytes * Size(per_byte);
  const auto known = block.as_constant();
  const char* misfit = "its blocks are not those of the last axis of its first input";
  // A last block may reach beyond the sums.
  if (known && *known > 0) d.require_equal(count, ceil_div(k, *known), misfit);
  if (!known || *known == 0) d.require_equal(k, count * block, misfit);
  const bool whole = !known || *known == 0 || k.is_multiple_of(*known);
  Shape shape = x.shape();
  shape.back() = blocks.codes.size(0);
  const Shape reduced = per_byte == 1 ? Shape{count, bytes} : Shape{count, bytes, Size(per_byte)};
  const Tensor product = d.reduce("product", Intrinsic::kAdd, shape, reduced, [&](const Indices& i, const Indices& r) {
    Indices left = i;
    left.back() = r[0] * make_size(block) + (per_byte == 1 ? r[1] : r[1] * make_index(per_byte) + r[2]);
    Expr value = make_cast(DType::kFloat32, x(left));
    if (!whole) value = select(lt(left.back(), make_size(k)), value, make_constant(DType::kFloat32, 0));
    return value * blocks.weight(i.back(), r[0], r[1], per_byte == 1 ? make_index(0) : r[2]);
  });
  d.out(0, stored_as(d, "y", product, x.type()));
}

/// Constants that go through `count` values from `low` on, in steps.
SampleInput known(DType type, const Dims& shape, int count, double low, double step) {
  int64_t elements = 1;
  for (const int64_t extent : shape) elements *= extent;
  std::vector<double> numbers(static_cast<size_t>(elements));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = low + step * static_cast<double>((i * 37 + i / 7) % static_cast<size_t>(count));
  }
  SampleInput input = values(type, shape, numbers);
  input.constant = true;
  return input;
}
SampleInput codes(const Dims& shape) { return known(DType::kUint8, shape, 256, 0, 1); }
SampleInput scales(const Dims& shape) { return known(DType::kFloat32, shape, 10, 0.01, 0.01); }
SampleInput half_scales(const Dims& shape) { return known(DType::kFloat16, shape, 10, 0.01, 0.01); }

std::vector<Sample> packed_matmul_samples() {
  const auto bits = [](int64_t count) { return Attributes{{"bits", count}}; };
  return {{.name = "four_bits", .inputs = {f32({3, 64}), codes({9, 4, 8}), scales({9, 4})}},
          {.name = "zero_points",
           .inputs = {f32({5, 32}), codes({70, 2, 8}), scales({70, 2}), known(DType::kUint8, {70, 2}, 16, 0, 1)}},
          {.name = "zero_points_between_codes",
           .inputs = {f32({2, 32}), codes({5, 2, 8}), scales({5, 2}), known(DType::kFloat32, {5, 2}, 7, 6, 0.5)}},
          {.name = "a_row_of_batches", .inputs = {f32({2, 1, 48}), codes({33, 3, 8}), scales({33, 3})}},
          {.name = "a_vector", .inputs = {f32({32}), codes({40, 1, 16}), scales({40, 1})}},
          {.name = "many_rows", .inputs = {f32({70, 32}), codes({70, 2, 8}), scales({70, 2})}},
          {.name = "a_last_block_that_is_not_whole", .inputs = {f32({3, 40}), codes({9, 3, 8}), scales({9, 3})}},
          {.name = "eight_bits", .inputs = {f32({3, 32}), codes({9, 2, 16}), scales({9, 2})}, .attributes = bits(8)},
          {.name = "two_bits", .inputs = {f32({3, 32}), codes({9, 2, 4}), scales({9, 2})}, .attributes = bits(2)},
          {.name = "weights_of_the_run",
           .inputs = {f32({3, 32}), of(DType::kUint8, {9, 2, 8}, 0, 255), f32({9, 2}, 0.01, 0.1),
                      of(DType::kUint8, {9, 2}, 0, 15)}},
          {.name = "half_precision",
           .inputs = {f16({3, 32}), codes({9, 2, 8}), half_scales({9, 2})},
           .tolerance = 2e-3},
          {.name = "half_precision_zero_points",
           .inputs = {f16({2, 9, 160}), codes({70, 5, 16}), half_scales({70, 5}),
                      known(DType::kUint8, {70, 5}, 16, 0, 1)},
           .tolerance = 2e-3},
          {.name = "half_precision_zero_points_between_codes",
           .inputs = {f16({3, 128}), codes({33, 4, 16}), scales({33, 4}), known(DType::kFloat32, {33, 4}, 7, 6, 0.5)},
           .tolerance = 2e-3},
          {.name = "half_precision_eight_bits",
           .inputs = {f16({20, 136}), codes({24, 3, 64}), half_scales({24, 3}),
                      known(DType::kUint8, {24, 3}, 256, 0, 9)},
           .attributes = bits(8),
           .tolerance = 4e-3},
          {.name = "half_precision_one_block",
           .inputs = {f16({5, 128}), codes({33, 1, 128}), half_scales({33, 1})},
           .attributes = bits(8),
           .tolerance = 8e-3},
          {.name = "half_precision_two_bits",
           .inputs = {f16({5, 384}), codes({40, 6, 16}), half_scales({40, 6})},
           .attributes = bits(2),
           .tolerance = 2e-3}};
}

}  // namespace

std::vector<OpDef> packed_product_ops() {
  return {{.domain = "graft", .name = "PackedMatMul", .since = 1,
           .inputs = {"x", "codes", "scales", "zero_points?"}, .outputs = {"y"}, .attributes = {{"bits", int64_t{4}}},
           .define = define_packed_matmul, .samples = packed_matmul_samples,
           .doc = "The product of x with transposed weights of 2, 4 or 8 bits in blocks: (code - zero point) scale, "
                  "rounded to the type of x where that has 16 bits."}};
}

}  // namespace graft
