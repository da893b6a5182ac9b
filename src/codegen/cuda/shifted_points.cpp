// SPDX-License-Identifier: Apache-2.0
// Maps of gathered rows that begin at any element: pieces are counted from the last whole address before a row, so that
// what is stored goes to memory 16 bytes at a time; the ends of a row go one by one.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

constexpr int64_t kLeastPieces = 4;  // of a row, for its ends to be few

int bytes_of(DType type) { return std::max(bit_width(type) / 8, 1); }

}  // namespace

/// map of gathered rows -> pieces that begin before their rows; false when rows are short or nothing would be gained.
bool KernelWriter::shifted_map(const tile::Map& map, const std::vector<std::string>& extents,
                               std::vector<PointAccess> accesses) {
  const tile::Axis& last = map.axes.back();
  const int variable = last.variable->variable;
  const auto length = as_integer(last.extent);
  if (map.stores.size() != 1 || map.condition || !length || map.axes.size() < 2) return false;
  const tile::Buffer& target = names_.buffer(map.stores[0].buffer);
  const auto address = names_.address(map.stores[0].buffer, map.stores[0].indices);
  const int vector = 16 / bytes_of(target.type);
  if (target.scope != tile::Scope::kGlobal || !address || !address->coefficient(variable).is(1)) return false;
  if (vector < 4 || *length < kLeastPieces * vector) return false;
  // What is read along the row is read in pieces too, but for what lies elsewhere than in global memory. It pays where
  // the place of a row takes computing, as that of a gathered one does.
  bool found_rows = false;
  for (PointAccess& access : accesses) {
    const auto place = names_.row_address(access.buffer, *access.indices, variable);
    const int bits = bit_width(names_.buffer(access.buffer).type);
    access.wide = access.load && place && place->affine.coefficient(variable).is(1) && bits >= 8 &&
                  names_.buffer(access.buffer).scope == tile::Scope::kGlobal;
    found_rows |= access.wide && !place->rows.empty();
  }
  if (!found_rows) return false;
  std::vector<tile::Axis> axes = map.axes;
  const int64_t pieces = (*length + 2 * vector - 2) / vector;
  axes.back().extent = make_index(pieces), axes.back().bound = 0;
  const PointDeal dealt = deal(axes, 1);
  const std::string turn = code_.fresh("q");
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", turn, dealt.turns));
  expressions_.enter();
  code_.open(fmt::format("if ({})", open_turn(dealt, axes, extents, turn)));
  shifted_piece(map, accesses, vector, *length);
  code_.close();
  expressions_.leave();
  code_.close();
  return true;
}

void KernelWriter::shifted_piece(const tile::Map& map, const std::vector<PointAccess>& accesses, int vector,
                                 int64_t length) {
  const tile::Axis& last = map.axes.back();
  const int variable = last.variable->variable;
  const tile::Store& store = map.stores[0];
  const std::string type = type_name(names_.buffer(store.buffer).type), piece = names_.variables.at(variable);
  const std::string start = code_.fresh("f"), point = code_.fresh("i");
  names_.variables[variable] = "0";
  names_.ranges[variable] = {0, 0};
  code_.line("{}* const row = {};", type, pointer_to({store.buffer, &store.indices, {}, true}));
  code_.line("const int {} = {} * {} - (int)((u64)row / sizeof({}) % {});", start, piece, vector, type, vector);
  const auto at_point = [&](const std::string& condition) {
    code_.line("#pragma unroll");
    code_.open(fmt::format("for (int j = 0; j < {}; ++j)", vector));
    code_.line("const int {} = {} + j;", point, start);
    bind_index(last.variable, point, length);
    if (!condition.empty()) code_.open(condition);
    expressions_.enter();
  };
  code_.open(fmt::format("if ({0} >= 0 && {0} <= {1})", start, length - vector));
  bind_index(last.variable, start, length);
  expressions_.enter();
  for (size_t i = 0; i < accesses.size(); ++i) {
    if (!accesses[i].wide) continue;
    code_.line("const Pack<{0}, {1}> v{2} = read_shifted<{0}, {1}>({3});", type_name(accesses[i].load->type), vector, i,
               pointer_to(accesses[i]));
  }
  code_.line("Pack<{}, {}> y;", type, vector);
  at_point("");
  for (size_t i = 0; i < accesses.size(); ++i) {
    if (accesses[i].wide) expressions_.define(accesses[i].load, fmt::format("v{}.at[j]", i));
  }
  code_.line("y.at[j] = {};", expressions_.value(store.value));
  expressions_.leave();
  code_.close();
  code_.line("*(Pack<{}, {}>*)(row + {}) = y;", type, vector, start);
  expressions_.leave();
  code_.close();
  code_.open("else");
  at_point(fmt::format("if ({0} >= 0 && {0} < {1})", point, length));
  code_.line("row[{}] = {};", point, expressions_.value(store.value));
  expressions_.leave();
  code_.close();
  code_.close();
  code_.close();
}

}  // namespace graft::cuda
