// SPDX-License-Identifier: Apache-2.0
// Maps over fragments: each thread takes its own elements.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {

int KernelWriter::fragment_of(const tile::Map& map) const {
  int fragment = -1;
  const auto note = [&](int buffer) {
    const bool better = fragment < 0 || names_.is_row_fragment(fragment);
    if (names_.is_fragment(buffer) && better) fragment = buffer;
  };
  for (const tile::Store& store : map.stores) note(store.buffer);
  for (const Expr& e : expressions_of(map)) {
    for_each(e, [&](const Expr& node) {
      if (node->kind == ExprKind::kLoad) note(node->tensor);
    });
  }
  return fragment;
}

void KernelWriter::check_fragment_indices(int fragment, const std::vector<tile::Axis>& rows,
                                          const std::vector<tile::Axis>& columns,
                                          const std::vector<const std::vector<Expr>*>& uses) const {
  for (const std::vector<Expr>* indices : uses) {
    if (counts_points((*indices)[0], rows) && counts_points((*indices)[1], columns)) continue;
    const std::string& name = names_.buffer(fragment).name;
    throw Unsupported{fmt::format("fragment '{}' is indexed by other than its row and its column", name)};
  }
}

void KernelWriter::fragment_map(const tile::Map& map, int fragment) {
  if (map.ordered) throw Unsupported{"an ordered map over a fragment"};
  const FragmentLayout& layout = names_.fragments.at(fragment);
  std::vector<const std::vector<Expr>*> uses, row_uses;
  const auto use = [&](int buffer, const std::vector<Expr>& indices) {
    if (!names_.is_fragment(buffer)) return;
    const bool is_row = names_.is_row_fragment(buffer);
    if (!names_.fragments.at(buffer).same_rows(layout) || (!is_row && names_.fragments.at(buffer) != layout)) {
      throw Unsupported{"a map over fragments of different shapes"};
    }
    (is_row ? row_uses : uses).push_back(&indices);
  };
  for (const tile::Store& store : map.stores) use(store.buffer, store.indices);
  for (const Expr& e : expressions_of(map)) {
    for_each(e, [&](const Expr& node) {
      if (node->kind == ExprKind::kLoad) use(node->tensor, node->args);
    });
  }
  // The first axes run over rows, the others over columns.
  size_t row_axes = uses.empty() ? map.axes.size() : 0;
  while (row_axes < map.axes.size() && uses_variable((*uses[0])[0], map.axes[row_axes].variable->variable)) ++row_axes;
  const std::vector<tile::Axis> rows(map.axes.begin(), map.axes.begin() + static_cast<std::ptrdiff_t>(row_axes));
  for (const std::vector<Expr>* indices : row_uses) {
    if (counts_points((*indices)[0], rows)) continue;
    throw Unsupported{"a row of a fragment is indexed by other than its number"};
  }
  if (uses.empty()) return row_map(map, layout);
  const auto middle = map.axes.begin() + static_cast<std::ptrdiff_t>(row_axes);
  check_fragment_indices(fragment, {map.axes.begin(), middle}, {middle, map.axes.end()}, uses);
  const bool plain = row_axes == 1 && map.axes.size() == 2;
  if (plain && fragment_pieces(map, fragment)) return;
  if (plain && fragment_rows(map, fragment)) return;
  fragment_points(map, fragment, row_axes);
}

/// Whether a map does nothing but set fragments from fragments.
bool KernelWriter::stays_in_registers(const tile::Map& map) const {
  if (map.condition || !only_sets(map)) return false;
  bool stays = true;
  for (const tile::Store& store : map.stores) {
    stays &= names_.is_fragment(store.buffer);
    for_each(store.value, [&](const Expr& node) {
      stays &= node->kind != ExprKind::kLoad || names_.is_fragment(node->tensor);
      stays &= !is_check(*node);
    });
  }
  return stays;
}

/// A map over values that rows have, which the four threads of a row all compute.
void KernelWriter::row_map(const tile::Map& map, const FragmentLayout& layout) {
  const std::vector<std::string> extents = extents_of(map.axes);
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int h = 0; h < {}; ++h)", 2 * layout.m_tiles));
  code_.line("const int row = {} + h / 2 * {} + h % 2 * 8;", layout.first_row(), layout.row_step());
  name_points(names_, map.axes, "row");
  std::string inside = "true";
  for (size_t i = 0; i < map.axes.size(); ++i) {
    inside += fmt::format(" && {} < {}", names_.variables.at(map.axes[i].variable->variable), extents[i]);
  }
  for (const tile::Store& store : map.stores) {
    // Of the four threads one may write to memory.
    if (!names_.is_fragment(store.buffer)) inside += " && lane % 4 == 0";
  }
  code_.open(stays_in_registers(map) ? "" : fmt::format("if ({})", inside));
  expressions_.enter();
  expressions_.set_fragment_position("", "[h]");
  stores_at_point(map);
  expressions_.set_fragment_position("", "");
  expressions_.leave();
  code_.close();
  code_.close();
}

/// Loads once, and before anything waits for them, what the elements of a column share: where every store's value is
/// that of the same condition on the column, under this condition. Gives the loads, that of number i in x<i>[n][e].
std::vector<Expr> KernelWriter::load_columns(const tile::Map& map, const FragmentLayout& layout,
                                             const std::string& columns) {
  const int row = map.axes[0].variable->variable;
  const Expr column = map.axes[1].variable;
  if (map.condition || map.stores.size() != 1) return {};
  Expr value = map.stores[0].value;
  std::vector<Expr> conditions, loads;
  while (is_call(value, Intrinsic::kSelect) && !uses_variable(value->args[0], row)) {
    bool plain = true;
    for_each(value->args[0], [&](const Expr& node) { plain &= node->kind != ExprKind::kLoad; });
    if (!plain) break;
    conditions.push_back(value->args[0]);
    value = Expr(value->args[1]);
  }
  std::vector<Expr> all;
  std::unordered_set<const ExprNode*> seen;
  unconditional_loads(value, seen, all);
  for (const Expr& load : all) {
    const bool shared = !names_.is_fragment(load->tensor) && !uses_variable(load, row) && bit_width(load->type) >= 8;
    const bool stays =
        names_.buffer(load->tensor).scope == tile::Scope::kGlobal && !names_.buffer(load->tensor).written;
    bool plain = true;
    for (const Expr& index : load->args) {
      for_each(index, [&](const Expr& node) { plain &= node->kind != ExprKind::kLoad; });
    }
    if (shared && stays && plain) loads.push_back(load);
  }
  for (size_t i = 0; i < loads.size(); ++i) {
    code_.line("{} x{}[{}][2];", type_name(loads[i]->type), i, layout.n_tiles);
  }
  if (loads.empty()) return loads;
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int p = 0; p < {}; ++p)", 2 * layout.n_tiles));
  const std::string name = code_.fresh("c");
  code_.line("const int {} = {} + p / 2 * 8 + p % 2;", name, layout.first_column());
  bind_index(column, name, layout.padded_columns());
  expressions_.enter();
  std::string present = fmt::format("{} < {}", name, columns);
  for (const Expr& condition : conditions) present += " && " + expressions_.value(condition);
  for (size_t i = 0; i < loads.size(); ++i)
    code_.line("x{}[p / 2][p % 2] = zero_of<{}>();", i, type_name(loads[i]->type));
  code_.open(fmt::format("if ({})", present));
  expressions_.enter();
  for (size_t i = 0; i < loads.size(); ++i) code_.line("x{}[p / 2][p % 2] = {};", i, expressions_.value(loads[i]));
  expressions_.leave();
  code_.close();
  expressions_.leave();
  code_.close();
  return loads;
}

/// One element after the other: what stores to fragments, in any mode or under a condition.
void KernelWriter::fragment_points(const tile::Map& map, int fragment, size_t row_axes) {
  const FragmentLayout& layout = names_.fragments.at(fragment);
  const std::vector<std::string> extents = extents_of(map.axes);
  const bool plain = row_axes == 1 && map.axes.size() == 2;
  const std::vector<Expr> ahead = plain ? load_columns(map, layout, extents[1]) : std::vector<Expr>();
  const std::string row = code_.fresh("r"), column = code_.fresh("c");
  const auto middle = map.axes.begin() + static_cast<std::ptrdiff_t>(row_axes);
  name_points(names_, {map.axes.begin(), middle}, row);
  name_points(names_, {middle, map.axes.end()}, column);
  if (plain) {
    bind_index(map.axes[0].variable, row, layout.padded_rows());
    bind_index(map.axes[1].variable, column, layout.padded_columns());
  }
  std::string inside = fmt::format("{} < {} && {} < {}", row, layout.rows, column, layout.columns);
  for (size_t i = 0; i < map.axes.size(); ++i) {
    inside += fmt::format(" && {} < {}", names_.variables.at(map.axes[i].variable->variable), extents[i]);
  }
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int m = 0; m < {}; ++m)", layout.m_tiles));
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int n = 0; n < {}; ++n)", layout.n_tiles));
  code_.line("#pragma unroll");
  code_.open("for (int e = 0; e < 4; ++e)");
  code_.line("const int {} = {} + m * {} + e / 2 * 8;", row, layout.first_row(), layout.row_step());
  code_.line("const int {} = {} + n * 8 + e % 2;", column, layout.first_column());
  // What only computes on registers may do so beyond the extents too: nothing reads that.
  code_.open(stays_in_registers(map) ? "" : fmt::format("if ({})", inside));
  expressions_.enter();
  for (size_t i = 0; i < ahead.size(); ++i) expressions_.define(ahead[i], fmt::format("x{}[n][e % 2]", i));
  expressions_.set_fragment_position("[m][n][e]", "[m * 2 + e / 2]");
  stores_at_point(map);
  expressions_.set_fragment_position("", "");
  expressions_.leave();
  for (int i = 0; i < 4; ++i) code_.close();
}

/// fragment -> memory with contiguous columns: a row's values first, then stores of two elements.
bool KernelWriter::fragment_rows(const tile::Map& map, int fragment) {
  if (map.condition || !only_sets(map) || reads_own_stores(map)) return false;
  const int row_variable = map.axes[0].variable->variable, column_variable = map.axes[1].variable->variable;
  for (const tile::Store& store : map.stores) {
    const auto address = names_.is_fragment(store.buffer) ? std::nullopt : names_.address(store.buffer, store.indices);
    if (!address || !address->coefficient(column_variable).is(1)) return false;
    if (bit_width(names_.buffer(store.buffer).type) < 8) return false;
  }
  const FragmentLayout& layout = names_.fragments.at(fragment);
  const std::vector<std::string> extents = extents_of(map.axes);
  names_.variables[row_variable] = "row";
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int h = 0; h < {}; ++h)", 2 * layout.m_tiles));
  code_.line("const int row = {} + h / 2 * {} + h % 2 * 8, first = {};", layout.first_row(), layout.row_step(),
             layout.first_column());
  code_.open(fmt::format("if (row < {})", extents[0]));
  for (size_t i = 0; i < map.stores.size(); ++i) {
    code_.line("{} v{}[{}][2];", type_name(names_.buffer(map.stores[i].buffer).type), i, layout.n_tiles);
  }
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int p = 0; p < {}; ++p)", 2 * layout.n_tiles));
  const std::string column = bind(map.axes[1].variable, "c");
  code_.line("const int {} = first + p / 2 * 8 + p % 2;", column);
  code_.open(fmt::format("if ({} < {})", column, extents[1]));
  expressions_.enter();
  expressions_.set_fragment_position("[h / 2][p / 2][h % 2 * 2 + p % 2]", "[h]");
  for (size_t i = 0; i < map.stores.size(); ++i) {
    code_.line("v{}[p / 2][p % 2] = {};", i, expressions_.value(map.stores[i].value));
  }
  expressions_.set_fragment_position("", "");
  expressions_.leave();
  code_.close();
  code_.close();
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int p = 0; p < {}; ++p)", layout.n_tiles));
  code_.line("const int column = first + p * 8;");
  names_.variables[column_variable] = "column";
  for (size_t i = 0; i < map.stores.size(); ++i) {
    const tile::Store& store = map.stores[i];
    const std::string type = type_name(names_.buffer(store.buffer).type);
    code_.line("{}* const to{} = {} + ({});", type, i, names_.buffers[store.buffer],
               names_.affine_text(*names_.address(store.buffer, store.indices)));
    code_.line("if (column + 1 < {0} && aligned<{1}, 2>(to{2})) *(Pack<{1}, 2>*)to{2} = {{v{2}[p][0], v{2}[p][1]}};",
               extents[1], type, i);
    code_.line("else for (int j = 0; j < 2; ++j) if (column + j < {}) to{}[j] = v{}[p][j];", extents[1], i, i);
  }
  code_.close();
  code_.close();
  code_.close();
  return true;
}

}  // namespace graft::cuda
