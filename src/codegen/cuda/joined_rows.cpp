// SPDX-License-Identifier: Apache-2.0
// Short rows of results that begin at any element and lie one after the other in memory, as one row: its elements are
// stored in pieces, whichever rows they are of, and each finds its row and column by a quotient and a remainder.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

constexpr int64_t kPiece = 16, kLong = 512;  // bytes of a piece; of rows that are walked one by one

}  // namespace

/// Whether the last two axes run through memory of `length` elements a row, and nothing else depends on data.
bool KernelWriter::is_joinable(const tile::Map& map, int64_t length) const {
  const int column = map.axes.back().variable->variable, row = map.axes[map.axes.size() - 2].variable->variable;
  for (const tile::Store& store : map.stores) {
    const tile::Buffer& buffer = names_.buffer(store.buffer);
    const auto address = names_.address(store.buffer, store.indices);
    if (buffer.scope != tile::Scope::kGlobal || bit_width(buffer.type) < 8 || !address) return false;
    if (!address->coefficient(column).is(1) || !address->coefficient(row).is(length)) return false;
    const int64_t bytes = length * bytes_of(buffer.type);
    if (bytes % kPiece == 0 || bytes >= kLong) return false;
  }
  bool plain = true;
  for (const tile::Store& store : map.stores) {
    for_each(store.value, [&](const Expr& load) {
      if (load->kind != ExprKind::kLoad) return;
      const tile::Buffer& buffer = names_.buffer(load->tensor);
      plain = plain && buffer.scope == tile::Scope::kGlobal && names_.address(load->tensor, load->args);
    });
  }
  return plain;
}

std::optional<tile::Map> KernelWriter::join_rows(const tile::Map& map) const {
  if (map.axes.size() < 2 || map.condition || map.ordered || !only_sets(map)) return std::nullopt;
  const tile::Axis &row = map.axes[map.axes.size() - 2], &column = map.axes.back();
  const auto rows = as_integer(row.extent), length = as_integer(column.extent);
  if (!rows || !length || *rows < 2 || *rows * *length > INT32_MAX || !is_joinable(map, *length)) return std::nullopt;
  const Expr element = make_variable(), by = make_index(*length);
  tile::Map joined{.axes = {map.axes.begin(), map.axes.end() - 2}};
  joined.axes.push_back({element, make_index(*rows * *length), *rows * *length});
  const std::vector<std::pair<int, Expr>> within = {{row.variable->variable, floor_div(element, by)},
                                                    {column.variable->variable, mod(element, by)}};
  const std::vector<std::pair<int, Expr>> along = {{row.variable->variable, make_index(0)},
                                                   {column.variable->variable, element}};
  for (const tile::Store& store : map.stores) {
    tile::Store moved = store;
    for (Expr& index : moved.indices) index = substitute(index, along);
    moved.value = substitute(store.value, within);
    joined.stores.push_back(std::move(moved));
  }
  return joined;
}

}  // namespace graft::cuda
