// SPDX-License-Identifier: Apache-2.0
// What the rows of a row program take of a multiprocessor's registers: whether they fit, how many blocks then do, and
// in which form rows of halves are kept.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

constexpr int64_t kMostElements = 72;   // of a row, in one thread
constexpr int64_t kManyElements = 40;   // more of them only where registers are known to do
constexpr int64_t kWorking = 40;        // registers of a thread beside those
constexpr int64_t kLeastWorking = 28;   // with which it can do
constexpr int64_t kAddressing = 16;     // those of them that are not of the piece at work
constexpr int64_t kRegisters = 65536;   // of a multiprocessor
constexpr int64_t kMostWords = 160;     // registers of a thread for what it keeps
constexpr int64_t kMostThreads = 1536;  // of a multiprocessor: with more it reads no faster
constexpr int64_t kFewBlocks = 1024;    // that have room on a large GPU however many registers they take

/// How many blocks have `words` registers for each thread.
int64_t blocks_with(int64_t words, int64_t threads) {
  const int64_t registers = ceil_quotient(words, 8) * 8;
  return std::clamp<int64_t>(std::min(kRegisters / (registers * threads), kMostThreads / threads), 1, 16);
}

}  // namespace

bool RowPlan::in_pairs(DType type) const { return apart && vector % 2 == 0 && is_half(type); }

/// Registers of a row and of the piece at work where no more than those is kept: what is loaded late, what is stored,
/// and the widened halves.
int64_t KernelWriter::least_words_of_row(const RowPlan& plan) const {
  const auto words = [&](DType type) { return ceil_quotient(plan.vector * bytes_of(type), 4); };
  int64_t result = 0, widened = 0;
  for (size_t i = 0; i < plan.loads.size(); ++i) {
    const DType type = plan.loads[i].second->type;
    result += words(type) * (plan.late.contains(i) ? 1 : plan.turns);
    if (bytes_of(type) < 4 && !plan.late.contains(i)) widened = plan.vector;
  }
  for (const tile::Statement& each : program_.body) {
    const auto* map = std::get_if<tile::Map>(&each.node);
    if (!map || map->axes.size() == plan.row.size()) continue;
    for (const tile::Store& store : map->stores) result += words(names_.buffer(store.buffer).type);
  }
  return result + widened;
}

/// Whether the row of a block is kept as the halves that were read, and several blocks find room by it. The compiler
/// would keep what it widens from one pass to the next, unless each piece's part of a pass is a branch.
bool KernelWriter::lies_apart(const RowPlan& plan) const {
  const bool row_of_block = plan.group == program_.threads && plan.turns > 1;
  if (!row_of_block || plan.vector % 2 != 0 || !plan.row_buffers.empty()) return false;
  for (size_t i = 0; i < plan.loads.size(); ++i) {
    if (!plan.late.contains(i) && !is_half(plan.loads[i].second->type)) return false;
  }
  return plan.late.size() < plan.loads.size() && blocks_with(least_words_of_row(plan), program_.threads) > 2;
}

/// Whether rows fit, and how many blocks a multiprocessor should hold.
bool KernelWriter::plan_row_registers(RowPlan& plan) const {
  int64_t elements = plan.turns * plan.vector, words = 0;
  for (const int buffer : plan.row_buffers) words += elements * ceil_quotient(bytes_of(names_.buffer(buffer).type), 4);
  for (size_t i = 0; i < plan.loads.size(); ++i) {
    if (!plan.late.contains(i)) words += ceil_quotient(elements * bytes_of(plan.loads[i].second->type), 4);
  }
  const int64_t threads = program_.threads;
  if (elements > kMostElements || words > kMostWords) return false;
  if (elements > kManyElements && words + kWorking / 2 > kRegisters / threads) return false;
  plan.apart = lies_apart(plan);
  if (plan.apart) {
    plan.blocks = blocks_with(least_words_of_row(plan), threads);
    return true;
  }
  // The compiler would make late loads early, for all pieces of a row: a bound on registers keeps it from that. And
  // where blocks are large, it is to leave room for a second one, whose loads overlap what this one computes.
  const bool pairs = threads >= 512 && 2 * threads * (words + kLeastWorking) <= kRegisters;
  if (plan.late.empty() && pairs) plan.blocks = 2;
  plan.streams = plan_stream(plan);
  if (plan.late.empty() || plan.streams) return true;
  plan.blocks = std::min(blocks_with(words + kWorking, threads), std::max<int64_t>(1024 / threads, 1));
  // Of a single tensor's row the compiler keeps no more than it must. Few blocks load early what they can.
  std::optional<int64_t> blocks = 1;
  for (const graft::Axis& axis : program_.grid) {
    const auto extent = axis.extent.as_constant();
    blocks = blocks && extent ? std::optional(*blocks * *extent) : std::nullopt;
  }
  const bool few = blocks && *blocks <= kFewBlocks;
  const bool single = !few && plan.loads.size() == plan.late.size() + 1 && plan.row_buffers.empty();
  if (single) plan.blocks = std::max(plan.blocks, blocks_with(least_words_of_row(plan) + kAddressing, threads));
  return true;
}

}  // namespace graft::cuda
