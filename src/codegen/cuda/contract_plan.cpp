// SPDX-License-Identifier: Apache-2.0
// Decides how a contraction over a fragment is carried out: on which units, and where each operand comes from.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

int rounded(int64_t value, int64_t multiple) { return static_cast<int>((value + multiple - 1) / multiple * multiple); }

/// The widest line of a swizzled block, in bytes, of which so many bytes are whole lines.
int swizzle_of(int bytes) { return bytes % 128 == 0 ? 128 : bytes % 64 == 0 ? 64 : 32; }

/// Whether wgmma makes so many columns at once: of integers it takes fewer widths than of floats.
bool has_width(const ContractUnit& unit, int columns) {
  return columns <= unit.n && (is_float(unit.sum) || columns % 16 == 0 || columns <= 32);
}

std::vector<int> variables_of(const std::vector<const tile::For*>& loops) {
  std::vector<int> variables;
  for (const tile::For* loop : loops) variables.push_back(loop->axis.variable->variable);
  return variables;
}

bool uses_any(const Expr& e, const std::vector<int>& variables) {
  return std::any_of(variables.begin(), variables.end(), [&](int each) { return uses_variable(e, each); });
}

}  // namespace

bool counts_points(const Expr& index, const std::vector<tile::Axis>& axes) {
  const auto a = affine(index);
  if (!a || !a->offset.is(0) || a->coefficients.size() > axes.size()) return false;
  int64_t step = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    const bool single = axes[i].bound == 1 && a->coefficient(axes[i].variable->variable).is(0);
    if (!single && !a->coefficient(axes[i].variable->variable).is(step)) return false;
    if (i > 0 && axes[i].bound <= 0) return false;
    step *= axes[i].bound;
  }
  return true;
}

int64_t Operand::slot_bytes() const {
  const int64_t bytes = int64_t{lines} * (swizzle ? columns : leading) * bit_width(type) / 8;
  return swizzle ? (bytes + 1023) / 1024 * 1024 : bytes;
}

ContractPlan KernelWriter::plan(const tile::Contract& contract, const std::vector<const tile::For*>& loops) {
  ContractPlan plan;
  plan.contract = &contract;
  plan.loops = loops;
  const DType a = contract.a->type, b = contract.b->type, c = names_.buffer(contract.c).type;
  plan.unit = contract.unit ? contract.unit : best_unit(target_, a, b, c, ContractUnit::Scope::kWarp);
  plan.tf32 = contract.tf32;
  const bool plain = c == DType::kFloat32 || c == DType::kFloat64 || c == DType::kInt32 || c == DType::kInt64;
  if (!plan.unit && !plain) {
    throw Unsupported{fmt::format("a contraction of {} and {} into {}", name_of(a), name_of(b), name_of(c))};
  }
  plan.layout = names_.fragments.at(contract.c);
  if (!counts_points(contract.c_indices[0], contract.m) || !counts_points(contract.c_indices[1], contract.n)) {
    throw Unsupported{"a contraction whose fragment is not indexed by all its m axes, then all its n axes"};
  }
  plan.k = rounded(contract.k[0].bound, plan.unit ? plan.unit->k : plan.tf32 ? 8 : 1);
  // Without producers, who split b for them, warpgroups leave the work to warps.
  const ContractUnit* of_groups = !plan.splits()       ? best_unit(target_, a, b, c, ContractUnit::Scope::kWarpgroup)
                                  : splits_in_groups_ ? plan.unit
                                                      : nullptr;
  plan.warpgroups = of_groups && plan.layout.warps_m % 4 == 0 && has_width(*of_groups, plan.layout.tile_columns());
  if (plan.unit && is_half(b) && contract.k.size() == 1) plan.coded = coded_operand(contract.b, contract.k[0], names_);
  if (plan.coded) plan.few_rows = few_rows(contract);
  plan.a = plan_operand(contract, plan, true);
  plan.b = plan_operand(contract, plan, false);
  const bool direct = plan.a.source == Operand::Source::kStaged || plan.a.source == Operand::Source::kFragment;
  if (plan.warpgroups && !(direct && plan.b.source == Operand::Source::kStaged)) {
    plan.warpgroups = false;
    plan.a = plan_operand(contract, plan, true);
    plan.b = plan_operand(contract, plan, false);
  }
  if (plan.coded && plan.a.source != Operand::Source::kStaged) {
    throw Unsupported{"a product with codes whose left operand is not staged"};
  }
  if (plan.coded) plan_parts(plan);
  return plan;
}

void KernelWriter::plan_fragment_operand(Operand& operand, const tile::Contract& contract, const ContractPlan& plan,
                                         bool is_a) {
  const Expr& load = operand.value;
  const FragmentLayout& from = names_.fragments.at(operand.buffer);
  if (!is_a || !counts_points(load->args[0], contract.m) || !counts_points(load->args[1], contract.k)) {
    const std::string& name = names_.buffer(load->tensor).name;
    throw Unsupported{fmt::format("fragment '{}' as an operand other than a[m, k]", name)};
  }
  if (plan.k > from.padded_columns()) throw Unsupported{"a contraction over more columns than a fragment has"};
  const bool fits = plan.unit && is_half(operand.type) && from.warps_n == 1 && plan.layout.warps_n == 1 &&
                    from.warps_m == plan.layout.warps_m && from.m_tiles == plan.layout.m_tiles;
  operand.source = fits ? Operand::Source::kFragment : Operand::Source::kSpilled;
  operand.lines = std::max(from.padded_rows(), plan.layout.padded_rows());
  operand.columns = std::max(from.padded_columns(), rounded(plan.k, 16));
  operand.leading = (operand.columns / operand.vector() | 1) * operand.vector();
}

Operand KernelWriter::plan_operand(const tile::Contract& contract, const ContractPlan& plan, bool is_a) {
  Operand operand;
  operand.value = is_a ? contract.a : contract.b;
  operand.type = operand.value->type;
  if (bit_width(operand.type) < 8) throw Unsupported{"an operand of elements narrower than a byte"};
  if (!is_a && plan.coded) {
    operand.source = Operand::Source::kCoded;
    return operand;
  }
  const auto guarded = guarded_load(operand.value);
  if (guarded) operand.buffer = guarded->load->tensor;
  if (guarded && names_.is_fragment(operand.buffer)) {
    if (guarded->condition) throw Unsupported{"a fragment under a condition as an operand"};
    plan_fragment_operand(operand, contract, plan, is_a);
    return operand;
  }
  const auto contiguous = [&](const std::vector<tile::Axis>& axes) {
    if (!guarded || axes.empty()) return false;
    Size step = 0;
    for (size_t d = 0; d < guarded->load->args.size(); ++d) {
      const auto moves = step_in_run(guarded->load->args[d], axes.back().variable->variable, operand.vector());
      if (!moves) return false;
      step = step + *moves * names_.stride(operand.buffer, d);
    }
    return step.is(1);
  };
  const bool along_outer = contiguous(is_a ? contract.m : contract.n), along_k = contiguous(contract.k);
  // a lies as [m][k], b as [k][n]; transposed where the other axis is the contiguous one.
  operand.transposed = is_a ? along_outer && !along_k && !plan.coded : along_k && !along_outer;
  // Of 8 bits the units want both with k innermost.
  if (plan.unit && plan.unit->pack > 1) operand.transposed = !is_a;
  place_tile(operand, plan, is_a);
  if (reads_in_place(operand, contract, plan, is_a)) {
    operand.source = Operand::Source::kShared;
    return operand;
  }
  const bool lines_are_k = is_a == operand.transposed;
  if (lines_are_k ? along_outer : along_k) plan_copies(operand, contract, plan, is_a);
  operand.repeats = repeats(operand, plan, is_a);
  return operand;
}

/// Whether the loops that stage the operand do not change it.
bool KernelWriter::repeats(const Operand& operand, const ContractPlan& plan, bool is_a) {
  return std::none_of(plan.loops.begin(), plan.loops.end(), [&](const tile::For* loop) {
    const int variable = loop->axis.variable->variable;
    bool changes = uses_variable(operand.value, variable);
    for (const auto* axes : {is_a ? &plan.contract->m : &plan.contract->n, &plan.contract->k}) {
      for (const tile::Axis& axis : *axes) changes |= uses_variable(axis.extent, variable);
    }
    return changes;
  });
}

/// The form of the staged tile: padded lines, or swizzled blocks of lines where warpgroups read it.
void KernelWriter::place_tile(Operand& operand, const ContractPlan& plan, bool is_a) const {
  const int rows = plan.few_rows > 0 ? plan.few_rows : plan.layout.padded_rows();
  const int points = is_a ? rows : plan.layout.padded_columns();
  const bool lines_are_k = is_a == operand.transposed;
  operand.lines = lines_are_k ? plan.k : points;
  operand.columns = rounded(lines_are_k ? points : plan.k, operand.vector());
  operand.leading = ((operand.columns / operand.vector()) | 1) * operand.vector();
  // Words of four lines of k and eight points are read at once: lines a quarter of the banks apart share none.
  if (plan.splits() && lines_are_k) operand.leading = rounded(operand.columns - 8, 32) + 8;
  if (!plan.warpgroups) return;
  operand.swizzle = swizzle_of((!lines_are_k ? plan.k : is_a ? 64 : plan.layout.tile_columns()) * operand.bytes());
  operand.leading = operand.swizzle / operand.bytes();
}

/// Whether 16-byte pieces of the operand can be copied asynchronously, and by how many bytes at a time.
void KernelWriter::plan_copies(Operand& operand, const tile::Contract& contract, const ContractPlan& plan, bool is_a) {
  const tile::Buffer& buffer = names_.buffer(operand.buffer);
  const int width = bit_width(operand.type) / 8, vector = operand.vector();
  if (buffer.scope != tile::Scope::kGlobal || buffer.written || width > 16) return;
  const bool lines_are_k = is_a == operand.transposed;
  const std::vector<tile::Axis>& outer = is_a ? contract.m : contract.n;
  const std::vector<tile::Axis>& along_columns =
      !operand.along.empty() ? operand.along : lines_are_k ? outer : contract.k;
  const tile::Axis& last = along_columns.back();
  const auto whole = as_integer(last.extent);
  if (along_columns.size() > 1 && (!whole || *whole != last.bound || *whole % vector != 0)) return;

  const auto [load, condition] = *guarded_load(operand.value);
  const std::vector<int> loops = variables_of(plan.loops);
  std::vector<Expr> indices = load->args;
  Hoisted atoms;
  for (Expr& index : indices) {
    if (!name_atoms(index, loops, atoms)) return;
  }
  const auto address = names_.address(operand.buffer, indices);
  if (!address) return;
  if (condition && uses_variable(condition, last.variable->variable)) return;
  if (condition && !plan_guard(operand, condition, contract, plan)) return;

  int64_t together = vector;
  for (size_t d = 0; d < load->args.size(); ++d) {
    const Size stride = names_.stride(operand.buffer, d);
    const int64_t index = divisor_of(load->args[d], last.variable->variable, vector);
    const int64_t sure = std::min<int64_t>(vector, index * divisor_of(stride, vector));
    if (sure == vector) continue;
    if (stride.is_constant()) {
      together = std::min(together, sure);
    } else {
      operand.copy_conditions.push_back(fmt::format("{} % {} == 0", names_.size(stride), vector / index));
    }
  }
  if (together * width < 4) return;
  operand.copy_bytes = static_cast<int>(together) * width;
  operand.address = *address;
  operand.atoms = std::move(atoms);
}

/// Splits the condition into parts that are computed once and what the loops have to compute from them.
bool KernelWriter::plan_guard(Operand& operand, const Expr& condition, const tile::Contract& contract,
                              const ContractPlan& plan) {
  const std::vector<int> loops = variables_of(plan.loops);
  operand.guards = {};
  operand.guard = name_invariants(condition, loops, operand.guards);
  if (!is_plain(operand.guard)) return false;
  std::unordered_map<int, int64_t> bounds;
  for (const auto* axes : {&contract.m, &contract.n, &contract.k}) {
    for (const tile::Axis& axis : *axes) bounds[axis.variable->variable] = axis.bound;
  }
  for (const tile::For* loop : plan.loops) bounds[loop->axis.variable->variable] = loop->axis.bound;
  for (const auto& [variable, value] : operand.guards.named) {
    if (value->type == DType::kInt64) bounds[variable->variable] = magnitude_of(value, bounds);
  }
  bool narrow = true;
  for_each(operand.guard, [&](const Expr& node) {
    narrow &= node->type != DType::kInt64 || magnitude_of(node, bounds) < int64_t{1} << 30;
  });
  operand.guard_is_narrow = narrow;
  return true;
}

/// Whether a tile of a shared buffer can be read where it lies, by matrix loads or plain ones.
bool KernelWriter::reads_in_place(const Operand& operand, const tile::Contract& contract, const ContractPlan& plan,
                                  bool is_a) {
  if (operand.value->kind != ExprKind::kLoad) return false;
  const tile::Buffer& buffer = names_.buffer(operand.buffer);
  if (buffer.scope != tile::Scope::kShared || buffer.shape.size() != 2) return false;
  const std::vector<Expr>& indices = operand.value->args;
  const std::vector<tile::Axis>& outer = is_a ? contract.m : contract.n;
  const bool rows_are_k = is_a == operand.transposed;
  if (outer.size() != 1 || !equal(indices[0], (rows_are_k ? contract.k : outer)[0].variable) ||
      !equal(indices[1], (rows_are_k ? outer : contract.k)[0].variable)) {
    return false;
  }
  const int64_t rows = buffer.shape[0].constant(), columns = buffer.shape[1].constant();
  const int points = is_a ? plan.layout.padded_rows() : plan.layout.padded_columns();
  const int64_t row_need = rows_are_k ? plan.k : points, column_need = rows_are_k ? points : plan.k;
  return rows >= row_need && columns >= column_need;
}

void KernelWriter::reserve(Operand& operand, int slots) {
  if (operand.source != Operand::Source::kStaged && operand.source != Operand::Source::kSpilled) return;
  operand.slots = operand.source == Operand::Source::kSpilled ? 1 : slots;  // spilled where it is used
  operand.id = next_staged_--;
  operand.offset = reserve_shared(operand.slot_bytes() * operand.slots, 1024);
}

/// A loop whose contractions read tiles of constant global memory: their copies can run ahead. Loops around nothing
/// else than one other loop are one with it.
bool KernelWriter::pipelined(const tile::For& loop, std::vector<ContractPlan>& plans) {
  std::vector<const tile::For*> loops = {&loop};
  while (loops.back()->body.size() == 1 && std::holds_alternative<tile::For>(loops.back()->body[0].node)) {
    loops.push_back(&std::get<tile::For>(loops.back()->body[0].node));
  }
  const std::vector<int> variables = variables_of(loops);
  bool any = false;
  for (const tile::Statement& each : loops.back()->body) {
    const auto* contract = std::get_if<tile::Contract>(&each.node);
    if (!contract || !names_.is_fragment(contract->c)) {
      if (loops.size() > 1) return false;
      continue;
    }
    ContractPlan plan = this->plan(*contract, loops);
    bool stays = true;
    const auto is_constant = [&](const Expr& node) {
      if (node->kind != ExprKind::kLoad) return;
      const tile::Buffer& buffer = names_.buffer(node->tensor);
      stays &= buffer.scope == tile::Scope::kGlobal && !buffer.written;
    };
    for (const Operand* operand : plan.sources()) {
      if (operand->source == Operand::Source::kStaged) for_each(operand->value, is_constant);
      stays &= loops.size() == 1 || operand->source == Operand::Source::kStaged;
    }
    for (const auto* axes : {&contract->m, &contract->n, &contract->k}) {
      for (const tile::Axis& axis : *axes) {
        for_each(axis.extent, [&](const Expr& node) { stays &= node->kind != ExprKind::kLoad; });
      }
    }
    if (!stays && loops.size() > 1) return false;
    if (!stays) continue;  // staged where it is computed
    any |= plan.a.source == Operand::Source::kStaged || plan.b.source == Operand::Source::kStaged;
    plans.push_back(std::move(plan));
  }
  for (size_t i = 1; i < loops.size(); ++i) any &= !uses_any(loops[i]->axis.extent, variables);
  return any;
}

}  // namespace graft::cuda
