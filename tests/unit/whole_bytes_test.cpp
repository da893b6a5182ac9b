// SPDX-License-Identifier: Apache-2.0
// Regions over bytes give what the regions over narrow elements give, bit for bit.
#include "tile/whole_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/convert.h"
#include "expr/build.h"
#include "expr/interpreter.h"
#include "tile/narrow_conversions.h"

namespace graft::tile {
namespace {

const std::vector<DType> kNarrowFloats = {DType::kFloat8E4M3FN,   DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2,
                                          DType::kFloat8E5M2FNUZ, DType::kFloat4E2M1,     DType::kFloat8E8M0};
const std::vector<DType> kNarrowIntegers = {DType::kInt4, DType::kUint4, DType::kInt2, DType::kUint2};

/// The tensor's bytes as the tensor `declared`.
TensorData reread(const TensorData& from, const TensorDecl& declared, const Bindings& bindings) {
  std::vector<int64_t> shape;
  for (const Size& size : declared.shape) shape.push_back(size.evaluate(bindings));
  TensorData to = TensorData::zeros(declared.type, shape);
  EXPECT_EQ(to.bytes().size(), from.bytes().size()) << declared.name;
  std::copy_n(from.bytes().begin(), std::min(to.bytes().size(), from.bytes().size()), to.mutable_bytes().begin());
  return to;
}

std::vector<int> bytes_of(const TensorData& data) {
  std::vector<int> bytes;
  for (const std::byte each : data.bytes()) bytes.push_back(std::to_integer<int>(each));
  return bytes;
}

/// Runs the region as it is and over bytes, and compares the bytes of the results.
void expect_same(const Region& region, const std::vector<TensorData>& inputs) {
  Bindings bindings;
  const std::vector<TensorData> wanted = interpret(region, inputs, bindings);
  const auto rewritten = in_whole_bytes(region);
  ASSERT_TRUE(std::holds_alternative<Region>(rewritten)) << std::get<std::string>(rewritten);
  const Region& bytes = std::get<Region>(rewritten);
  verify(bytes);
  EXPECT_FALSE(has_narrow_elements(bytes));
  std::vector<TensorData> given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    given.push_back(reread(inputs[i], bytes.tensors[static_cast<size_t>(bytes.inputs[i])], bindings));
  }
  Bindings other = bindings;
  const std::vector<TensorData> got = interpret(bytes, given, other);
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(bytes_of(got[i]), bytes_of(wanted[i])) << print(bytes);
}

/// y[i] = x[i] as another type.
Region cast_region(DType from, DType to, const Shape& shape) {
  RegionBuilder b;
  const Tensor x = b.input("x", from, shape);
  return b.finish("cast", {b.compute("y", to, shape, [&](const Indices& i) { return x(i); })});
}

void expect_cast(const TensorData& x, DType to) {
  SCOPED_TRACE(std::string(name_of(x.type())) + " to " + std::string(name_of(to)));
  expect_same(cast_region(x.type(), to, Shape(x.shape().begin(), x.shape().end())), {x});
}

TensorData every_code(DType type) {
  const int64_t count = int64_t{1} << bit_width(type);
  TensorData data = TensorData::zeros(type, {count});
  for (int64_t code = 0; code < count; ++code) {
    const int64_t first = code * bit_width(type);
    data.mutable_bytes()[static_cast<size_t>(first / 8)] |=
        static_cast<std::byte>(code << (first % 8));
  }
  return data;
}

/// Numbers at which rounding to the type changes, those beside them, and what is special; with both signs.
TensorData around_roundings(DType source, DType narrow) {
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> all = {0, infinity, std::nan(""), 1e30, 1e-30, 1e-45, 3.4e38, 65504};
  const uint64_t codes = uint64_t{1} << (bit_width(narrow) - 1);
  for (uint64_t code = 0; code + 1 < codes; ++code) {
    const double low = decode_float(narrow, code), high = decode_float(narrow, code + 1);
    const double step = std::isfinite(high) ? high - low : low / 8;
    for (const double at : {low, low + step / 2, low + step}) {
      all.insert(all.end(), {at, at * (1 + 1e-7), at * (1 - 1e-7), at * (1 + 1e-12), at * (1 - 1e-12)});
    }
  }
  const size_t count = all.size();
  for (size_t i = 0; i < count; ++i) all.push_back(-all[i]);
  TensorData data = TensorData::zeros(source, {static_cast<int64_t>(all.size())});
  for (size_t i = 0; i < all.size(); ++i) data.write_double(static_cast<int64_t>(i), all[i]);
  return data;
}

TEST(WholeBytes, numbers_become_narrow_floats_as_the_interpreter_rounds_them) {
  for (const DType to : kNarrowFloats) {
    for (const DType from : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
      expect_cast(around_roundings(from, to), to);
    }
  }
}

TEST(WholeBytes, integers_become_narrow_floats) {
  const std::vector<int64_t> numbers = {0, 1, -1, 2, 3, 5, 7, 9, 17, 100, 127, -128, 255, 449, 464, 465, 70000, -70000,
                                        int64_t{1} << 40, std::numeric_limits<int64_t>::min()};
  for (const DType to : kNarrowFloats) {
    for (const DType from : {DType::kInt64, DType::kInt32, DType::kInt8, DType::kUint8, DType::kBool}) {
      TensorData x = TensorData::zeros(from, {static_cast<int64_t>(numbers.size())});
      for (size_t i = 0; i < numbers.size(); ++i) {
        x.write_integer(static_cast<int64_t>(i), wrap_integer(from, numbers[i]));
      }
      expect_cast(x, to);
    }
  }
}

TEST(WholeBytes, each_code_becomes_the_number_that_it_stands_for) {
  std::vector<DType> all = kNarrowFloats;
  all.insert(all.end(), kNarrowIntegers.begin(), kNarrowIntegers.end());
  for (const DType from : all) {
    for (const DType to : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kInt32, DType::kInt8,
                           DType::kUint8, DType::kBool}) {
      expect_cast(every_code(from), to);
    }
    for (const DType to : all) {
      // A copy keeps the payload of a NaN, which the interpreter does not.
      if (to != from) expect_cast(every_code(from), to);
    }
  }
}

TEST(WholeBytes, numbers_become_narrow_integers) {
  const std::vector<double> numbers = {0, 0.9, -0.9, 1.5, -1.5, 2, 3, -2, -3, 7, 8, -8, -9, 15, 16, 1e30, -1e30,
                                       std::numeric_limits<double>::infinity(), std::nan("")};
  for (const DType to : kNarrowIntegers) {
    for (const DType from : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kInt32, DType::kInt8}) {
      TensorData x = TensorData::zeros(from, {static_cast<int64_t>(numbers.size())});
      for (size_t i = 0; i < numbers.size(); ++i) {
        if (is_float(from)) {
          x.write_double(static_cast<int64_t>(i), numbers[i]);
        } else {
          x.write_integer(static_cast<int64_t>(i), wrap_integer(from, double_to_integer(DType::kInt32, numbers[i])));
        }
      }
      expect_cast(x, to);
    }
  }
}

TensorData counted(DType type, std::vector<int64_t> shape) {
  TensorData x = TensorData::zeros(type, std::move(shape));
  for (int64_t i = 0; i < x.element_count(); ++i) x.write_integer(i, wrap_integer(type, i * 5 + 1));
  return x;
}

TEST(WholeBytes, rows_that_end_within_a_byte_are_packed_on) {
  for (const DType type : kNarrowIntegers) {
    const std::vector<std::vector<int64_t>> shapes = {{3, 5}, {5, 3}, {2, 8}, {7}, {}, {0, 3}};
    for (const std::vector<int64_t>& shape : shapes) {
      RegionBuilder b;
      const Tensor x = b.input("x", type, Shape(shape.begin(), shape.end()));
      const Region region = b.finish("add", {b.compute("y", type, Shape(x.shape()), [&](const Indices& i) {
                                       return x.wide(i) + make_integer(DType::kInt32, 1);
                                     })});
      expect_same(region, {counted(type, shape)});
    }
  }
}

TEST(WholeBytes, transposed_elements_find_their_bytes) {
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kInt4, {3, 5});
  const Region region =
      b.finish("transpose", {b.compute("y", DType::kInt4, {5, 3}, [&](const Indices& i) { return x({i[1], i[0]}); })});
  expect_same(region, {counted(DType::kInt4, {3, 5})});
}

TEST(WholeBytes, sizes_that_vary_are_packed) {
  const Size n = Size::symbol("n");
  RegionBuilder b;
  const Tensor x = b.input("x", DType::kInt8, {n, 3});
  const Tensor y = b.compute("y", DType::kUint4, {n, 3}, [&](const Indices& i) { return x(i); });
  expect_same(b.finish("cast", {y}), {counted(DType::kInt8, {5, 3})});
}

TEST(WholeBytes, a_scatter_sets_elements_of_a_byte) {
  for (const DType type : {DType::kInt4, DType::kUint2}) {
    RegionBuilder b;
    const Tensor base = b.input("base", type, {7});
    const Tensor update = b.input("update", type, {3});
    const Tensor y = b.scatter("y", base, ScatterMode::kSet, {3}, [&](Scatter& s, const Indices& i) {
      s.indices = {i[0] * make_index(2)};
      s.value = update(i);
    });
    expect_same(b.finish("scatter", {y}), {counted(type, {7}), counted(type, {3})});
  }
}

TEST(WholeBytes, a_scatter_that_adds_codes_is_refused) {
  RegionBuilder b;
  const Tensor base = b.input("base", DType::kFloat8E5M2, {7});
  const Tensor y = b.scatter("y", base, ScatterMode::kAdd, {3}, [&](Scatter& s, const Indices& i) {
    s.indices = {i[0]};
    s.value = base(i);
  });
  const auto rewritten = in_whole_bytes(b.finish("scatter", {y}));
  ASSERT_TRUE(std::holds_alternative<std::string>(rewritten));
  EXPECT_EQ(std::get<std::string>(rewritten), "elements of type f8e5m2 are combined or put in order");
}

}  // namespace
}  // namespace graft::tile
