// SPDX-License-Identifier: Apache-2.0
// Rows in registers: softmax, normalisations and what is fused with them. A group of threads has a row, each thread the
// same elements in every statement, so that tensors between the statements need no memory and inputs are read once.
#include <algorithm>
#include <utility>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

bool is_variable(const Expr& e, const tile::Axis& axis) {
  return e->kind == ExprKind::kVariable && e->variable == axis.variable->variable;
}

/// The axes of a map or reduction as the rows' plan sees them.
RowAxes split_axes(const RowPlan& plan, const std::vector<tile::Axis>& axes, const std::vector<tile::Axis>& reduced) {
  RowAxes result;
  const auto first = axes.begin() + static_cast<std::ptrdiff_t>(plan.row.size());
  result.row.assign(axes.begin(), first);
  result.inner.assign(first, axes.end());
  result.inner.insert(result.inner.end(), reduced.begin(), reduced.end());
  return result;
}

bool is_merged(const RowPlan& plan, const RowAxes& axes, int variable) {
  return std::any_of(plan.merged.begin(), plan.merged.end(),
                     [&](size_t axis) { return axes.inner[axis].variable->variable == variable; });
}

std::vector<Expr> values_of(const tile::Map& map) {
  std::vector<Expr> values;
  for (const tile::Store& store : map.stores) values.push_back(store.value);
  return values;
}

}  // namespace

RowAxes axes_in_row(const RowPlan& plan, const tile::Statement& statement) {
  const auto* map = std::get_if<tile::Map>(&statement.node);
  if (map) return split_axes(plan, map->axes, {});
  const auto& reduce = std::get<tile::Reduce>(statement.node);
  return split_axes(plan, reduce.axes, reduce.reduced);
}

std::vector<Expr> quotients_by(const std::set<int>& scalars, const std::vector<Expr>& values) {
  std::vector<Expr> found;
  for (const Expr& value : values) {
    for_each(value, [&](const Expr& node) {
      if (!is_call(node, Intrinsic::kCast) || node->type != DType::kFloat16) return;
      const Expr& quotient = node->args[0];
      if (!is_call(quotient, Intrinsic::kDiv) || quotient->type != DType::kFloat32) return;
      const Expr& by = quotient->args[1];
      if (by->kind == ExprKind::kLoad && scalars.contains(by->tensor)) found.push_back(quotient);
    });
  }
  return found;
}

/// Whether a buffer of the block's memory is used at the statement's own point only.
bool KernelWriter::plan_buffer(RowPlan& plan, int buffer, const std::vector<Expr>& indices, const RowAxes& axes) const {
  std::vector<tile::Axis> expected = axes.row;
  const bool scalar = indices.size() == expected.size();
  if (!scalar) expected.insert(expected.end(), axes.inner.begin(), axes.inner.end());
  if (indices.size() != expected.size()) return false;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!is_variable(indices[i], expected[i])) return false;
  }
  (scalar ? plan.scalar_buffers : plan.row_buffers).insert(buffer);
  return true;
}

bool KernelWriter::plan_statement(RowPlan& plan, const tile::Statement& statement) const {
  const auto* map = std::get_if<tile::Map>(&statement.node);
  const auto* reduce = std::get_if<tile::Reduce>(&statement.node);
  if (!map && !reduce) return false;
  if (map && (map->ordered || map->condition)) return false;
  if (reduce && (reduce->accumulate || !commutes(reduce->monoid))) return false;
  const std::vector<tile::Axis>& own = map ? map->axes : reduce->axes;
  if (own.size() < plan.row.size() || (reduce && own.size() != plan.row.size())) return false;
  if (!plan.row.empty() && (own[0].bound != plan.row[0].bound || !equal(own[0].extent, plan.row[0].extent))) {
    return false;
  }
  const RowAxes axes = split_axes(plan, own, reduce ? reduce->reduced : std::vector<tile::Axis>{});
  if (!axes.inner.empty()) {
    std::vector<int64_t> bounds;
    for (const tile::Axis& axis : axes.inner) bounds.push_back(as_integer(axis.extent).value_or(0));
    if (plan.bounds.empty()) plan.bounds = bounds;
    if (bounds != plan.bounds || std::find(bounds.begin(), bounds.end(), 0) != bounds.end()) return false;
  }
  bool good = true;
  const auto use = [&](int buffer, const std::vector<Expr>& indices, bool store) {
    const tile::Buffer& target = names_.buffer(buffer);
    if (target.scope == tile::Scope::kShared) {
      good = good && plan_buffer(plan, buffer, indices, axes);
    } else {
      good = good && target.scope == tile::Scope::kGlobal && target.written == store && bit_width(target.type) >= 8;
    }
  };
  const auto read = [&](const Expr& e) {
    for_each(e, [&](const Expr& node) {
      if (node->kind == ExprKind::kLoad) use(node->tensor, node->args, false);
    });
  };
  const std::vector<tile::Store>& stores = map ? map->stores : reduce->outputs;
  for (const tile::Store& store : stores) {
    use(store.buffer, store.indices, true);
    for (const Expr& index : store.indices) read(index);
    if (map) read(store.value);
    good = good && store.mode == ScatterMode::kSet;
    // What is stored to memory lies at an affine place.
    good = good && (names_.buffer(store.buffer).scope != tile::Scope::kGlobal ||
                    names_.address(store.buffer, store.indices).has_value());
  }
  if (reduce) {
    for (const Expr& lift : reduce->lift) read(lift);
  }
  return good;
}

/// Whether what is folded lies side by side from row to row, and nothing along a row.
bool KernelWriter::rows_lie_across(const RowPlan& plan) const {
  bool across = false, along = false;
  for (const tile::Statement& each : program_.body) {
    const auto* reduce = std::get_if<tile::Reduce>(&each.node);
    if (!reduce || reduce->axes.empty()) continue;
    const RowAxes axes = split_axes(plan, reduce->axes, reduce->reduced);
    for (const PointAccess& load : loads_of(*reduce)) {
      if (names_.buffer(load.buffer).scope != tile::Scope::kGlobal) continue;
      const auto address = names_.address(load.buffer, *load.indices);
      if (!address) continue;
      across |= address->coefficient(axes.row[0].variable->variable).is(1);
      along |= !axes.inner.empty() && address->coefficient(axes.inner.back().variable->variable).is(1);
    }
  }
  return across && !along;
}

std::optional<RowPlan> KernelWriter::plan_rows() const {
  RowPlan plan;
  const tile::Reduce* first = nullptr;
  for (const tile::Statement& each : program_.body) {
    if (const auto* reduce = std::get_if<tile::Reduce>(&each.node); reduce && !first) first = reduce;
  }
  if (!first || first->axes.size() > 1) return std::nullopt;
  plan.row = first->axes;
  if (!plan.row.empty() && plan.row[0].bound == 0) return std::nullopt;
  for (const tile::Statement& each : program_.body) {
    if (!plan_statement(plan, each)) return std::nullopt;
  }
  if (plan.bounds.empty()) return std::nullopt;
  merge_inner_axes(plan);
  for (const int buffer : plan.row_buffers) {
    if (plan.scalar_buffers.contains(buffer)) return std::nullopt;
  }
  // A whole number of threads for each row.
  const int64_t rows = plan.row.empty() ? 1 : plan.row[0].bound;
  plan.group = 1;
  while (plan.group * 2 * rows <= program_.threads) plan.group *= 2;
  if (plan.group > 32 && program_.threads % plan.group != 0) return std::nullopt;
  if (plan.group * rows > program_.threads) return std::nullopt;
  if (plan.group > 1 && rows_lie_across(plan)) return std::nullopt;
  plan_loads(plan);
  if (!plan_row_registers(plan)) return std::nullopt;
  return plan;
}

/// Whether a step along an inner axis leads, in all that the statement reads and writes, to where the next axis would
/// come behind its end; and nothing else uses either.
bool KernelWriter::runs_on(const tile::Statement& statement, const RowPlan& plan, size_t axis) const {
  const RowAxes axes = axes_in_row(plan, statement);
  if (axes.inner.empty()) return true;
  const int outer = axes.inner[axis].variable->variable, inner = axes.inner[axis + 1].variable->variable;
  const Size bound = *as_integer(axes.inner[axis + 1].extent);
  const auto agrees = [&](int buffer, const std::vector<Expr>& indices) {
    if (names_.buffer(buffer).scope != tile::Scope::kGlobal) return true;
    const auto address = names_.address(buffer, indices);
    return address && address->coefficient(outer) == address->coefficient(inner) * bound;
  };
  std::unordered_set<const ExprNode*> seen;  // of what was bad the answer is known
  const std::function<bool(const Expr&)> good = [&](const Expr& e) {
    if (!seen.insert(e.get()).second) return true;
    if (e->kind == ExprKind::kLoad) return agrees(e->tensor, e->args);
    if (e->kind == ExprKind::kVariable) return e->variable != outer && e->variable != inner;
    return std::all_of(e->args.begin(), e->args.end(), good);
  };
  const auto* map = std::get_if<tile::Map>(&statement.node);
  const auto* reduce = std::get_if<tile::Reduce>(&statement.node);
  const std::vector<Expr> values = map ? values_of(*map) : reduce->lift;
  const std::vector<tile::Store>& stores = map ? map->stores : reduce->outputs;
  return std::all_of(values.begin(), values.end(), good) &&
         std::all_of(stores.begin(), stores.end(),
                     [&](const tile::Store& store) { return agrees(store.buffer, store.indices); });
}

/// Inner axes that lie behind one another in memory become one: no division is left for them.
void KernelWriter::merge_inner_axes(RowPlan& plan) const {
  for (size_t axis = 0; axis + 1 < plan.bounds.size(); ++axis) {
    const bool merges = std::all_of(program_.body.begin(), program_.body.end(), [&](const tile::Statement& each) {
      return runs_on(each, plan, axis);
    });
    if (merges) plan.merged.insert(axis);
  }
  for (const size_t axis : plan.merged) plan.bounds[axis + 1] *= std::exchange(plan.bounds[axis], 1);
}

/// The most elements, up to `limit`, that one access may take along a row where the base is aligned.
int KernelWriter::width_in_row(const PointAccess& access, const RowAxes& axes, const RowPlan& plan, int limit) const {
  const auto address = names_.address(access.buffer, *access.indices);
  const int last = axes.inner.back().variable->variable;
  if (!address || !address->coefficient(last).is(1) || bit_width(names_.buffer(access.buffer).type) < 8) return 1;
  int width = limit;
  const auto fit = [&](const Size& size) {
    while (width > 1 && size.is_constant() && !size.is_multiple_of(width)) width /= 2;
  };
  fit(address->offset);
  for (const auto& [variable, coefficient] : address->coefficients) {
    if (variable != last && !is_merged(plan, axes, variable)) fit(coefficient);
  }
  return width;
}

/// A load with the names of the statement's axes taken out.
std::string KernelWriter::row_key(const Expr& load, const RowAxes& axes) const {
  const auto address = names_.address(load->tensor, load->args);
  if (!address) return "";
  std::string key = fmt::format("{} {}", load->tensor, address->offset.to_string());
  for (const auto& [variable, coefficient] : address->coefficients) {
    std::string name = fmt::format("v{}", variable);
    if (!axes.row.empty() && axes.row[0].variable->variable == variable) name = "row";
    for (size_t i = 0; i < axes.inner.size(); ++i) {
      if (axes.inner[i].variable->variable == variable) name = fmt::format("inner{}", i);
    }
    key += fmt::format(" {}:{}", name, coefficient.to_string());
  }
  return key;
}

/// Chooses the length of pieces and the loads that are made ahead.
void KernelWriter::plan_loads(RowPlan& plan) const {
  struct Use {
    PointAccess access;
    RowAxes axes;
    int last() const { return axes.inner.back().variable->variable; }
  };
  std::vector<Use> uses;
  for (const tile::Statement& each : program_.body) {
    const auto* map = std::get_if<tile::Map>(&each.node);
    const auto* reduce = std::get_if<tile::Reduce>(&each.node);
    const RowAxes axes = axes_in_row(plan, each);
    if (axes.inner.empty()) continue;
    const int last = axes.inner.back().variable->variable;
    std::vector<Expr> loads;
    std::unordered_set<const ExprNode*> seen;
    for (const Expr& value : map ? values_of(*map) : reduce->lift) unconditional_loads(value, seen, loads);
    for (const Expr& load : loads) {
      if (names_.buffer(load->tensor).scope != tile::Scope::kGlobal) continue;
      const std::string key = row_key(load, axes);
      bool inner = false;
      for (const Expr& index : load->args) {
        for (const tile::Axis& axis : axes.inner) inner |= uses_variable(index, axis.variable->variable);
      }
      // What changes elsewhere only is loaded where it is used.
      const bool along = !key.empty() && names_.address(load->tensor, load->args)->coefficient(last).is(1);
      if (!along || !inner) continue;
      uses.push_back({{load->tensor, &load->args, load, false}, axes});
      const auto known =
          std::find_if(plan.loads.begin(), plan.loads.end(), [&](const auto& entry) { return entry.first == key; });
      if (known != plan.loads.end()) {
        plan.late.erase(static_cast<size_t>(known - plan.loads.begin()));
        continue;
      }
      // What all rows share is loaded where it is used: it is near, and registers are few.
      const auto address = names_.address(load->tensor, load->args);
      const bool shared =
          std::all_of(address->coefficients.begin(), address->coefficients.end(), [&](const auto& entry) {
            return std::any_of(axes.inner.begin(), axes.inner.end(),
                               [&](const tile::Axis& axis) { return axis.variable->variable == entry.first; });
          });
      if (shared) plan.late.insert(plan.loads.size());
      plan.loads.emplace_back(key, load);
    }
    if (!map) continue;
    for (const tile::Store& store : map->stores) {
      if (names_.buffer(store.buffer).scope == tile::Scope::kGlobal) {
        uses.push_back({{store.buffer, &store.indices, {}, false}, axes});
      }
    }
  }
  std::set<int> widths;
  for (const Use& use : uses) widths.insert(bytes_of(names_.buffer(use.access.buffer).type));
  // Of bytes beside wider elements half as many: of sixteen the threads of a short row would not all have one.
  int vector = widths.empty() ? 2 : 16 / std::max(*widths.begin(), widths.size() > 1 ? 2 : 1);
  while (vector > 1 && (plan.bounds.back() % vector != 0 || plan.bounds.back() / vector < 2)) vector /= 2;
  for (const Use& use : uses) vector = std::min(vector, width_in_row(use.access, use.axes, plan, vector));
  std::set<std::string> conditions;
  for (const Use& use : uses) {
    if (vector == 1) break;
    const tile::Buffer& buffer = names_.buffer(use.access.buffer);
    conditions.insert(
        fmt::format("aligned<{}, {}>({})", type_name(buffer.type), vector, names_.buffers[use.access.buffer]));
    const auto address = names_.address(use.access.buffer, *use.access.indices);
    const auto divides = [&](const Size& size) {
      if (!size.is_multiple_of(vector)) conditions.insert(fmt::format("{} % {} == 0", names_.size(size), vector));
    };
    divides(address->offset);
    for (const auto& [variable, coefficient] : address->coefficients) {
      if (variable != use.last() && !is_merged(plan, use.axes, variable)) divides(coefficient);
    }
  }
  plan.condition = fmt::format("{}", fmt::join(conditions, " && "));
  plan.vector = vector;
  plan.bounds.back() /= vector;
  plan.pieces = 1;
  for (const int64_t bound : plan.bounds) plan.pieces *= bound;
  plan.turns = ceil_quotient(plan.pieces, plan.group);
}

void KernelWriter::write_rows(RowPlan& plan) {
  if (plan.streams) {
    stream_rows(plan);
  } else {
    write_row(plan);
  }
}

void KernelWriter::write_row(RowPlan& plan) {
  const std::string member = plan.apart ? "unknown(threadIdx.x)" : fmt::format("threadIdx.x % {}", plan.group);
  code_.line("const int member = {}, row = threadIdx.x / {};", member, plan.group);
  std::string inside = "true";
  if (!plan.row.empty()) {
    const auto exact = as_integer(plan.row[0].extent);
    const bool full = exact && *exact * plan.group == program_.threads;
    if (!full) inside = fmt::format("row < {}", expressions_.value(plan.row[0].extent));
  } else if (plan.group < program_.threads) {
    inside = "row < 1";
  }
  code_.line("const bool inside = {}, wide = {};", inside, plan.condition.empty() ? "true" : plan.condition);
  code_.line("(void)member, (void)row, (void)wide;");
  for (const int buffer : plan.row_buffers) {
    code_.line("{} r{}[{}][{}];", type_name(names_.buffer(buffer).type), buffer, plan.turns, plan.vector);
  }
  for (const int buffer : plan.scalar_buffers)
    code_.line("{} scalar{};", type_name(names_.buffer(buffer).type), buffer);
  for (size_t i = 0; i < plan.loads.size(); ++i) {
    if (plan.late.contains(i)) continue;
    const DType type = plan.loads[i].second->type;
    if (plan.in_pairs(type)) {
      code_.line("Pack<u32, {}> c{}[{}];", plan.vector / 2, i, plan.turns);
    } else {
      code_.line("Pack<{}, {}> c{}[{}];", type_name(type), plan.vector, i, plan.turns);
    }
  }
  for (const tile::Statement& each : program_.body) {
    expressions_.enter();
    if (const auto* map = std::get_if<tile::Map>(&each.node)) {
      row_map(plan, *map);
    } else {
      code_.open("");
      row_reduce(plan, std::get<tile::Reduce>(each.node));
      code_.close();
    }
    expressions_.leave();
  }
}

/// for (k: the turns of this thread) if (there is a piece): the inner indices of its first element.
void KernelWriter::open_pieces(const RowPlan& plan, const RowAxes& axes) {
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int k = 0; k < {}; ++k)", plan.turns));
  expressions_.enter();
  std::string rest = code_.fresh("x");
  code_.line("const int {} = k * {} + member;", rest, plan.group);
  const std::string piece = rest;
  for (size_t i = axes.inner.size(); i-- > 0;) {
    if (plan.merged.contains(i)) {
      bind_constant(axes.inner[i].variable, 0);
      continue;
    }
    const std::string name = code_.fresh("i");
    const std::string step = i + 1 == axes.inner.size() && plan.vector > 1 ? fmt::format(" * {}", plan.vector) : "";
    int64_t before = 1;
    for (size_t k = 0; k < i; ++k) before *= plan.bounds[k];
    if (before == 1) {
      code_.line("const int {} = {}{};", name, rest, step);
    } else {
      const std::string next = code_.fresh("q");
      code_.line("const int {} = (u32){} % {}u{}, {} = (u32){} / {}u;", name, rest, plan.bounds[i], step, next, rest,
                 plan.bounds[i]);
      rest = next;
    }
    bind_index(axes.inner[i].variable, name, plan.bounds[i] * (step.empty() ? 1 : plan.vector));
  }
  const bool whole = plan.turns * plan.group == plan.pieces && !plan.apart;
  code_.open(whole ? "if (inside)" : fmt::format("if (inside && {} < {})", piece, plan.pieces));
}

/// for (j: the elements of the piece), with what is in registers named.
void KernelWriter::open_elements(const RowPlan& plan, const RowAxes& axes, const std::vector<Expr>& values) {
  const int last = axes.inner.back().variable->variable;
  const std::string name = code_.fresh("i");
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int j = 0; j < {}; ++j)", plan.vector));
  code_.line("const int {} = {} + j;", name, names_.variables.at(last));
  names_.variables[last] = name;
  expressions_.enter();
  define_row_loads(plan, values, axes);
}

void KernelWriter::define_row_loads(const RowPlan& plan, const std::vector<Expr>& values, const RowAxes& axes) {
  for (const Expr& value : values) {
    for_each(value, [&](const Expr& node) {
      if (node->kind != ExprKind::kLoad) return;
      if (plan.scalar_buffers.contains(node->tensor)) {
        expressions_.define(node, fmt::format("scalar{}", node->tensor));
      }
      if (plan.row_buffers.contains(node->tensor)) expressions_.define(node, fmt::format("r{}[k][j]", node->tensor));
      if (names_.buffer(node->tensor).scope != tile::Scope::kGlobal || axes.inner.empty()) return;
      const std::string key = row_key(node, axes);
      for (size_t i = 0; i < plan.loads.size(); ++i) {
        if (plan.loads[i].first != key || !plan.loaded.contains(key)) continue;
        if (plan.late.contains(i)) {
          expressions_.define(node, fmt::format("l{}.at[j]", i));
        } else if (plan.in_pairs(node->type)) {
          expressions_.define(node, fmt::format("half_of<{}>(c{}[k].at[j / 2], j % 2)", type_name(node->type), i));
        } else {
          expressions_.define(node, fmt::format("c{}[k].at[j]", i));
        }
      }
    });
  }
}

/// Makes the loads of a statement that are not in registers yet, all of them before the first is used; returns those
/// that are left for each piece to make.
std::vector<std::pair<size_t, Expr>> KernelWriter::load_ahead(RowPlan& plan, const std::vector<Expr>& values,
                                                              const RowAxes& axes) {
  std::vector<std::pair<size_t, Expr>> fresh, late;
  std::vector<Expr> loads;
  std::unordered_set<const ExprNode*> seen;
  for (const Expr& value : values) unconditional_loads(value, seen, loads);
  for (const Expr& load : loads) {
    if (names_.buffer(load->tensor).scope != tile::Scope::kGlobal) continue;
    const std::string key = row_key(load, axes);
    for (size_t i = 0; i < plan.loads.size(); ++i) {
      if (plan.loads[i].first != key || !plan.loaded.insert(key).second) continue;
      (plan.late.contains(i) ? late : fresh).emplace_back(i, load);
    }
  }
  if (fresh.empty()) return late;
  open_pieces(plan, axes);
  for (const auto& [i, load] : fresh) {
    const std::string type = type_name(load->type);
    std::string slot;
    if (plan.streams && i == plan.stream) {
      slot = fmt::format("streams ? *(const Pack<{0}, {1}>*)(slots + (slot * {2} + k * {3} + member) * {1}) : ", type,
                         plan.vector, plan.pieces, plan.group);
    }
    const char* read = plan.in_pairs(load->type) ? "read_pairs" : "read_pack";
    code_.line("c{}[k] = {}{}<{}, {}>({}, wide);", i, slot, read, type, plan.vector,
               pointer_to({load->tensor, &load->args, load, true}));
  }
  code_.close();
  expressions_.leave();
  code_.close();
  return late;
}

void KernelWriter::load_late(const RowPlan& plan, const std::vector<std::pair<size_t, Expr>>& late) {
  for (const auto& [i, load] : late) {
    code_.line("const Pack<{0}, {1}> l{2} = read_pack<{0}, {1}>({3}, wide);", type_name(load->type), plan.vector, i,
               pointer_to({load->tensor, &load->args, load, true}));
  }
}

void KernelWriter::row_map(RowPlan& plan, const tile::Map& map) {
  const RowAxes axes = split_axes(plan, map.axes, {});
  const std::vector<Expr> values = values_of(map);
  if (!axes.row.empty()) bind_index(axes.row[0].variable, "row", axes.row[0].bound);
  if (axes.inner.empty()) {
    // Every thread of the row has its scalars.
    code_.open("if (inside)");
    expressions_.enter();
    define_row_loads(plan, values, axes);
    for (const tile::Store& store : map.stores) {
      const std::string value = expressions_.value(store.value);
      if (plan.scalar_buffers.contains(store.buffer)) {
        code_.line("scalar{} = {};", store.buffer, value);
      } else {
        code_.line("if (member == 0) {} = {};", expressions_.element(store.buffer, store.indices), value);
      }
    }
    expressions_.leave();
    code_.close();
    return;
  }
  const std::vector<std::pair<size_t, Expr>> late = load_ahead(plan, values, axes);
  const std::vector<Expr> quotients = quotients_by(plan.scalar_buffers, values);
  std::vector<std::string> reciprocals;
  for (const Expr& quotient : quotients) {
    reciprocals.push_back(code_.fresh("d"));
    code_.line("const Divisor {} = divisor(scalar{});", reciprocals.back(), quotient->args[1]->tensor);
  }
  open_pieces(plan, axes);
  load_late(plan, late);
  std::vector<std::string> targets;
  for (const tile::Store& store : map.stores) {
    if (plan.row_buffers.contains(store.buffer)) continue;
    targets.push_back(code_.fresh("to"));
    code_.line("{}* const {} = {};", type_name(names_.buffer(store.buffer).type), targets.back(),
               pointer_to({store.buffer, &store.indices, {}, true}));
    code_.line("Pack<{}, {}> y{};", type_name(names_.buffer(store.buffer).type), plan.vector, targets.back());
  }
  open_elements(plan, axes, values);
  for (size_t i = 0; i < quotients.size(); ++i) {
    const std::string dividend = expressions_.value(quotients[i]->args[0]);
    expressions_.define(quotients[i], fmt::format("divide_for_half({}, {})", dividend, reciprocals[i]));
  }
  size_t target = 0;
  for (const tile::Store& store : map.stores) {
    const std::string value = expressions_.value(store.value);
    if (plan.row_buffers.contains(store.buffer)) {
      code_.line("r{}[k][j] = {};", store.buffer, value);
    } else {
      code_.line("y{}.at[j] = {};", targets[target++], value);
    }
  }
  expressions_.leave();
  code_.close();
  target = 0;
  for (const tile::Store& store : map.stores) {
    if (plan.row_buffers.contains(store.buffer)) continue;
    code_.line("write_pack<{0}, {1}>({2}, y{2}, wide);", type_name(names_.buffer(store.buffer).type), plan.vector,
               targets[target++]);
  }
  code_.close();
  expressions_.leave();
  code_.close();
}

void KernelWriter::row_reduce(RowPlan& plan, const tile::Reduce& reduce) {
  const RowAxes axes = split_axes(plan, reduce.axes, reduce.reduced);
  if (!axes.row.empty()) bind_index(axes.row[0].variable, "row", axes.row[0].bound);
  begin_monoid(reduce);
  const std::vector<std::pair<size_t, Expr>> late = load_ahead(plan, reduce.lift, axes);
  code_.line("State state = identity;");
  open_pieces(plan, axes);
  load_late(plan, late);
  open_elements(plan, axes, reduce.lift);
  fold_one(reduce, "state");
  expressions_.leave();
  code_.close();
  code_.close();
  expressions_.leave();
  code_.close();
  std::string partial = "(State*)0";
  if (plan.group > 32) {
    partial = fmt::format("(State*)(shared + {})",
                          reserve_shared(16 * static_cast<int64_t>(reduce.lift.size()) * (program_.threads / 32)));
  }
  code_.line("state = fold_for_all<{}>(state, combine, {});", plan.group, partial);
  for (size_t i = 0; i < reduce.outputs.size(); ++i) {
    const tile::Store& output = reduce.outputs[i];
    if (plan.scalar_buffers.contains(output.buffer)) {
      code_.line("scalar{} = state.s{};", output.buffer, i);
    } else {
      code_.line("if (inside && member == 0) {} = state.s{};", expressions_.element(output.buffer, output.indices), i);
    }
  }
}

}  // namespace graft::cuda
