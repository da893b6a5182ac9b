// SPDX-License-Identifier: Apache-2.0
// Matrix multiplications of f32 by wgmma, of operands in two parts of tf32. Producer warps copy tiles of both operands,
// as any loop does it (stage_operand.cpp), so that windows and borders are theirs too, and split those of B where they
// lie; consumer warpgroups split A on its way to registers. A block makes one tile of the result. Where one of its sums
// is not finite, its rounds are run again: nothing is split then, and consumers do multiply-adds.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

constexpr int kAhead = 2;        // rounds whose copies are on their way before they are split
constexpr int kOfProducer = 88;  // registers of a thread that copies and splits
constexpr int kOfProducers = 2;  // the named barrier of the producers among themselves

}  // namespace

bool KernelWriter::plan_split_product() {
  const tile::Roles& roles = program_.roles;
  const tile::For* loop = only_loop();
  if (!loop || roles.producers != 128 || program_.threads % 128 != 0) return false;
  splits_in_groups_ = true;
  std::vector<ContractPlan> plans;
  const bool runs_ahead = pipelined(*loop, plans);
  splits_in_groups_ = false;
  if (!runs_ahead || plans.size() != 1 || !plans[0].splits() || !plans[0].warpgroups) return false;
  WarpSpecialisation plan{.contraction = std::move(plans[0]), .loop = loop};
  ContractPlan& contraction = plan.contraction;
  const tile::For& innermost = *contraction.loops.back();
  const Operand &a = contraction.a, &b = contraction.b;
  const bool fits = a.source == Operand::Source::kStaged && b.source == Operand::Source::kStaged &&
                    a.swizzle == a.columns * a.bytes() && b.swizzle == b.columns * b.bytes();
  if (innermost.body.size() != 1 || !fits) return false;
  plan.slots = std::clamp(innermost.stages, kAhead + 1, std::max(max_stages_, kAhead + 1));
  plan.producers = roles.producers;
  for (Operand* operand : contraction.sources()) {
    operand->repeats = false;
    reserve(*operand, plan.slots);
  }
  plan.low = reserve_shared(b.slot_bytes() * plan.slots, 1024);
  plan.barriers = reserve_shared(2 * plan.slots * 8);
  specialised_ = std::move(plan);
  return true;
}

Kernel KernelWriter::split_product_kernel(const std::string& parameters) {
  const WarpSpecialisation& roles = *specialised_;
  const int threads = program_.threads + roles.producers;
  code_.open(fmt::format("extern \"C\" __global__ void __launch_bounds__({}, 1) {}({}i64* status)", threads,
                         program_.name, parameters));
  code_.line("extern __shared__ __align__(1024) u8 shared[];");
  code_.line("const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;");
  code_.line("Fault fault = {0, 0};");
  code_.line("u64* const full = (u64*)(shared + {});", roles.barriers);
  code_.line("u64* const empty = full + {};", roles.slots);
  code_.open("if (threadIdx.x == 0)");
  code_.open(fmt::format("for (int i = 0; i < {}; ++i)", roles.slots));
  code_.line("mbarrier_init(full + i, {});", roles.producers);
  code_.line("mbarrier_init(empty + i, {});", program_.threads / 32);
  code_.close();
  code_.line("fence_mbarrier_init();");
  code_.close();
  code_.line("__syncthreads();");
  code_.line("let_later_kernels_begin();");
  follow();
  grid();
  count_rounds(roles.contraction.loops);
  code_.line("int slot = 0;");
  code_.line("u32 parity = 0;");
  code_.open(fmt::format("if (warp >= {})", program_.threads / 32));
  expressions_.enter();
  produce_split_rounds();
  expressions_.leave();
  code_.close();
  code_.open("else");
  expressions_.enter();
  consume_split_rounds();
  expressions_.leave();
  code_.close();
  code_.line("if (fault.kind) status[0] = fault.kind, status[1] = fault.value;");
  code_.close();
  return {code_.text(), threads, shared_end_, warpgroup_products_, 1, 0, {}};
}

/// Registers that a consumer has once producers have given theirs up; 0: none need to.
int KernelWriter::registers_of_splitting() const {
  constexpr int kRegisters = 65536, kEnough = 200, kMost = 240;
  const int producers = specialised_->producers, threads = program_.threads + producers;
  const int at_start = kRegisters / threads / 8 * 8;
  const int most = (at_start * threads - producers * kOfProducer) / program_.threads / 8 * 8;
  return at_start >= kEnough ? 0 : std::min(most, kMost);
}

/// All rounds, until no sum asks for them again: each one's copies are started, and those of an earlier one are waited
/// for and split.
void KernelWriter::produce_split_rounds() {
  const ContractPlan& plan = specialised_->contraction;
  if (registers_of_splitting() > 0) code_.line("setmaxnreg_dec<{}>();", kOfProducer);
  copying_thread_ = fmt::format("(int)(threadIdx.x - {})", program_.threads);
  copying_threads_ = specialised_->producers;
  for (const Operand* operand : plan.sources()) prepare_copies(plan, *operand);
  code_.line("#pragma unroll 1");
  code_.open("for (bool exact = false;; exact = true)");
  expressions_.enter();
  std::vector<std::string> at, extents;
  for (size_t i = 0; i < plan.loops.size(); ++i) {
    at.push_back(bind(plan.loops[i]->axis.variable, "i"));
    extents.push_back(fmt::format("loop{}", i));
    code_.line("int {} = 0;", at.back());
  }
  code_.line("int behind = slot;");
  code_.line("#pragma unroll 1");
  code_.open("for (int round = first; round < last; ++round)");
  expressions_.enter();
  code_.line("mbarrier_wait(empty + slot, parity ^ 1);");
  for (const Operand* operand : plan.sources()) stage(plan, *operand, "slot");
  code_.line("copy_commit();");
  code_.line("if (++slot == {}) slot = 0, parity ^= 1;", specialised_->slots);
  advance(plan.loops, at, extents);
  code_.open(fmt::format("if (round - first >= {})", kAhead));
  finish_split_round(kAhead);
  code_.close();
  expressions_.leave();
  code_.close();
  code_.line("#pragma unroll 1");
  code_.open("while (behind != slot)");
  finish_split_round(0);
  code_.close();
  code_.line("if (exact || !__syncthreads_or(false)) break;");
  expressions_.leave();
  code_.close();
  copying_thread_ = "threadIdx.x", copying_threads_ = program_.threads;
}

/// The oldest round whose copies were started is handed over, when at most `pending` later ones are on their way.
void KernelWriter::finish_split_round(int pending) {
  const Operand& b = specialised_->contraction.b;
  code_.line("copy_wait<{}>();", pending);
  code_.line("named_barrier_sync<{}>({});", specialised_->producers, kOfProducers);
  const std::string own = fmt::format("split_tile<{}, {}>", b.lines * b.columns * b.bytes(), specialised_->producers);
  code_.line("if (!exact) {0}(shared + {1} + behind * {2}, shared + {3} + behind * {2}, threadIdx.x - {4});", own,
             b.offset, b.slot_bytes(), specialised_->low, program_.threads);
  code_.line("mbarrier_arrive(full + behind);");
  code_.line("if (++behind == {}) behind = 0;", specialised_->slots);
}

/// The program's statements.
void KernelWriter::consume_split_rounds() {
  const ContractPlan& plan = specialised_->contraction;
  const std::string c = names_.buffers[plan.contract->c];
  if (const int registers = registers_of_splitting(); registers > 0) code_.line("setmaxnreg_inc<{}>();", registers);
  declare_memory();
  for (const tile::Statement& each : program_.body) {
    if (std::get_if<tile::For>(&each.node) != specialised_->loop) {
      std::visit([&](const auto& node) { statement(node); }, each.node);
      continue;
    }
    code_.line("#pragma unroll 1");
    code_.open("for (bool exact = false;; exact = true)");
    multiply_split_rounds();
    code_.line("if (exact || !__syncthreads_or(has_special({}))) break;", c);
    clear_result(plan);
    code_.close();
  }
}

/// The same rounds: products of what the producers hand over.
void KernelWriter::multiply_split_rounds() {
  const ContractPlan& plan = specialised_->contraction;
  const FragmentLayout& layout = plan.layout;
  const Operand &a = plan.a, &b = plan.b;
  const std::string c = names_.buffers[plan.contract->c];
  warpgroup_products_.insert({layout.tile_columns(), a.type, b.type});
  code_.line("const int row = warp % {} * 16, column = warp / {} * {};", layout.warps_m, layout.warps_m,
             layout.tile_columns());
  code_.line("#pragma unroll 1");
  code_.open("for (int round = first; round < last; ++round)");
  code_.line("mbarrier_wait(full + slot, parity);");
  code_.line("const u8 *const a = shared + {} + slot * {}, *const b = shared + {} + slot * {};", a.offset,
             a.slot_bytes(), b.offset, b.slot_bytes());
  code_.open("if (exact)");
  code_.line("multiply_swizzled_in_order<{}, {}, {}>({}, a, row, b, column);", plan.k, a.swizzle, layout.row_step(), c);
  code_.close();
  code_.open("else");
  const std::string operand = fmt::format("SwizzledOperand<f32, false, {}, {}, {}>", b.swizzle, b.lines,
                                          layout.row_step());
  code_.line("const {} high(b + column * {}), low(shared + {} + slot * {} + column * {});", operand, b.swizzle,
             specialised_->low, b.slot_bytes(), b.swizzle);
  code_.line("multiply_split_groups<{}, {}, {}>({}, a, row, high, low);", plan.k, a.swizzle, layout.row_step(), c);
  code_.close();
  code_.line("__syncwarp();");
  code_.line("if (lane == 0) mbarrier_arrive(empty + slot);");
  code_.line("if (++slot == {}) slot = 0, parity ^= 1;", specialised_->slots);
  code_.close();
}

}  // namespace graft::cuda
