// SPDX-License-Identifier: Apache-2.0
#include "library/slice.h"

#include <algorithm>

namespace graft {
namespace {

/// A dimension of the result that can be cut, in steps of `quantum`.
struct CutAxis {
  enum Kind { kBatch, kRows, kColumns, kWindow } kind;
  size_t index = 0;  ///< of the batch axis or window
  int64_t quantum = 1;
};

/// Columns of a slice fill whole vectors.
constexpr int64_t kColumnQuantum = 16;

Size& extent_of(LibraryCall& call, const CutAxis& axis) {
  switch (axis.kind) {
    case CutAxis::kBatch:
      return call.batch[axis.index];
    case CutAxis::kRows:
      return call.rows;
    case CutAxis::kColumns:
      return call.columns;
    case CutAxis::kWindow:
      break;
  }
  return call.windows[axis.index].output;
}

void advance(CallOperand& operand, size_t dimension, int64_t steps) {
  operand.offset = operand.offset + operand.strides[dimension] * Size(steps);
}

/// Moves the result, and whatever is added to it, to position `begin` of a dimension.
void advance_results(LibraryCall& call, size_t dimension, int64_t begin) {
  for (auto& [role, operand] : call.operands()) {
    if (role == CallRole::kResult || role == CallRole::kPost) advance(*operand, dimension, begin);
  }
}

void advance_columns(LibraryCall& call, int64_t begin) {
  const size_t dimension = call.batch.size() + 1;
  advance_results(call, dimension, begin);
  if (call.weights.panel == 0) return advance(call.weights, dimension, begin);
  Size rest = call.depth;
  for (const CallWindow& window : call.windows) rest = rest * window.kernel;
  call.weights.offset = call.weights.offset + Size(begin) * rest;
}

/// Output positions begin..end-1 of a window: the part of the input that they read, and what they miss of it in front.
void cut_window(LibraryCall& call, size_t index, int64_t begin, int64_t end) {
  CallWindow& window = call.windows[index];
  const int64_t first = begin * window.stride - window.before.constant();
  const int64_t reach = (window.kernel.constant() - 1) * window.dilation + 1;
  const int64_t last = (end - 1) * window.stride - window.before.constant() + reach;
  const int64_t from = std::max<int64_t>(first, 0), to = std::min(last, window.input.constant());
  const size_t dimension = call.batch.size() + 2 + index;
  advance(call.source, dimension, from);
  advance_results(call, dimension, begin);
  window.before = from - first;
  window.input = to - from;
  window.output = end - begin;
}

LibraryCall part(LibraryCall call, const CutAxis& axis, int64_t begin, int64_t end) {
  switch (axis.kind) {
    case CutAxis::kBatch:
      for (auto& [role, operand] : call.operands()) advance(*operand, axis.index, begin);
      break;
    case CutAxis::kRows:
      advance(call.source, call.batch.size(), begin);
      advance_results(call, call.batch.size(), begin);
      break;
    case CutAxis::kColumns:
      advance_columns(call, begin);
      break;
    case CutAxis::kWindow:
      cut_window(call, axis.index, begin, end);
      return call;
  }
  extent_of(call, axis) = end - begin;
  return call;
}

/// Whether every part of the window reads something of the input.
bool can_cut(const CallWindow& window) {
  const int64_t reach = (window.kernel.constant() - 1) * window.dilation + 1;
  const int64_t last = (window.output.constant() - 1) * window.stride - window.before.constant();
  return reach > window.before.constant() && last < window.input.constant();
}

/// What may be cut, the most welcome first. Channels of a convolution lie side by side and stay together.
std::vector<CutAxis> cut_axes(const LibraryCall& call, LibraryCut cut) {
  if (call.is_convolution()) {
    std::vector<CutAxis> axes = {{CutAxis::kRows}};
    if (can_cut(call.windows[0])) axes.push_back({CutAxis::kWindow});
    return axes;
  }
  std::vector<CutAxis> axes;
  for (size_t b = 0; b < call.batch.size() && call.weights.panel == 0; ++b) axes.push_back({CutAxis::kBatch, b});
  const bool columns = cut == LibraryCut::kColumns;
  axes.push_back(columns ? CutAxis{CutAxis::kColumns, 0, std::max(call.weights.panel, kColumnQuantum)}
                         : CutAxis{CutAxis::kRows});
  return axes;
}

}  // namespace

std::vector<LibraryCall> slice(const LibraryCall& call, LibraryCut cut, int64_t pieces) {
  for (const Size& extent : extents_of(call, CallRole::kResult)) {
    if (extent.is(0)) return {};
  }
  std::vector<LibraryCall> slices = {call};
  for (const CutAxis& axis : cut_axes(call, cut)) {
    const int64_t extent = extent_of(slices[0], axis).constant();
    const int64_t steps = (extent + axis.quantum - 1) / axis.quantum;
    const int64_t parts = std::min(steps, pieces);
    if (parts <= 1) continue;
    std::vector<LibraryCall> finer;
    for (const LibraryCall& whole : slices) {
      for (int64_t p = 0; p < parts; ++p) {
        const int64_t begin = steps * p / parts * axis.quantum;
        const int64_t end = std::min(extent, steps * (p + 1) / parts * axis.quantum);
        finer.push_back(part(whole, axis, begin, end));
      }
    }
    slices = std::move(finer);
    pieces = (pieces + parts - 1) / parts;
  }
  return slices;
}

}  // namespace graft
