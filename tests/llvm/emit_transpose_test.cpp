// SPDX-License-Identifier: Apache-2.0
// Maps that read along another axis than they write along, at sizes around those of the blocks that are turned around.
#include <cstring>

#include "llvm/kernel_runner.h"

namespace graft::codegen {
namespace {

const std::vector<int64_t> kSizes{1, 3, 8, 15, 16, 17, 33, 50};

/// What a kernel has to move: bytes that differ from element to element.
std::vector<uint8_t> bytes_of(int64_t elements, int width) {
  std::vector<uint8_t> bytes(static_cast<size_t>(elements * width));
  for (size_t n = 0; n < bytes.size(); ++n) bytes[n] = static_cast<uint8_t>(n * 37 + n / 251);
  return bytes;
}

/// y[p, i, j] = x[p, j / divisor, i], with sizes of the run where these are asked for.
tile::Program transposition(DType type, int64_t rows, int64_t columns, int64_t divisor, bool open) {
  const Size i_size = open ? Size::symbol("m") : Size(rows), j_size = open ? Size::symbol("n") : Size(columns);
  const Size sources = divisor == 1 ? j_size : Size((columns + divisor - 1) / divisor);
  tile::Program program =
      make_program({make_buffer("x", type, {2, sources, i_size}), make_buffer("y", type, {2, i_size, j_size}, true)},
                   open ? std::vector<std::string>{"m", "n"} : std::vector<std::string>{});
  const tile::Axis p = make_axis(2), i = make_axis(i_size), j = make_axis(j_size);
  const Expr source = divisor == 1 ? j.variable : floor_div(j.variable, make_index(divisor));
  tile::Map map{.axes = {p, i, j}, .condition = {}, .stores = {}, .ordered = false};
  map.stores.push_back(
      store_to(1, {p.variable, i.variable, j.variable}, make_load(0, type, {p.variable, source, i.variable})));
  program.body.push_back({map});
  return program;
}

void expect_transposed(const Target& target, DType type, int64_t rows, int64_t columns, int64_t divisor, bool open) {
  Kernel kernel(transposition(type, rows, columns, divisor, open), target);
  const int width = bit_width(type) / 8;
  const int64_t sources = (columns + divisor - 1) / divisor;
  std::vector<uint8_t> x = bytes_of(2 * sources * rows, width);
  std::vector<uint8_t> y(static_cast<size_t>(2 * rows * columns * width) + 64, 0xab);
  ASSERT_EQ(kernel.run({x.data(), y.data()}, {{"m", rows}, {"n", columns}}), 0);
  for (int64_t p = 0; p < 2; ++p) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        const int64_t to = (p * rows + i) * columns + j, from = (p * sources + j / divisor) * rows + i;
        ASSERT_EQ(std::memcmp(y.data() + to * width, x.data() + from * width, static_cast<size_t>(width)), 0)
            << target.name << " " << rows << " x " << columns << " at " << p << ", " << i << ", " << j;
      }
    }
  }
  for (size_t n = y.size() - 64; n < y.size(); ++n) ASSERT_EQ(y[n], 0xab) << "wrote past the end";
}

TEST(EmitTranspose, turns_blocks_of_every_size_around) {
  for (const Target& target : runnable_targets()) {
    for (const int64_t rows : kSizes) {
      for (const int64_t columns : kSizes) {
        expect_transposed(target, DType::kFloat32, rows, columns, 1, false);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(EmitTranspose, turns_elements_of_every_width_around_at_sizes_of_the_run) {
  for (const Target& target : runnable_targets()) {
    for (const DType type : {DType::kUint8, DType::kFloat16, DType::kInt32, DType::kInt64, DType::kFloat64}) {
      for (const auto& [rows, columns] : {std::pair{37, 21}, {16, 64}, {5, 70}, {64, 3}}) {
        expect_transposed(target, type, rows, columns, 1, true);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(EmitTranspose, rows_may_be_read_at_computed_places) {
  for (const Target& target : runnable_targets()) {
    expect_transposed(target, DType::kFloat32, 35, 41, 2, false);
    expect_transposed(target, DType::kFloat32, 16, 48, 3, false);
  }
}

TEST(EmitTranspose, other_operands_are_read_where_the_result_is) {
  for (const Target& target : runnable_targets()) {
    const int64_t rows = 35, columns = 45;
    tile::Program program = make_program(
        {make_buffer("x", DType::kFloat32, {columns, rows}), make_buffer("r", DType::kFloat32, {rows}),
         make_buffer("z", DType::kFloat32, {rows, columns}), make_buffer("y", DType::kFloat32, {rows, columns}, true)});
    const tile::Axis i = make_axis(rows), j = make_axis(columns);
    tile::Map map{.axes = {i, j}, .condition = {}, .stores = {}, .ordered = false};
    const Expr turned = make_load(0, DType::kFloat32, {j.variable, i.variable});
    const Expr row = make_load(1, DType::kFloat32, {i.variable});
    const Expr same = make_load(2, DType::kFloat32, {i.variable, j.variable});
    map.stores.push_back(store_to(3, {i.variable, j.variable}, turned * turned + row - same));
    program.body.push_back({map});
    Kernel kernel(program, target);
    std::vector<float> x(static_cast<size_t>(rows * columns)), z(x.size()), r(static_cast<size_t>(rows)), y(x.size());
    for (size_t n = 0; n < x.size(); ++n) x[n] = static_cast<float>(n % 91), z[n] = static_cast<float>(n % 53);
    for (size_t n = 0; n < r.size(); ++n) r[n] = static_cast<float>(n) * 1000;
    ASSERT_EQ(kernel.run({x.data(), r.data(), z.data(), y.data()}), 0);
    for (size_t n = 0; n < y.size(); ++n) {
      const size_t at_i = n / columns, at_j = n % columns;
      const float turned_element = x[at_j * rows + at_i];
      ASSERT_EQ(y[n], turned_element * turned_element + r[at_i] - z[n]) << target.name << " " << n;
    }
  }
}

}  // namespace
}  // namespace graft::codegen
