// SPDX-License-Identifier: Apache-2.0
// The C interface: values that are no tensors.
#include <algorithm>
#include <cstring>
#include <span>
#include <unordered_map>

#include <fmt/format.h>

#include "api/handles.h"
#include "api/value_handles.h"

using graft::DType;
using graft::DynamicValue;
using graft::Error;
using graft::ErrorKind;
using graft::TensorData;
using graft::api_detail::guarded;

namespace graft::api_detail {

constexpr int32_t kMaxRank = 64;
constexpr size_t kTensorSize = offsetof(graft_tensor, device) + sizeof(int32_t);  // of the first version

std::vector<int64_t> shape_of(const graft_tensor& tensor, DType type, const std::string& where) {
  GRAFT_USER_CHECK(tensor.rank >= 0 && tensor.rank <= kMaxRank && (tensor.shape || tensor.rank == 0), kInvalidArgument,
                   fmt::format("rank {} is not between 0 and {}, or the shape is NULL", tensor.rank, kMaxRank), where);
  std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.rank);
  checked_element_count(type, shape, where);
  return shape;
}

namespace {

/// The strings of a tensor of a call; throws Error naming `where`.
std::span<const graft_text> checked_texts(const graft_tensor& tensor, const std::string& where) {
  const int64_t count = checked_element_count(DType::kString, shape_of(tensor, DType::kString, where), where);
  GRAFT_USER_CHECK(!tensor.strides && tensor.device != GRAFT_CUDA, kInvalidArgument,
                   "strings are row-major and on the host", where);
  GRAFT_USER_CHECK(tensor.data || count == 0, kInvalidArgument, "its data is NULL", where);
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(graft_text);
  GRAFT_USER_CHECK(tensor.bytes == 0 || bytes <= tensor.bytes, kInvalidArgument,
                   fmt::format("its shape takes {} bytes of graft_text, the memory has {}", bytes, tensor.bytes),
                   where);
  const std::span texts(static_cast<const graft_text*>(tensor.data), static_cast<size_t>(count));
  for (size_t i = 0; i < texts.size(); ++i) {
    GRAFT_USER_CHECK(texts[i].data || texts[i].bytes == 0, kInvalidArgument,
                     fmt::format("the data of string {} is NULL", i), where);
  }
  return texts;
}

std::string_view view_of(const graft_text& text) { return {text.bytes ? text.data : "", text.bytes}; }

std::vector<std::string> copied_texts(const graft_tensor& tensor, const std::string& where) {
  std::vector<std::string> texts;
  for (const graft_text& text : checked_texts(tensor, where)) texts.emplace_back(view_of(text));
  return texts;
}

}  // namespace

PooledTexts pooled_texts(const graft_tensor& tensor, const std::string& where) {
  PooledTexts pooled;
  std::unordered_map<std::string_view, size_t> known;
  for (const graft_text& text : checked_texts(tensor, where)) {
    const auto [place, is_new] = known.emplace(view_of(text), pooled.texts.size());
    if (is_new) pooled.texts.emplace_back(place->first);
    pooled.elements.push_back(place->second);
  }
  return pooled;
}

TensorData copied_tensor(const graft_tensor& tensor, const char* where) {
  GRAFT_USER_CHECK(tensor.struct_size >= kTensorSize, kInvalidArgument,
                   "struct_size is not set: give sizeof(graft_tensor)", where);
  const auto type = dtype_from_onnx(tensor.dtype);
  GRAFT_USER_CHECK(type, kInvalidArgument, fmt::format("{} is no element type", tensor.dtype), where);
  std::vector<int64_t> shape = shape_of(tensor, *type, where);
  if (*type == DType::kString) return TensorData::from_strings(std::move(shape), copied_texts(tensor, where));
  GRAFT_USER_CHECK(!tensor.strides && tensor.device != GRAFT_CUDA, kInvalidArgument,
                   "tensors of values are row-major and on the host", where);
  const auto bytes = static_cast<size_t>(packed_bytes(*type, checked_element_count(*type, shape, where)));
  GRAFT_USER_CHECK(tensor.data || bytes == 0, kInvalidArgument, "its data is NULL", where);
  GRAFT_USER_CHECK(tensor.bytes == 0 || bytes <= tensor.bytes, kInvalidArgument,
                   fmt::format("its shape takes {} bytes, the memory has {}", bytes, tensor.bytes), where);
  return TensorData::from_bytes(*type, std::move(shape), {static_cast<const std::byte*>(tensor.data), bytes});
}

}  // namespace graft::api_detail

graft_value::~graft_value() {
  for (graft_value* each : elements_) graft_value_release(each);
}

graft_value* graft_value::element(size_t index) {
  const bool is_map = value.kind() == DynamicValue::Kind::kMap;
  if (index >= graft_value_count(this)) return nullptr;
  const std::lock_guard lock(mutex_);
  elements_.resize(graft_value_count(this));
  graft_value*& known = elements_[index];
  if (!known) {
    known = new graft_value(is_map ? DynamicValue(index == 0 ? value.tensor() : value.map_values()) : value[index]);
  }
  return known;
}

void graft_value::describe(graft_tensor& tensor) {
  const TensorData& data = value.tensor();
  const std::lock_guard lock(mutex_);
  tensor.dtype = graft::onnx_code(data.type());
  tensor.rank = data.rank();
  tensor.shape = data.shape().data();
  tensor.strides = nullptr;
  tensor.device = GRAFT_HOST;
  tensor.data = const_cast<std::byte*>(data.bytes().data());
  tensor.bytes = static_cast<uint64_t>(data.byte_count());
  if (data.type() != DType::kString) return;
  if (texts_.empty()) {
    for (const std::string& text : data.strings()) texts_.push_back({text.data(), text.size()});
  }
  tensor.data = texts_.data();
  tensor.bytes = texts_.size() * sizeof(graft_text);
}

namespace {

/// Gives the caller a value that `make` makes.
template <class Make>
graft_status give(graft_value** value, graft_error* error, const char* where, const Make& make) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(value, kInvalidArgument, "the place for the value is NULL", where);
    *value = new graft_value(make());
  });
}

}  // namespace

extern "C" {

graft_status graft_value_of_tensor(const graft_tensor* tensor, graft_value** value, graft_error* error) {
  return give(value, error, "graft_value_of_tensor", [&]() -> DynamicValue {
    GRAFT_USER_CHECK(tensor, kInvalidArgument, "the tensor is NULL", "graft_value_of_tensor");
    return graft::api_detail::copied_tensor(*tensor, "graft_value_of_tensor");
  });
}

graft_status graft_value_of_sequence(graft_value* const* elements, size_t count, graft_value** value,
                                     graft_error* error) {
  return give(value, error, "graft_value_of_sequence", [&] {
    GRAFT_USER_CHECK(elements || count == 0, kInvalidArgument, "NULL with a count that is not 0",
                     "graft_value_of_sequence");
    std::vector<DynamicValue> list;
    for (size_t i = 0; i < count; ++i) {
      GRAFT_USER_CHECK(elements[i], kInvalidArgument, fmt::format("element {} is NULL", i), "graft_value_of_sequence");
      list.push_back(elements[i]->value);
    }
    return DynamicValue::sequence(std::move(list));
  });
}

graft_status graft_value_of_map(const graft_tensor* keys, const graft_tensor* values, graft_value** value,
                                graft_error* error) {
  return give(value, error, "graft_value_of_map", [&] {
    GRAFT_USER_CHECK(keys && values, kInvalidArgument, "the keys or the values are NULL", "graft_value_of_map");
    return DynamicValue::map(graft::api_detail::copied_tensor(*keys, "the keys of a map"),
                             graft::api_detail::copied_tensor(*values, "the values of a map"));
  });
}

graft_status graft_value_of_nothing(graft_value** value, graft_error* error) {
  return give(value, error, "graft_value_of_nothing", [] { return DynamicValue(); });
}

graft_value* graft_value_retain(graft_value* value) {
  if (value) value->references.fetch_add(1, std::memory_order_relaxed);
  return value;
}

void graft_value_release(graft_value* value) {
  if (value && value->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete value;
}

int32_t graft_value_kind(const graft_value* value) {
  return value ? static_cast<int32_t>(value->value.kind()) : GRAFT_NOTHING;
}

size_t graft_value_count(const graft_value* value) {
  if (!value) return 0;
  return value->value.kind() == DynamicValue::Kind::kMap ? 2 : value->value.size();
}

graft_value* graft_value_element(graft_value* value, size_t index) {
  graft_value* element = nullptr;
  guarded(nullptr, [&] { element = value ? value->element(index) : nullptr; });
  return element;
}

graft_status graft_value_tensor(graft_value* value, graft_tensor* tensor, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(value && tensor, kInvalidArgument, "the value or the tensor is NULL", "graft_value_tensor");
    GRAFT_USER_CHECK(tensor->struct_size >= graft::api_detail::kTensorSize, kInvalidArgument,
                     "struct_size is not set: give sizeof(graft_tensor)", "graft_value_tensor");
    GRAFT_USER_CHECK(value->value.kind() == DynamicValue::Kind::kTensor, kInvalidArgument,
                     fmt::format("it is {}, not a tensor", describe(value->value)), "graft_value_tensor");
    value->describe(*tensor);
  });
}

}  // extern "C"
