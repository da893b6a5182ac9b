// SPDX-License-Identifier: Apache-2.0
// Rows that fill a multiprocessor: one block of it stays for all rows that fall to it, and the copy engine brings the
// next row into the block's memory while this one is computed in registers.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

constexpr int64_t kStreamSlack = 8192;  // bytes of a block's memory beside two rows
constexpr int64_t kLeastThreads = 512;  // of a block that is alone on its multiprocessor

}  // namespace

/// Whether a block has room for one row in registers and for two in its memory: then the copy engine brings the next
/// row while this one is computed.
bool KernelWriter::plan_stream(RowPlan& plan) const {
  const int64_t threads = program_.threads;
  const bool alone = plan.row.empty() && plan.group == threads && threads >= kLeastThreads && plan.blocks == 1;
  if (!alone || plan.loads.size() - plan.late.size() != 1 || target_.features.find("+wgmma") == std::string::npos) {
    return false;
  }
  for (size_t i = 0; i < plan.loads.size(); ++i) {
    if (!plan.late.contains(i)) plan.stream = i;
  }
  const Expr& load = plan.loads[plan.stream].second;
  const int64_t bytes = plan.vector * bytes_of(load->type);
  return bytes == 16 && 2 * plan.pieces * bytes + kStreamSlack <= target_.shared_bytes && runs_in_order(plan, load);
}

/// Whether the elements of a row that `load` reads lie one after the other.
bool KernelWriter::runs_in_order(const RowPlan& plan, const Expr& load) const {
  const auto address = names_.address(load->tensor, load->args);
  for (const tile::Statement& each : program_.body) {
    const RowAxes axes = axes_in_row(plan, each);
    Size step = 1;
    bool good = !axes.inner.empty(), uses = false;
    for (size_t i = axes.inner.size(); i-- > 0 && good;) {
      uses |= uses_variable(load, axes.inner[i].variable->variable);
      good = address->coefficient(axes.inner[i].variable->variable) == step;
      step = step * Size(*as_integer(axes.inner[i].extent));
    }
    if (good && uses) return true;
  }
  return false;
}

/// for (point: those of this block): `body`, with the row of the next one on its way.
void KernelWriter::stream_rows(RowPlan& plan) {
  const Expr& load = plan.loads[plan.stream].second;
  const int64_t bytes = plan.pieces * plan.vector * bytes_of(load->type);
  const std::string type = type_name(load->type);
  std::string total = "1ll";
  for (const graft::Axis& axis : program_.grid) total += " * " + names_.size(axis.extent);
  code_.line("const u32 points = (u32)({});", total);
  code_.line("u64* const arrived = (u64*)(shared + {});", reserve_shared(16));
  code_.line("{0}* const slots = ({0}*)(shared + {1});", type, reserve_shared(2 * bytes));
  code_.line("const bool streams = {};", plan.condition);
  code_.line("if (threadIdx.x < 2) mbarrier_init(arrived + threadIdx.x, 1);");
  code_.line("fence_mbarrier_init();");
  code_.line("__syncthreads();");
  code_.open("const auto bring = [&](const u32 point, const int slot)");
  code_.line("if (threadIdx.x != 0 || !streams) return;");
  expressions_.enter();
  name_grid("point");
  for (const tile::Statement& each : program_.body) {
    for (const tile::Axis& axis : axes_in_row(plan, each).inner) bind_constant(axis.variable, 0);
  }
  code_.line("mbarrier_arrive_expect_tx(arrived + slot, {});", bytes);
  code_.line("tma_copy_bulk(slots + slot * {}, {}, arrived + slot, {});", bytes / bytes_of(load->type),
             pointer_to({load->tensor, &load->args, load, true}), bytes);
  expressions_.leave();
  code_.close(";");
  code_.line("if (blockIdx.x < points) bring(blockIdx.x, 0);");
  code_.line("#pragma unroll 1");
  code_.open("for (u32 point = blockIdx.x, turn = 0; point < points; point += gridDim.x, ++turn)");
  code_.line("const int slot = turn % 2;");
  // All threads have read the other slot: they have met since, for a fold.
  code_.line("if (point + gridDim.x < points) bring(point + gridDim.x, slot ^ 1);");
  expressions_.enter();
  name_grid("point");
  code_.line("if (streams) mbarrier_wait(arrived + slot, turn / 2 % 2);");
  write_row(plan);
  expressions_.leave();
  code_.line("__syncthreads();");
  code_.close();
}

}  // namespace graft::cuda
