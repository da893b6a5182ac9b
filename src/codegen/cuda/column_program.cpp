// SPDX-License-Identifier: Apache-2.0
// Columns in registers: a softmax or a normalisation along an axis that is not the last one. A thread has all elements
// of a few neighbouring columns, so that what passes between statements needs no memory and inputs are read once.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

constexpr int64_t kMostElements = 96;  // in one thread
constexpr int64_t kMostWords = 144;    // registers for what a thread keeps

int64_t words_of(int64_t elements, DType type) {
  return (elements * std::max(bit_width(type) / 8, 1) + 3) / 4;
}

bool is_variable(const Expr& e, const tile::Axis& axis) {
  return e->kind == ExprKind::kVariable && e->variable == axis.variable->variable;
}

const std::vector<tile::Store>& stores_of(const tile::Statement& statement) {
  const auto* map = std::get_if<tile::Map>(&statement.node);
  return map ? map->stores : std::get<tile::Reduce>(statement.node).outputs;
}

std::vector<Expr> values_of(const tile::Statement& statement) {
  const auto* map = std::get_if<tile::Map>(&statement.node);
  if (!map) return std::get<tile::Reduce>(statement.node).lift;
  std::vector<Expr> values;
  for (const tile::Store& store : map->stores) values.push_back(store.value);
  return values;
}

}  // namespace

/// The statement's axes as a column program has them: those along a column, then the columns.
std::vector<tile::Axis> ColumnPlan::axes_of(const tile::Statement& statement) const {
  if (const auto* map = std::get_if<tile::Map>(&statement.node)) return map->axes;
  const auto& reduce = std::get<tile::Reduce>(statement.node);
  std::vector<tile::Axis> axes = reduce.reduced;
  axes.insert(axes.end(), reduce.axes.begin(), reduce.axes.end());
  return axes;
}

/// Whether the statement goes over the plan's columns and uses the block's memory at its own element only.
bool KernelWriter::plan_column_statement(ColumnPlan& plan, const tile::Statement& statement) const {
  const auto* map = std::get_if<tile::Map>(&statement.node);
  const auto* reduce = std::get_if<tile::Reduce>(&statement.node);
  if (!map && !reduce) return false;
  if (map && (map->ordered || map->condition || map->axes.empty())) return false;
  if (reduce && (reduce->accumulate || reduce->axes.size() != 1 || reduce->reduced.empty())) return false;
  const std::vector<tile::Axis> axes = plan.axes_of(statement);
  if (axes.back().bound != plan.column.bound || !equal(axes.back().extent, plan.column.extent)) return false;
  if (axes.size() > 1) {
    std::vector<int64_t> bounds;
    for (size_t i = 0; i + 1 < axes.size(); ++i) bounds.push_back(as_integer(axes[i].extent).value_or(0));
    if (plan.bounds.empty()) plan.bounds = bounds;
    if (bounds != plan.bounds || std::find(bounds.begin(), bounds.end(), 0) != bounds.end()) return false;
  }
  bool good = true;
  const auto use = [&](int buffer, const std::vector<Expr>& indices, bool store) {
    const tile::Buffer& target = names_.buffer(buffer);
    const bool is_global = target.scope == tile::Scope::kGlobal;
    if (is_global) good = good && target.written == store && bit_width(target.type) >= 8;
    if (is_global || !good) return;
    const bool scalar = indices.size() == 1;
    good = target.scope == tile::Scope::kShared && (scalar || indices.size() == axes.size());
    for (size_t i = 0; i < indices.size() && good; ++i) {
      good = is_variable(indices[i], scalar ? axes.back() : axes[i]);
    }
    (scalar ? plan.scalar_buffers : plan.element_buffers).insert(buffer);
  };
  const int column = axes.back().variable->variable;
  for (const tile::Store& store : stores_of(statement)) {
    use(store.buffer, store.indices, true);
    good = good && store.mode == ScatterMode::kSet;
    if (!good || names_.buffer(store.buffer).scope != tile::Scope::kGlobal) continue;
    const auto address = names_.address(store.buffer, store.indices);
    good = address && address->coefficient(column).is(1);
  }
  for (const Expr& value : values_of(statement)) {
    for_each(value, [&](const Expr& node) {
      if (node->kind == ExprKind::kLoad) use(node->tensor, node->args, false);
    });
  }
  return good;
}

std::optional<ColumnPlan> KernelWriter::plan_columns() const {
  ColumnPlan plan;
  const auto first = std::find_if(program_.body.begin(), program_.body.end(), [](const tile::Statement& each) {
    return std::holds_alternative<tile::Reduce>(each.node);
  });
  if (first == program_.body.end()) return std::nullopt;
  const auto& reduce = std::get<tile::Reduce>(first->node);
  if (reduce.axes.size() != 1) return std::nullopt;
  plan.column = reduce.axes[0];
  const int64_t columns = as_integer(plan.column.extent).value_or(plan.column.bound);
  if (columns <= 0 || columns % program_.threads != 0) return std::nullopt;
  plan.vector = static_cast<int>(columns / program_.threads);
  const bool is_power = plan.vector <= 16 && (plan.vector & (plan.vector - 1)) == 0;
  if (!is_power || !is_whole(plan.column.extent, plan.vector)) return std::nullopt;
  for (const tile::Statement& each : program_.body) {
    if (!plan_column_statement(plan, each)) return std::nullopt;
  }
  plan_column_loads(plan);
  for (const int64_t bound : plan.bounds) plan.elements *= bound;
  const int64_t all = plan.elements * plan.vector;
  int64_t kept = 0, read = 0;
  for (const int buffer : plan.element_buffers) kept += words_of(all, names_.buffer(buffer).type);
  for (const auto& [key, load] : plan.loads) read += words_of(all, load->type);
  // Reductions that read their column once need no registers for it.
  const bool keeps = !plan.element_buffers.empty() || program_.body.size() > 2;
  if (!keeps || plan.loads.empty() || plan.elements > kMostElements || kept + read > kMostWords + kept / 2) {
    return std::nullopt;
  }
  return plan;
}

/// A load with the names of the statement's axes taken out.
std::string KernelWriter::column_key(const Expr& load, const std::vector<tile::Axis>& axes) const {
  const auto address = names_.address(load->tensor, load->args);
  if (!address || !address->coefficient(axes.back().variable->variable).is(1)) return "";
  std::set<std::string> parts;
  bool along = false;
  for (const auto& [variable, coefficient] : address->coefficients) {
    std::string name = fmt::format("v{}", variable);
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i].variable->variable != variable) continue;
      name = fmt::format("axis{}", i);
      along |= i + 1 < axes.size();
    }
    parts.insert(fmt::format("{}:{}", name, coefficient.to_string()));
  }
  return along ? fmt::format("{} {} {}", load->tensor, address->offset.to_string(), fmt::join(parts, " ")) : "";
}

/// Finds the loads that are made ahead, and under which condition neighbouring columns are aligned.
void KernelWriter::plan_column_loads(ColumnPlan& plan) const {
  std::set<std::string> conditions;
  const auto align = [&](int buffer, const std::vector<Expr>& indices, int column) {
    if (plan.vector == 1) return;
    conditions.insert(fmt::format("aligned<{}, {}>({})", type_name(names_.buffer(buffer).type), plan.vector,
                                  names_.buffers[buffer]));
    const auto address = names_.address(buffer, indices);
    const auto divides = [&](const Size& size) {
      if (!size.is_multiple_of(plan.vector)) {
        conditions.insert(fmt::format("{} % {} == 0", names_.size(size), plan.vector));
      }
    };
    divides(address->offset);
    for (const auto& [variable, coefficient] : address->coefficients) {
      if (variable != column) divides(coefficient);
    }
  };
  for (const tile::Statement& each : program_.body) {
    const std::vector<tile::Axis> axes = plan.axes_of(each);
    const int column = axes.back().variable->variable;
    for (const tile::Store& store : stores_of(each)) {
      if (names_.buffer(store.buffer).scope == tile::Scope::kGlobal) align(store.buffer, store.indices, column);
    }
    std::vector<Expr> loads;
    std::unordered_set<const ExprNode*> seen;
    for (const Expr& value : values_of(each)) unconditional_loads(value, seen, loads);
    for (const Expr& load : loads) {
      if (names_.buffer(load->tensor).scope != tile::Scope::kGlobal || axes.size() < 2) continue;
      const std::string key = column_key(load, axes);
      const bool known = std::any_of(plan.loads.begin(), plan.loads.end(),
                                     [&](const auto& entry) { return entry.first == key; });
      if (key.empty() || known) continue;
      align(load->tensor, load->args, column);
      plan.loads.emplace_back(key, load);
    }
  }
  plan.condition = conditions.empty() ? "true" : fmt::format("{}", fmt::join(conditions, " && "));
}

void KernelWriter::write_columns(ColumnPlan& plan) {
  code_.line("const int column = threadIdx.x * {};", plan.vector);
  code_.line("const bool inside = column < {}, wide = {};", expressions_.value(plan.column.extent), plan.condition);
  code_.line("(void)wide;");
  for (const int buffer : plan.element_buffers) {
    code_.line("{} r{}[{}][{}];", type_name(names_.buffer(buffer).type), buffer, plan.elements, plan.vector);
  }
  for (const int buffer : plan.scalar_buffers) {
    code_.line("{} scalar{}[{}];", type_name(names_.buffer(buffer).type), buffer, plan.vector);
  }
  for (size_t i = 0; i < plan.loads.size(); ++i) {
    code_.line("Pack<{}, {}> c{}[{}];", type_name(plan.loads[i].second->type), plan.vector, i, plan.elements);
  }
  code_.line("if (!inside) return;");
  for (const tile::Statement& each : program_.body) {
    const std::vector<tile::Axis> axes = plan.axes_of(each);
    bind_index(axes.back().variable, "column", plan.column.bound);
    expressions_.enter();
    code_.open("");
    if (axes.size() > 1) load_columns_ahead(plan, each);
    if (const auto* map = std::get_if<tile::Map>(&each.node)) {
      column_map(plan, *map);
    } else {
      column_reduce(plan, std::get<tile::Reduce>(each.node));
    }
    code_.close();
    expressions_.leave();
  }
}

/// for (k: the elements of a column): their indices.
void KernelWriter::open_column_elements(const ColumnPlan& plan, const std::vector<tile::Axis>& axes) {
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int k = 0; k < {}; ++k)", plan.elements));
  std::string rest = "k";
  for (size_t i = axes.size() - 1; i-- > 0;) {
    const std::string name = code_.fresh("i");
    if (i == 0) {
      code_.line("const int {} = {};", name, rest);
    } else {
      const std::string next = code_.fresh("q");
      code_.line("const int {} = {} % {}, {} = {} / {};", name, rest, plan.bounds[i], next, rest, plan.bounds[i]);
      rest = next;
    }
    bind_index(axes[i].variable, name, plan.bounds[i]);
  }
  expressions_.enter();
}

/// for (j: the columns of a thread), with what is in registers named.
void KernelWriter::open_neighbour_columns(const ColumnPlan& plan, const tile::Statement& statement) {
  const std::vector<tile::Axis> axes = plan.axes_of(statement);
  const std::string name = code_.fresh("i");
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int j = 0; j < {}; ++j)", plan.vector));
  code_.line("const int {} = column + j;", name);
  bind_index(axes.back().variable, name, plan.column.bound);
  expressions_.enter();
  for (const Expr& value : values_of(statement)) {
    for_each(value, [&](const Expr& node) {
      if (node->kind != ExprKind::kLoad) return;
      if (plan.scalar_buffers.contains(node->tensor)) {
        expressions_.define(node, fmt::format("scalar{}[j]", node->tensor));
      }
      if (plan.element_buffers.contains(node->tensor)) {
        expressions_.define(node, fmt::format("r{}[k][j]", node->tensor));
      }
      if (names_.buffer(node->tensor).scope != tile::Scope::kGlobal || axes.size() < 2) return;
      const std::string key = column_key(node, axes);
      for (size_t i = 0; i < plan.loads.size(); ++i) {
        if (plan.loads[i].first == key) expressions_.define(node, fmt::format("c{}[k].at[j]", i));
      }
    });
  }
}

void KernelWriter::close_neighbour_columns(const ColumnPlan& plan, const tile::Statement& statement) {
  expressions_.leave();
  code_.close();
  bind_index(plan.axes_of(statement).back().variable, "column", plan.column.bound);
}

/// Makes the loads of a statement that are not in registers yet, all of them before the first is used.
void KernelWriter::load_columns_ahead(ColumnPlan& plan, const tile::Statement& statement) {
  const std::vector<tile::Axis> axes = plan.axes_of(statement);
  std::vector<Expr> loads;
  std::unordered_set<const ExprNode*> seen;
  for (const Expr& value : values_of(statement)) unconditional_loads(value, seen, loads);
  for (const Expr& load : loads) {
    if (names_.buffer(load->tensor).scope != tile::Scope::kGlobal) continue;
    const std::string key = column_key(load, axes);
    for (size_t i = 0; i < plan.loads.size(); ++i) {
      if (plan.loads[i].first != key || !plan.loaded.insert(key).second) continue;
      open_column_elements(plan, axes);
      code_.line("c{}[k] = read_pack<{}, {}>({}, wide);", i, type_name(load->type), plan.vector,
                 pointer_to({load->tensor, &load->args, load, true}));
      expressions_.leave();
      code_.close();
    }
  }
}

void KernelWriter::column_map(const ColumnPlan& plan, const tile::Map& map) {
  const tile::Statement statement{map};
  const std::vector<Expr> quotients = quotients_by(plan.scalar_buffers, values_of(statement));
  std::vector<std::string> reciprocals;
  for (const Expr& quotient : quotients) {
    reciprocals.push_back(code_.fresh("d"));
    code_.line("Divisor {}[{}];", reciprocals.back(), plan.vector);
    code_.line("#pragma unroll");
    code_.line("for (int j = 0; j < {}; ++j) {}[j] = divisor(scalar{}[j]);", plan.vector, reciprocals.back(),
               quotient->args[1]->tensor);
  }
  if (map.axes.size() > 1) open_column_elements(plan, map.axes);
  std::vector<std::string> targets;
  for (const tile::Store& store : map.stores) {
    const bool kept = names_.buffer(store.buffer).scope != tile::Scope::kGlobal;
    targets.push_back(kept ? "" : code_.fresh("to"));
    if (kept) continue;
    const std::string type = type_name(names_.buffer(store.buffer).type);
    code_.line("{}* const {} = {};", type, targets.back(), pointer_to({store.buffer, &store.indices, {}, true}));
    code_.line("Pack<{}, {}> y{};", type, plan.vector, targets.back());
  }
  open_neighbour_columns(plan, statement);
  for (size_t i = 0; i < quotients.size(); ++i) {
    const std::string dividend = expressions_.value(quotients[i]->args[0]);
    expressions_.define(quotients[i], fmt::format("divide_for_half({}, {}[j])", dividend, reciprocals[i]));
  }
  for (size_t s = 0; s < map.stores.size(); ++s) {
    const int buffer = map.stores[s].buffer;
    const std::string value = expressions_.value(map.stores[s].value);
    if (plan.scalar_buffers.contains(buffer)) {
      code_.line("scalar{}[j] = {};", buffer, value);
    } else if (plan.element_buffers.contains(buffer)) {
      code_.line("r{}[k][j] = {};", buffer, value);
    } else {
      code_.line("y{}.at[j] = {};", targets[s], value);
    }
  }
  close_neighbour_columns(plan, statement);
  for (size_t s = 0; s < map.stores.size(); ++s) {
    if (targets[s].empty()) continue;
    code_.line("write_pack<{0}, {1}>({2}, y{2}, wide);", type_name(names_.buffer(map.stores[s].buffer).type),
               plan.vector, targets[s]);
  }
  if (map.axes.size() == 1) return;
  expressions_.leave();
  code_.close();
}

void KernelWriter::column_reduce(const ColumnPlan& plan, const tile::Reduce& reduce) {
  const tile::Statement statement{reduce};
  begin_monoid(reduce);
  code_.line("State states[{}];", plan.vector);
  code_.line("#pragma unroll");
  code_.line("for (int j = 0; j < {}; ++j) states[j] = identity;", plan.vector);
  open_column_elements(plan, plan.axes_of(statement));
  open_neighbour_columns(plan, statement);
  fold_one(reduce, "states[j]");
  close_neighbour_columns(plan, statement);
  expressions_.leave();
  code_.close();
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int j = 0; j < {}; ++j)", plan.vector));
  for (size_t i = 0; i < reduce.outputs.size(); ++i) {
    const tile::Store& output = reduce.outputs[i];
    if (plan.scalar_buffers.contains(output.buffer)) {
      code_.line("scalar{}[j] = states[j].s{};", output.buffer, i);
      continue;
    }
    code_.line("({})[j] = states[j].s{};", pointer_to({output.buffer, &output.indices, {}, true}), i);
  }
  code_.close();
}

}  // namespace graft::cuda
