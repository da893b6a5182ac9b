// SPDX-License-Identifier: Apache-2.0
// Decides how a contraction over a fragment is carried out: on which units, and where each operand comes from.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

bool is_half(DType type) { return type == DType::kFloat16 || type == DType::kBFloat16; }

int rounded(int64_t value, int64_t multiple) {
  return static_cast<int>((value + multiple - 1) / multiple * multiple);
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

ContractPlan KernelWriter::plan(const tile::Contract& contract) {
  ContractPlan plan;
  plan.contract = &contract;
  const DType a = contract.a->type, b = contract.b->type, c = names_.buffer(contract.c).type;
  plan.tensor_cores = a == b && is_half(a) && c == DType::kFloat32;
  plan.tf32 = contract.tf32;
  const bool plain = c == DType::kFloat32 || c == DType::kFloat64 || c == DType::kInt32 || c == DType::kInt64;
  if (!plan.tensor_cores && !plain) {
    throw Unsupported{fmt::format("a contraction of {} and {} into {}", name_of(a), name_of(b), name_of(c))};
  }
  plan.layout = names_.fragments.at(contract.c);
  if (!counts_points(contract.c_indices[0], contract.m) || !counts_points(contract.c_indices[1], contract.n)) {
    throw Unsupported{"a contraction whose fragment is not indexed by all its m axes, then all its n axes"};
  }
  plan.k = rounded(contract.k[0].bound, plan.tensor_cores ? 16 : plan.tf32 ? 8 : 1);
  plan.a = plan_operand(contract, plan, true);
  plan.b = plan_operand(contract, plan, false);
  return plan;
}

Operand KernelWriter::plan_operand(const tile::Contract& contract, const ContractPlan& plan, bool is_a) {
  const Expr& load = is_a ? contract.a : contract.b;
  const std::vector<tile::Axis>& outer = is_a ? contract.m : contract.n;
  Operand operand;
  operand.buffer = load->tensor;
  if (names_.is_fragment(load->tensor)) {
    const FragmentLayout& from = names_.fragments.at(load->tensor);
    if (!is_a || !counts_points(load->args[0], contract.m) || !counts_points(load->args[1], contract.k)) {
      const std::string& name = names_.buffer(load->tensor).name;
      throw Unsupported{fmt::format("fragment '{}' as an operand other than a[m, k]", name)};
    }
    if (plan.k > from.padded_columns()) throw Unsupported{"a contraction over more columns than a fragment has"};
    const bool fits = plan.tensor_cores && from.warps_n == 1 && plan.layout.warps_n == 1 &&
                      from.warps_m == plan.layout.warps_m && from.m_tiles == plan.layout.m_tiles;
    operand.source = fits ? Operand::Source::kFragment : Operand::Source::kSpilled;
    operand.rows = std::max(from.padded_rows(), plan.layout.padded_rows());
    operand.columns = std::max(from.padded_columns(), rounded(plan.k, 16));
    const int vector = 128 / bit_width(load->type);
    operand.leading = (operand.columns / vector | 1) * vector;
    return operand;
  }
  const auto address = names_.address(load->tensor, load->args);
  if (!address) throw Unsupported{"an operand whose address is not affine"};
  if (bit_width(load->type) < 8) throw Unsupported{"an operand of elements narrower than a byte"};
  operand.address = *address;
  const bool along_outer = !outer.empty() && address->coefficient(outer.back().variable->variable).is(1);
  const bool along_k = address->coefficient(contract.k.back().variable->variable).is(1);
  const int points = is_a ? plan.layout.padded_rows() : plan.layout.padded_columns();
  // a lies as [m][k], b as [k][n]; transposed where the other axis is the contiguous one.
  operand.transposed = is_a ? along_outer && !along_k : along_k && !along_outer;
  const bool rows_are_k = is_a == operand.transposed;
  operand.rows = rows_are_k ? plan.k : points;
  const int vector = 128 / std::max(bit_width(load->type), 8);
  operand.columns = rounded(rows_are_k ? points : plan.k, vector);
  operand.leading = ((operand.columns / vector) | 1) * vector;
  operand.by_row = rows_are_k ? along_outer && outer.size() == 1 : along_k;
  if (reads_in_place(operand, contract, plan, is_a)) operand.source = Operand::Source::kShared;
  return operand;
}

/// Whether a tile of a shared buffer can be read where it lies, by matrix loads or plain ones.
bool KernelWriter::reads_in_place(const Operand& operand, const tile::Contract& contract, const ContractPlan& plan,
                                  bool is_a) {
  const tile::Buffer& buffer = names_.buffer(operand.buffer);
  if (buffer.scope != tile::Scope::kShared || buffer.shape.size() != 2) return false;
  const std::vector<Expr>& indices = (is_a ? contract.a : contract.b)->args;
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
  operand.slots = slots;
  operand.id = next_staged_--;
  const int64_t width = bit_width(names_.buffer(operand.buffer).type) / 8;
  operand.offset = reserve_shared(width * operand.rows * operand.leading * slots);
}

/// A loop whose contractions read tiles of constant global memory: their copies can run ahead.
bool KernelWriter::pipelined(const tile::For& loop, std::vector<ContractPlan>& plans) {
  bool any = false;
  for (const tile::Statement& each : loop.body) {
    const auto* contract = std::get_if<tile::Contract>(&each.node);
    if (!contract || !names_.is_fragment(contract->c)) continue;
    ContractPlan plan = this->plan(*contract);
    bool stays = true;
    for (const Operand* operand : {&plan.a, &plan.b}) {
      if (operand->source != Operand::Source::kStaged) continue;
      const tile::Buffer& buffer = names_.buffer(operand->buffer);
      stays &= buffer.scope == tile::Scope::kGlobal && !buffer.written;
    }
    for (const auto* axes : {&contract->m, &contract->n, &contract->k}) {
      for (const tile::Axis& axis : *axes) {
        for_each(axis.extent, [&](const Expr& node) { stays &= node->kind != ExprKind::kLoad; });
      }
    }
    if (!stays) continue;  // staged where it is computed
    const int variable = loop.axis.variable->variable;
    const auto repeats = [&](Operand& operand, const std::vector<tile::Axis>& outer) {
      operand.repeats = operand.address.coefficient(variable).is(0);
      if (operand.source != Operand::Source::kStaged) return;  // one place, if any
      for (const auto* axes : {&outer, &contract->k}) {
        for (const tile::Axis& axis : *axes) operand.repeats &= !uses_variable(axis.extent, variable);
      }
    };
    repeats(plan.a, contract->m), repeats(plan.b, contract->n);
    any |= plan.a.source == Operand::Source::kStaged || plan.b.source == Operand::Source::kStaged;
    plans.push_back(std::move(plan));
  }
  return any;
}

}  // namespace graft::cuda
