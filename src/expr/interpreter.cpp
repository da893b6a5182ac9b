// SPDX-License-Identifier: Apache-2.0
#include "expr/interpreter.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/convert.h"
#include "base/error.h"
#include "base/run_limits.h"
#include "expr/block_evaluator.h"

namespace graft {
namespace {

/// The points of some axes in row-major order, with the axis variables as columns.
class Points {
 public:
  Points(const std::vector<Axis>& axes, const Bindings& bindings, const std::string& where) : axes_(axes) {
    for (const Axis& axis : axes) extents_.push_back(axis.extent.evaluate(bindings));
    count_ = checked_element_count(DType::kInt64, extents_, where);
  }
  int64_t count() const { return count_; }
  const std::vector<int64_t>& extents() const { return extents_; }
  /// How many lanes a block of these points needs.
  int lanes() const { return static_cast<int>(std::min<int64_t>(count_, kBlockLanes)); }

  /// Fills the variables' columns for points first ... first + count - 1.
  void fill(BlockEvaluator& evaluator, int64_t first, int count) const {
    int64_t inner = 1;  // how many points one value of the axis lasts
    for (size_t axis = axes_.size(); axis-- > 0;) {
      int64_t* column = evaluator.variable(axes_[axis].variable).integer;
      int64_t value = first / inner % extents_[axis];
      int64_t left = inner - first % inner;
      for (int lane = 0; lane < count; ++lane) {
        column[lane] = value;
        if (--left == 0) {
          left = inner;
          if (++value == extents_[axis]) value = 0;
        }
      }
      inner *= extents_[axis];
    }
  }

 private:
  const std::vector<Axis>& axes_;
  std::vector<int64_t> extents_;
  int64_t count_ = 0;
};

std::vector<Axis> joined(std::vector<Axis> axes, const std::vector<Axis>& more) {
  axes.insert(axes.end(), more.begin(), more.end());
  return axes;
}

/// Calls `body(first, count)` for the blocks of `total` points; between them the run may be ended.
template <class Body>
void for_blocks(int64_t total, int lanes, Body body) {
  for (int64_t first = 0; first < total; first += lanes) {
    stop_if_requested();
    body(first, static_cast<int>(std::min<int64_t>(lanes, total - first)));
  }
}

void fill_constant(const Column& column, bool real, int count, int64_t value) {
  if (real) {
    std::fill_n(column.real, count, static_cast<double>(value));
  } else {
    std::fill_n(column.integer, count, value);
  }
}

void copy_column(const Column& from, const Column& to, bool real, int count) {
  if (real) {
    std::copy_n(from.real, count, to.real);
  } else {
    std::copy_n(from.integer, count, to.integer);
  }
}

/// The columns of a state, one per component.
class State {
 public:
  State(const std::vector<Expr>& components, int64_t lanes) {
    for (const Expr& e : components) values_.emplace_back(e->type, static_cast<size_t>(lanes));
  }
  size_t size() const { return values_.size(); }
  Values& operator[](size_t i) { return values_[i]; }
  /// Copies all components into the columns of `variables`.
  void give(BlockEvaluator& evaluator, const std::vector<Expr>& variables, int count) {
    for (size_t i = 0; i < values_.size(); ++i) {
      copy_column(values_[i].column(), evaluator.variable(variables[i]), values_[i].is_real(), count);
    }
  }
  /// Becomes the values of the first roots of `evaluator`.
  void take(BlockEvaluator& evaluator, int count) {
    for (size_t i = 0; i < values_.size(); ++i) values_[i].copy_from(evaluator.evaluate(i), count);
  }

 private:
  std::vector<Values> values_;
};

/// Runs the forms of one region over its tensors.
class Interpreter {
 public:
  Interpreter(const Region& region, std::span<const TensorData> inputs, Bindings& bindings)
      : region_(region), bindings_(bindings), tensors_(region.tensors.size()) {
    GRAFT_CHECK(inputs.size() == region.inputs.size(), "wrong number of inputs for " + region.name);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const TensorDecl& declared = declaration(region.inputs[i]);
      bind_shape(declared, inputs[i].type(), inputs[i].shape(), bindings_);
      tensors_[static_cast<size_t>(region.inputs[i])] = inputs[i];
    }
    // Again, as a symbol in a sum or product of one input may be given by another.
    for (size_t i = 0; i < inputs.size(); ++i) {
      bind_shape(declaration(region.inputs[i]), inputs[i].type(), inputs[i].shape(), bindings_);
    }
  }

  std::vector<TensorData> run() {
    const std::vector<size_t> last_use = last_uses();
    for (size_t i = 0; i < region_.forms.size(); ++i) {
      std::visit([this](const auto& f) { run(f); }, region_.forms[i]);
      for (size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
        if (last_use[tensor] == i) tensors_[tensor] = TensorData();
      }
    }
    std::vector<TensorData> outputs;
    for (const int output : region_.outputs) outputs.push_back(tensors_[static_cast<size_t>(output)]);
    return outputs;
  }

 private:
  /// The form after which each tensor is read no more; outputs of the region are kept.
  std::vector<size_t> last_uses() const {
    std::vector<size_t> uses(tensors_.size(), region_.forms.size());
    for (size_t i = 0; i < region_.forms.size(); ++i) {
      for (const int tensor : defined_tensors(region_.forms[i])) uses[static_cast<size_t>(tensor)] = i;
      for (const int tensor : read_tensors(region_.forms[i])) uses[static_cast<size_t>(tensor)] = i;
    }
    for (const int tensor : region_.outputs) uses[static_cast<size_t>(tensor)] = region_.forms.size();
    return uses;
  }

  const TensorDecl& declaration(int tensor) const { return region_.tensors[static_cast<size_t>(tensor)]; }

  Points points(const std::vector<Axis>& axes) const { return Points(axes, bindings_, region_.name); }

  BlockEvaluator evaluator(const std::vector<Expr>& roots, int lanes, const std::string& target = "") const {
    return BlockEvaluator(region_, tensors_, bindings_, roots, lanes, target);
  }

  /// The tensor a form defines; `extents` are those of the form's axes, which must be its shape.
  TensorData allocate(int tensor, const std::vector<int64_t>& extents) const {
    const TensorDecl& declared = declaration(tensor);
    std::vector<int64_t> shape;
    for (const Size& size : declared.shape) shape.push_back(size.evaluate(bindings_));
    GRAFT_CHECK(shape == extents, fmt::format("the form of '{}' covers [{}], but its shape is [{}]", declared.name,
                                              fmt::join(extents, ", "), fmt::join(shape, ", ")));
    try {
      return TensorData::zeros(declared.type, std::move(shape));
    } catch (const Error& error) {
      throw Error(error.kind(), error.message(), fmt::format("tensor '{}' of '{}'", declared.name, region_.name));
    }
  }
  void define(int tensor, TensorData value) { tensors_[static_cast<size_t>(tensor)] = std::move(value); }
  void store(const Column& values, int64_t first, int count, TensorData& output) const {
    store_block(tensors_, values, first, count, output);
  }

  void run(const Compute& form);
  void run(const Reduce& form);
  void run(const Scan& form);
  void run(const Scatter& form);
  void run(const Sort& form);
  void run(const Compact& form);

  void reduce_beside(const Reduce& form, std::vector<TensorData>& outputs);
  void reduce_within(const Reduce& form, std::vector<TensorData>& outputs);
  void fold_lanes(State& lifted, BlockEvaluator& combine, const Monoid& monoid, int count) const;
  void emit_rank_order(const Sort& form, State& row, int64_t point, int64_t length, int64_t kept,
                       std::vector<TensorData>& outputs) const;

  const Region& region_;
  Bindings& bindings_;
  std::vector<TensorData> tensors_;
};

void Interpreter::run(const Compute& form) {
  const Points domain = points(form.axes);
  TensorData output = allocate(form.output, domain.extents());
  BlockEvaluator value = evaluator({form.value}, domain.lanes());
  for_blocks(domain.count(), value.lanes(), [&](int64_t first, int count) {
    value.begin(count);
    domain.fill(value, first, count);
    store(value.evaluate(0), first, count, output);
  });
  define(form.output, std::move(output));
}

void Interpreter::run(const Reduce& form) {
  const Points outer = points(form.axes);
  std::vector<TensorData> outputs;
  for (const int tensor : form.outputs) outputs.push_back(allocate(tensor, outer.extents()));
  constexpr int64_t kEnoughLanes = 64;
  if (form.monoid.associative && outer.count() < kEnoughLanes) {
    reduce_within(form, outputs);
  } else {
    reduce_beside(form, outputs);
  }
  for (size_t i = 0; i < outputs.size(); ++i) define(form.outputs[i], std::move(outputs[i]));
}

/// One lane per output element; the reduced points follow each other.
void Interpreter::reduce_beside(const Reduce& form, std::vector<TensorData>& outputs) {
  const Points outer = points(form.axes), inner = points(form.reduced);
  BlockEvaluator lift = evaluator(form.lift, outer.lanes());
  BlockEvaluator combine = evaluator(form.monoid.combine, outer.lanes());
  BlockEvaluator identity = evaluator(form.monoid.identity, outer.lanes());
  State state(form.lift, lift.lanes()), lifted(form.lift, lift.lanes());
  std::vector<int64_t> at(form.reduced.size());
  for_blocks(outer.count(), lift.lanes(), [&](int64_t first, int count) {
    identity.begin(count);
    state.take(identity, count);
    std::fill(at.begin(), at.end(), 0);
    outer.fill(lift, first, count);
    for (int64_t step = 0; step < inner.count(); ++step) {
      stop_if_requested();
      lift.begin(count);
      for (size_t axis = 0; axis < at.size(); ++axis) {
        fill_constant(lift.variable(form.reduced[axis].variable), false, count, at[axis]);
      }
      lifted.take(lift, count);
      combine.begin(count);
      state.give(combine, form.monoid.left, count);
      lifted.give(combine, form.monoid.right, count);
      state.take(combine, count);
      for (size_t axis = at.size(); axis-- > 0;) {
        if (++at[axis] < inner.extents()[axis]) break;
        at[axis] = 0;
      }
    }
    for (size_t i = 0; i < outputs.size(); ++i) store(state[i].column(), first, count, outputs[i]);
  });
}

/// Few output elements: the lanes are reduced points, folded pairwise in order.
void Interpreter::reduce_within(const Reduce& form, std::vector<TensorData>& outputs) {
  const Points outer = points(form.axes), inner = points(form.reduced);
  const std::vector<Axis> axes = joined(form.axes, form.reduced);
  const Points domain = points(axes);
  BlockEvaluator lift = evaluator(form.lift, inner.lanes());
  BlockEvaluator combine = evaluator(form.monoid.combine, inner.lanes());
  BlockEvaluator identity = evaluator(form.monoid.identity, 1);
  State state(form.lift, 1), lifted(form.lift, lift.lanes());
  for (int64_t point = 0; point < outer.count(); ++point) {
    identity.begin(1);
    state.take(identity, 1);
    for_blocks(inner.count(), lift.lanes(), [&](int64_t first, int count) {
      lift.begin(count);
      domain.fill(lift, point * inner.count() + first, count);
      lifted.take(lift, count);
      fold_lanes(lifted, combine, form.monoid, count);
      combine.begin(1);
      state.give(combine, form.monoid.left, 1);
      lifted.give(combine, form.monoid.right, 1);
      state.take(combine, 1);
    });
    for (size_t i = 0; i < outputs.size(); ++i) store(state[i].column(), point, 1, outputs[i]);
  }
}

/// Combines neighbouring lanes until one is left.
void Interpreter::fold_lanes(State& lifted, BlockEvaluator& combine, const Monoid& monoid, int count) const {
  while (count > 1) {
    const int half = count / 2;
    combine.begin(half);
    for (size_t i = 0; i < lifted.size(); ++i) {
      const Column from = lifted[i].column();
      const Column left = combine.variable(monoid.left[i]);
      const Column right = combine.variable(monoid.right[i]);
      for (int lane = 0; lane < half; ++lane) {
        if (lifted[i].is_real()) {
          left.real[lane] = from.real[2 * lane];
          right.real[lane] = from.real[2 * lane + 1];
        } else {
          left.integer[lane] = from.integer[2 * lane];
          right.integer[lane] = from.integer[2 * lane + 1];
        }
      }
    }
    lifted.take(combine, half);
    if (count % 2 != 0) {
      for (size_t i = 0; i < lifted.size(); ++i) {
        lifted[i].set(static_cast<size_t>(half), static_cast<size_t>(count - 1));
      }
    }
    count = half + count % 2;
  }
}

void Interpreter::run(const Scan& form) {
  const Points outer = points(form.axes);
  const int64_t length = form.axis.extent.evaluate(bindings_);
  std::vector<int64_t> extents = outer.extents();
  extents.push_back(length);
  std::vector<TensorData> outputs;
  for (const int tensor : form.outputs) outputs.push_back(allocate(tensor, extents));
  BlockEvaluator initial = evaluator(form.initial, outer.lanes());
  BlockEvaluator step = evaluator(form.step, outer.lanes());
  BlockEvaluator emit = evaluator(form.emit, outer.lanes());
  State state(form.state, step.lanes());
  for_blocks(outer.count(), step.lanes(), [&](int64_t first, int count) {
    initial.begin(count);
    outer.fill(initial, first, count);
    state.take(initial, count);
    outer.fill(step, first, count);
    outer.fill(emit, first, count);
    const auto write = [&](int64_t t) {
      emit.begin(count);
      state.give(emit, form.state, count);
      fill_constant(emit.variable(form.axis.variable), false, count, t);
      for (size_t i = 0; i < outputs.size(); ++i) {
        const Column values = emit.evaluate(i);
        for (int lane = 0; lane < count; ++lane) {
          const Column one{values.real ? values.real + lane : nullptr,
                           values.integer ? values.integer + lane : nullptr};
          store(one, (first + lane) * length + t, 1, outputs[i]);
        }
      }
    };
    for (int64_t i = 0; i < length; ++i) {
      stop_if_requested();
      const int64_t t = form.reverse ? length - 1 - i : i;
      if (form.exclusive) write(t);
      step.begin(count);
      state.give(step, form.state, count);
      fill_constant(step.variable(form.axis.variable), false, count, t);
      state.take(step, count);
      if (!form.exclusive) write(t);
    }
  });
  for (size_t i = 0; i < outputs.size(); ++i) define(form.outputs[i], std::move(outputs[i]));
}

Intrinsic update_of(ScatterMode mode) {
  switch (mode) {
    case ScatterMode::kAdd:
      return Intrinsic::kAdd;
    case ScatterMode::kMul:
      return Intrinsic::kMul;
    case ScatterMode::kMin:
      return Intrinsic::kMin;
    default:
      return Intrinsic::kMax;
  }
}

/// A whole tensor as one column, handles for elements that are not numbers.
Values unpacked(const TensorData& tensor, int index) {
  const size_t count = static_cast<size_t>(tensor.element_count());
  Values values(tensor.type(), count);
  const DTypeKind kind = kind_of(tensor.type());
  if (values.is_real()) {
    tensor.read_doubles(0, {values.column().real, count});
  } else if (kind != DTypeKind::kOpaque && kind != DTypeKind::kComplex) {
    tensor.read_integers(0, {values.column().integer, count});
  } else {
    for (size_t i = 0; i < count; ++i) {
      values.column().integer[i] = element_handle(index, static_cast<int64_t>(i));
    }
  }
  return values;
}

void Interpreter::run(const Scatter& form) {
  const Points domain = points(form.axes);
  const TensorData& base = tensors_[static_cast<size_t>(form.base)];
  TensorData output = allocate(form.output, base.shape());
  Values target = unpacked(base, form.base);
  const Column into = target.column();
  std::vector<Expr> roots = form.indices;
  roots.push_back(form.value);
  if (form.condition) roots.push_back(form.condition);
  const std::string& name = declaration(form.output).name;
  BlockEvaluator update = evaluator(roots, domain.lanes(), name);
  const size_t rank = form.indices.size();
  for_blocks(domain.count(), update.lanes(), [&](int64_t first, int count) {
    update.begin(count);
    domain.fill(update, first, count);
    LaneMask active = LaneMask::first(count);
    if (form.condition) {
      const int64_t* holds = update.evaluate(rank + 1).integer;
      for (int lane = 0; lane < count; ++lane) {
        if (!holds[lane]) active.words[static_cast<size_t>(lane) / 64] &= ~(uint64_t{1} << (lane % 64));
      }
    }
    std::vector<const int64_t*> indices;
    for (size_t axis = 0; axis < rank; ++axis) indices.push_back(update.evaluate(axis, active).integer);
    const Column value = update.evaluate(rank, active);
    for (int lane = 0; lane < count; ++lane) {
      if (!active.test(lane)) continue;
      int64_t at = 0;
      for (size_t axis = 0; axis < rank; ++axis) {
        const int64_t index = indices[axis][lane], extent = output.shape()[axis];
        GRAFT_USER_CHECK(index >= 0 && index < extent, kInvalidArgument,
                         fmt::format("the index {} of axis {} is out of range: it must be at least 0 and below {}",
                                     index, axis, extent),
                         fmt::format("tensor '{}' of '{}'", name, region_.name));
        at = at * extent + index;
      }
      const Column one{value.real ? value.real + lane : nullptr, value.integer ? value.integer + lane : nullptr};
      const Column old{into.real ? into.real + at : nullptr, into.integer ? into.integer + at : nullptr};
      if (form.mode == ScatterMode::kSet) {
        copy_column(one, old, target.is_real(), 1);
      } else {
        const Column args[] = {old, one};
        evaluate_columns(update_of(form.mode), {output.type(), output.type(), args, old, 1});
      }
    }
  });
  for_blocks(output.element_count(), kBlockLanes, [&](int64_t first, int count) {
    const Column part{into.real ? into.real + first : nullptr, into.integer ? into.integer + first : nullptr};
    store(part, first, count, output);
  });
  define(form.output, std::move(output));
}

void Interpreter::run(const Sort& form) {
  const std::vector<Axis> axes = joined(form.axes, {form.axis});
  const Points domain = points(axes);
  const int64_t length = domain.extents().back();
  const int64_t kept = form.count.evaluate(bindings_);
  GRAFT_USER_CHECK(kept >= 0 && kept <= length, kInvalidArgument,
                   fmt::format("{} elements are to be kept of {}", kept, length), region_.name);
  std::vector<int64_t> extents = domain.extents();
  extents.back() = kept;
  std::vector<TensorData> outputs;
  for (const int tensor : form.outputs) outputs.push_back(allocate(tensor, extents));
  BlockEvaluator key = evaluator({form.key}, domain.lanes());
  State row({form.key}, length);
  int64_t filled = 0, point = 0;
  for_blocks(domain.count(), key.lanes(), [&](int64_t first, int count) {
    key.begin(count);
    domain.fill(key, first, count);
    const Column keys = key.evaluate(0);
    for (int lane = 0; lane < count;) {
      const int part = static_cast<int>(std::min<int64_t>(count - lane, length - filled));
      const Column from{keys.real ? keys.real + lane : nullptr, keys.integer ? keys.integer + lane : nullptr};
      row[0].copy_from(from, part, static_cast<size_t>(filled));
      filled += part, lane += part;
      if (filled < length) continue;
      emit_rank_order(form, row, point++, length, kept, outputs);
      filled = 0;
    }
  });
  for (size_t i = 0; i < outputs.size(); ++i) define(form.outputs[i], std::move(outputs[i]));
}

/// Writes the first `kept` keys of a sorted row and where they came from.
void Interpreter::emit_rank_order(const Sort& form, State& row, int64_t point, int64_t length, int64_t kept,
                                  std::vector<TensorData>& outputs) const {
  const Column keys = row[0].column();
  BudgetVector<int64_t> order(static_cast<size_t>(length));
  std::iota(order.begin(), order.end(), 0);
  const auto sort = [&](auto before) {
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return form.descending ? before(b, a) : before(a, b); });
  };
  if (row[0].is_real()) {
    sort([&](int64_t a, int64_t b) {
      return std::isnan(keys.real[b]) ? !std::isnan(keys.real[a]) : keys.real[a] < keys.real[b];
    });
  } else if (form.key->type == DType::kUint64) {
    sort([&](int64_t a, int64_t b) {
      return static_cast<uint64_t>(keys.integer[a]) < static_cast<uint64_t>(keys.integer[b]);
    });
  } else {
    sort([&](int64_t a, int64_t b) { return keys.integer[a] < keys.integer[b]; });
  }
  for (int64_t rank = 0; rank < kept; ++rank) {
    const int64_t from = order[static_cast<size_t>(rank)];
    const Column one{keys.real ? keys.real + from : nullptr, keys.integer ? keys.integer + from : nullptr};
    store(one, point * kept + rank, 1, outputs[0]);
    if (outputs.size() > 1) outputs[1].write_integer(point * kept + rank, from);
  }
}

void Interpreter::run(const Compact& form) {
  const Points domain = points(form.axes);
  std::vector<Expr> roots = form.values;
  roots.push_back(form.condition);
  BlockEvaluator evaluate = evaluator(roots, domain.lanes());
  // The number kept is known at the end, so values are kept as columns until then.
  std::vector<BudgetVector<double>> reals(form.values.size());
  std::vector<BudgetVector<int64_t>> integers(form.values.size());
  int64_t kept = 0;
  for_blocks(domain.count(), evaluate.lanes(), [&](int64_t first, int count) {
    evaluate.begin(count);
    domain.fill(evaluate, first, count);
    const int64_t* holds = evaluate.evaluate(form.values.size()).integer;
    LaneMask active;
    for (int lane = 0; lane < count; ++lane) {
      if (!holds[lane]) continue;
      active.words[static_cast<size_t>(lane) / 64] |= uint64_t{1} << (lane % 64);
      ++kept;
    }
    for (size_t i = 0; i < form.values.size(); ++i) {
      const Column values = evaluate.evaluate(i, active);
      for (int lane = 0; lane < count; ++lane) {
        if (!active.test(lane)) continue;
        if (values.real) {
          reals[i].push_back(values.real[lane]);
        } else {
          integers[i].push_back(values.integer[lane]);
        }
      }
    }
  });
  bindings_[form.count] = kept;
  for (size_t i = 0; i < form.values.size(); ++i) {
    TensorData output = allocate(form.outputs[i], {kept});
    for_blocks(kept, kBlockLanes, [&](int64_t first, int count) {
      const bool real = is_float(form.values[i]->type);
      store({real ? reals[i].data() + first : nullptr, real ? nullptr : integers[i].data() + first}, first, count,
            output);
    });
    define(form.outputs[i], std::move(output));
  }
}

}  // namespace

void bind_shape(const TensorDecl& declared, DType type, std::span<const int64_t> shape, Bindings& bindings) {
  const std::string where = "input '" + declared.name + "'";
  GRAFT_USER_CHECK(type == declared.type, kInvalidArgument,
                   fmt::format("elements are {}, but {} is expected", name_of(type), name_of(declared.type)), where);
  GRAFT_USER_CHECK(shape.size() == declared.shape.size(), kInvalidArgument,
                   fmt::format("the shape [{}] has {} axes, but {} is expected", fmt::join(shape, ", "), shape.size(),
                               to_string(declared.shape)),
                   where);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (const auto symbol = declared.shape[axis].as_symbol()) bindings.emplace(*symbol, shape[axis]);
  }
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    std::set<std::string, std::less<>> symbols;
    declared.shape[axis].collect_symbols(symbols);
    const bool known = std::all_of(symbols.begin(), symbols.end(), [&](const auto& s) { return bindings.contains(s); });
    if (!known) continue;  // a later input may give the symbol; forms check it where they use it
    const int64_t expected = declared.shape[axis].evaluate(bindings);
    GRAFT_USER_CHECK(shape[axis] == expected, kInvalidArgument,
                     fmt::format("axis {} has {} elements, but {} ({}) are expected", axis, shape[axis], expected,
                                 declared.shape[axis].to_string()),
                     where);
  }
}

std::vector<TensorData> interpret(const Region& region, std::span<const TensorData> inputs, Bindings& bindings) {
  return Interpreter(region, inputs, bindings).run();
}

}  // namespace graft
