// SPDX-License-Identifier: Apache-2.0
// Operands that the tensor memory accelerator (TMA) can bring: boxes of tensors with up to five axes, zero beyond
// their borders.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

constexpr size_t kMostAxes = 5;
constexpr int64_t kWidestBox = 256;

bool uses_any(const Expr& e, const std::vector<const tile::Axis*>& axes) {
  return std::any_of(axes.begin(), axes.end(),
                     [&](const tile::Axis* axis) { return uses_variable(e, axis->variable->variable); });
}

/// floor_div(x, extent) and mod(x, extent) -> x.
Expr numbered_through(const Expr& outer, const Expr& inner, const Size& extent) {
  if (!is_call(outer, Intrinsic::kFloorDiv) || !is_call(inner, Intrinsic::kMod)) return {};
  if (!equal(outer->args[0], inner->args[0])) return {};
  for (const Expr& divisor : {outer->args[1], inner->args[1]}) {
    const auto value = affine(divisor);
    if (!value || !value->coefficients.empty() || !(value->offset == extent)) return {};
  }
  return outer->args[0];
}

/// Whether what a tile holds of the axis beyond its extent lies outside of the tensor: an index `start + axis` whose
/// axis ends with the tensor's, or with the tile.
bool ends_with_tensor(const tile::Axis& axis, const Expr& index, const Size& extent) {
  const auto all = affine(axis.extent);
  if (all && all->coefficients.empty() && all->offset.is(axis.bound)) return true;
  if (!is_call(axis.extent, Intrinsic::kMin)) return false;
  const auto start = affine(substitute(index, {{axis.variable->variable, make_index(0)}}));
  for (const Expr& rest : axis.extent->args) {
    const auto left = start ? affine(rest) : std::nullopt;
    if (!left || (left->coefficients.empty() && left->offset.is(axis.bound))) continue;
    Affine end = *left;
    end.offset = end.offset + start->offset;
    for (const auto& [variable, step] : start->coefficients) {
      Size& sum = end.coefficients.try_emplace(variable, 0).first->second;
      sum = sum + step;
    }
    std::erase_if(end.coefficients, [](const auto& entry) { return entry.second.is(0); });
    if (end.coefficients.empty() && end.offset == extent) return true;
  }
  return false;
}

}  // namespace

/// The axes of the tensor that an operand loads, those that are numbered through as one; `start` is the index.
std::vector<TmaTensor::Axis> KernelWriter::merged_axes(const Operand& operand) const {
  const Expr load = guarded_load(operand.value)->load;
  const tile::Buffer& buffer = names_.buffer(operand.buffer);
  std::vector<TmaTensor::Axis> axes;
  for (size_t d = 0; d < load->args.size(); ++d) {
    TmaTensor::Axis axis{.extent = buffer.shape[d], .stride = buffer.strides[d], .start = load->args[d]};
    if (!axes.empty() && axes.back().stride == axis.extent * axis.stride) {
      if (const Expr whole = numbered_through(axes.back().start, axis.start, axis.extent)) {
        axis.extent = axes.back().extent * axis.extent, axis.start = whole;
        axes.pop_back();
      }
    }
    axes.push_back(std::move(axis));
  }
  return axes;
}

void KernelWriter::plan_tma(Operand& operand, const ContractPlan& plan, bool is_a) const {
  const auto guarded = guarded_load(operand.value);
  if (!guarded || guarded->condition || operand.source != Operand::Source::kStaged || !operand.swizzle) return;
  const tile::Buffer& buffer = names_.buffer(operand.buffer);
  const int bytes = operand.bytes();
  if (buffer.scope != tile::Scope::kGlobal || buffer.written || bytes > 2) return;
  const bool lines_are_k = is_a == operand.transposed;
  const std::vector<tile::Axis>&outer = is_a ? plan.contract->m : plan.contract->n, &k = plan.contract->k;
  const std::vector<tile::Axis>&lines = lines_are_k ? k : outer, &columns = lines_are_k ? outer : k;
  if (tile_points(lines) != operand.lines || tile_points(columns) != operand.columns) return;

  // From the contiguous axis outwards, as a box lies in shared memory: columns of a block, lines, further blocks.
  std::vector<const tile::Axis*> order = {&columns.back()};
  for (size_t i = lines.size(); i-- > 0;) order.push_back(&lines[i]);
  for (size_t i = columns.size() - 1; i-- > 0;) order.push_back(&columns[i]);
  std::vector<TmaTensor::Axis> axes = merged_axes(operand);
  TmaTensor tma{.buffer = operand.buffer, .element_bytes = bytes, .swizzle = operand.swizzle};
  const int width = operand.swizzle / bytes;
  for (const tile::Axis* axis : order) {
    const int variable = axis->variable->variable;
    const auto uses = [&](const TmaTensor::Axis& each) { return uses_variable(each.start, variable); };
    const auto found = std::find_if(axes.begin(), axes.end(), uses);
    if (found == axes.end() && axis->bound == 1) continue;
    if (found == axes.end() || std::count_if(axes.begin(), axes.end(), uses) != 1) return;
    const auto index = affine(found->start);
    if (!index || !index->coefficient(variable).is(1)) return;
    const bool is_k = std::any_of(k.begin(), k.end(), [&](const tile::Axis& each) { return &each == axis; });
    if (is_k && !ends_with_tensor(*axis, found->start, found->extent)) return;
    TmaTensor::Axis placed = *found;
    axes.erase(found);
    placed.start = substitute(placed.start, {{variable, make_index(0)}});
    if (uses_any(placed.start, order)) return;
    placed.box = axis->bound;
    if (tma.axes.empty()) {
      tma.copies = static_cast<int>(axis->bound / width);
      if (axis->bound % width != 0 || !placed.stride.is(1)) return;
      if (tma.copies > 1 && tile_points(columns) != axis->bound) return;
      placed.box = width;
    }
    tma.axes.push_back(std::move(placed));
  }
  if (tma.axes.empty() || !tma.axes[0].stride.is(1) || tma.axes[0].box != width) return;
  for (TmaTensor::Axis& axis : axes) {
    if (axis.extent.is(1)) continue;
    if (uses_any(axis.start, order)) return;
    tma.axes.push_back(std::move(axis));
  }
  if (tma.axes.size() == 1) tma.axes.push_back({.extent = 1, .stride = operand.vector(), .start = make_index(0)});
  if (tma.axes.size() > kMostAxes) return;
  for (size_t i = 0; i < tma.axes.size(); ++i) {
    const TmaTensor::Axis& axis = tma.axes[i];
    if (axis.box > kWidestBox || (i > 0 && !axis.stride.is_multiple_of(operand.vector()))) return;
    bool loads = false;
    for_each(axis.start, [&](const Expr& node) { loads |= node->kind == ExprKind::kLoad; });
    if (loads) return;
  }
  operand.tma = std::move(tma);
}

std::string launch_line(const tile::Program& program, const Kernel& kernel) {
  std::string line = fmt::format("{} threads {} shared {}", program.name, kernel.threads, kernel.shared_bytes);
  if (kernel.cluster > 1) line += fmt::format(" cluster {}", kernel.cluster);
  if (kernel.occupancy > 0) line += fmt::format(" persistent {}", kernel.occupancy);
  if (kernel.tma.empty() && kernel.cluster == 1 && kernel.occupancy == 0) return line;
  const auto is_global = [](const tile::Buffer& buffer) { return buffer.scope == tile::Scope::kGlobal; };
  const auto buffers = std::count_if(program.buffers.begin(), program.buffers.end(), is_global);
  line += fmt::format(" buffers {} sizes {}", buffers, program.sizes.size());
  const auto text = [](const Size& size) {
    std::string text = size.to_string();
    std::erase(text, ' ');
    return text;
  };
  for (const TmaTensor& tma : kernel.tma) {
    line += fmt::format(" tma {} bytes {} swizzle {}", tma.buffer, tma.element_bytes, tma.swizzle);
    for (const TmaTensor::Axis& axis : tma.axes) {
      line += fmt::format(" axis {} {} {}", text(axis.extent), text(axis.stride), axis.box);
    }
  }
  return line;
}

}  // namespace graft::cuda
