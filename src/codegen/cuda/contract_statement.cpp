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
  const bool ahead = planned != planned_.end();
  ContractPlan plan = ahead ? planned->second.plan : this->plan(contract, {});
  bool staged = false;
  for (Operand* operand : plan.sources()) {
    const bool here = !ahead && operand->source == Operand::Source::kStaged;
    const bool spilled = operand->source == Operand::Source::kSpilled;
    if (!here && !spilled) continue;
    // The staging area belongs to this statement alone: only its own earlier run can still be reading.
    if (!staged) barrier();
    staged = true;
    if (!ahead) reserve(*operand, 1);
    if (spilled) {
      spill(plan, *operand);
      continue;
    }
    code_.open("");
    expressions_.enter();
    prepare_copies(plan, *operand);
    stage(plan, *operand, "0");
    expressions_.leave();
    code_.close();
  }
  if (staged && !ahead) {
    code_.line("copy_commit();");
    code_.line("copy_wait<0>();");
  }
  if (staged) barrier();
  before(accesses_of(program_, {contract}));
  multiply(plan, ahead ? planned->second.slot : "0", ahead && planned->second.leave_running);
}

/// A tile in shared memory as matrix loads and plain ones read it: a pointer to the warp's part.
std::string KernelWriter::shared_operand(const ContractPlan& plan, const Operand& operand, const std::string& slot) {
  const bool is_a = &operand == &plan.a, in_place = operand.source == Operand::Source::kShared;
  const int step = in_place ? static_cast<int>(names_.strides[operand.buffer][0]) : operand.leading;
  const std::string type = type_name(operand.type);
  const std::string base = in_place ? names_.buffers[operand.buffer]
                                    : fmt::format("(const {}*)(shared + {} + {} * {})", type, operand.offset,
                                                  operand.slots == 1 ? "0" : slot, operand.slot_bytes());
  const FragmentLayout& layout = plan.layout;
  const std::string first = is_a ? fmt::format("warp % {} * 16", layout.warps_m)
                                 : fmt::format("warp / {} * {}", layout.warps_m, layout.tile_columns());
  const bool rows_are_points = is_a != operand.transposed;
  const std::string pointer = fmt::format("{} + {}{}", base, first, rows_are_points ? fmt::format(" * {}", step) : "");
  if (!is_a || !plan.unit || plan.splits()) return pointer;
  return fmt::format("SharedOperand<{}, {}, {}, {}>{{{}}}", type, operand.transposed, step, layout.row_step(), pointer);
}

/// A swizzled tile as wgmma reads it: the description of the warpgroup's part.
std::string KernelWriter::swizzled_operand(const ContractPlan& plan, const Operand& operand, const std::string& slot) {
  const bool is_a = &operand == &plan.a, lines_are_k = is_a == operand.transposed;
  const FragmentLayout& layout = plan.layout;
  const int groups = layout.warps_m / 4;
  std::string first = is_a                  ? groups == 1 ? "0" : fmt::format("warp / 4 % {} * 64", groups)
                                       : layout.warps_n == 1 ? "0"
                                            : fmt::format("warp / {} * {}", layout.warps_m, layout.tile_columns());
  // From elements of the tile to bytes: whole lines, or whole blocks.
  first += lines_are_k ? fmt::format(" / {} * {}", operand.swizzle / operand.bytes(), operand.lines * operand.swizzle)
                       : fmt::format(" * {}", operand.swizzle);
  return fmt::format("SwizzledOperand<{}, {}, {}, {}, {}>(shared + {} + {} * {} + {})", type_name(operand.type),
                     lines_are_k, operand.swizzle, operand.lines, layout.row_step(), operand.offset,
                     operand.slots == 1 ? "0" : slot, operand.slot_bytes(), first);
}

/// result = 0, in this thread's registers.
void KernelWriter::clear_result(const ContractPlan& plan) {
  code_.line("#pragma unroll");
  code_.line("for (int i = 0; i < {}; ++i) (&{}[0][0][0])[i] = 0;", plan.layout.m_tiles * plan.layout.n_tiles * 4,
             names_.buffers[plan.contract->c]);
}

void KernelWriter::multiply(const ContractPlan& plan, const std::string& slot, bool leave_running) {
  if (plan.coded) return multiply_codes(plan, slot);
  const tile::Contract& contract = *plan.contract;
  const FragmentLayout& layout = plan.layout;
  const std::string c = names_.buffers[contract.c];
  code_.open("");
  expressions_.enter();
  if (!contract.accumulate && !plan.warpgroups) clear_result(plan);
  std::string operands[2];
  int leading[2] = {0, 0};
  bool masked = false;
  for (const bool is_a : {true, false}) {
    const Operand& operand = is_a ? plan.a : plan.b;
    // Staged tiles hold zeros beyond the extent; other sources may hold anything.
    const bool zero_filled = operand.source == Operand::Source::kStaged || operand.source == Operand::Source::kSpilled;
    masked |= !zero_filled && as_integer(contract.k[0].extent) != plan.k;
    leading[is_a ? 0 : 1] = operand.source == Operand::Source::kShared
                                ? static_cast<int>(names_.strides[operand.buffer][0])
                                : operand.leading;
    std::string& text = operands[is_a ? 0 : 1];
    if (operand.source == Operand::Source::kFragment) {
      const FragmentLayout& from = names_.fragments.at(operand.buffer);
      text = fmt::format("FragmentOperand<{}, {}, {}>{{{}}}", type_name(operand.type), from.m_tiles, from.n_tiles,
                         names_.buffers[operand.buffer]);
    } else {
      text = plan.warpgroups ? swizzled_operand(plan, operand, slot) : shared_operand(plan, operand, slot);
    }
  }
  const std::string valid = masked ? expressions_.value(contract.k[0].extent) : "0";
  if (plan.warpgroups) {
    warpgroup_products_.insert({layout.tile_columns(), plan.a.type, plan.b.type});
    code_.line("multiply_groups<{}, {}, {}, {}, {}>({}, {}, {}, {});", type_name(plan.a.type), type_name(plan.b.type),
               plan.k, masked, contract.accumulate, c, operands[0], operands[1], valid);
    const bool from_registers = plan.a.source == Operand::Source::kFragment;
    if (!leave_running) running_.push_back({contract.c, from_registers ? plan.a.buffer : -1});
  } else if (plan.splits()) {
    if (plan.exact.empty()) throw Unsupported{"a product that splits its operands without a loop of its own"};
    code_.line("multiply_split<{}, {}, {}, {}, {}, {}, {}, {}, {}>({}, {}, {}, {}, {});", plan.k, masked,
               plan.a.transposed, leading[0], layout.row_step(), plan.b.transposed, leading[1], layout.m_tiles,
               layout.n_tiles, c, operands[0], operands[1], valid, plan.exact);
  } else if (plan.unit) {
    code_.line("multiply_tiles<{}, {}, {}, {}, {}, {}, {}>({}, {}, {}, {});", type_name(plan.a.type), plan.k, masked,
               plan.b.transposed, leading[1], layout.m_tiles, layout.n_tiles, c, operands[0], operands[1], valid);
  } else if (plan.tf32) {
    code_.line("multiply_tf32<{}, {}, {}, {}, {}, {}, {}, {}, {}>({}, {}, {}, {});", plan.k, masked, plan.a.transposed,
               leading[0], layout.row_step(), plan.b.transposed, leading[1], layout.m_tiles, layout.n_tiles, c,
               operands[0], operands[1], valid);
  } else {
    code_.line("multiply_plain<{}, {}, {}, {}, {}, {}, {}, {}, {}>({}, {}, {}, {});", plan.k, masked, plan.a.transposed,
               leading[0], layout.row_step(), plan.b.transposed, leading[1], layout.m_tiles, layout.n_tiles, c,
               operands[0], operands[1], valid);
  }
  expressions_.leave();
  code_.close();
  for (const Operand* operand : {&plan.a, &plan.b}) {
    if (operand->source == Operand::Source::kStaged) pending_.reads.insert(operand->id);
  }
}

/// Waits for the products whose fragments the statement reads or writes. Products into one fragment follow each other
/// by themselves.
void KernelWriter::settle(const tile::Statement& statement) {
  if (running_.empty()) return;
  const auto* contract = std::get_if<tile::Contract>(&statement.node);
  Accesses used = fragments_of(program_, statement);
  if (contract && contract->accumulate) used.reads.erase(contract->c), used.writes.erase(contract->c);
  size_t needed = 0;
  for (size_t i = 0; i < running_.size(); ++i) {
    const Running& each = running_[i];
    if (used.reads.contains(each.c) || used.writes.contains(each.c) || used.writes.contains(each.a)) needed = i + 1;
  }
  settle(needed);
}

/// Waits for the first `count` of the running products.
void KernelWriter::settle(size_t count) {
  if (count == 0) return;
  code_.line("wait_for_warpgroups<{}>();", running_.size() - count);
  const auto middle = running_.begin() + static_cast<std::ptrdiff_t>(count);
  std::set<int> done;
  for (auto each = running_.begin(); each != middle; ++each) done.insert(each->c);
  for (auto each = middle; each != running_.end(); ++each) done.erase(each->c);
  for (const int fragment : done) code_.line("hold({});", names_.buffers[fragment]);
  running_.erase(running_.begin(), middle);
}

/// The next iteration of loops that are one inside the other.
void KernelWriter::advance(const std::vector<const tile::For*>& loops, const std::vector<std::string>& names,
                           const std::vector<std::string>& extents) {
  for (size_t i = loops.size(); i-- > 1;) {
    code_.open(fmt::format("if (++{} == {})", names[i], extents[i]));
    code_.line("{} = 0;", names[i]);
  }
  code_.line("++{};", names[0]);
  for (size_t i = 1; i < loops.size(); ++i) code_.close();
}

/// Room for the tiles of a loop's products, and what their copies need.
void KernelWriter::prepare_tiles(std::vector<ContractPlan>& plans, int slots) {
  for (ContractPlan& plan : plans) {
    plan.sums = begin_sums(plan);
    for (Operand* operand : plan.sources()) {
      reserve(*operand, operand->repeats ? 1 : slots);
      prepare_copies(plan, *operand);
    }
  }
}

/// Whether the operand's tiles can be asked for before earlier kernels have ended.
bool KernelWriter::is_early(const Operand& operand) const {
  if (operand.source != Operand::Source::kStaged) return false;
  bool early = true;
  for_each(operand.value, [&](const Expr& node) {
    early &= node->kind != ExprKind::kLoad || names_.buffer(node->tensor).constant;
  });
  return early;
}

/// Whether the loop shall copy early and can: nothing but the operands' elements is read of global memory, and some of
/// these are constants.
bool KernelWriter::prepares_early(const std::vector<ContractPlan>& plans) const {
  if (!plans[0].loops.back()->early) return false;
  bool any = false, others = false;
  const auto reads = [&](const Expr& e) {
    for_each(e, [&](const Expr& node) { others |= node->kind == ExprKind::kLoad; });
  };
  for (const ContractPlan& plan : plans) {
    for (const tile::For* loop : plan.loops) reads(loop->axis.extent);
    for (const Operand* operand : plan.sources()) {
      any |= is_early(*operand);
      for (const auto* named : {&operand->guards.named, &operand->atoms.named}) {
        for (const auto& [variable, value] : *named) reads(value);
      }
      if (operand->guard) reads(operand->guard);
    }
  }
  return any && !others;
}

/// Copies of the tiles that change in the loops, or of those that do not.
void KernelWriter::stage_tiles(const std::vector<ContractPlan>& plans, bool repeated, Tiles which,
                               const std::string& slot) {
  for (const ContractPlan& plan : plans) {
    for (const Operand* operand : plan.sources()) {
      if (operand->source != Operand::Source::kStaged || operand->repeats != repeated) continue;
      if (which == Tiles::kAll || is_early(*operand) == (which == Tiles::kEarly)) stage(plan, *operand, slot);
    }
  }
}

/// How many tiles of the loop's products are on their way at a time.
KernelWriter::Pipeline KernelWriter::plan_pipeline(const std::vector<ContractPlan>& plans) const {
  Pipeline pipeline{.innermost = plans[0].loops.back(), .loops = plans[0].loops};
  const tile::For& innermost = *pipeline.innermost;
  constexpr int kUnasked = 3;  // where the schedule leaves it to us
  const bool once = pipeline.loops.size() == 1 && innermost.axis.bound == 1;
  pipeline.slots =
      once ? 1 : std::clamp(innermost.stages > 1 ? innermost.stages : kUnasked, 2, std::max(max_stages_, 2));
  const bool warpgroups = std::any_of(plans.begin(), plans.end(), [](const auto& plan) { return plan.warpgroups; });
  // Products that nothing else waits for overlap with the next one; the slot they read is free one iteration later.
  pipeline.overlaps = warpgroups && innermost.body.size() == 1 && pipeline.slots >= 3;
  pipeline.ahead = once ? 1 : pipeline.overlaps ? pipeline.slots - 2 : pipeline.slots - 1;
  return pipeline;
}

/// Names of the loops' extents, of the rounds, and of what is copied next.
void KernelWriter::declare_pipeline(Pipeline& pipeline, std::vector<ContractPlan>& plans) {
  for (const tile::For* each : pipeline.loops) {
    const std::string extent = uniform_value(each->axis.extent);
    pipeline.extents.push_back(code_.fresh("n"));
    code_.line("const int {} = (int){};", pipeline.extents.back(), extent);
  }
  pipeline.slot = code_.fresh("slot"), pipeline.next = code_.fresh("next"), pipeline.round = code_.fresh("round");
  barrier();
  prepare_tiles(plans, pipeline.slots);
  for (const tile::For* each : pipeline.loops) {
    pipeline.copied.push_back(bind(each->axis.variable, "i"));
    code_.line("int {} = 0;", pipeline.copied.back());
  }
  pipeline.end = code_.fresh("end");
  code_.line("int {} = 0, {} = 0;", pipeline.slot, pipeline.next);
  code_.line("const int {} = {};", pipeline.end, fmt::join(pipeline.extents, " * "));
}

/// Copies of the tiles of round `target`, where there is one.
void KernelWriter::copy_ahead(const Pipeline& pipeline, const std::vector<ContractPlan>& plans,
                              const std::string& target, Tiles which) {
  code_.open(fmt::format("if ({} < {})", target, pipeline.end));
  expressions_.enter();
  for (size_t i = 0; i < pipeline.loops.size(); ++i) {
    names_.variables[pipeline.loops[i]->axis.variable->variable] = pipeline.copied[i];
  }
  stage_tiles(plans, false, which, pipeline.next);
  expressions_.leave();
  advance(pipeline.loops, pipeline.copied, pipeline.extents);
  code_.close();
  if (which != Tiles::kEarly) code_.line("copy_commit();");
  code_.line("{0} = {0} + 1 == {1} ? 0 : {0} + 1;", pipeline.next, pipeline.slots);
}

/// Copies of the tiles of the first rounds.
void KernelWriter::copy_first(const Pipeline& pipeline, const std::vector<ContractPlan>& plans, Tiles which) {
  stage_tiles(plans, true, which, "0");
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", pipeline.round, pipeline.ahead));
  copy_ahead(pipeline, plans, pipeline.round, which);
  code_.close();
}

/// The rounds, whose first tiles are on their way.
void KernelWriter::multiply_rounds(const Pipeline& pipeline, const std::vector<ContractPlan>& plans) {
  const auto& [innermost, loops, slots, ahead, overlaps, early, extents, copied, slot, next, round, end] = pipeline;
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", round, end));
  code_.line("copy_wait<{}>();", ahead - 1);
  barrier();
  const std::string target = fmt::format("{} + {}", round, ahead);
  if (!overlaps) copy_ahead(pipeline, plans, target, Tiles::kAll);
  // Of several loops none is used by the products.
  const int64_t bound = loops[0]->axis.bound;
  bind_index(loops[0]->axis.variable, round, bound > 0 ? bound : INT32_MAX);
  names_.uniform.insert(loops[0]->axis.variable->variable);
  for (const ContractPlan& plan : plans) planned_[plan.contract] = {plan, slot, overlaps};
  expressions_.enter();
  body(innermost->body);
  settle_all();  // the tiles that they read are overwritten next
  expressions_.leave();
  if (overlaps) {
    copy_ahead(pipeline, plans, target, Tiles::kAll);
    code_.line("wait_for_warpgroups<1>();");
  }
  code_.line("{0} = {0} + 1 == {1} ? 0 : {0} + 1;", slot, slots);
  code_.close();
  code_.line("copy_wait<0>();");
  if (overlaps) code_.line("wait_for_warpgroups<0>();");
}

/// for -> for with the tiles of later iterations on their way: one barrier per iteration.
void KernelWriter::pipelined_loop(const tile::For& loop, std::vector<ContractPlan>& plans) {
  Pipeline pipeline = plan_pipeline(plans);
  if (!prepares_early(plans)) follow();
  pipeline.early = !followed_;
  declare_pipeline(pipeline, plans);
  if (pipeline.early) {
    copy_first(pipeline, plans, Tiles::kEarly);
    follow();
    code_.line("{} = 0, {} = 0;", fmt::join(pipeline.copied, " = 0, "), pipeline.next);
  }
  if (plans.size() == 1 && plans[0].splits() && pipeline.innermost->body.size() == 1) {
    split_rounds(pipeline, plans);
  } else {
    copy_first(pipeline, plans, pipeline.early ? Tiles::kLate : Tiles::kAll);
    if (plans.size() == 1) ask_for_pieces(loop, plans[0]);
    multiply_rounds(pipeline, plans);
  }
  for (const ContractPlan& plan : plans) end_sums(plan, plan.sums);
  merge(pending_, accesses_of(program_, {loop}));
}

/// The rounds of a product that splits its operands, from sums of 0 on. Parts of what is not finite, or becomes so when
/// it is scaled, are none: where a sum of the block is not finite, all are made again by multiply-adds.
void KernelWriter::split_rounds(const Pipeline& pipeline, std::vector<ContractPlan>& plans) {
  ContractPlan& plan = plans[0];
  const Tiles tiles = pipeline.early ? Tiles::kLate : Tiles::kAll;
  plan.exact = code_.fresh("exact");
  code_.line("bool {} = false;", plan.exact);
  code_.line("#pragma unroll 1");
  code_.open("for (;;)");
  expressions_.enter();
  copy_first(pipeline, plans, tiles);
  multiply_rounds(pipeline, plans);
  code_.line("if ({} || !__syncthreads_or(has_special({}))) break;", plan.exact, names_.buffers[plan.contract->c]);
  code_.line("{} = true;", plan.exact);
  clear_result(plan);
  const std::string again = fmt::format("{} = 0, {} = 0", fmt::join(pipeline.copied, " = 0, "), pipeline.next);
  code_.line("{} = 0, {};", pipeline.slot, again);
  if (pipeline.early) {
    copy_first(pipeline, plans, Tiles::kEarly);
    code_.line("{};", again);
  }
  expressions_.leave();
  code_.close();
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
