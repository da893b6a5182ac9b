// SPDX-License-Identifier: Apache-2.0
#include "held_value.h"

#include <unordered_map>
#include <utility>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "array_view.h"
#include "failure.h"

namespace nb = nanobind;

namespace graft_python {
namespace {

/// Makes a value by a function of the library.
template <class Make>
HeldValue make(const Make& make_value) {
  graft_value* value = nullptr;
  graft_error error;
  check(make_value(&value, &error), error);
  return HeldValue(value);
}

}  // namespace

HeldValue HeldValue::nothing() {
  return make([](graft_value** value, graft_error* error) { return graft_value_of_nothing(value, error); });
}

HeldValue HeldValue::tensor(const nb::object& array, int dtype, const nb::object& shape) {
  ArrayView view(array, "a tensor of a value", dtype, false);
  if (!shape.is_none()) view.set_packed_shape(nb::cast<std::vector<int64_t>>(shape));
  graft_tensor tensor = view.tensor();
  tensor.strides = nullptr;  // values.py hands over rows
  return copy(tensor);
}

HeldValue HeldValue::copy(const graft_tensor& tensor) {
  return make([&](graft_value** value, graft_error* error) { return graft_value_of_tensor(&tensor, value, error); });
}

HeldValue::HeldValue(std::vector<nb::bytes> texts, std::vector<int64_t> shape) {
  auto made = std::make_shared<Texts>();
  made->kept = std::move(texts), made->shape = std::move(shape);
  for (const nb::bytes& text : made->kept) made->elements.push_back({text.c_str(), text.size()});
  texts_ = std::move(made);
}

HeldValue HeldValue::texts(const std::vector<nb::bytes>& texts, const std::vector<int64_t>& shape) {
  return {texts, shape};
}

HeldValue HeldValue::texts_of(const graft_tensor& tensor) {
  std::unordered_map<const char*, nb::bytes> known;  // by where they lie
  std::vector<nb::bytes> texts;
  const auto* elements = static_cast<const graft_text*>(tensor.data);
  for (size_t i = 0; i < tensor.bytes / sizeof(graft_text); ++i) {
    const auto& [data, bytes] = elements[i];
    auto place = known.find(data);
    if (place == known.end()) place = known.emplace(data, nb::bytes(data, bytes)).first;
    texts.push_back(place->second.size() == bytes ? place->second : nb::bytes(data, bytes));
  }
  return {std::move(texts), {tensor.shape, tensor.shape + tensor.rank}};
}

graft_tensor HeldValue::describe_texts() const {
  return {.struct_size = sizeof(graft_tensor),
          .dtype = GRAFT_STRING,
          .rank = static_cast<int32_t>(texts_->shape.size()),
          .shape = texts_->shape.data(),
          .data = const_cast<graft_text*>(texts_->elements.data()),
          .bytes = texts_->elements.size() * sizeof(graft_text)};
}

graft_value* HeldValue::get() const {
  if (!value_) value_ = copy(describe_texts()).value_;
  return value_.get();
}

HeldValue HeldValue::sequence(const std::vector<const HeldValue*>& elements) {
  std::vector<graft_value*> list;
  for (const HeldValue* element : elements) list.push_back(element->get());
  return make([&](graft_value** value, graft_error* error) {
    return graft_value_of_sequence(list.data(), list.size(), value, error);
  });
}

HeldValue HeldValue::map(const HeldValue& keys, const HeldValue& values) {
  const graft_tensor first = keys.describe(), second = values.describe();
  return make([&](graft_value** value, graft_error* error) {
    return graft_value_of_map(&first, &second, value, error);
  });
}

graft_tensor HeldValue::describe() const {
  if (texts_) return describe_texts();
  graft_tensor tensor{.struct_size = sizeof(graft_tensor)};
  graft_error error;
  check(graft_value_tensor(get(), &tensor, &error), error);
  return tensor;
}

HeldValue HeldValue::element(size_t index) const {
  graft_value* value = graft_value_element(get(), index);
  if (!value) throw Failure(GRAFT_INVALID_ARGUMENT, "a value has no element " + std::to_string(index));
  return HeldValue(graft_value_retain(value));
}

nb::tuple HeldValue::take() const {
  const graft_tensor tensor = describe();
  nb::list shape;
  for (int32_t axis = 0; axis < tensor.rank; ++axis) shape.append(tensor.shape[axis]);
  if (tensor.dtype != GRAFT_STRING) {
    return nb::make_tuple(nb::bytes(static_cast<const char*>(tensor.data), tensor.bytes), tensor.dtype,
                          nb::tuple(shape));
  }
  if (!texts_) return texts_of(tensor).take();
  nb::list texts;
  for (const nb::bytes& text : texts_->kept) texts.append(text);
  return nb::make_tuple(texts, tensor.dtype, nb::tuple(shape));
}

void bind_held_values(nb::module_& module) {
  nb::class_<HeldValue>(module, "HeldValue")
      .def_static("nothing", &HeldValue::nothing)
      .def_static("tensor", &HeldValue::tensor, nb::arg("array"), nb::arg("dtype"), nb::arg("shape").none())
      .def_static("texts", &HeldValue::texts)
      .def_static("sequence", &HeldValue::sequence)
      .def_static("map", &HeldValue::map)
      .def("kind", &HeldValue::kind)
      .def("size", &HeldValue::size)
      .def("element", &HeldValue::element)
      .def("take", &HeldValue::take);
}

}  // namespace graft_python
