// SPDX-License-Identifier: Apache-2.0
#include "plan/pack_channels.h"

#include <algorithm>
#include <cstring>

#include "fuse/contraction.h"
#include "fuse/rewrite_region.h"
#include "fuse/step_maker.h"
#include "target/units.h"

namespace graft {
namespace {

constexpr int kVectorBits = 128;

/// A reduced axis that the source walks together with a row axis: it reads at row * stride + kernel * dilation.
struct Window {
  Axis row, kernel;
  int64_t stride = 1, dilation = 1;

  bool moves_into_channels() const { return stride > 1; }
  /// How many neighbouring elements become channels.
  int64_t depth() const { return moves_into_channels() ? std::min(stride, kernel.extent.constant()) : 1; }
  /// The kernel's extent over what remains.
  int64_t taps() const {
    const int64_t extent = kernel.extent.constant();
    return moves_into_channels() ? (extent + stride - 1) / stride : extent;
  }
  int64_t step() const { return moves_into_channels() ? 1 : dilation; }
  Size positions() const { return row.extent + Size((taps() - 1) * step()); }
};

int variable_of(const Axis& axis) { return axis.variable->variable; }

Axis fresh_axis(const Size& extent) { return {make_variable(), extent}; }

/// The same value, whichever way its indices are written.
bool same_value(const Expr& a, const Expr& b) {
  if (equal(a, b)) return true;
  if (a->type == DType::kInt64 && b->type == DType::kInt64) {
    const auto x = affine(a), y = affine(b);
    if (x && y) return x->offset == y->offset && x->coefficients == y->coefficients;
  }
  if (a->kind != b->kind || a->type != b->type || a->args.size() != b->args.size()) return false;
  if (a->kind == ExprKind::kCall ? a->intrinsic != b->intrinsic
                                 : a->kind != ExprKind::kLoad || a->tensor != b->tensor) {
    return false;
  }
  for (size_t i = 0; i < a->args.size(); ++i) {
    if (!same_value(a->args[i], b->args[i])) return false;
  }
  return true;
}

Expr moved(const Expr& e, const Axis& axis, int64_t by) {
  return substitute(e, {{variable_of(axis), axis.variable + make_index(by)}});
}

class ChannelPacking {
 public:
  ChannelPacking(const FusedStep& step, const Region& region, std::vector<FusedTensor>& tensors, const Target& target)
      : step_(step), region_(region), tensors_(tensors), target_(target) {}

  /// Whether the region is such a convolution.
  bool find() {
    const auto* reduce = region_.forms.empty() ? nullptr : std::get_if<Reduce>(&region_.forms[0]);
    const bool maps = std::all_of(region_.forms.begin() + 1, region_.forms.end(),
                                  [](const Form& form) { return std::holds_alternative<Compute>(form); });
    const auto contraction = reduce && maps ? find_contraction(*reduce) : std::nullopt;
    if (!contraction || !contraction->batch.empty()) return false;
    reduce_ = reduce;
    contraction_ = *contraction;
    if (is_constant(unwidened(contraction_.a))) {
      std::swap(contraction_.a, contraction_.b);
      std::swap(contraction_.m, contraction_.n);
    }
    source_ = unwidened(contraction_.a), weights_ = unwidened(contraction_.b);
    const DType a = source_->type, b = weights_->type, sum = reduce_->lift[0]->type;
    const bool tf32 = region_.tf32 && a == DType::kFloat32 && b == DType::kFloat32;
    splits_ = !tf32 && !region_.fma && splitting_unit(target_, a, b, sum);
    unit_ = best_unit(target_, a, b, sum);
    if (!unit_ && !tf32 && !splits_) return false;
    // Vectors multiply short reductions as well as long ones, and a copy of the source is not free.
    const bool is_cpu = target_.kind != TargetKind::kCuda;
    if (is_cpu && (!unit_ || unit_->scope != ContractUnit::Scope::kTile)) return false;
    return has_constant_weights() && find_windows() && has_few_channels() && !is_mostly_padding();
  }

  std::vector<FusedStep> run() {
    Region region = region_;
    const int packed = declare(region, "packed", source_->type, packed_shape());
    const int weights = declare(region, "weights", weights_->type, weights_shape());
    StepMaker maker(step_, region, tensors_);
    maker.place(weights, add_weights(region.tensors[weights]));
    std::vector<FusedStep> steps;
    steps.push_back(maker.make({packing(packed)}, {packed}));
    std::vector<Form> forms{product(packed, weights)};
    forms.insert(forms.end(), region_.forms.begin() + 1, region_.forms.end());
    steps.push_back(maker.make(forms, region_.outputs));
    steps[0].sources = step_.sources, steps[0].checks = step_.checks;
    return steps;
  }

 private:
  /// The program's tensor that a load of an input reads, or null.
  const FusedTensor* tensor_of(const Expr& load) const {
    if (load->kind != ExprKind::kLoad) return nullptr;
    const auto input = std::find(region_.inputs.begin(), region_.inputs.end(), load->tensor);
    if (input == region_.inputs.end()) return nullptr;
    return &tensors_[step_.inputs[static_cast<size_t>(input - region_.inputs.begin())]];
  }
  bool is_constant(const Expr& operand) const {
    const FusedTensor* tensor = tensor_of(operand);
    return tensor && tensor->constant;
  }

  /// The weights are read at one plain axis in each dimension.
  bool has_constant_weights() const {
    if (!is_constant(weights_) || weights_->args.size() != contraction_.n.size() + contraction_.k.size()) return false;
    return std::all_of(weights_->args.begin(), weights_->args.end(),
                       [](const Expr& index) { return index->kind == ExprKind::kVariable; });
  }

  bool find_windows() {
    for (const Axis& kernel : contraction_.k) {
      if (!kernel.extent.is_constant()) return false;
      const auto window = window_of(kernel);
      if (!window) {
        channels_.push_back(kernel);
        continue;
      }
      // What the source reads must depend on nothing but the place in it.
      if (window->stride > 1 && window->dilation > 1) return false;
      if (!same_value(moved(source_, window->row, window->dilation), moved(source_, window->kernel, window->stride))) {
        return false;
      }
      windows_.push_back(*window);
    }
    return !windows_.empty();
  }

  std::optional<Window> window_of(const Axis& kernel) const {
    std::optional<Window> found;
    for_each(source_, [&](const Expr& node) {
      if (found || node->type != DType::kInt64) return;
      const auto index = affine(node);
      if (!index) return;
      const auto dilation = index->coefficient(variable_of(kernel)).as_constant();
      if (!dilation || *dilation < 1) return;
      for (const Axis& row : contraction_.m) {
        const auto stride = index->coefficient(variable_of(row)).as_constant();
        if (stride && *stride >= 1) found = Window{row, kernel, *stride, *dilation};
      }
    });
    return found;
  }

  int64_t vector() const { return kVectorBits / bit_width(source_->type); }
  int64_t depth() const {
    int64_t depth = 1;
    for (const Window& window : windows_) depth *= window.depth();
    return depth;
  }
  int64_t channels() const {
    int64_t channels = 1;
    for (const Axis& axis : channels_) channels *= axis.extent.constant();
    return channels;
  }
  /// Elements of the packed axis: whole vectors, or at least a round of a product that splits operands.
  int64_t packed_channels() const {
    constexpr int64_t kRound = 16;
    const int64_t step = splits_ ? kRound : vector();
    return (channels() * depth() + step - 1) / step * step;
  }
  /// Multiply-adds, which are what there is otherwise, waste nothing on it.
  bool is_mostly_padding() const { return splits_ && packed_channels() > 2 * channels() * depth(); }
  bool has_few_channels() const { return channels_.size() <= 1 && channels() < vector(); }

  const Window* window_at(const Axis& row) const {
    for (const Window& window : windows_) {
      if (variable_of(window.row) == variable_of(row)) return &window;
    }
    return nullptr;
  }

  static int declare(Region& region, std::string name, DType type, Shape shape) {
    region.tensors.push_back({std::move(name), type, std::move(shape)});
    return static_cast<int>(region.tensors.size()) - 1;
  }

  /// The window along the last rows if the channels of one of its taps don't fill an instruction: its taps lie side by
  /// side, and become one reduced axis with the channels. Null where it has one tap or skips some.
  const Window* joined() const {
    const bool fill = !unit_ || packed_channels() >= unit_->k;
    const Window* window = fill ? nullptr : window_at(contraction_.m.back());
    return window && window->taps() > 1 && window->step() == 1 ? window : nullptr;
  }
  /// Elements of the reduced axis of channels: for each tap of the joined window.
  int64_t reduced_channels() const { return packed_channels() * (joined() ? joined()->taps() : 1); }

  /// [rows..., (channel, a place within each window that moves)]; the last rows and the channels are one axis where
  /// taps are joined.
  Shape packed_shape() const {
    Shape shape;
    for (const Axis& row : contraction_.m) {
      const Window* window = window_at(row);
      shape.push_back(window ? window->positions() : row.extent);
    }
    if (joined()) {
      shape.back() = shape.back() * Size(packed_channels());
    } else {
      shape.push_back(Size(packed_channels()));
    }
    return shape;
  }

  /// [columns..., (joined taps, channel, a place within each window that moves), other taps...].
  Shape weights_shape() const {
    Shape shape;
    for (const Axis& column : contraction_.n) shape.push_back(column.extent);
    shape.push_back(Size(reduced_channels()));
    for (const Window& window : windows_) {
      if (&window != joined()) shape.push_back(Size(window.taps()));
    }
    return shape;
  }

  /// packed[p, (c, r)] = source at row p, channel c, kernel r; zero beyond the last place that the convolution reads
  /// and beyond the channels.
  Compute packing(int packed) const {
    Compute form{.axes = {}, .value = source_, .output = packed};
    for (const Size& extent : packed_shape()) form.axes.push_back(fresh_axis(extent));
    const Expr last = form.axes.back().variable;
    const Expr number = joined() ? mod(last, make_index(packed_channels())) : last;
    std::vector<std::pair<int, Expr>> at;
    std::vector<Expr> conditions;
    int64_t inner = depth();
    const Expr channel = floor_div(number, make_index(inner));
    for (const Axis& axis : channels_) at.emplace_back(variable_of(axis), channel);
    if (packed_channels() > channels() * inner) conditions.push_back(lt(channel, make_index(channels())));
    for (const Window& window : windows_) {
      inner /= window.depth();
      const Expr within = mod(floor_div(number, make_index(inner)), make_index(window.depth()));
      at.emplace_back(variable_of(window.kernel), within);
      if (!window.moves_into_channels()) continue;
      const Size reach = (window.row.extent - Size(1)) * Size(window.stride) + window.kernel.extent;
      const Size made = (window.positions() - Size(1)) * Size(window.stride) + Size(window.depth());
      if (reach == made) continue;
      const Expr place = position(form, row_of(window)) * make_index(window.stride) + within;
      conditions.push_back(lt(place, make_size(reach)));
    }
    for (size_t i = 0; i < contraction_.m.size(); ++i) {
      at.emplace_back(variable_of(contraction_.m[i]), position(form, i));
    }
    form.value = substitute(source_, at);
    for (const Expr& condition : conditions) {
      form.value = select(condition, form.value, make_constant(source_->type, 0));
    }
    return form;
  }

  /// The number of a window's rows among those of the contraction.
  size_t row_of(const Window& window) const {
    const auto is_row = [&](const Axis& row) { return variable_of(row) == variable_of(window.row); };
    return static_cast<size_t>(std::find_if(contraction_.m.begin(), contraction_.m.end(), is_row) -
                               contraction_.m.begin());
  }

  /// The place along rows that an element of the packed tensor stands for.
  Expr position(const Compute& packing, size_t row) const {
    const Expr axis = packing.axes[row].variable;
    const bool is_joined = joined() && row + 1 == contraction_.m.size();
    return is_joined ? floor_div(axis, make_index(packed_channels())) : axis;
  }

  /// sum over [channels, kernel...] of packed[row + kernel, channel] * weights[column, channel, kernel].
  Reduce product(int packed, int weights) const {
    Reduce form = *reduce_;
    const Axis channel = fresh_axis(Size(reduced_channels()));
    form.reduced = {channel};
    std::vector<Expr> packed_at, weights_at;
    for (const Axis& row : contraction_.m) packed_at.push_back(row.variable);
    for (const Axis& column : contraction_.n) weights_at.push_back(column.variable);
    weights_at.push_back(channel.variable);
    for (const Window& window : windows_) {
      if (&window == joined()) continue;
      const Axis& tap = form.reduced.emplace_back(fresh_axis(Size(window.taps())));
      Expr& place = packed_at[row_of(window)];
      place = place + tap.variable * make_index(window.step());
      weights_at.push_back(tap.variable);
    }
    if (joined()) {
      packed_at.back() = packed_at.back() * make_index(packed_channels()) + channel.variable;
    } else {
      packed_at.push_back(channel.variable);
    }
    const DType type = reduce_->lift[0]->type;
    form.lift = {make_cast(type, make_load(packed, source_->type, packed_at)) *
                 make_cast(type, make_load(weights, weights_->type, weights_at))};
    return form;
  }

  /// Appends the constant of the new weights to the program, zero where the old ones end.
  int add_weights(const TensorDecl& decl) {
    const FusedTensor& old = *tensor_of(weights_);
    TensorData data = TensorData::zeros(decl.type, concrete(decl.shape));
    copy_weights(old.constant->bytes(), data);
    const std::string name = old.name + "/packed";
    tensors_.push_back({name, decl.type, decl.shape, std::move(data), -1});
    return static_cast<int>(tensors_.size()) - 1;
  }

  /// The distance in elements between neighbours of the old weights along an axis.
  int64_t weight_stride(const Axis& axis) const {
    const Shape& shape = region_.tensors[weights_->tensor].shape;
    int64_t stride = 1, found = 0;
    for (size_t d = shape.size(); d-- > 0;) {
      if (weights_->args[d]->variable == variable_of(axis)) found = stride;
      stride *= shape[d].constant();
    }
    return found;
  }

  void copy_weights(std::span<const std::byte> from, TensorData& data) const {
    const int64_t width = bit_width(data.type()) / 8, packed = packed_channels();
    const std::span<std::byte> to = data.mutable_bytes();
    for (int64_t element = 0; element < data.element_count(); ++element) {
      int64_t rest = element, source = 0;
      bool inside = true;
      std::vector<int64_t> kernel(windows_.size());
      const auto tap_of = [&](size_t w, int64_t& within) {
        const int64_t taps = windows_[w].taps();
        kernel[w] = within % taps * (windows_[w].moves_into_channels() ? windows_[w].stride : 1);
        within /= taps;
      };
      for (size_t w = windows_.size(); w-- > 0;) {
        if (&windows_[w] != joined()) tap_of(w, rest);
      }
      int64_t number = rest % packed;
      rest /= packed;
      if (joined()) tap_of(static_cast<size_t>(joined() - windows_.data()), rest);
      for (size_t w = windows_.size(); w-- > 0;) {
        const int64_t depth = windows_[w].depth();
        kernel[w] += number % depth;
        number /= depth;
        inside &= kernel[w] < windows_[w].kernel.extent.constant();
        source += kernel[w] * weight_stride(windows_[w].kernel);
      }
      for (size_t c = contraction_.n.size(); c-- > 0;) {
        const int64_t extent = contraction_.n[c].extent.constant();
        source += rest % extent * weight_stride(contraction_.n[c]);
        rest /= extent;
      }
      if (!inside || number >= channels()) continue;
      for (const Axis& axis : channels_) source += number * weight_stride(axis);
      std::memcpy(to.data() + element * width, from.data() + source * width, static_cast<size_t>(width));
    }
  }

  const FusedStep& step_;
  const Region& region_;
  std::vector<FusedTensor>& tensors_;
  const Target& target_;
  const ContractUnit* unit_ = nullptr;
  bool splits_ = false;  ///< a unit may split operands of f32
  const Reduce* reduce_ = nullptr;
  Contraction contraction_;  ///< its `a` is the source and its `b` the weights
  Expr source_, weights_;
  std::vector<Window> windows_;
  std::vector<Axis> channels_;  ///< one, or none where there is a single channel
};

}  // namespace

std::vector<FusedStep> pack_channels(FusedStep step, std::vector<FusedTensor>& tensors, const Target& target) {
  if (step.region.forms.empty()) return {std::move(step)};
  FusedStep normalised = step;
  normalise(normalised.region);
  const Region region = normalised.region;
  ChannelPacking packing(normalised, region, tensors, target);
  if (!packing.find()) return {std::move(step)};
  return packing.run();
}

}  // namespace graft
