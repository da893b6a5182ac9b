// SPDX-License-Identifier: Apache-2.0
// Products of few rows with codes, which memory bounds: a lane reads the codes that it decodes, and no block waits at a
// barrier for what others copy.
#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

/// The address without the loop over steps, where each step takes `step` elements; elements of a column are `stride`
/// apart from those of the next.
struct Streamed {
  Affine start;
  Size stride;
};

std::optional<Streamed> streamed(const std::optional<Affine>& address, int loop, int64_t step, int column) {
  if (!address || !address->coefficient(loop).is(step)) return std::nullopt;
  Streamed found{*address, address->coefficient(column)};
  found.start.coefficients.erase(loop), found.start.coefficients.erase(column);
  return found;
}

bool all_multiples(const Streamed& address, int64_t of) {
  bool all = address.start.offset.is_multiple_of(of) && address.stride.is_multiple_of(of);
  for (const auto& [variable, coefficient] : address.start.coefficients) all = all && coefficient.is_multiple_of(of);
  return all;
}

}  // namespace

/// Whether the loop is a product of few rows with codes that can be read so; writes it then.
bool KernelWriter::stream_codes(const tile::For& loop, const std::vector<ContractPlan>& plans) {
  const ContractPlan& plan = plans[0];
  if (plans.size() != 1 || !plan.coded || plan.few_rows == 0 || loop.body.size() != 1 || plan.loops.size() != 1) {
    return false;
  }
  const tile::Contract& contract = *plan.contract;
  const CodedOperand& coded = *plan.coded;
  const int64_t step = contract.k[0].bound, rounds = as_integer(loop.axis.extent).value_or(0);
  constexpr int64_t kUnit = 128;
  const bool whole = as_integer(contract.k[0].extent) == step && rounds > 0 && rounds * step % kUnit == 0;
  if (!whole || contract.n.size() != 1 || plan.layout.m_tiles != 1) return false;
  if (plan.a.value->kind != ExprKind::kLoad) return false;
  if (rounds * step > INT32_MAX / 16) return false;
  const int variable = loop.axis.variable->variable, column = contract.n[0].variable->variable;
  const auto of_load = [&](const Expr& load, int64_t elements, int across) {
    return streamed(names_.address(load->tensor, load->args), variable, elements, across);
  };
  const auto codes = of_load(coded.codes, step * coded.bits / 8, column);
  auto x = of_load(plan.a.value, step, contract.m[0].variable->variable);
  if (!codes || !x || !x->start.coefficient(contract.k[0].variable->variable).is(1)) return false;
  x->start.coefficients.erase(contract.k[0].variable->variable);
  if (!all_multiples(*codes, std::min(16, 4 * coded.bits)) || !all_multiples(*x, 8)) return false;
  std::optional<Streamed> scale, zero;
  if (coded.scale && !(scale = of_load(coded.scale, step / coded.block, column))) return false;
  if (coded.zero && !(zero = of_load(coded.zero, step / coded.block, column))) return false;

  const FragmentLayout& layout = plan.layout;
  const auto pointer = [&](const Expr& load, const Streamed& from) {
    return fmt::format("{} + ({})", names_.buffers[load->tensor], names_.affine_text(from.start));
  };
  const auto of_blocks = [&](const Expr& load, const std::optional<Streamed>& from, const std::string& otherwise) {
    if (!load) return otherwise;
    return fmt::format("BlocksInMemory<{}, {}>{{{}, {}}}", type_name(load->type), coded.block, pointer(load, *from),
                       names_.size(from->stride));
  };
  const bool early = !followed_ && loop.early && names_.buffer(coded.codes->tensor).constant &&
                     (!coded.scale || names_.buffer(coded.scale->tensor).constant) &&
                     (!coded.zero || names_.buffer(coded.zero->tensor).constant);
  if (!early) follow();
  const std::string columns = uniform_value(contract.n[0].extent);
  const std::string sums = begin_sums(plan);
  const std::string rows = pointer(plan.a.value, *x), from = pointer(coded.codes, *codes);
  const std::string arguments = fmt::format(
      "({}, {}, {}, {}, {}, {}, {}, warp / {}, {}, (int){}, [] {{{}}});", sums, rows, names_.size(x->stride), from,
      names_.size(codes->stride), of_blocks(coded.scale, scale, "OneValue<f32>{1}"),
      of_blocks(coded.zero, zero, fmt::format("OneValue<u8>{{{}}}", coded.constant_zero)),
      layout.warps_m * layout.warps_n, layout.column_of_warp(), columns, early ? " follow_earlier_kernels(); " : "");
  const std::string constants = fmt::format("{}, {}, {}, {}, {}, {}", rounds * step, coded.bits, coded.block,
                                            plan.few_rows, layout.slices, layout.n_tiles / 2);
  code_.line("if ((u64)({}) % 16 == 0 && (u64)({}) % {} == 0) stream_few<true, {}>{}", rows, from,
             std::min(16, 4 * coded.bits), constants, arguments);
  code_.line("else stream_few<false, {}>{}", constants, arguments);
  followed_ = true;
  end_sums(plan, sums);
  return true;
}

}  // namespace graft::cuda
