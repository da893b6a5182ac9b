// SPDX-License-Identifier: Apache-2.0
// Points of axes with known bounds, dealt to the threads of a block so that no division is left to the loop: several
// points of a thread are loaded and computed before the first is stored, which keeps many loads in flight.
#include <algorithm>

#include "codegen/cuda/guarded_loads.h"
#include "codegen/cuda/held_columns.h"

namespace graft::cuda {
namespace {

constexpr int64_t kMostPoints = int64_t{1} << 30;
constexpr int64_t kFewTurns = 4;
constexpr int kFewNodes = 24;

/// Loads that happen at every point: not inside a select's branch.
void loads_at_every_point(const Expr& e, std::unordered_set<const ExprNode*>& seen, std::vector<Expr>& loads) {
  if (!seen.insert(e.get()).second) return;
  const size_t arguments = is_call(e, Intrinsic::kSelect) ? 1 : e->args.size();
  for (size_t i = 0; i < arguments; ++i) loads_at_every_point(e->args[i], seen, loads);
  if (e->kind == ExprKind::kLoad) loads.push_back(e);
}

/// Whether elements are copied, chosen or converted, and nothing is computed with them.
bool only_moves(const tile::Map& map) {
  bool moves = true;
  for (const tile::Store& store : map.stores) {
    for_each(store.value, [&](const Expr& node) {
      const bool plain = is_call(node, Intrinsic::kSelect) || is_call(node, Intrinsic::kCast);
      moves = moves && (node->kind != ExprKind::kCall || !is_float(node->type) || plain);
    });
  }
  return moves;
}

int nodes_of(const tile::Map& map) {
  int nodes = 0;
  for (const tile::Store& store : map.stores) nodes += count_nodes(store.value);
  return nodes;
}

/// The wide access that a load is; null when there is none.
const PointAccess* wide_access(const Expr& load, const std::vector<PointAccess>& accesses) {
  const auto found = std::find_if(accesses.begin(), accesses.end(), [&](const PointAccess& access) {
    return access.wide && access.load.get() == load.get();
  });
  return found == accesses.end() ? nullptr : &*found;
}

/// Whether a value is one of several wide loads, and the same one for a whole piece.
bool is_choice(const Expr& e, int last, const std::vector<PointAccess>& accesses) {
  if (!is_call(e, Intrinsic::kSelect) || uses_variable(e->args[0], last)) return false;
  return std::all_of(e->args.begin() + 1, e->args.end(), [&](const Expr& branch) {
    return wide_access(branch, accesses) || is_choice(branch, last, accesses);
  });
}

}  // namespace

bool is_whole(const Expr& extent, int vector) {
  if (is_call(extent, Intrinsic::kMin) || is_call(extent, Intrinsic::kMax)) {
    return is_whole(extent->args[0], vector) && is_whole(extent->args[1], vector);
  }
  const auto sum = affine(extent);
  if (!sum || !sum->offset.is_multiple_of(vector)) return false;
  return std::all_of(sum->coefficients.begin(), sum->coefficients.end(),
                     [&](const auto& entry) { return entry.second.is_multiple_of(vector); });
}

std::string all_of(const std::vector<std::string>& conditions) {
  return conditions.empty() ? "true" : fmt::format("{}", fmt::join(conditions, " && "));
}

int64_t PointDeal::rows() const {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < bounds.size(); ++i) rows *= bounds[i];
  return rows;
}

void KernelWriter::bind_index(const Expr& variable, const std::string& name, int64_t bound) {
  names_.variables[variable->variable] = name;
  names_.ranges[variable->variable] = {0, std::max<int64_t>(bound - 1, 0)};
}

PointDeal KernelWriter::deal(const std::vector<tile::Axis>& axes, int vector) const {
  PointDeal deal{.bounds = {}, .vector = vector};
  for (const tile::Axis& axis : axes) deal.bounds.push_back(bound_of(axis));
  if (deal.bounds.empty()) deal.bounds.push_back(1);
  deal.bounds.back() = ceil_quotient(deal.bounds.back(), vector);
  const int64_t threads = program_.threads, pieces = deal.pieces(), rows = deal.rows();
  deal.across = std::min(threads, pieces);
  deal.down = std::min(threads / deal.across, rows);
  deal.turns_across = ceil_quotient(pieces, deal.across);
  deal.turns = deal.turns_across * ceil_quotient(rows, deal.down);
  // Rows that leave threads idle are dealt one point after the other instead.
  const int64_t least = ceil_quotient(pieces * rows, threads);
  if (4 * deal.turns > 5 * least) deal.down = 0, deal.turns = least;
  return deal;
}

int KernelWriter::turns_at_once(const PointDeal& deal, int64_t nodes, int64_t bytes) const {
  int64_t turns = std::clamp<int64_t>(64 / std::max<int64_t>(bytes, 1), 1, 8);
  while (turns > 1 && turns * deal.vector * nodes > 1024) turns /= 2;
  return static_cast<int>(std::min(turns, deal.turns));
}

/// Declares the indices of the turn-th point of this thread; returns the condition under which there is one.
std::string KernelWriter::open_turn(const PointDeal& deal, const std::vector<tile::Axis>& axes,
                                    const std::vector<std::string>& extents, const std::string& turn) {
  std::vector<std::string> conditions;
  std::string piece = code_.fresh("x"), row = code_.fresh("y");
  const int64_t pieces = deal.pieces(), rows = deal.rows(), threads = program_.threads;
  if (deal.down == 0) {
    const std::string point = code_.fresh("p");
    code_.line("const int {} = {} * {} + threadIdx.x;", point, turn, threads);
    code_.line("const int {} = (u32){} % {}u, {} = (u32){} / {}u;", piece, point, pieces, row, point, pieces);
    if (deal.turns * threads > pieces * rows) conditions.push_back(fmt::format("{} < {}", point, pieces * rows));
  } else {
    const bool several = deal.turns_across > 1;
    const std::string across =
        several ? fmt::format(" + (u32){} % {}u * {}", turn, deal.turns_across, deal.across) : "";
    const std::string turns_down = several ? fmt::format("(u32){} / {}u", turn, deal.turns_across) : turn;
    const bool one_row = deal.down == 1, all_across = deal.across == threads;
    code_.line("const int {} = threadIdx.x{}{};", piece,
               all_across || (one_row && deal.across == pieces) ? "" : fmt::format(" % {}", deal.across), across);
    code_.line("const int {} = {}{} * {};", row, one_row ? "" : fmt::format("threadIdx.x / {} + ", deal.across),
               turns_down, deal.down);
    if (deal.across * deal.down < threads) {
      conditions.push_back(fmt::format("threadIdx.x < {}", deal.across * deal.down));
    }
    if (deal.turns_across * deal.across > pieces) conditions.push_back(fmt::format("{} < {}", piece, pieces));
    if (deal.turns / deal.turns_across * deal.down > rows) conditions.push_back(fmt::format("{} < {}", row, rows));
  }
  if (axes.empty()) return all_of(conditions);
  const std::string start = code_.fresh("i");
  code_.line("const int {} = {}{};", start, piece, deal.vector > 1 ? fmt::format(" * {}", deal.vector) : "");
  const int64_t bound = pieces * deal.vector;
  bind_index(axes.back().variable, start, bound);
  if (as_integer(axes.back().extent) != bound) conditions.push_back(fmt::format("{} < {}", start, extents.back()));
  const std::vector<tile::Axis> of_row(axes.begin(), axes.end() - 1);
  name_indices(of_row, deal.bounds, extents, row, conditions);
  return all_of(conditions);
}

/// The axes' indices at a point; `conditions` learns when they are inside.
void KernelWriter::name_indices(const std::vector<tile::Axis>& axes, const std::vector<int64_t>& bounds,
                                const std::vector<std::string>& extents, const std::string& point,
                                std::vector<std::string>& conditions) {
  std::string rest = point;
  for (size_t i = axes.size(); i-- > 0;) {
    const std::string name = code_.fresh("i");
    if (i == 0) {
      code_.line("const int {} = {};", name, rest);
    } else {
      const std::string next = code_.fresh("q");
      code_.line("const int {0} = (u32){1} % {2}u, {3} = (u32){1} / {2}u;", name, rest, bounds[i], next);
      rest = next;
    }
    bind_index(axes[i].variable, name, bounds[i]);
    if (as_integer(axes[i].extent) != bounds[i]) conditions.push_back(fmt::format("{} < {}", name, extents[i]));
  }
}

std::vector<PointAccess> KernelWriter::accesses_of_points(const tile::Map& map) const {
  std::vector<PointAccess> accesses;
  std::vector<Expr> loads;
  std::unordered_set<const ExprNode*> seen;
  for (const tile::Store& each : map.stores) {
    accesses.push_back({each.buffer, &each.indices, {}, false});
    loads_at_every_point(each.value, seen, loads);
  }
  for (const Expr& load : loads) accesses.push_back({load->tensor, &load->args, load, false});
  return accesses;
}

/// Those of accesses_of_points, and the loads of branches that are the same for a whole piece.
std::vector<PointAccess> KernelWriter::all_accesses(const tile::Map& map) const {
  std::vector<PointAccess> accesses = accesses_of_points(map);
  add_guarded_loads(map, accesses);
  return accesses;
}

/// The most elements, up to `limit`, that one access may take where the base is aligned and symbolic strides allow it.
int KernelWriter::width_of(const PointAccess& access, int last, int limit) const {
  const DType type = names_.buffer(access.buffer).type;
  const auto address = names_.row_address(access.buffer, *access.indices, last);
  if (!address || !address->affine.coefficient(last).is(1) || bit_width(type) < 8) return 1;
  int width = limit;
  const auto fit = [&](const Size& size) {
    while (width > 1 && size.is_constant() && !size.is_multiple_of(width)) width /= 2;
  };
  fit(address->affine.offset);
  for (const auto& [variable, coefficient] : address->affine.coefficients) {
    if (variable != last) fit(coefficient);
  }
  for (const auto& [row, step] : address->rows) fit(step);
  return width;
}

/// Notes shared memory that threads with neighbouring points walk down.
void KernelWriter::find_crossed(const tile::Map& map) {
  const int last = map.axes.back().variable->variable;
  for (const PointAccess& access : accesses_of_points(map)) {
    const tile::Buffer& buffer = names_.buffer(access.buffer);
    if (buffer.scope != tile::Scope::kShared || access.indices->size() < 2) continue;
    const auto inner = affine(access.indices->back());
    bool down = inner && inner->coefficient(last).is(0);
    bool uses = false;
    for (const Expr& index : *access.indices) uses |= uses_variable(index, last);
    if (down && uses) names_.crossed.insert(access.buffer);
  }
}

/// The elements of one piece, and which accesses take a whole piece.
int KernelWriter::widest_piece(const tile::Axis& axis, std::vector<PointAccess>& accesses, int64_t most) const {
  const int last = axis.variable->variable;
  const auto is_global = [&](const PointAccess& a) { return names_.buffer(a.buffer).scope == tile::Scope::kGlobal; };
  int narrowest = 8;
  bool transposes = false, global_store = false, global = false;
  for (const PointAccess& access : accesses) {
    transposes |= names_.crossed.contains(access.buffer);
    if (width_of(access, last, 16) == 1) continue;
    narrowest = std::min(narrowest, bytes_of(names_.buffer(access.buffer).type));
    global |= is_global(access);
    global_store |= is_global(access) && !access.load;
  }
  int vector = static_cast<int>(std::min<int64_t>(std::max((transposes ? 4 : 16) / narrowest, 1), most));
  const auto exact = as_integer(axis.extent);
  while (exact && vector > 1 && *exact % vector != 0) vector /= 2;
  // Stores to global memory decide, then loads from it.
  for (const PointAccess& access : accesses) {
    if (global_store ? !is_global(access) || access.load : global && !is_global(access)) continue;
    const int width = width_of(access, last, vector);
    if (width > 1 || !access.load) vector = std::min(vector, width);
  }
  for (const PointAccess& access : accesses) {
    if (!access.load && !names_.address(access.buffer, *access.indices)) vector = 1;
  }
  for (PointAccess& access : accesses) access.wide = vector > 1 && width_of(access, last, vector) == vector;
  return vector;
}

/// What must hold, for the whole block, so that pieces are aligned and whole.
std::string KernelWriter::wide_condition(const tile::Axis& axis, const std::vector<PointAccess>& accesses, int vector) {
  std::vector<std::string> conditions;
  const auto add = [&](const std::string& condition) {
    if (std::find(conditions.begin(), conditions.end(), condition) == conditions.end()) conditions.push_back(condition);
  };
  const int last = axis.variable->variable;
  const auto divides = [&](const Size& size) {
    if (!size.is_multiple_of(vector)) add(fmt::format("{} % {} == 0", names_.size(size), vector));
  };
  for (const PointAccess& access : accesses) {
    if (!access.wide) continue;
    const tile::Buffer& buffer = names_.buffer(access.buffer);
    if (buffer.scope == tile::Scope::kGlobal) {
      add(fmt::format("aligned<{}, {}>({})", type_name(buffer.type), vector, names_.buffers[access.buffer]));
    }
    const auto address = names_.row_address(access.buffer, *access.indices, last);
    divides(address->affine.offset);
    for (const auto& [variable, coefficient] : address->affine.coefficients) {
      if (variable != last) divides(coefficient);
    }
    for (const auto& [row, step] : address->rows) divides(step);
  }
  if (!is_whole(axis.extent, vector)) {
    add(fmt::format("{} % {} == 0", expressions_.value(axis.extent), vector));
  }
  return conditions.empty() ? "" : fmt::format("{}", fmt::join(conditions, " && "));
}

std::string KernelWriter::pointer_to(const PointAccess& access) {
  if (const auto place = walked_.find(access.indices); place != walked_.end()) return place->second;
  return pointer_text(access.buffer, *names_.row_address(access.buffer, *access.indices, -1));
}

std::string KernelWriter::pointer_text(int buffer, const RowAddress& address) {
  std::string text = fmt::format("{} + ({})", names_.buffers[buffer], names_.affine_text(address.affine));
  for (const auto& [row, step] : address.rows) {
    text += fmt::format(" + {} * {}", expressions_.value(row), names_.size(step));
  }
  return text;
}

/// map -> loops over what each thread is dealt; false when bounds or dependencies do not allow it.
bool KernelWriter::dealt_map(const tile::Map& map, const std::vector<std::string>& extents) {
  if (const auto joined = join_rows(map)) return dealt_map(*joined, extents_of(joined->axes));
  int64_t points = 1;
  for (const tile::Axis& axis : map.axes) {
    const int64_t bound = bound_of(axis);
    if (bound <= 0 || bound > kMostPoints / points) return false;
    points *= bound;
  }
  for (const tile::Store& store : map.stores) {
    if (bit_width(names_.buffer(store.buffer).type) < 8) return false;
  }
  const bool sets = only_sets(map);
  std::vector<PointAccess> accesses = all_accesses(map);
  // What takes long to compute is shared out among all threads.
  int64_t most = kWidestPiece;
  while (nodes_of(map) > kFewNodes && most > 1 && points < most * program_.threads) most /= 2;
  const int vector = map.condition || !sets ? 1 : widest_piece(map.axes.back(), accesses, most);
  if (vector == 1) {
    for (PointAccess& access : accesses) access.wide = false;
    dealt_points(map, extents, 1, accesses);
    return true;
  }
  if (has_phases(map, vector)) {
    phased_map(map, extents, vector, accesses);
    return true;
  }
  const std::string condition = wide_condition(map.axes.back(), accesses, vector);
  std::vector<PointAccess> single = accesses;
  for (PointAccess& access : single) access.wide = false;
  if (!condition.empty()) code_.open(fmt::format("if ({})", condition));
  expressions_.enter();
  dealt_points(map, extents, vector, accesses);
  expressions_.leave();
  if (condition.empty()) return true;
  code_.close();
  code_.open("else");
  expressions_.enter();
  dealt_points(map, extents, 1, single);
  expressions_.leave();
  code_.close();
  return true;
}

int KernelWriter::bytes_of_narrowest(const std::vector<PointAccess>& accesses) const {
  int bytes = 8;
  for (const PointAccess& access : accesses) {
    if (access.wide) bytes = std::min(bytes, bytes_of(names_.buffer(access.buffer).type));
  }
  return bytes;
}

/// What runs `rarely` takes few registers.
void KernelWriter::dealt_points(const tile::Map& map, const std::vector<std::string>& extents, int vector,
                                std::vector<PointAccess> accesses, bool rarely) {
  if (map.stores.size() > 2) code_.leave_numbers_below(map.stores.size());  // y0, y1 ... are the pieces to be stored
  const auto walk = rarely ? std::nullopt : walk_of_rows(map, vector, accesses);
  if (walk) return walked_points(map, extents, *walk, accesses);
  const PointDeal dealt = deal(map.axes, vector);
  int64_t bytes = 0;
  for (const PointAccess& access : accesses) {
    const int along = access.wide || !access.load ? vector : 1;
    bytes = std::max<int64_t>(bytes, int64_t{along} * bytes_of(names_.buffer(access.buffer).type));
  }
  // Whole pieces at known places that are computed with: operands wait in registers, not results.
  const bool known = std::all_of(accesses.begin(), accesses.end(), [&](const PointAccess& access) {
    return names_.address(access.buffer, *access.indices).has_value();
  });
  const bool whole = vector * bytes_of_narrowest(accesses) >= 16 && known;
  // But for few turns of which the last is of few threads: then its load does not wait for the others' ends.
  const int64_t points = dealt.pieces() * dealt.rows(), reach = dealt.turns * program_.threads;
  const bool uneven = dealt.turns <= kFewTurns && 8 * reach > 9 * points && nodes_of(map) <= kFewNodes;
  const bool streams = whole && !only_moves(map) && !uneven && !map.condition;
  if (streams && !has_phases(map, vector)) {
    const int at_once = stream_loads(map, dealt, vector, nodes_of(map), accesses);
    return streamed_points(map, extents, vector, dealt, at_once, accesses);
  }
  // What only moves takes few registers, however it is chosen.
  const int64_t nodes = only_moves(map) ? std::min(nodes_of(map), kFewNodes) : nodes_of(map);
  const int at_once = streams || rarely ? 1 : turns_at_once(dealt, nodes, bytes);
  expressions_.enter();
  if (!rarely && !has_phases(map, vector)) hold_columns(map, dealt, names_, code_, expressions_);
  const std::string first = code_.fresh("q");
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for (int {0} = 0; {0} < {1}; {0} += {2})", first, dealt.turns, at_once));
  for (size_t s = 0; s < map.stores.size(); ++s) {
    const std::string type = type_name(names_.buffer(map.stores[s].buffer).type);
    code_.line("Pack<{0}, {1}> y{2}[{3}]; {0}* to{2}[{3}];", type, vector, s, at_once);
  }
  code_.line("bool there[{}];", at_once);
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int u = 0; u < {}; ++u)", at_once));
  code_.line("there[u] = false;");
  expressions_.enter();
  std::string inside = open_turn(dealt, map.axes, extents, fmt::format("({} + u)", first));
  if (dealt.turns % at_once != 0) inside = fmt::format("{} + u < {} && {}", first, dealt.turns, inside);
  code_.open(fmt::format("if ({})", inside));
  if (map.condition) code_.open(fmt::format("if ({})", expressions_.value(map.condition)));
  expressions_.enter();
  code_.line("there[u] = true;");
  for (size_t i = 0; i < map.stores.size(); ++i) {
    const tile::Store& store = map.stores[i];
    code_.line("to{}[u] = {};", i,
               vector > 1 ? pointer_to(accesses[i]) : "&" + expressions_.element(store.buffer, store.indices));
  }
  compute_piece(map, vector, accesses);
  expressions_.leave();
  if (map.condition) code_.close();
  code_.close();
  expressions_.leave();
  code_.close();
  store_points(map, vector, at_once, accesses);
  code_.close();
  expressions_.leave();
}

/// y[u] = the piece at the named indices
void KernelWriter::compute_piece(const tile::Map& map, int vector, std::vector<PointAccess> accesses) {
  const int last = map.axes.back().variable->variable;
  const std::string start = names_.variables.at(last);
  const bool phases = has_phases(map, vector);
  for (const tile::Store& store : map.stores) {
    if (!phases && is_choice(store.value, last, accesses)) choose_piece(store.value, vector, accesses);
  }
  load_pieces(accesses, vector);
  if (phases) {
    write_phases(map, vector, start, accesses);
  } else {
    write_elements(map, vector, start, accesses);
  }
}

/// Loads the piece that is chosen, instead of those accesses.
void KernelWriter::choose_piece(const Expr& choice, int vector, std::vector<PointAccess>& accesses) {
  const std::string piece = code_.fresh("c");
  const std::string pack = fmt::format("Pack<{}, {}>", type_name(choice->type), vector);
  if (const auto place = chosen_place(choice, accesses)) {
    code_.line("const {0} {1} = *(const {0}*)({2});", pack, piece, *place);
  } else {
    code_.line("{} {};", pack, piece);
    load_choice(choice, vector, piece, accesses);
  }
  for_each(choice, [&](const Expr& node) {
    std::erase_if(accesses, [&](const PointAccess& access) { return access.load.get() == node.get(); });
  });
  accesses.push_back({.load = choice, .wide = true, .name = piece});
}

/// C++ for where the chosen piece lies, so that one load does for all branches; nothing where conditions or places load
/// what the branch not taken guards.
std::optional<std::string> KernelWriter::chosen_place(const Expr& e, const std::vector<PointAccess>& accesses) {
  if (const PointAccess* access = wide_access(e, accesses)) {
    if (!names_.address(access->buffer, *access->indices)) return std::nullopt;
    return fmt::format("({})", pointer_to(*access));
  }
  bool loads = false;
  for_each(e->args[0], [&](const Expr& node) { loads |= node->kind == ExprKind::kLoad; });
  if (loads) return std::nullopt;
  const std::string condition = expressions_.value(e->args[0]);
  const auto taken = chosen_place(e->args[1], accesses), other = chosen_place(e->args[2], accesses);
  if (!taken || !other) return std::nullopt;
  return fmt::format("({} ? {} : {})", condition, *taken, *other);
}

void KernelWriter::load_choice(const Expr& e, int vector, const std::string& piece,
                               const std::vector<PointAccess>& accesses) {
  if (const PointAccess* access = wide_access(e, accesses)) {
    return code_.line("{} = *(const Pack<{}, {}>*)({});", piece, type_name(e->type), vector, pointer_to(*access));
  }
  const std::string condition = expressions_.value(e->args[0]);
  for (const size_t branch : {1, 2}) {
    code_.open(branch == 1 ? fmt::format("if ({})", condition) : "else");
    expressions_.enter();
    load_choice(e->args[branch], vector, piece, accesses);
    expressions_.leave();
    code_.close();
  }
}

/// y[u] = the elements of the piece that begins at `start`
void KernelWriter::write_elements(const tile::Map& map, int vector, const std::string& start,
                                  const std::vector<PointAccess>& accesses) {
  if (vector > 1) {
    const std::string point = code_.fresh("i");
    code_.line("#pragma unroll");
    code_.open(fmt::format("for (int j = 0; j < {}; ++j)", vector));
    code_.line("const int {} = {} + j;", point, start);
    names_.variables[map.axes.back().variable->variable] = point;
    expressions_.enter();
  }
  define_walked(map, vector > 1 ? "j" : "0");
  for (size_t i = 0; i < accesses.size(); ++i) {
    const PointAccess& access = accesses[i];
    const std::string piece = access.name.empty() ? fmt::format("v{}", i) : access.name;
    if (access.load && access.wide) expressions_.define(access.load, piece + ".at[j]");
  }
  for (size_t s = 0; s < map.stores.size(); ++s) {
    code_.line("y{}[u].at[{}] = {};", s, vector > 1 ? "j" : "0", expressions_.value(map.stores[s].value));
  }
  if (vector > 1) {
    expressions_.leave();
    code_.close();
  }
}

/// The C++ that stores a piece at once.
std::string KernelWriter::whole_store(int buffer, int vector, const std::string& to, const std::string& piece) const {
  const std::string type = type_name(names_.buffer(buffer).type);
  if (names_.buffer(buffer).scope != tile::Scope::kGlobal) {
    return fmt::format("*(Pack<{}, {}>*){} = {}", type, vector, to, piece);
  }
  return fmt::format("write_pack<{}, {}>({}, {}, true)", type, vector, to, piece);
}

/// v0, v1 ... = the wide loads of one piece, each where there is something to load.
void KernelWriter::load_pieces(const std::vector<PointAccess>& accesses, int vector) {
  for (size_t i = 0; i < accesses.size(); ++i) {
    const PointAccess& access = accesses[i];
    if (!access.load || !access.wide || !access.name.empty()) continue;
    const std::string pack = fmt::format("Pack<{}, {}>", type_name(access.load->type), vector);
    if (access.guards.empty()) {
      code_.line("const {0} v{1} = *(const {0}*)({2});", pack, i, pointer_to(access));
      continue;
    }
    code_.line("{} v{};", pack, i);
    for (const auto& [condition, holds] : access.guards) {
      const std::string value = expressions_.value(condition);
      code_.open(fmt::format("if ({}{})", holds ? "" : "!", value));
      expressions_.enter();
    }
    code_.line("v{1} = *(const {0}*)({2});", pack, i, pointer_to(access));
    for (size_t k = 0; k < access.guards.size(); ++k) {
      expressions_.leave();
      code_.close();
    }
  }
}

/// Stores the pieces that there are.
void KernelWriter::store_points(const tile::Map& map, int vector, int at_once,
                                const std::vector<PointAccess>& accesses) {
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int u = 0; u < {}; ++u)", at_once));
  code_.open("if (there[u])");
  for (size_t s = 0; s < map.stores.size(); ++s) store_piece(map, s, vector, fmt::format("to{}[u]", s), accesses[s]);
  code_.close();
  code_.close();
}

/// y[u] of one store goes to where `to` points.
void KernelWriter::store_piece(const tile::Map& map, size_t number, int vector, const std::string& to,
                               const PointAccess& access) {
  const tile::Store& store = map.stores[number];
  const std::string piece = fmt::format("y{}[u]", number);
  if (vector == 1) {
    update(store, "*" + to, piece + ".at[0]", false);
  } else if (access.wide) {
    code_.line("{};", whole_store(store.buffer, vector, to, piece));
  } else {
    const Size step =
        names_.address(store.buffer, store.indices)->coefficient(map.axes.back().variable->variable);
    code_.line("#pragma unroll");
    code_.line("for (int j = 0; j < {}; ++j) {}[j * {}] = {}.at[j];", vector, to, names_.size(step), piece);
  }
}

}  // namespace graft::cuda
