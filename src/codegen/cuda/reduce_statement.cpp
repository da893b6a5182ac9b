// SPDX-License-Identifier: Apache-2.0
// Reductions: a thread, a warp or the block per point of memory; the four lanes of a row (and its warps) for fragments.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

int fragment_in(const KernelNames& names, const tile::Reduce& reduce) {
  int fragment = -1;
  for (const Expr& lift : reduce.lift) {
    for_each(lift, [&](const Expr& node) {
      const bool better = fragment < 0 || names.is_row_fragment(fragment);
      if (node->kind == ExprKind::kLoad && names.is_fragment(node->tensor) && better) fragment = node->tensor;
    });
  }
  return fragment;
}

/// The number of points when it is known, else the given value.
int64_t points_of(const std::vector<tile::Axis>& axes, int64_t unknown) {
  int64_t points = 1;
  for (const tile::Axis& axis : axes) {
    const int64_t bound = as_integer(axis.extent).value_or(axis.bound);
    if (bound == 0 && !as_integer(axis.extent)) return unknown;
    points = std::min<int64_t>(points * bound, int64_t{1} << 40);
  }
  return points;
}

}  // namespace

void KernelWriter::statement(const tile::Reduce& reduce) {
  for (const tile::Store& output : reduce.outputs) {
    if (!names_.is_fragment(output.buffer)) continue;
    const int from = fragment_in(names_, reduce);
    const bool fits = names_.is_row_fragment(output.buffer) && from >= 0 && !names_.is_row_fragment(from) &&
                      names_.fragments.at(from).same_rows(names_.fragments.at(output.buffer)) &&
                      counts_points(output.indices[0], reduce.axes);
    if (!fits) throw Unsupported{"a reduction into a fragment"};
  }
  before(accesses_of(program_, {reduce}));
  code_.open("");
  expressions_.enter();
  if (const int fragment = fragment_in(names_, reduce); fragment >= 0) {
    fragment_reduce(reduce, fragment);
  } else {
    memory_reduce(reduce);
  }
  expressions_.leave();
  code_.close();
}

/// Declares the state's type `State`, its identity and the lambda `combine`.
std::string KernelWriter::begin_monoid(const tile::Reduce& reduce) {
  const Monoid& monoid = reduce.monoid;
  std::string fields, identity;
  for (size_t i = 0; i < monoid.identity.size(); ++i) {
    fields += fmt::format(" {} s{};", type_name(monoid.identity[i]->type), i);
    identity += fmt::format("{}{}", i ? ", " : "", literal(*monoid.identity[i]));
    names_.variables[monoid.left[i]->variable] = fmt::format("left.s{}", i);
    names_.variables[monoid.right[i]->variable] = fmt::format("right.s{}", i);
  }
  code_.line("struct State {{{} }};", fields);
  code_.line("const State identity = {{{}}};", identity);
  code_.open("const auto combine = [&](const State& left, const State& right) -> State");
  expressions_.enter();
  std::string combined;
  for (size_t i = 0; i < monoid.combine.size(); ++i) {
    combined += fmt::format("{}{}", i ? ", " : "", expressions_.value(monoid.combine[i]));
  }
  code_.line("return {{{}}};", combined);
  expressions_.leave();
  code_.close(";");
  return "State";
}

/// state = combine(state, lift) at the current point.
void KernelWriter::fold_one(const tile::Reduce& reduce, const std::string& state) {
  expressions_.enter();
  std::string lifted;
  for (size_t i = 0; i < reduce.lift.size(); ++i) {
    lifted += fmt::format("{}{}", i ? ", " : "", expressions_.value(reduce.lift[i]));
  }
  code_.line("{0} = combine({0}, State{{{1}}});", state, lifted);
  expressions_.leave();
}

/// outputs = state at the current point, combined with what they hold when the reduction accumulates.
void KernelWriter::write_outputs(const tile::Reduce& reduce, const std::string& state) {
  expressions_.enter();
  std::vector<std::string> targets;
  for (const tile::Store& output : reduce.outputs) {
    targets.push_back(expressions_.element(output.buffer, output.indices));
  }
  std::string result = state;
  if (reduce.accumulate) {
    result = code_.fresh("t");
    code_.line("const State {} = combine(State{{{}}}, {});", result, fmt::join(targets, ", "), state);
  }
  for (size_t i = 0; i < targets.size(); ++i) code_.line("{} = {}.s{};", targets[i], result, i);
  expressions_.leave();
}

void KernelWriter::fragment_reduce(const tile::Reduce& reduce, int fragment) {
  const FragmentLayout layout = names_.fragments.at(fragment);
  if (reduce.axes.size() != 1 || reduce.reduced.size() != 1) {
    throw Unsupported{"a reduction of a fragment runs along its rows"};
  }
  if (layout.slices > 1) throw Unsupported{"a reduction of a fragment whose sums are shared out"};
  if (!commutes(reduce.monoid)) {
    throw Unsupported{"a reduction of a fragment whose combination is not seen to commute"};
  }
  for (const Expr& lift : reduce.lift) {
    for_each(lift, [&](const Expr& node) {
      if (node->kind == ExprKind::kLoad && names_.is_fragment(node->tensor)) {
        if (names_.is_row_fragment(node->tensor)) return;
        if (names_.fragments.at(node->tensor) != layout) {
          throw Unsupported{"a reduction over fragments of different shapes"};
        }
        check_fragment_indices(node->tensor, reduce.axes, reduce.reduced, {&node->args});
      }
    });
  }
  begin_monoid(reduce);
  const std::vector<std::string> rows = extents_of(reduce.axes), columns = extents_of(reduce.reduced);
  names_.variables[reduce.axes[0].variable->variable] = "row";
  if (layout.warps_n > 1) {
    const int64_t states = int64_t{layout.padded_rows()} * layout.warps_n;
    code_.line("State* const partial = (State*)(shared + {});",
               reserve_shared(16 * states * static_cast<int64_t>(reduce.lift.size())));
    barrier();  // an earlier reduction may still read its partial results
  }
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int h = 0; h < {}; ++h)", 2 * layout.m_tiles));
  code_.line("const int row = {} + h / 2 * {} + h % 2 * 8;", layout.first_row(), layout.row_step());
  code_.line("State state = identity;");
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int p = 0; p < {}; ++p)", 2 * layout.n_tiles));
  const std::string column = bind(reduce.reduced[0].variable, "c");
  code_.line("const int {} = {} + p / 2 * 8 + p % 2;", column, layout.first_column());
  // Rows beyond the extent may hold anything; columns beyond it must not count.
  bool in_registers = true;
  for (const Expr& lift : reduce.lift) {
    for_each(lift, [&](const Expr& node) {
      in_registers &= node->kind != ExprKind::kLoad || names_.is_fragment(node->tensor);
    });
  }
  const bool all_columns = as_integer(reduce.reduced[0].extent) == layout.columns &&
                           layout.columns == layout.padded_columns();
  std::string inside = all_columns ? "" : fmt::format("if ({} < {})", column, columns[0]);
  if (!in_registers) inside = fmt::format("if (row < {} && {} < {})", rows[0], column, columns[0]);
  code_.open(inside);
  expressions_.set_fragment_position("[h / 2][p / 2][h % 2 * 2 + p % 2]", "[h]");
  fold_one(reduce, "state");
  expressions_.set_fragment_position("", "");
  code_.close();
  code_.close();
  code_.line("state = quad_fold(state, combine);");
  if (layout.warps_n == 1) {
    // Each of the four threads keeps a row's value in a fragment; one of them writes to memory.
    const bool to_fragment = names_.is_fragment(reduce.outputs[0].buffer);
    const bool keeps = to_fragment && in_registers;  // rows beyond the extent may hold anything
    code_.open(keeps ? "" : fmt::format("if ({}row < {})", to_fragment ? "" : "lane % 4 == 0 && ", rows[0]));
    expressions_.set_fragment_position("", "[h]");
    write_outputs(reduce, "state");
    expressions_.set_fragment_position("", "");
    code_.close();
    code_.close();
    return;
  }
  code_.line("if (lane % 4 == 0) partial[row * {} + warp / {}] = state;", layout.warps_n, layout.warps_m);
  code_.close();
  barrier();
  code_.open(fmt::format("for (int row = threadIdx.x; row < {}; row += {})", rows[0], program_.threads));
  code_.line("State state = partial[row * {}];", layout.warps_n);
  code_.line("for (int i = 1; i < {0}; ++i) state = combine(state, partial[row * {0} + i]);", layout.warps_n);
  write_outputs(reduce, "state");
  code_.close();
  pending_ = accesses_of(program_, {reduce});
}

void KernelWriter::memory_reduce(const tile::Reduce& reduce) {
  begin_monoid(reduce);
  const std::vector<std::string> kept = extents_of(reduce.axes), reduced = extents_of(reduce.reduced);
  if (dealt_reduce(reduce, kept, reduced)) return;
  const int64_t many = int64_t{1} << 40;
  const int64_t points = points_of(reduce.axes, many), elements = points_of(reduce.reduced, many);
  if (!reduce.monoid.associative || elements <= 8 || (elements <= 32 && points >= program_.threads)) {
    reduce_thread_per_point(reduce, kept, reduced);
  } else {
    reduce_together(reduce, kept, reduced, points < program_.threads / 32);
  }
}

/// Folds the elements from, from + step ... below `to` of the reduced axes into `state`.
void KernelWriter::fold_elements(const tile::Reduce& reduce, const std::vector<std::string>& reduced,
                                 const std::string& from, const std::string& to, const std::string& step) {
  code_.open(fmt::format("for (i64 x = {}; x < {}; x += {})", from, to, step));
  expressions_.enter();
  decompose(reduce.reduced, reduced, "x", "i64");
  fold_one(reduce, "state");
  expressions_.leave();
  code_.close();
}

void KernelWriter::reduce_thread_per_point(const tile::Reduce& reduce, const std::vector<std::string>& kept,
                                           const std::vector<std::string>& reduced) {
  code_.line("const i64 elements = 1ll{}{};", reduced.empty() ? "" : " * ", fmt::join(reduced, " * "));
  code_.open(fmt::format("for (i64 p = threadIdx.x; p < 1ll{}{}; p += {})", kept.empty() ? "" : " * ",
                         fmt::join(kept, " * "), program_.threads));
  expressions_.enter();
  decompose(reduce.axes, kept, "p", "i64");
  code_.line("State state = identity;");
  fold_elements(reduce, reduced, "0", "elements", "1");
  write_outputs(reduce, "state");
  expressions_.leave();
  code_.close();
}

void KernelWriter::reduce_together(const tile::Reduce& reduce, const std::vector<std::string>& kept,
                                   const std::vector<std::string>& reduced, bool block) {
  const int group = block ? program_.threads : 32;
  code_.line("const i64 elements = 1ll{}{};", reduced.empty() ? "" : " * ", fmt::join(reduced, " * "));
  code_.line("const int member = threadIdx.x % {};", group);
  if (block) {
    code_.line("State* const partial = (State*)(shared + {});",
               reserve_shared(int64_t{16} * static_cast<int64_t>(reduce.lift.size()) * (program_.threads / 32)));
  }
  code_.open(fmt::format("for (i64 p = threadIdx.x / {}; p < 1ll{}{}; p += {})", group, kept.empty() ? "" : " * ",
                         fmt::join(kept, " * "), program_.threads / group));
  expressions_.enter();
  decompose(reduce.axes, kept, "p", "i64");
  code_.line("State state = identity;");
  if (commutes(reduce.monoid)) {
    fold_elements(reduce, reduced, "member", "elements", std::to_string(group));
  } else {
    // Each thread takes a run of neighbours, so that runs are combined in order.
    code_.line("const i64 run = (elements + {}) / {};", group - 1, group);
    fold_elements(reduce, reduced, "member * run", "size_min(elements, (member + 1) * run)", "1");
  }
  if (block) {
    code_.line("state = block_fold<{}>(state, combine, partial);", program_.threads);
  } else {
    code_.line("state = warp_fold(state, combine);");
  }
  code_.open("if (member == 0)");
  write_outputs(reduce, "state");
  code_.close();
  expressions_.leave();
  code_.close();
}

}  // namespace graft::cuda
