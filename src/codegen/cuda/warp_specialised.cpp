// SPDX-License-Identifier: Apache-2.0
// Matrix multiplications in warp-specialised blocks: producer warps bring tiles of the operands into shared memory with
// the tensor memory accelerator (TMA); consumer warpgroups multiply them with wgmma and run the maps that follow (the
// epilogue). mbarriers tell which tiles are full and which are free. Blocks are persistent: they take all grid points
// that fall to them, so that the tiles of the next one are on their way while the epilogue of the last one runs; teams
// of consumers take points by turns (ping-pong), so that one multiplies while the epilogue of another runs; or the
// blocks of a cluster share the loop of one point (split-k) and add up in the order of their numbers. Constant operands
// are prefetched before earlier kernels have ended (programmatic dependent launch).
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

constexpr int64_t kSharedOfMultiprocessor = 228 << 10, kSharedOfSystem = 1 << 10;  // the latter for each block
constexpr int kRegisters = 65536;
constexpr int kOfProducer = 40;      // registers of a thread that copies
constexpr int kMostOfThread = 240;   // and of one that multiplies, with those that the former gave back
constexpr int kBesides = 104;         // which are wanted besides the accumulators

int round_down(int value) { return value / 8 * 8; }
int round_up(int value) { return (value + 7) / 8 * 8; }

}  // namespace

/// The loop of a program that is maps over fragments and this one loop, or null.
const tile::For* KernelWriter::only_loop() const {
  const tile::For* loop = nullptr;
  for (const tile::Statement& each : program_.body) {
    if (const auto* found = std::get_if<tile::For>(&each.node)) {
      if (loop) return nullptr;
      loop = found;
    } else if (const auto* map = std::get_if<tile::Map>(&each.node); !map || fragment_of(*map) < 0) {
      return nullptr;
    }
  }
  const bool shares = std::any_of(program_.buffers.begin(), program_.buffers.end(), [](const tile::Buffer& buffer) {
    return buffer.scope == tile::Scope::kShared;
  });
  return shares ? nullptr : loop;
}

/// Whether the program is of the kind: maps over fragments and one loop around one wgmma product.
bool KernelWriter::plan_warp_specialisation() {
  const tile::Roles& roles = program_.roles;
  if (roles.producers != 128 || program_.threads % 128 != 0) return false;
  if (target_.features.find("+wgmma") == std::string::npos) return false;
  const tile::For* loop = only_loop();
  std::vector<ContractPlan> plans;
  if (!loop || !pipelined(*loop, plans) || plans.size() != 1 || !plans[0].warpgroups) return false;
  WarpSpecialisation plan{.contraction = std::move(plans[0]), .loop = loop};
  ContractPlan& contraction = plan.contraction;
  const tile::For& innermost = *contraction.loops.back();
  if (innermost.body.size() != 1) return false;
  plan.slots = std::clamp(innermost.stages, 2, std::max(max_stages_, 2));
  for (Operand* operand : {&contraction.a, &contraction.b}) {
    if (operand->source != Operand::Source::kStaged) return false;
    operand->repeats = false;
    plan_tma(*operand, contraction, operand == &contraction.a);
    if (!operand->tma) return false;
  }
  for (Operand* operand : {&contraction.a, &contraction.b}) {
    operand->copy_bytes = 0;  // where a tensor begins at an odd place, its elements are copied one by one
    reserve(*operand, plan.slots);
  }
  plan.producers = roles.producers, plan.teams = roles.teams;
  for (const tile::For* each : contraction.loops) {
    for (const graft::Axis& axis : program_.grid) {
      if (plan.teams > 1 && uses_variable(each->axis.extent, axis.variable->variable)) return false;
    }
  }
  const int64_t tile_bytes = int64_t{contraction.layout.padded_rows()} * contraction.layout.padded_columns() * 4;
  if (roles.split > 1) plan.sums = reserve_shared((roles.split - 1) * tile_bytes);
  plan.barriers = reserve_shared((2 * plan.slots + plan.teams) * 8);
  specialised_ = std::move(plan);
  plan_occupancy();
  return true;
}

/// Threads of a block that multiply.
int KernelWriter::consumers() const { return program_.threads * specialised_->teams; }

/// The occupancy: how many blocks a multiprocessor holds at a time, as its memory and registers allow; and the
/// registers that consumers take over from producers (setmaxnreg).
void KernelWriter::plan_occupancy() {
  const FragmentLayout& layout = specialised_->contraction.layout;
  constexpr int64_t kMost = 4;
  const int wanted = std::min(round_up(layout.m_tiles * layout.n_tiles * 4 + kBesides), kMostOfThread);
  const int64_t by_memory = kSharedOfMultiprocessor / (shared_end_ + kSharedOfSystem);
  const int64_t by_registers = kRegisters / (consumers() * wanted + specialised_->producers * kOfProducer);
  specialised_->occupancy = static_cast<int>(std::clamp<int64_t>(std::min(by_memory, by_registers), 1, kMost));
  // A block starts with as many for each thread as launch bounds leave, by eights; only those can be passed on.
  const int threads = consumers() + specialised_->producers;
  const int at_start = round_down(kRegisters / (specialised_->occupancy * threads));
  const int most = round_down((at_start * threads - specialised_->producers * kOfProducer) / consumers());
  specialised_->registers = wanted > at_start ? std::min(most, kMostOfThread) : 0;
}

Kernel KernelWriter::warp_specialised_kernel(const std::string& parameters) {
  followed_ = true;  // as each warp's role says
  const int producers = specialised_->producers, split = program_.roles.split;
  std::vector<TmaTensor> tma;
  std::string maps;
  for (Operand* operand : {&specialised_->contraction.a, &specialised_->contraction.b}) {
    operand->tma->number = static_cast<int>(tma.size());
    maps += fmt::format(", const __grid_constant__ TensorMap map{}", tma.size());
    tma.push_back(*operand->tma);
    for (TmaTensor::Axis& axis : tma.back().axes) {
      axis.extent = axis.extent.substitute(names_.sizes), axis.stride = axis.stride.substitute(names_.sizes);
    }
  }
  const std::string cluster = split > 1 ? fmt::format("__cluster_dims__({}, 1, 1) ", split) : "";
  code_.open(fmt::format("extern \"C\" __global__ void {}__launch_bounds__({}, {}) {}({}i64* status{})", cluster,
                         consumers() + producers, specialised_->occupancy, program_.name, parameters, maps));
  code_.line("extern __shared__ __align__(1024) u8 shared[];");
  code_.line("const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;");
  code_.line("(void)lane, (void)warp;");
  code_.line("Fault fault = {0, 0};");
  std::string total = "1ll";
  for (const graft::Axis& axis : program_.grid) total += " * " + names_.size(axis.extent);
  code_.line("const u32 points = (u32)({});", total);
  make_mbarriers();
  code_.open(fmt::format("if (warp >= {})", consumers() / 32));
  expressions_.enter();
  produce();
  expressions_.leave();
  code_.close();
  code_.open("else");
  expressions_.enter();
  consume();
  expressions_.leave();
  code_.close();
  code_.line("if (fault.kind) status[0] = fault.kind, status[1] = fault.value;");
  code_.close();
  return {code_.text(), consumers() + producers,          shared_end_,     warpgroup_products_,
          split,        split > 1 ? 0 : specialised_->occupancy, std::move(tma)};
}

/// Barriers of the slots: full ones are arrived at by whoever copies, empty ones by each warp that multiplies. And of
/// the teams: for what a team waits before it looks for its tiles, which are behind those of the one before.
void KernelWriter::make_mbarriers() {
  const WarpSpecialisation& roles = *specialised_;
  std::string all = "true";
  for (const Operand* operand : {&roles.contraction.a, &roles.contraction.b}) {
    const int number = operand->tma->number;
    code_.line("const bool tma{} = (u64){} % 16 == 0;", number, names_.buffers[operand->buffer]);
    all += fmt::format(" && tma{}", number);
  }
  code_.line("const bool tma = {};", all);
  code_.line("u64* const full = (u64*)(shared + {});", roles.barriers);
  code_.line("u64* const empty = full + {};", roles.slots);
  if (roles.teams > 1) code_.line("u64* const turns = empty + {};", roles.slots);
  code_.open("if (threadIdx.x == 0)");
  for (int i = 0; i < 2; ++i) code_.line("prefetch_tensor_map(map{});", i);
  code_.open(fmt::format("for (int i = 0; i < {}; ++i)", roles.slots));
  code_.line("mbarrier_init(full + i, tma ? 1 : {});", specialised_->producers);
  code_.line("mbarrier_init(empty + i, {});", program_.threads / 32);
  code_.close();
  if (roles.teams > 1) {
    code_.line("for (int i = 0; i < {}; ++i) mbarrier_init(turns + i, {});", roles.teams, program_.threads / 32);
  }
  code_.line("fence_mbarrier_init();");
  code_.close();
  code_.line("__syncthreads();");
  if (program_.roles.split > 1) code_.line("cluster_arrive();");
  code_.line("let_later_kernels_begin();");
}

/// The grid points that fall to this block, or only the first.
void KernelWriter::open_points(bool only_first) {
  const int split = program_.roles.split;
  if (split > 1) code_.line("const u32 block = blockIdx.x % {0}, point = blockIdx.x / {0};", split);
  if (split == 1 && only_first) code_.line("const u32 point = blockIdx.x;");
  if (split > 1 || only_first) {
    code_.open("if (point < points)");
  } else {
    code_.line("#pragma unroll 1");
    code_.open("for (u32 point = blockIdx.x; point < points; point += gridDim.x)");
  }
  expressions_.enter();
  name_grid("point");
}

/// The same for each team in its turn; `visit` counts the block's points.
void KernelWriter::open_points_of_team() {
  const int teams = specialised_->teams;
  if (teams == 1) return open_points(false);
  code_.line("u32 visit = team;");
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for (u32 point = blockIdx.x + team * gridDim.x; point < points; "
                         "point += {0} * gridDim.x, visit += {0})", teams));
  expressions_.enter();
  name_grid("point");
}

/// Names `first` and `last`, the rounds of the loops that fall to this block.
void KernelWriter::count_rounds(const std::vector<const tile::For*>& loops) {
  std::string total;
  for (size_t i = 0; i < loops.size(); ++i) {
    code_.line("const int loop{} = (int){};", i, expressions_.value(loops[i]->axis.extent));
    total += fmt::format("{}loop{}", i ? " * " : "", i);
  }
  const int split = program_.roles.split;
  if (split > 1) {
    code_.line("const int rounds = {0}, first = rounds * block / {1}, last = rounds * (block + 1) / {1};", total,
               split);
  } else {
    code_.line("const int first = 0, last = {};", total);
  }
}

/// The producer warps. One of them is enough to start TMA copies.
void KernelWriter::produce() {
  if (specialised_->registers > 0) code_.line("setmaxnreg_dec<{}>();", kOfProducer);
  copying_thread_ = fmt::format("(int)(threadIdx.x - {})", consumers());
  copying_threads_ = specialised_->producers;
  code_.open(fmt::format("if (!tma || warp == {})", consumers() / 32));
  expressions_.enter();
  const bool wanted = specialised_->contraction.loops.back()->early;
  for (const Operand* operand : {&specialised_->contraction.a, &specialised_->contraction.b}) {
    specialised_->early |= wanted && names_.buffer(operand->buffer).constant;
  }
  if (specialised_->early) {
    code_.line("int early = 0;");
    code_.open(fmt::format("if (tma && {} == 0)", copying_thread_));
    produce_points(true);
    code_.close();
  }
  code_.line("follow_earlier_kernels();");
  produce_points(false);
  expressions_.leave();
  code_.close();
  if (program_.roles.split > 1) code_.line("cluster_wait();");
}

/// Brings the tiles of all points; or, before earlier kernels have ended, what is constant of the first ones.
void KernelWriter::produce_points(bool early) {
  const std::vector<const tile::For*>& loops = specialised_->contraction.loops;
  expressions_.enter();
  code_.line("int slot = 0;");
  if (!early) code_.line("u32 parity = 0;");
  open_points(early);
  count_rounds(loops);
  std::vector<std::string> at, extents;
  std::string rest = "first";
  for (size_t i = 0; i < loops.size(); ++i) {
    at.push_back(bind(loops[i]->axis.variable, "i"));
    extents.push_back(fmt::format("loop{}", i));
  }
  for (size_t i = loops.size(); i-- > 1;) {
    const std::string next = fmt::format("first{}", i);
    code_.line("const int {} = {} / {};", next, rest, extents[i]);
    code_.line("int {} = {} - {} * {};", at[i], rest, next, extents[i]);
    rest = next;
  }
  code_.line("int {} = {};", at[0], rest);
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for (int round = first; round < last{}; ++round)",
                         early ? fmt::format(" && slot < {}", specialised_->slots) : ""));
  expressions_.enter();
  early ? produce_constants() : produce_round();
  expressions_.leave();
  if (early) {
    code_.line("++slot, ++early;");
  } else {
    code_.line("if (++slot == {}) slot = 0, parity ^= 1;", specialised_->slots);
  }
  advance(loops, at, extents);
  code_.close();
  expressions_.leave();
  code_.close();
  expressions_.leave();
}

int64_t KernelWriter::round_bytes() const {
  const ContractPlan& plan = specialised_->contraction;
  return int64_t{plan.a.bytes()} * plan.a.lines * plan.a.columns +
         int64_t{plan.b.bytes()} * plan.b.lines * plan.b.columns;
}

/// Asks for the constant tiles of one round, and lets its barrier wait for the others too.
void KernelWriter::produce_constants() {
  const ContractPlan& plan = specialised_->contraction;
  code_.line("mbarrier_arrive_expect_tx(full + slot, {});", round_bytes());
  for (const Operand* operand : {&plan.a, &plan.b}) {
    if (names_.buffer(operand->buffer).constant) tma_copies(*operand);
  }
}

/// Brings both tiles of one round into their slot.
void KernelWriter::produce_round() {
  const ContractPlan& plan = specialised_->contraction;
  code_.line("mbarrier_wait(empty + slot, parity ^ 1);");
  code_.open("if (tma)");
  code_.open(fmt::format("if ({} == 0)", copying_thread_));
  expressions_.enter();
  if (specialised_->early) {
    code_.open("if (early == 0)");
    expressions_.enter();
    produce_constants();
    expressions_.leave();
    code_.close();
    code_.open("else");
    code_.line("--early;");
    code_.close();
  } else {
    code_.line("mbarrier_arrive_expect_tx(full + slot, {});", round_bytes());
  }
  for (const Operand* operand : {&plan.a, &plan.b}) {
    if (!specialised_->early || !names_.buffer(operand->buffer).constant) tma_copies(*operand);
  }
  expressions_.leave();
  code_.close();
  code_.close();
  code_.open("else");
  for (const Operand* operand : {&plan.a, &plan.b}) {
    code_.open("");
    expressions_.enter();
    stage(plan, *operand, "slot");
    expressions_.leave();
    code_.close();
  }
  code_.line("mbarrier_arrive(full + slot);");
  code_.close();
}

/// The TMA copies of one operand's tiles, by one thread.
void KernelWriter::tma_copies(const Operand& operand) {
  const TmaTensor& tma = *operand.tma;
  std::vector<std::string> at;
  for (const TmaTensor::Axis& axis : tma.axes) {
    at.push_back(fmt::format("(int)({})", expressions_.value(axis.start)));
  }
  const std::string first = at[0];
  const int block_bytes = operand.lines * operand.swizzle;
  for (int copy = 0; copy < tma.copies; ++copy) {
    if (copy > 0) at[0] = fmt::format("{} + {}", first, copy * tma.axes[0].box);
    code_.line("tma_copy_tile(shared + {} + {} * slot, map{}, full + slot, {});", operand.offset + copy * block_bytes,
               operand.slot_bytes(), tma.number, fmt::join(at, ", "));
  }
}

/// The program's statements, for each grid point.
void KernelWriter::consume() {
  copying_thread_ = "threadIdx.x", copying_threads_ = program_.threads;
  if (specialised_->registers > 0) code_.line("setmaxnreg_inc<{}>();", specialised_->registers);
  code_.line("follow_earlier_kernels();");
  if (specialised_->teams > 1) {
    // From here on a team's warps are numbered by themselves.
    code_.line("const u32 team = threadIdx.x / {};", program_.threads);
    code_.line("const int warp = threadIdx.x / 32 % {};", program_.threads / 32);
  } else {
    code_.line("int slot = 0;");
    code_.line("u32 parity = 0;");
  }
  open_points_of_team();
  declare_memory();
  bool in_first = false;
  for (const tile::Statement& each : program_.body) {
    const auto* loop = std::get_if<tile::For>(&each.node);
    const bool is_round = loop && loop == specialised_->loop;
    if (is_round && program_.roles.split == 1) ask_for_pieces(*loop, specialised_->contraction);
    std::visit([&](const auto& node) { this->statement(node); }, each.node);
    if (!is_round || program_.roles.split == 1) continue;
    code_.open("if (block == 0)");
    expressions_.enter();
    in_first = true;
  }
  if (in_first) {
    expressions_.leave();
    code_.close();
  }
  expressions_.leave();
  code_.close();
}

/// Each round's product runs while the next one's tiles are waited for; a slot is free when the round after it began.
void KernelWriter::consume_rounds(const tile::For& loop) {
  const ContractPlan& plan = specialised_->contraction;
  const FragmentLayout& layout = plan.layout;
  const tile::Contract& contract = *plan.contract;
  code_.open("");
  expressions_.enter();
  count_rounds(plan.loops);
  if (specialised_->teams > 1) {
    code_.line("const u32 passed = visit * last;");
    code_.line("int slot = passed % {};", specialised_->slots);
    code_.line("u32 parity = passed / {} & 1;", specialised_->slots);
    // A barrier tells only one round from the next: all warps of the team before have seen all their tiles when this
    // one looks, and it cannot have its next turn while one of this team's warps still waits for this one.
    code_.line("mbarrier_wait(turns + team, (visit / {} & 1) ^ (team == 0));", specialised_->teams);
    code_.line("u64* const next_turn = turns + (team + 1) % {};", specialised_->teams);
    code_.line("if (first == last && lane == 0) mbarrier_arrive(next_turn);");
  }
  code_.line("int before = 0;");
  code_.line("#pragma unroll 1");
  code_.open("for (int round = first; round < last; ++round)");
  code_.line("mbarrier_wait(full + slot, parity);");
  if (specialised_->teams > 1) {
    code_.line("if (round + 1 == last && lane == 0) mbarrier_arrive(next_turn);");
  }
  multiply(plan, "slot", true);
  code_.line("wait_for_warpgroups<1>();");
  code_.line("if (round > first && lane == 0) mbarrier_arrive(empty + before);");
  code_.line("before = slot;");
  code_.line("if (++slot == {}) slot = 0, parity ^= 1;", specialised_->slots);
  code_.close();
  code_.line("wait_for_warpgroups<0>();");
  code_.line("if (last > first && lane == 0) mbarrier_arrive(empty + before);");
  if (program_.roles.split > 1) {
    code_.line("sum_over_cluster<{}, {}, {}>(&{}[0][0][0], shared + {}, block);", program_.threads,
               program_.roles.split, layout.m_tiles * layout.n_tiles, names_.buffers[contract.c], specialised_->sums);
  }
  expressions_.leave();
  code_.close();
  const Accesses inside = accesses_of(program_, {loop});
  pending_.reads.insert(inside.reads.begin(), inside.reads.end());
}

}  // namespace graft::cuda
