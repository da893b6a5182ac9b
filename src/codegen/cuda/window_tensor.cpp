// SPDX-License-Identifier: Apache-2.0
// Left operands of convolutions that the copy engine of a GPU can bring: of each pixel in turn that a window's corner
// goes over, the channels at one place in the window, zero outside of the image.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

constexpr int kLowest = -128, kHighest = 127;  // corners, in pixels
constexpr int kWidestStep = 8;
constexpr int64_t kMostChannels = 256, kMostPixels = 1024;

/// An index `step * number + rest`, where only `number` changes from row to row of the tile.
struct Place {
  Expr number, rest;
  int64_t step = 1;
};

/// The outermost floor_div or mod that a variable goes through.
Expr numbering(const Expr& index, int variable) {
  Expr found;
  for_each(index, [&](const Expr& node) {
    const bool divides = is_call(node, Intrinsic::kFloorDiv) || is_call(node, Intrinsic::kMod);
    if (divides && uses_variable(node, variable)) found = node;  // users come after what they use
  });
  return found;
}

std::optional<Place> place_of(const Expr& index, int variable) {
  const Expr number = numbering(index, variable);
  if (!number) return std::nullopt;
  const Expr stand_in = make_variable();
  const Expr replaced =
      transform(index, [&](const Expr& node) -> Expr { return equal(node, number) ? stand_in : Expr(); });
  const auto form = affine(replaced);
  if (!form || uses_variable(replaced, variable)) return std::nullopt;
  const auto step = form->coefficient(stand_in->variable).as_constant();
  if (!step || *step < 1 || *step > kWidestStep) return std::nullopt;
  return Place{number, substitute(replaced, {{stand_in->variable, make_index(0)}}), *step};
}

/// `x` of floor_div(x, n) or mod(x, n) with a known n.
Expr dividend(const Expr& e, Intrinsic intrinsic, int64_t& n) {
  if (!is_call(e, intrinsic)) return {};
  const auto divisor = affine(e->args[1]);
  if (!divisor || !divisor->coefficients.empty() || !divisor->offset.is_constant()) return {};
  n = divisor->offset.constant();
  return e->args[0];
}

/// Whether the condition says no more than that both indices lie in the image.
bool only_keeps_inside(const Expr& condition, const Expr (&indices)[2], const Size (&extents)[2]) {
  if (!condition) return true;
  if (is_call(condition, Intrinsic::kAnd)) {
    return only_keeps_inside(condition->args[0], indices, extents) &&
           only_keeps_inside(condition->args[1], indices, extents);
  }
  const bool is_lower = is_call(condition, Intrinsic::kGe), is_upper = is_call(condition, Intrinsic::kLt);
  if (!is_lower && !is_upper) return false;
  const auto bound = affine(condition->args[1]);
  if (!bound || !bound->coefficients.empty()) return false;
  for (int i = 0; i < 2; ++i) {
    if (equal(condition->args[0], indices[i]) && bound->offset == (is_lower ? Size(0) : extents[i])) return true;
  }
  return false;
}

}  // namespace

bool KernelWriter::plan_window(Operand& operand, const ContractPlan& plan) const {
  const auto guarded = guarded_load(operand.value);
  if (!guarded || operand.source != Operand::Source::kStaged || !operand.swizzle || operand.transposed) return false;
  const tile::Buffer& buffer = names_.buffer(operand.buffer);
  const std::vector<Expr>& args = guarded->load->args;
  const size_t rank = args.size();
  const tile::Contract& contract = *plan.contract;
  if (buffer.scope != tile::Scope::kGlobal || buffer.written || bit_width(buffer.type) != 16) return false;
  if ((rank != 3 && rank != 4) || contract.m.size() != 1 || contract.k.size() != 1) return false;
  if (contract.m[0].bound != operand.lines || contract.k[0].bound != operand.columns) return false;
  if (contract.m[0].bound > kMostPixels) return false;
  const int point = contract.m[0].variable->variable, channel = contract.k[0].variable->variable;

  // column = mod(p, columns), row = floor_div(p, columns), of several images mod of that, image = floor_div of that
  const auto column = place_of(args[rank - 2], point), row = place_of(args[rank - 3], point);
  if (!column || !row) return false;
  int64_t columns = 0, again = 0, rows = 0, rows_again = 0;
  const Expr p = dividend(column->number, Intrinsic::kMod, columns);
  Expr line = row->number;
  if (rank == 4) line = dividend(row->number, Intrinsic::kMod, rows);
  const Expr p_again = line ? dividend(line, Intrinsic::kFloorDiv, again) : Expr();
  if (!p || !p_again || !equal(p, p_again) || columns != again) return false;
  if (rank == 4) {
    const Expr image = dividend(args[0], Intrinsic::kFloorDiv, rows_again);
    if (!image || !equal(image, line) || rows != rows_again) return false;
  }
  const auto number = affine(p);
  if (!number || !number->coefficient(point).is(1)) return false;

  BoxedTensor boxed{.buffer = operand.buffer, .swizzle = operand.swizzle};
  BoxedTensor::Window window{.pixels = operand.lines};
  const Size extents[2] = {buffer.shape[rank - 2], buffer.shape[rank - 3]};
  const Expr indices[2] = {args[rank - 2], args[rank - 3]};
  if (!only_keeps_inside(guarded->condition, indices, extents)) return false;
  const int64_t counts[2] = {columns, rows};
  Expr starts[2];
  for (int i = 0; i < 2; ++i) {
    const Place& place = i == 0 ? *column : *row;
    const auto rest = affine(place.rest);
    if (!rest || !rest->offset.is_constant() || !extents[i].is_constant()) return false;
    for (const auto& [variable, step] : rest->coefficients) {
      const bool grows = step.is_constant() && step.constant() >= 0;
      const auto is_loop = [&, id = variable](const tile::For* loop) { return loop->axis.variable->variable == id; };
      if (!grows || std::none_of(plan.loops.begin(), plan.loops.end(), is_loop)) return false;
    }
    const int64_t lower = rest->offset.constant();
    int64_t upper = lower + (counts[i] - 1) * place.step - (extents[i].constant() - 1);
    if (rank == 3 && i == 1) upper = kHighest;  // one image: its rows go on
    if (lower < kLowest || lower > kHighest || upper < kLowest || upper > kHighest) return false;
    window.lower[i] = static_cast<int>(lower), window.upper[i] = static_cast<int>(upper);
    window.step[i] = static_cast<int>(place.step);
    window.offset[i] = place.rest - make_index(lower);
    starts[i] = substitute(place.number, {{point, make_index(0)}}) * make_index(place.step) + make_index(lower);
  }

  const auto depth = affine(args[rank - 1]);
  const Size& channels = buffer.shape[rank - 1];
  const int64_t width = operand.swizzle / 2;
  if (!depth || !depth->coefficient(channel).is(1) || !buffer.strides[rank - 1].is(1)) return false;
  if (contract.k[0].bound % width != 0 || width > kMostChannels) return false;
  if (!ends_with_tensor(contract.k[0], args[rank - 1], channels)) return false;
  for (const Expr& index : {args[rank - 2], args[rank - 3]}) {
    if (uses_variable(index, channel)) return false;
  }
  boxed.copies = static_cast<int>(contract.k[0].bound / width);
  boxed.axes.push_back({channels, 1, width, substitute(args[rank - 1], {{channel, make_index(0)}})});
  boxed.axes.push_back({extents[0], buffer.strides[rank - 2], 1, starts[0]});
  boxed.axes.push_back({extents[1], buffer.strides[rank - 3], 1, starts[1]});
  if (rank == 4) {
    boxed.axes.push_back({buffer.shape[0], buffer.strides[0], 1, substitute(args[0], {{point, make_index(0)}})});
  } else {
    boxed.axes.push_back({1, extents[1] * buffer.strides[0], 1, make_index(0)});
  }
  for (size_t i = 1; i < boxed.axes.size(); ++i) {
    if (!boxed.axes[i].stride.is_multiple_of(operand.vector())) return false;
  }
  boxed.window = std::move(window);
  operand.boxed = std::move(boxed);
  return true;
}

}  // namespace graft::cuda
