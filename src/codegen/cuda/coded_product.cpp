// SPDX-License-Identifier: Apache-2.0
// Products whose right operand is decoded in registers: codes, scales and zeros are staged as they lie in memory.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {

/// The tiles of codes, and of what scales and moves them: lines of columns of the product.
void KernelWriter::plan_parts(ContractPlan& plan) {
  const tile::Axis& k = plan.contract->k[0];
  const auto add = [&](const Expr& load, int64_t run) {
    if (!load) return;
    Operand& part = plan.parts.emplace_back();
    const int64_t places = k.bound / run;
    const bool whole = as_integer(k.extent) == k.bound;
    const Expr extent = whole ? make_index(places) : floor_div(k.extent + make_index(run - 1), make_index(run));
    part.along = {{make_variable(), extent, places}};
    std::vector<Expr> indices = load->args;
    indices.back() = indices.back() + part.along[0].variable;
    part.value = make_load(load->tensor, load->type, std::move(indices));
    part.buffer = load->tensor, part.type = load->type, part.transposed = true;
    part.lines = plan.layout.padded_columns();
    part.columns = static_cast<int>((places + part.vector() - 1) / part.vector() * part.vector());
    part.leading = ((part.columns / part.vector()) | 1) * part.vector();
    plan_copies(part, *plan.contract, plan, false);
    part.repeats = repeats(part, plan, false);
  };
  add(plan.coded->codes, 8 / plan.coded->bits);
  add(plan.coded->scale, plan.coded->block);
  add(plan.coded->zero, plan.coded->block);
}

void KernelWriter::multiply_codes(const ContractPlan& plan, const std::string& slot) {
  const CodedOperand& coded = *plan.coded;
  const FragmentLayout& layout = plan.layout;
  const std::string column = layout.column_of_warp();
  const auto place = [&](const Operand& operand) {
    return fmt::format("(const {}*)(shared + {} + {} * {})", type_name(operand.type), operand.offset,
                       operand.slots == 1 ? "0" : slot, operand.slot_bytes());
  };
  size_t next = 1;
  const auto of_blocks = [&](const Expr& load, const std::string& otherwise) {
    if (!load) return otherwise;
    const Operand& part = plan.parts[next++];
    return fmt::format("BlockValues<{}, {}, {}>{{{} + ({}) * {}}}", type_name(part.type), coded.block, part.leading,
                       place(part), column, part.leading);
  };
  const std::string scales = of_blocks(coded.scale, "OneValue<f32>{1}");
  const std::string zeros = of_blocks(coded.zero, fmt::format("OneValue<u8>{{{}}}", coded.constant_zero));
  code_.open("");
  if (!plan.contract->accumulate) clear_result(plan);
  const std::string to = plan.sums.empty() ? begin_sums(plan) : plan.sums;
  const Operand& codes = plan.parts[0];
  const int of_slice = plan.k / layout.slices;
  const std::string begin =
      layout.slices == 1 ? "0" : fmt::format("warp / {} * {}", layout.warps_m * layout.warps_n, of_slice);
  const std::string right = fmt::format("{} + ({}) * {}, {}, {}, {}", place(codes), column, codes.leading, scales,
                                        zeros, begin);
  if (plan.few_rows > 0) {
    code_.line("multiply_few<{}, {}, {}, {}, {}>({}, {}, {});", of_slice, coded.bits, plan.few_rows, plan.a.leading,
               codes.leading, to, place(plan.a), right);
  } else {
    code_.line("multiply_coded<{}, {}, {}, {}, {}>({}, {} + warp % {} * {}, {});", of_slice, coded.bits, plan.a.leading,
               layout.row_step(), codes.leading, to, place(plan.a), layout.warps_m, 16 * plan.a.leading, right);
  }
  if (plan.sums.empty()) end_sums(plan, to);
  code_.close();
  for (const Operand* operand : plan.sources()) pending_.reads.insert(operand->id);
}

/// Where a product is summed up before it is added to its result: with codes, by all slices, in registers, which are
/// declared and cleared; or in the result itself.
std::string KernelWriter::begin_sums(const ContractPlan& plan) {
  const FragmentLayout& layout = plan.layout;
  if (!plan.coded || (plan.few_rows == 0 && layout.slices == 1)) return names_.buffers[plan.contract->c];
  const std::string sums = code_.fresh("sums");
  if (plan.few_rows > 0) {
    code_.line("f32 {}[{}][4] = {{}};", sums, layout.n_tiles / 2);
  } else {
    code_.line("f32 {}[{}][{}][4] = {{}};", sums, layout.m_tiles, layout.n_tiles);
  }
  return sums;
}

/// Adds the sums of all slices to the result, by way of the memory of the operands, which nobody reads any more.
void KernelWriter::end_sums(const ContractPlan& plan, const std::string& sums) {
  const FragmentLayout& layout = plan.layout;
  const std::string c = names_.buffers[plan.contract->c];
  if (sums == c) return;
  const bool few = plan.few_rows > 0;
  const int tiles = layout.m_tiles * layout.n_tiles;
  const int64_t of_tile = int64_t{program_.threads} * 16;
  const int64_t least = few ? int64_t{layout.slices} * layout.padded_columns() * 32 : of_tile;
  const auto room = [](const Operand& operand) {
    return operand.offset < 0 ? 0 : operand.slot_bytes() * operand.slots;
  };
  const Operand& codes = plan.parts[0];
  const Operand& larger = room(codes) > room(plan.a) ? codes : plan.a;
  const bool has_room = room(larger) >= least;
  const int64_t offset = has_room ? larger.offset : reserve_shared(least, 16);
  if (few) {
    code_.line("sum_few<{}, {}, {}>({}, {}, shared + {}, warp / {}, {});", layout.slices, layout.padded_columns(),
               layout.n_tiles, c, sums, offset, layout.warps_m * layout.warps_n, layout.column_of_warp());
  } else {
    const int64_t at_once = std::min<int64_t>(tiles, std::max(room(larger), least) / of_tile);
    code_.line("sum_slices<{}, {}, {}, {}>(&{}[0][0][0], &{}[0][0][0], shared + {});", program_.threads, layout.slices,
               tiles, has_room ? at_once : 1, c, sums, offset);
  }
}

}  // namespace graft::cuda
