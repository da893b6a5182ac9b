// SPDX-License-Identifier: Apache-2.0
// Contractions: tiles of operands are copied to shared memory, ahead of their use where a loop allows it, and
// multiplied into fragments.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
void name_points(KernelNames& names, const std::vector<tile::Axis>& axes, const std::string& point) {
  int64_t step = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    std::string text = step == 1 ? point : fmt::format("{} / {}", point, step);
    if (i > 0) text = fmt::format("({}) % {}", text, axes[i].bound);
    names.variables[axes[i].variable->variable] = "(" + text + ")";
    step *= axes[i].bound;
  }
}

void KernelWriter::statement(const tile::Contract& contract) {
  if (!names_.is_fragment(contract.c)) return contract_in_memory(contract);
  const auto planned = planned_.find(&contract);
  ContractPlan plan = planned != planned_.end() ? planned->second.first : this->plan(contract);
  const std::string slot = planned != planned_.end() ? planned->second.second : "0";
  bool staged = false;
  for (Operand* operand : {&plan.a, &plan.b}) {
    const bool here = planned == planned_.end() && operand->source == Operand::Source::kStaged;
    const bool spilled = operand->source == Operand::Source::kSpilled;
    if (!here && !spilled) continue;
    // The staging area belongs to this statement alone: only its own earlier run can still be reading.
    if (!staged) barrier();
    staged = true;
    if (planned == planned_.end()) reserve(*operand, 1);
    if (spilled) {
      spill(plan, *operand);
    } else {
      stage(plan, *operand, "0");
    }
  }
  if (staged && planned == planned_.end()) {
    code_.line("copy_commit();");
    code_.line("copy_wait<0>();");
  }
  if (staged) barrier();
  before(accesses_of(program_, {contract}));
  multiply(plan, slot);
}

/// Writes a fragment to its place in shared memory, with zeros where k ends.
void KernelWriter::spill(const ContractPlan& plan, const Operand& operand) {
  const FragmentLayout& from = names_.fragments.at(operand.buffer);
  const std::string type = type_name(names_.buffer(operand.buffer).type);
  code_.open("");
  expressions_.enter();
  code_.line("{0}* const to = ({0}*)(shared + {1});", type, operand.offset);
  code_.line("const i64 valid = {};", expressions_.value(plan.contract->k[0].extent));
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int h = 0; h < {}; ++h)", 2 * from.m_tiles));
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int p = 0; p < {}; ++p)", 2 * from.n_tiles));
  code_.line("const int row = warp / {} * {} + h * 8 + lane / 4;", from.warps_n, from.tile_rows());
  code_.line("const int column = warp % {} * {} + p / 2 * 8 + lane % 4 * 2 + p % 2;", from.warps_n,
             from.tile_columns());
  code_.line("to[row * {} + column] = column < valid ? {}[h / 2][p / 2][h % 2 * 2 + p % 2] : zero_of<{}>();",
             operand.leading, names_.buffers[operand.buffer], type);
  code_.close();
  code_.close();
  expressions_.leave();
  code_.close();
}

/// The address of one element as a pointer, null beyond the extents.
std::string KernelWriter::stage_address(const ContractPlan& plan, const Operand& operand, bool is_a,
                                        const std::string& row, const std::string& column) {
  const tile::Contract& contract = *plan.contract;
  const std::vector<tile::Axis>& outer = is_a ? contract.m : contract.n;
  const bool rows_are_k = is_a == operand.transposed;
  const std::vector<tile::Axis>& along_rows = rows_are_k ? contract.k : outer;
  const std::vector<tile::Axis>& along_columns = rows_are_k ? outer : contract.k;
  name_points(names_, along_rows, row);
  name_points(names_, along_columns, column);
  const int64_t rows = operand.rows;
  std::string inside = "true";
  const auto within = [&](const std::vector<tile::Axis>& axes, int64_t points) {
    for (const tile::Axis& axis : axes) {
      if (axes.size() == 1 && as_integer(axis.extent) == points) continue;
      const std::string index = names_.variables.at(axis.variable->variable);
      inside += fmt::format(" && {} < {}", index, expressions_.value(axis.extent));
    }
    // Flattened axes: the tile may reach beyond their product.
    int64_t product = 1;
    for (const tile::Axis& axis : axes) product *= axis.bound;
    if (axes.size() > 1 && product < points) {
      inside += fmt::format(" && {} < {}", &axes == &along_rows ? row : column, product);
    }
  };
  within(along_rows, rows);
  if (!operand.by_row) within(along_columns, operand.columns);
  return fmt::format("{} ? {} + ({}) : nullptr", inside, names_.buffers[operand.buffer],
                     names_.affine_text(operand.address));
}

/// Copies one operand's tile into its slot; a barrier and a wait make it visible.
void KernelWriter::stage(const ContractPlan& plan, const Operand& operand, const std::string& slot) {
  const tile::Contract& contract = *plan.contract;
  const bool is_a = &operand == &plan.a;
  const bool rows_are_k = is_a == operand.transposed;
  const std::vector<tile::Axis>& along_columns = rows_are_k ? (is_a ? contract.m : contract.n) : contract.k;
  const std::string type = type_name(names_.buffer(operand.buffer).type);
  const std::string target = fmt::format("({}*)(shared + {}) + {} * {}", type, operand.offset, slot,
                                         operand.rows * operand.leading);
  code_.open("");
  expressions_.enter();
  for (const auto* axes : {is_a ? &contract.m : &contract.n, &contract.k}) {
    for (const tile::Axis& axis : *axes) expressions_.value(axis.extent);
  }
  const std::string shape = fmt::format("{}, {}, {}, {}, {}", type, operand.rows, operand.columns, operand.leading,
                                        program_.threads);
  if (operand.by_row) {
    const std::string address = stage_address(plan, operand, is_a, "r", "0");
    const bool is_global = names_.buffer(operand.buffer).scope == tile::Scope::kGlobal;
    code_.open(fmt::format("stage_rows<{}, {}>({}, {}, [&](int r) -> const {}*", shape, is_global, target,
                           along_columns.empty() ? "1" : expressions_.value(along_columns[0].extent), type));
    code_.line("return {};", address);
  } else {
    const std::string address = stage_address(plan, operand, is_a, "r", "c");
    code_.open(fmt::format("stage_elements<{}>({}, [&](int r, int c) -> const {}*", shape, target, type));
    code_.line("return {};", address);
  }
  code_.close(");");
  expressions_.leave();
  code_.close();
}

void KernelWriter::multiply(const ContractPlan& plan, const std::string& slot) {
  const tile::Contract& contract = *plan.contract;
  const FragmentLayout& layout = plan.layout;
  const std::string c = names_.buffers[contract.c];
  code_.open("");
  expressions_.enter();
  if (!contract.accumulate) {
    code_.line("#pragma unroll");
    code_.line("for (int i = 0; i < {}; ++i) (&{}[0][0][0])[i] = 0;", layout.m_tiles * layout.n_tiles * 4, c);
  }
  std::string pointers[2];
  int leading[2] = {0, 0};
  bool masked = false;
  for (const bool is_a : {true, false}) {
    const Operand& operand = is_a ? plan.a : plan.b;
    const std::string type = type_name(names_.buffer(operand.buffer).type);
    // Staged tiles hold zeros beyond the extent; other sources may hold anything.
    const bool zero_filled = operand.source == Operand::Source::kStaged || operand.source == Operand::Source::kSpilled;
    masked |= !zero_filled && as_integer(contract.k[0].extent) != plan.k;
    if (operand.source == Operand::Source::kFragment) {
      const FragmentLayout& from = names_.fragments.at(operand.buffer);
      pointers[0] = fmt::format("FragmentOperand<{}, {}, {}>{{{}}}", type, from.m_tiles, from.n_tiles,
                                names_.buffers[operand.buffer]);
      continue;
    }
    const bool in_place = operand.source == Operand::Source::kShared;
    leading[is_a ? 0 : 1] = in_place ? static_cast<int>(names_.strides[operand.buffer][0]) : operand.leading;
    const int step = leading[is_a ? 0 : 1];
    const std::string base = in_place ? names_.buffers[operand.buffer]
                                      : fmt::format("(const {}*)(shared + {}) + {} * {}", type, operand.offset,
                                                    operand.slots == 1 ? "0" : slot, operand.rows * operand.leading);
    const std::string first = is_a ? fmt::format("warp / {} * {}", layout.warps_n, layout.tile_rows())
                                   : fmt::format("warp % {} * {}", layout.warps_n, layout.tile_columns());
    const bool rows_are_points = is_a != operand.transposed;
    pointers[is_a ? 0 : 1] = fmt::format("{} + {}{}", base, first, rows_are_points ? fmt::format(" * {}", step) : "");
    if (is_a && plan.tensor_cores) {
      pointers[0] = fmt::format("SharedOperand<{}, {}, {}>{{{}}}", type, operand.transposed, step, pointers[0]);
    }
  }
  const std::string valid = expressions_.value(contract.k[0].extent);
  if (plan.tensor_cores) {
    code_.line("multiply_tiles<{}, {}, {}, {}, {}, {}>({}, {}, {}, {});", plan.k, masked, plan.b.transposed,
               leading[1], layout.m_tiles, layout.n_tiles, c, pointers[0], pointers[1], valid);
  } else if (plan.tf32) {
    code_.line("multiply_tf32<{}, {}, {}, {}, {}, {}, {}, {}>({}, {}, {}, {});", plan.k, masked, plan.a.transposed,
               leading[0], plan.b.transposed, leading[1], layout.m_tiles, layout.n_tiles, c, pointers[0], pointers[1],
               valid);
  } else {
    code_.line("multiply_plain<{}, {}, {}, {}, {}, {}, {}, {}>({}, {}, {}, {});", plan.k, masked,
               plan.a.transposed, leading[0], plan.b.transposed, leading[1], layout.m_tiles, layout.n_tiles, c,
               pointers[0], pointers[1], valid);
  }
  expressions_.leave();
  code_.close();
  for (const Operand* operand : {&plan.a, &plan.b}) {
    if (operand->source == Operand::Source::kStaged) pending_.reads.insert(operand->id);
  }
}

/// for -> for with the tiles of later iterations on their way: one barrier per iteration.
void KernelWriter::pipelined_loop(const tile::For& loop, std::vector<ContractPlan>& plans) {
  constexpr int kUnasked = 3;  // where the schedule leaves it to us
  const int slots = std::clamp(loop.stages > 1 ? loop.stages : kUnasked, 2, std::max(max_stages_, 2));
  const std::string extent = uniform_value(loop.axis.extent);
  const std::string slot = code_.fresh("slot"), next = code_.fresh("next"), round = code_.fresh("round");
  barrier();
  for (ContractPlan& plan : plans) {
    for (Operand* operand : {&plan.a, &plan.b}) reserve(*operand, operand->repeats ? 1 : slots);
  }
  for (const ContractPlan& plan : plans) {
    for (const Operand* operand : {&plan.a, &plan.b}) {
      if (operand->source == Operand::Source::kStaged && operand->repeats) stage(plan, *operand, "0");
    }
  }
  code_.line("copy_commit();");
  const std::string name = bind(loop.axis.variable, "i");
  // The first rounds only copy: one loop does both, so that the copies stand in the code once.
  code_.line("int {} = 0, {} = 0;", slot, next);
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for (i64 {0} = {1}; {0} < {2}; ++{0})", round, 1 - slots, extent));
  code_.open(fmt::format("if ({} >= 0)", round));
  code_.line("copy_wait<{}>();", slots - 2);
  barrier();
  code_.close();
  code_.open(fmt::format("if ({} + {} < {})", round, slots - 1, extent));
  code_.line("const i64 {} = {} + {};", name, round, slots - 1);
  for (const ContractPlan& plan : plans) {
    for (const Operand* operand : {&plan.a, &plan.b}) {
      if (operand->source == Operand::Source::kStaged && !operand->repeats) stage(plan, *operand, next);
    }
  }
  code_.close();
  code_.line("copy_commit();");
  code_.line("{0} = {0} + 1 == {1} ? 0 : {0} + 1;", next, slots);
  code_.line("if ({} < 0) continue;", round);
  code_.line("const i64 {} = {};", name, round);
  for (const ContractPlan& plan : plans) planned_[plan.contract] = {plan, slot};
  expressions_.enter();
  body(loop.body);
  expressions_.leave();
  code_.line("{0} = {0} + 1 == {1} ? 0 : {0} + 1;", slot, slots);
  code_.close();
  code_.line("copy_wait<0>();");
  const Accesses inside = accesses_of(program_, {loop});
  pending_.reads.insert(inside.reads.begin(), inside.reads.end());
  pending_.writes.insert(inside.writes.begin(), inside.writes.end());
}

/// contract into memory -> a reduction: small or oddly indexed products.
void KernelWriter::contract_in_memory(const tile::Contract& contract) {
  const DType type = names_.buffer(contract.c).type;
  tile::Reduce reduce;
  reduce.axes = contract.m;
  reduce.axes.insert(reduce.axes.end(), contract.n.begin(), contract.n.end());
  reduce.reduced = contract.k;
  if (compute_type(type) != type) throw Unsupported{"a contraction into memory of a type narrower than 32 bits"};
  reduce.lift = {make_cast(type, contract.a) * make_cast(type, contract.b)};
  reduce.monoid = make_monoid(Intrinsic::kAdd, type);
  reduce.outputs = {{contract.c, contract.c_indices, Expr(), ScatterMode::kSet}};
  reduce.accumulate = contract.accumulate;
  statement(reduce);
}

}  // namespace graft::cuda
