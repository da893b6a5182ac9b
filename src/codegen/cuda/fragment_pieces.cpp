// SPDX-License-Identifier: Apache-2.0
// Fragments on their way to memory: they are exchanged between the four threads of a row first, so that each stores
// eight neighbours, and what is read there is exchanged the other way.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

/// C++ for whether a column is one of the map's; all are where these fill the fragment.
std::string inside_columns(const PieceMap& pieces) {
  const bool whole = as_integer(pieces.map->axes[1].extent) == pieces.layout->padded_columns();
  return whole ? "true" : fmt::format("column < {}", pieces.extents[1]);
}

}  // namespace

/// The condition under which an element address stays aligned to `run` elements of its buffer where the column is a
/// multiple of `run`, or nothing when that cannot be had or the columns are not contiguous.
std::optional<std::string> KernelWriter::run_alignment(int buffer, const std::vector<Expr>& indices, int column,
                                                       int run) const {
  const auto address = names_.address(buffer, indices);
  const int bytes = run * bit_width(names_.buffer(buffer).type) / 8;
  if (!address || !address->coefficient(column).is(1) || bytes < 1) return std::nullopt;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (divisor_of(indices[d], column, run) * divisor_of(names_.stride(buffer, d), run) < run) return std::nullopt;
  }
  return fmt::format("(u64){} % {} == 0", names_.buffers[buffer], bytes);
}

/// How a map stores a fragment in pieces: eight elements of one or two bytes, made by an exchange, or two larger
/// elements; nothing where it cannot.
std::optional<PieceMap> KernelWriter::plan_pieces(const tile::Map& map, int fragment) const {
  if (map.condition || !only_sets(map) || reads_own_stores(map)) return std::nullopt;
  const FragmentLayout& layout = names_.fragments.at(fragment);
  const int column = map.axes[1].variable->variable;
  if (layout.n_tiles % 4 != 0 || divisor_of(map.axes[1].extent, -1, 8) < 8) return std::nullopt;
  PieceMap pieces{.map = &map, .layout = &layout, .extents = {}, .loads = {}};
  for (const tile::Store& store : map.stores) {
    const int width = bit_width(names_.buffer(store.buffer).type) / 8;
    if (names_.is_fragment(store.buffer) || (width != 1 && width != 2 && width != 4)) return std::nullopt;
    const auto condition = run_alignment(store.buffer, store.indices, column, width <= 2 ? 8 : 2);
    if (!condition) return std::nullopt;
    pieces.whole += " && " + *condition;
  }
  plan_piece_loads(pieces);
  return pieces;
}

/// fragment -> memory in pieces. Everything that many of them read is asked for before the first of them is computed.
bool KernelWriter::fragment_pieces(const tile::Map& map, int fragment) {
  std::optional<PieceMap> planned = asked_ && asked_->map == &map ? asked_ : plan_pieces(map, fragment);
  if (!planned) return false;
  PieceMap& pieces = *planned;
  const FragmentLayout& layout = *pieces.layout;
  pieces.extents = extents_of(map.axes);
  code_.open("");
  expressions_.enter();
  code_.line("const bool whole = {};", pieces.whole);
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int g = 0; g < {}; g += {})", layout.n_tiles, 4 * pieces.groups));
  code_.line("const int first = {} + g * 8;", layout.first_column());
  load_pieces(pieces);
  compute_pieces(pieces);
  store_pieces(pieces);
  code_.close();
  expressions_.leave();
  code_.close();
  return true;
}

/// Asks for what the map behind the loop of a product reads row by row, a residual say: it comes while the product is
/// made. Only where registers are left beside the sums.
void KernelWriter::ask_for_pieces(const tile::For& loop, const ContractPlan& plan) {
  constexpr int kMostRegisters = 160;  // of sums and of what was asked for
  const auto at = std::find_if(program_.body.begin(), program_.body.end(), [&](const tile::Statement& each) {
    return std::get_if<tile::For>(&each.node) == &loop;
  });
  const bool is_last = at == program_.body.end() || at + 1 == program_.body.end();
  const auto* map = is_last ? nullptr : std::get_if<tile::Map>(&(at + 1)->node);
  const bool is_plain = map && !map->ordered && map->axes.size() == 2 && fragment_of(*map) == plan.contract->c &&
                        names_.fragments.at(plan.contract->c) == plan.layout;
  if (!is_plain) return;
  std::optional<PieceMap> planned = plan_pieces(*map, plan.contract->c);
  if (!planned) return;
  PieceMap& pieces = *planned;
  const int rows = 2 * pieces.layout->m_tiles, all = pieces.layout->n_tiles / 4, groups = pieces.groups;
  int registers = pieces.layout->m_tiles * pieces.layout->n_tiles * 4;
  for (PieceMap::Load& each : pieces.loads) {
    const int wanted = rows * all * bit_width(each.load->type) / 4;
    const bool is_written = names_.buffer(each.load->tensor).written;
    if (!each.of_row || each.run != 8 || is_written || registers + wanted > kMostRegisters) continue;
    registers += wanted;
    each.asked = code_.fresh("asked");
    const std::string pack = fmt::format("Words<Pack<{}, 8>>", type_name(each.load->type));
    code_.line("{} {}[{}][{}];", each.has_bytes() ? "Pack<u32, 2>" : pack, each.asked, rows, all);
  }
  const auto is_asked = [](const PieceMap::Load& each) { return !each.asked.empty(); };
  if (std::none_of(pieces.loads.begin(), pieces.loads.end(), is_asked)) return;
  code_.open("");
  expressions_.enter();
  pieces.extents = extents_of(map->axes);
  pieces.groups = all;
  code_.line("const bool whole = {};", pieces.whole);
  code_.line("const int first = {};", pieces.layout->first_column());
  for (const bool wide : {true, false}) {
    code_.open(wide ? "if (whole)" : "else");
    open_piece_rows(pieces);
    for (size_t i = 0; i < pieces.loads.size(); ++i) {
      if (!pieces.loads[i].asked.empty()) load_piece_of(pieces, i, wide);
    }
    for (int i = 0; i < 3; ++i) code_.close();
  }
  expressions_.leave();
  code_.close();
  pieces.groups = groups;
  asked_ = std::move(planned);
}

/// What pieces load, and how many of them are made together: as registers allow.
void KernelWriter::plan_piece_loads(PieceMap& pieces) const {
  const tile::Map& map = *pieces.map;
  const int row = map.axes[0].variable->variable, column = map.axes[1].variable->variable;
  std::vector<Expr> loads;
  std::unordered_set<const ExprNode*> seen;
  for (const tile::Store& store : map.stores) unconditional_loads(store.value, seen, loads);
  int loaded = 0, stored = 0, of_columns = 0;  // registers of one piece, and of what all rows of a group share
  for (const tile::Store& store : map.stores) stored += bit_width(names_.buffer(store.buffer).type) / 4;
  for (const Expr& load : loads) {
    if (names_.is_fragment(load->tensor) || bit_width(load->type) < 8 || bit_width(load->type) > 64) continue;
    if (!run_alignment(load->tensor, load->args, column, 2)) continue;
    const bool of_row =
        std::any_of(load->args.begin(), load->args.end(), [&](const Expr& index) { return uses_variable(index, row); });
    const int run = of_row && bit_width(load->type) <= 16 && run_alignment(load->tensor, load->args, column, 8) ? 8 : 2;
    pieces.whole += " && " + *run_alignment(load->tensor, load->args, column, run);
    pieces.loads.push_back({load, of_row, run});
    (of_row ? loaded : of_columns) += std::max(bit_width(load->type) / 4, of_row ? 2 : 4);
  }
  constexpr int kLeast = 48, kMost = 176;  // beside the fragment, and with it
  const int all = pieces.layout->n_tiles / 4, rows = 2 * pieces.layout->m_tiles;
  const int of_group = rows * std::max(loaded, stored) + of_columns;
  const int left = std::max(kLeast, kMost - rows * pieces.layout->n_tiles * 2);
  pieces.groups = all;
  while (pieces.groups > 1 && (all % pieces.groups != 0 || pieces.groups * of_group > left)) --pieces.groups;
}

/// C++ loops over the groups at hand, and over a thread's rows of them.
void KernelWriter::open_piece_rows(const PieceMap& pieces) {
  const FragmentLayout& layout = *pieces.layout;
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int h = 0; h < {}; ++h)", 2 * layout.m_tiles));
  code_.line("const int row = {} + h / 2 * {} + h % 2 * 8;", layout.first_row(), layout.row_step());
  const bool whole = as_integer(pieces.map->axes[0].extent) == layout.padded_rows();
  code_.line("const bool inside = {};", whole ? "true" : fmt::format("row < {}", pieces.extents[0]));
  names_.variables[pieces.map->axes[0].variable->variable] = "row";
  open_piece_groups(pieces);
}
void KernelWriter::open_piece_groups(const PieceMap& pieces) {
  names_.variables[pieces.map->axes[1].variable->variable] = "column";
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int q = 0; q < {}; ++q)", pieces.groups));
}

/// Loads what the groups at hand need: rows of four tiles by eight elements, which their four threads then exchange.
void KernelWriter::load_pieces(const PieceMap& pieces) {
  if (pieces.loads.empty()) return;
  const int rows = 2 * pieces.layout->m_tiles;
  for (size_t i = 0; i < pieces.loads.size(); ++i) {
    const auto& [load, of_row, run, asked] = pieces.loads[i];
    const std::string type = type_name(load->type), of_rows = of_row ? fmt::format("[{}]", rows) : "";
    const bool here = asked.empty();
    if (pieces.loads[i].has_bytes()) {
      code_.line("u32 x{}{}[{}][2];", i, of_rows, pieces.groups);  // of two tiles each
      if (here) code_.line("Pack<u32, 2> r{}{}[{}];", i, of_rows, pieces.groups);
    } else if (run == 8) {
      code_.line("Pack<{}, 2> x{}{}[{}][4];", type, i, of_rows, pieces.groups);
      if (here) code_.line("Words<Pack<{}, 8>> r{}{}[{}];", type, i, of_rows, pieces.groups);
    } else {
      code_.line("Words<Pack<{}, 2>> x{}{}[{}][4];", type, i, of_rows, pieces.groups);
    }
  }
  for (const bool wide : {true, false}) {
    code_.open(wide ? "if (whole)" : "else");
    for (const bool of_row : {false, true}) {
      const auto is_here = [&](const PieceMap::Load& e) { return e.of_row == of_row && e.asked.empty(); };
      if (std::none_of(pieces.loads.begin(), pieces.loads.end(), is_here)) continue;
      of_row ? open_piece_rows(pieces) : open_piece_groups(pieces);
      for (size_t i = 0; i < pieces.loads.size(); ++i) {
        if (is_here(pieces.loads[i])) load_piece_of(pieces, i, wide);
      }
      for (int i = 0; i < (of_row ? 2 : 1); ++i) code_.close();
    }
    code_.close();
  }
  for (size_t i = 0; i < pieces.loads.size(); ++i) {
    if (pieces.loads[i].run != 8) continue;
    code_.line("#pragma unroll");
    code_.open(fmt::format("for (int i = 0; i < {}; ++i)", rows * pieces.groups));
    const std::string at = fmt::format("[i / {0}][i % {0}]", pieces.groups), &asked = pieces.loads[i].asked;
    const std::string read = asked.empty() ? fmt::format("r{}{}", i, at)
                                           : fmt::format("{0}[i / {1}][g / 4 + i % {1}]", asked, pieces.groups);
    if (pieces.loads[i].has_bytes()) {
      code_.line("const Pack<u32, 2> words = exchange_bytes_in_quad({0}.at[0], {0}.at[1]);", read);
      code_.line("x{0}{1}[0] = words.at[0], x{0}{1}[1] = words.at[1];", i, at);
    } else {
      const std::string type = type_name(pieces.loads[i].load->type);
      code_.line("spread_in_quad(bit_cast<Pack<{}, 8>>({}), x{}{});", type, read, i, at);
    }
    code_.close();
  }
}

/// One load of the group at hand.
void KernelWriter::load_piece_of(const PieceMap& pieces, size_t i, bool wide) {
  const auto& [load, of_row, run, asked] = pieces.loads[i];
  const std::string type = type_name(load->type), at = of_row ? "[h][q]" : "[q]";
  const std::string to = (asked.empty() ? fmt::format("r{}", i) : asked) + at;
  const std::string place = fmt::format("{} + ({})", names_.buffers[load->tensor],
                                        names_.affine_text(*names_.address(load->tensor, load->args)));
  const std::string inside = fmt::format("{}{}", of_row ? "inside && " : "", inside_columns(pieces));
  code_.open("");
  if (run == 8) {
    code_.line("const int column = first + q * 32 + lane % 4 * 6;");
    code_.line("{} = {{}};", to);
    code_.line("if ({}) {} = words_of(read_pack<{}, 8>({}, {}));", inside, to, type, place, wide);
  } else {
    code_.line("#pragma unroll");
    code_.open("for (int p = 0; p < 4; ++p)");
    code_.line("const int column = first + q * 32 + p * 8;");
    code_.line("if ({}) x{}{}[p] = words_of(read_pack<{}, 2>({}, {}));", inside, i, at, type, place, wide);
    code_.close();
  }
  code_.close();
}

/// Computes the values that are stored, two columns of each of four tiles in a group, and exchanges halves.
void KernelWriter::compute_pieces(const PieceMap& pieces) {
  const tile::Map& map = *pieces.map;
  const int rows = 2 * pieces.layout->m_tiles;
  const auto width = [&](size_t i) { return bit_width(names_.buffer(map.stores[i].buffer).type); };
  const auto is_narrow = [&](size_t i) { return width(i) <= 16; };
  const auto type = [&](size_t i) { return type_name(names_.buffer(map.stores[i].buffer).type); };
  for (size_t i = 0; i < map.stores.size(); ++i) {
    if (is_narrow(i)) code_.line("Words<Pack<{}, 8>> v{}[{}][{}];", type(i), i, rows, pieces.groups);
    if (!is_narrow(i)) code_.line("Pack<{}, 2> v{}[{}][{}][4];", type(i), i, rows, pieces.groups);
  }
  const auto is_float8 = [&](size_t i) {  // rounded two at a time
    const Expr& value = map.stores[i].value;
    return width(i) == 8 && is_float(value->type) && is_call(value, Intrinsic::kCast) &&
           value->args[0]->type == DType::kFloat32;
  };
  open_piece_rows(pieces);
  for (size_t i = 0; i < map.stores.size(); ++i) {
    if (width(i) == 8) code_.line("{} words{}[4][2];", is_float8(i) ? "f32" : "u32", i);
    if (width(i) != 8) code_.line("Pack<{}, 2> pairs{}[4];", type(i), i);
  }
  code_.line("#pragma unroll");
  code_.open("for (int p = 0; p < 4; ++p)");
  code_.line("#pragma unroll");
  code_.open("for (int e = 0; e < 2; ++e)");
  code_.line("const int column = first + q * 32 + p * 8 + e;");
  code_.open(fmt::format("if (inside && {})", inside_columns(pieces)));
  expressions_.enter();
  define_piece_loads(pieces);
  expressions_.set_fragment_position("[h / 2][g + q * 4 + p][h % 2 * 2 + e]", "[h]");
  for (size_t i = 0; i < map.stores.size(); ++i) {
    const Expr& value = map.stores[i].value;
    const bool is_byte = value->type == DType::kInt8 || value->type == DType::kUint8;
    if (width(i) != 8) code_.line("pairs{}[p].at[e] = {};", i, expressions_.value(value));
    if (width(i) == 8 && is_byte) code_.line("words{}[p][e] = {};", i, expressions_.byte_word(value));
    if (is_float8(i)) {
      code_.line("words{}[p][e] = {};", i, expressions_.value(value->args[0]));
    } else if (width(i) == 8 && !is_byte) {
      code_.line("words{}[p][e] = bit_cast<u8>({});", i, expressions_.value(value));
    }
  }
  expressions_.set_fragment_position("", "");
  expressions_.leave();
  for (int i = 0; i < 3; ++i) code_.close();
  for (size_t i = 0; i < map.stores.size(); ++i) {
    if (width(i) == 8) {
      const std::string join = is_float8(i) ? fmt::format("join_floats<{}>", type(i)) : "join_bytes";
      code_.line("v{0}[h][q] = exchange_bytes_in_quad({1}(words{0}[0], words{0}[1]), {1}(words{0}[2], words{0}[3]));",
                 i, join);
    } else if (is_narrow(i)) {
      code_.line("v{0}[h][q] = words_of(exchange_in_quad(pairs{0}));", i);
    } else {
      code_.line("for (int p = 0; p < 4; ++p) v{0}[h][q][p] = pairs{0}[p];", i);
    }
  }
  for (int i = 0; i < 2; ++i) code_.close();
}

/// What was loaded stands for the element at the point (h, q, p, e).
void KernelWriter::define_piece_loads(const PieceMap& pieces) {
  for (size_t i = 0; i < pieces.loads.size(); ++i) {
    const auto& [load, of_row, run, asked] = pieces.loads[i];
    const std::string type = type_name(load->type), at = fmt::format("x{}{}[q]", i, of_row ? "[h]" : "");
    if (pieces.loads[i].has_bytes()) {
      const std::string byte = fmt::format("_at<{}>({}[p / 2], p % 2 * 2 + e)", type, at);
      const bool is_integer = load->type == DType::kInt8 || load->type == DType::kUint8;
      expressions_.define_byte(load, "byte" + byte, is_integer ? "byte_float" + byte : "");
    } else if (run == 8) {
      expressions_.define(load, at + "[p].at[e]");
    } else {
      expressions_.define(load, fmt::format("bit_cast<Pack<{}, 2>>({}[p]).at[e]", type, at));
    }
  }
}

/// Stores the groups at hand of all results.
void KernelWriter::store_pieces(const PieceMap& pieces) {
  for (const bool wide : {true, false}) {
    code_.open(wide ? "if (whole)" : "else");
    open_piece_rows(pieces);
    for (size_t i = 0; i < pieces.map->stores.size(); ++i) {
      const tile::Store& store = pieces.map->stores[i];
      const std::string type = type_name(names_.buffer(store.buffer).type);
      const std::string place = fmt::format("{} + ({})", names_.buffers[store.buffer],
                                            names_.affine_text(*names_.address(store.buffer, store.indices)));
      const auto stored = [&](int vector, const std::string& piece) {
        const bool global = names_.buffer(store.buffer).scope == tile::Scope::kGlobal;
        if (wide) return whole_store(store.buffer, vector, global ? place : "(" + place + ")", piece);
        return fmt::format("write_pack<{}, {}>({}, {}, false)", type, vector, place, piece);
      };
      code_.open("");
      if (bit_width(names_.buffer(store.buffer).type) <= 16) {
        code_.line("const Pack<{0}, 8> piece = bit_cast<Pack<{0}, 8>>(v{1}[h][q]);", type, i);
        code_.line("const int column = first + q * 32 + lane % 4 * 6;");
        code_.line("if (inside && {}) {};", inside_columns(pieces), stored(8, "piece"));
      } else {
        code_.line("#pragma unroll");
        code_.open("for (int p = 0; p < 4; ++p)");
        code_.line("const int column = first + q * 32 + p * 8;");
        code_.line("if (inside && {}) {};", inside_columns(pieces), stored(2, fmt::format("v{}[h][q][p]", i)));
        code_.close();
      }
      code_.close();
    }
    for (int i = 0; i < 3; ++i) code_.close();
  }
}

}  // namespace graft::cuda
