// SPDX-License-Identifier: Apache-2.0
// Tiles of 16- and 32-bit elements that are read from global memory along one axis and walked along another: they lie
// in shared memory the other way round, so that both sides move 16 bytes at a time. A thread has 16 bytes of one row,
// or of two rows of halves, and stores words; no two threads of a warp meet in a bank.
#include <algorithm>

#include "codegen/cuda/point_statement.h"

namespace graft::cuda {

using namespace points;

namespace {

constexpr int64_t kWarp = 32;

/// How the pieces of a tile are dealt to the lanes of warps: `columns` x `rows` of them, one piece or pair each.
struct TileDeal {
  int64_t vector = 4, pair = 1;           ///< elements of 16 bytes; rows in one word
  int64_t columns = 8, rows = 4;          ///< pieces along a row, and rows or pairs of rows, of a warp
  int64_t warps_across = 1, warps_down = 1;
  int64_t items(int64_t others) const { return others * warps_across * warps_down * kWarp; }
};

TileDeal deal_of(const std::vector<tile::Axis>& axes, DType type) {
  TileDeal deal{.vector = 16 / bytes_of(type), .pair = 4 / bytes_of(type)};
  const int64_t pieces = ceil_quotient(bound_of(axes.back()), deal.vector);
  const int64_t rows = ceil_quotient(bound_of(axes[axes.size() - 2]), deal.pair);
  while (deal.columns > 1 && deal.columns / 2 >= pieces) deal.columns /= 2;
  deal.rows = kWarp / deal.columns;
  deal.warps_across = ceil_quotient(pieces, deal.columns), deal.warps_down = ceil_quotient(rows, deal.rows);
  return deal;
}

int64_t others_of(const std::vector<tile::Axis>& axes) {
  int64_t others = 1;
  for (size_t i = 0; i + 2 < axes.size(); ++i) others *= bound_of(axes[i]);
  return others;
}

}  // namespace

/// Whether the map copies what is contiguous along its last axis into shared memory of its own shape.
bool KernelWriter::fills_transposed(const tile::Map& map) const {
  if (map.stores.size() != 1 || map.axes.size() < 2 || map.condition || !only_sets(map)) return false;
  const tile::Store& store = map.stores[0];
  const tile::Buffer& buffer = names_.buffer(store.buffer);
  const int bits = bit_width(buffer.type);
  if (buffer.scope != tile::Scope::kShared || store.indices.size() != map.axes.size()) return false;
  if ((bits != 16 && bits != 32) || store.value->kind != ExprKind::kLoad) return false;
  for (size_t i = 0; i < map.axes.size(); ++i) {
    const Expr& index = store.indices[i];
    const bool plain = index->kind == ExprKind::kVariable && index->variable == map.axes[i].variable->variable;
    if (!plain || bound_of(map.axes[i]) <= 0) return false;
  }
  if (names_.buffer(store.value->tensor).scope != tile::Scope::kGlobal) return false;
  const int last = map.axes.back().variable->variable;
  const auto address = names_.row_address(store.value->tensor, store.value->args, last);
  return address && address->affine.coefficient(last).is(1);
}

/// Finds the crossed tiles that only such maps fill: they lie the other way round.
void KernelWriter::find_padded() {
  std::map<int, bool> good;
  for (const int buffer : names_.crossed) good[buffer] = true;
  for (const tile::Statement& each : program_.body) {
    const auto* map = std::get_if<tile::Map>(&each.node);
    for (const int buffer : accesses_of(program_, each).writes) {
      const auto found = good.find(buffer);
      if (found != good.end()) found->second = found->second && map && fills_transposed(*map);
    }
  }
  for (const auto& [buffer, is_good] : good) {
    if (is_good) names_.padded.insert(buffer), names_.crossed.erase(buffer);
  }
}

/// Columns one after the other, each 16 bytes times an even number apart, and 16 bytes more after those of a piece.
void KernelWriter::lay_padded(int buffer, std::vector<int64_t>& strides, int64_t& elements) const {
  const tile::Buffer& tile = names_.buffer(buffer);
  const size_t rank = tile.shape.size();
  const int64_t piece = 16 / bytes_of(tile.type), rows = tile.shape[rank - 2].constant();
  const int64_t pieces = ceil_quotient(tile.shape[rank - 1].constant(), piece);
  strides[rank - 2] = 1, strides[rank - 1] = ceil_quotient(rows, 8) * 8;
  elements = pieces * piece * (strides[rank - 1] + 1);
  for (size_t i = rank - 2; i-- > 0;) {
    strides[i] = elements;
    elements *= std::max<int64_t>(tile.shape[i].constant(), 1);
  }
}

/// map -> tile[..., row, column] = row of global memory, 16 bytes at a time
void KernelWriter::transposed_fill(const tile::Map& map, const std::vector<std::string>& extents) {
  const tile::Axis& last = map.axes.back();
  const Expr& load = map.stores[0].value;
  std::vector<PointAccess> accesses = {{load->tensor, &load->args, load, true}};
  const int vector = 16 / bytes_of(load->type);
  const bool fits = width_of(accesses[0], last.variable->variable, vector) == vector;
  const std::string condition = fits ? wide_condition(last, accesses, vector) : "";
  if (fits) {
    if (!condition.empty()) code_.open(fmt::format("if ({})", condition));
    write_transposed(map, extents, true);
    if (condition.empty()) return;
    code_.close();
    code_.open("else");
  }
  write_transposed(map, extents, false);
  if (fits) code_.close();
}

void KernelWriter::write_transposed(const tile::Map& map, const std::vector<std::string>& extents, bool whole) {
  const tile::Store& store = map.stores[0];
  const Expr& load = store.value;
  const TileDeal deal = deal_of(map.axes, load->type);
  const int64_t turns = ceil_quotient(deal.items(others_of(map.axes)), program_.threads);
  const int64_t at_once = std::min<int64_t>(turns, whole ? 8 / deal.pair : 4 / deal.pair);
  const tile::Axis &row = map.axes[map.axes.size() - 2], &column = map.axes.back();
  const std::string turn = code_.fresh("q"), type = type_name(load->type);
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for (int {0} = 0; {0} < {1}; {0} += {2})", turn, turns, at_once));
  code_.line("Shifted piece[{}][{}];", at_once, deal.pair);
  for (const bool stores : {false, true}) {
    code_.line("#pragma unroll");
    code_.open(fmt::format("for (int u = 0; u < {}; ++u)", at_once));
    expressions_.enter();
    const std::string inside = open_transposed(map, extents, fmt::format("(({} + u) * {} + threadIdx.x)", turn,
                                                                         program_.threads));
    const std::string first = names_.variables.at(row.variable->variable);
    const std::string start = names_.variables.at(column.variable->variable);
    if (!stores) {
      code_.line("const int left = {} - {};", extents.back(), start);
      code_.line("const u32 there = left >= {0} ? {1}u : left > 0 ? (1u << left) - 1 : 0u;", deal.vector,
                 (1u << deal.vector) - 1);
      for (int64_t i = 0; i < deal.pair; ++i) {
        names_.variables[row.variable->variable] = fmt::format("({} + {})", first, i);
        code_.line("request_shifted<{}>(piece[u][{}], {}, {} && {} + {} < {} ? there : 0u);", whole, i,
                   pointer_to({load->tensor, &load->args, load, true}), inside, first, i,
                   extents[extents.size() - 2]);
      }
    } else {
      code_.open(fmt::format("if ({})", inside));
      code_.line("{}* const to = {};", type, pointer_to({store.buffer, &store.indices, {}, true}));
      for (int64_t i = 0; i < deal.pair; ++i) {
        code_.line("const Pack<{0}, {1}> x{2} = shifted<{0}, {1}, {3}>(piece[u][{2}]);", type, deal.vector, i, whole);
      }
      code_.line("#pragma unroll");
      code_.open(fmt::format("for (int j = 0; j < {}; ++j)", deal.vector));
      const int64_t pitch = names_.strides[store.buffer].back();
      if (deal.pair == 2) {
        code_.line("*(u32*)(to + j * {}) = pair_of(x0.at[j], x1.at[j]);", pitch);
      } else {
        code_.line("to[j * {}] = x0.at[j];", pitch);
      }
      code_.close();
      code_.close();
    }
    expressions_.leave();
    code_.close();
  }
  code_.close();
}

/// Names the place of an item: its other indices, its first row and its first column; returns whether there is one.
std::string KernelWriter::open_transposed(const tile::Map& map, const std::vector<std::string>& extents,
                                          const std::string& item) {
  const TileDeal deal = deal_of(map.axes, map.stores[0].value->type);
  const size_t rank = map.axes.size();
  const std::string warp = code_.fresh("w"), down = code_.fresh("w"), row = code_.fresh("r"), column = code_.fresh("c");
  std::string rest = code_.fresh("q");
  code_.line("const int {} = {} / {};", warp, item, kWarp);
  code_.line("const int {} = ({} % {} + (u32){} % {}u * {}) * {};", column, "lane", deal.columns, warp,
             deal.warps_across, deal.columns, deal.vector);
  code_.line("const int {} = (u32){} / {}u;", down, warp, deal.warps_across);
  code_.line("const int {} = ({} / {} + (u32){} % {}u * {}) * {};", row, "lane", deal.columns, down, deal.warps_down,
             deal.rows, deal.pair);
  code_.line("const int {} = (u32){} / {}u;", rest, down, deal.warps_down);
  std::string inside = fmt::format("{} < {} && {} < {}", row, extents[rank - 2], column, extents[rank - 1]);
  bind_index(map.axes[rank - 2].variable, row, bound_of(map.axes[rank - 2]) + kWarp * deal.pair);
  bind_index(map.axes[rank - 1].variable, column, bound_of(map.axes[rank - 1]) + kWarp * deal.vector);
  for (size_t i = rank - 2; i-- > 0;) {
    const std::string name = code_.fresh("i"), next = code_.fresh("q");
    const int64_t bound = bound_of(map.axes[i]);
    code_.line("const int {0} = {1}, {2} = {3};", name, i == 0 ? rest : fmt::format("(u32){} % {}u", rest, bound), next,
               i == 0 ? "0" : fmt::format("(u32){} / {}u", rest, bound));
    bind_index(map.axes[i].variable, name, bound);
    inside += fmt::format(" && {} < {}", name, extents[i]);
    rest = next;
  }
  return rank > 2 ? inside : fmt::format("{} && {} == 0", inside, rest);
}

}  // namespace graft::cuda
