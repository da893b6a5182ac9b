// SPDX-License-Identifier: Apache-2.0
#include "expr/build.h"

#include <limits>

#include "base/error.h"

namespace graft {
namespace {

std::vector<Axis> make_axes(const Shape& extents) {
  std::vector<Axis> axes;
  for (const Size& extent : extents) axes.push_back({make_variable(), extent});
  return axes;
}

Indices variables(const std::vector<Axis>& axes) {
  Indices indices;
  for (const Axis& axis : axes) indices.push_back(axis.variable);
  return indices;
}

}  // namespace

Expr softmax_shift(const Expr& largest) {
  const Expr none = make_constant(largest->type, -std::numeric_limits<double>::infinity());
  return select(eq(largest, none), make_constant(largest->type, 0), largest);
}

Expr softmax_divisor(const Expr& sum) {
  return select(eq(sum, make_constant(sum->type, 0)), make_constant(sum->type, 1), sum);
}

DType Tensor::type() const { return builder_->decl(id_).type; }
const Shape& Tensor::shape() const { return builder_->shape(id_); }

const Size& Tensor::size(int axis) const {
  const Shape& s = shape();
  const int index = axis < 0 ? axis + static_cast<int>(s.size()) : axis;
  GRAFT_CHECK(index >= 0 && index < static_cast<int>(s.size()), "axis out of range");
  return s[index];
}

Expr Tensor::operator()(const Indices& indices) const {
  GRAFT_CHECK(indices.size() == shape().size(), "one index per axis is expected");
  return make_load(id_, type(), indices);
}

Expr Tensor::wide(const Indices& indices) const { return make_cast(compute_type(type()), (*this)(indices)); }

Tensor RegionBuilder::declare(std::string_view name, DType type, const Shape& shape) {
  shapes_.push_back(shape);
  region_.tensors.push_back({std::string(name), type, shapes_.back()});
  return {this, static_cast<int>(region_.tensors.size()) - 1};
}

Tensor RegionBuilder::input(std::string_view name, DType type, const Shape& shape) {
  const Tensor tensor = declare(name, type, shape);
  region_.inputs.push_back(tensor.id());
  return tensor;
}

Tensor RegionBuilder::compute(std::string_view name, DType type, const Shape& shape, const Body& body) {
  Compute form{.axes = make_axes(shape), .value = {}, .output = -1};
  form.value = make_cast(type, body(variables(form.axes)));
  const Tensor tensor = declare(name, type, shape);
  form.output = tensor.id();
  region_.forms.push_back(std::move(form));
  return tensor;
}

std::vector<Tensor> RegionBuilder::reduce(std::string_view name, const Monoid& monoid, const Shape& axes,
                                          const Shape& reduced, const Lifts& lifts) {
  Reduce form{.axes = make_axes(axes), .reduced = make_axes(reduced), .lift = {}, .monoid = monoid, .outputs = {}};
  form.lift = lifts(variables(form.axes), variables(form.reduced));
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < form.lift.size(); ++i) {
    form.lift[i] = make_cast(monoid.identity[i]->type, form.lift[i]);
    const std::string suffix = form.lift.size() > 1 ? "_" + std::to_string(i) : "";
    tensors.push_back(declare(std::string(name) + suffix, form.lift[i]->type, axes));
    form.outputs.push_back(tensors.back().id());
  }
  region_.forms.push_back(std::move(form));
  return tensors;
}

Tensor RegionBuilder::reduce(std::string_view name, Intrinsic combine, const Shape& axes, const Shape& reduced,
                             const Lift& lift) {
  // The lift decides the state type, so it is built once on throw-away axes to learn it.
  const DType type = lift(variables(make_axes(axes)), variables(make_axes(reduced)))->type;
  return reduce(name, make_monoid(combine, compute_type(type)), axes, reduced,
                [&](const Indices& i, const Indices& k) { return std::vector<Expr>{lift(i, k)}; })[0];
}

std::vector<Tensor> RegionBuilder::scan(std::string_view name, const Shape& axes, const Size& length,
                                        const std::function<void(Scan&, const Indices&, const Expr&)>& make) {
  Scan form;
  form.axes = make_axes(axes);
  form.axis = {make_variable(), length};
  make(form, variables(form.axes), form.axis.variable);
  Shape shape = axes;
  shape.push_back(length);
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < form.emit.size(); ++i) {
    const std::string suffix = form.emit.size() > 1 ? "_" + std::to_string(i) : "";
    tensors.push_back(declare(std::string(name) + suffix, form.emit[i]->type, shape));
    form.outputs.push_back(tensors.back().id());
  }
  region_.forms.push_back(std::move(form));
  return tensors;
}

Tensor RegionBuilder::scatter(std::string_view name, const Tensor& base, ScatterMode mode, const Shape& domain,
                              const std::function<void(Scatter&, const Indices&)>& make) {
  Scatter form;
  form.axes = make_axes(domain);
  form.base = base.id();
  form.mode = mode;
  make(form, variables(form.axes));
  const DType type = base.type();
  form.value = make_cast(type, form.value);
  const Tensor tensor = declare(name, type, Shape(base.shape()));
  form.output = tensor.id();
  region_.forms.push_back(std::move(form));
  return tensor;
}

std::vector<Tensor> RegionBuilder::sort(std::string_view name, const Shape& axes, const Size& length,
                                        const Size& count, bool descending,
                                        const std::function<Expr(const Indices&, const Expr&)>& key) {
  Sort form;
  form.axes = make_axes(axes);
  form.axis = {make_variable(), length};
  form.count = count;
  form.descending = descending;
  form.key = key(variables(form.axes), form.axis.variable);
  Shape shape = axes;
  shape.push_back(count);
  const Tensor values = declare(std::string(name) + "_values", form.key->type, shape);
  const Tensor positions = declare(std::string(name) + "_positions", DType::kInt64, shape);
  form.outputs = {values.id(), positions.id()};
  region_.forms.push_back(std::move(form));
  return {values, positions};
}

std::vector<Tensor> RegionBuilder::compact(std::string_view name, const Shape& domain, std::string_view count,
                                           const std::function<void(Compact&, const Indices&)>& make) {
  Compact form;
  form.axes = make_axes(domain);
  form.count = count;
  make(form, variables(form.axes));
  std::vector<Tensor> tensors;
  for (const Expr& value : form.values) {
    tensors.push_back(declare(std::string(name) + "_" + std::to_string(tensors.size()), value->type,
                              {Size::symbol(count)}));
    form.outputs.push_back(tensors.back().id());
  }
  region_.forms.push_back(std::move(form));
  return tensors;
}

Region RegionBuilder::finish(std::string_view name, const std::vector<Tensor>& outputs) {
  region_.name = name;
  for (const Tensor& tensor : outputs) region_.outputs.push_back(tensor.id());
  return std::move(region_);
}

}  // namespace graft
