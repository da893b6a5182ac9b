// SPDX-License-Identifier: Apache-2.0
#include "value_json.h"

#include <cmath>
#include <fstream>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/parse_json.h"
#include "graph/dynamic_type.h"

namespace graft {
namespace {

using nlohmann::json;

constexpr int kDeepest = 64;  // lists in lists

class ValueReader {
 public:
  explicit ValueReader(std::string path) : path_(std::move(path)) {}

  DynamicValue read(const json& given, const DynamicType& type) const {
    switch (type.kind) {
      case DynamicType::Kind::kOptional:
        return given.is_null() ? DynamicValue() : read(given, *type.element);
      case DynamicType::Kind::kSequence: {
        if (!given.is_array()) refuse("a sequence is a list of tensors");
        std::vector<DynamicValue> elements;
        for (const json& element : given) elements.push_back(read(element, *type.element));
        return DynamicValue::sequence(std::move(elements));
      }
      case DynamicType::Kind::kMap:
        return read_map(given, type);
      case DynamicType::Kind::kTensor:
        return read_tensor(given, type.type);
      case DynamicType::Kind::kOther:
        break;
    }
    refuse(fmt::format("there is no JSON of {}", print(type)));
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::kInvalidArgument, what + " (docs/ARRAYS.md)", path_);
  }

 private:
  DynamicValue read_map(const json& given, const DynamicType& type) const {
    if (!given.is_object()) refuse("a map is an object");
    json keys = json::array(), values = json::array();
    for (const auto& [key, value] : given.items()) {
      keys.push_back(type.type == DType::kString ? json(key) : parse_json(key, ErrorKind::kInvalidArgument, path_));
      values.push_back(value);
    }
    return DynamicValue::map(read_tensor(keys, type.type), read_tensor(values, type.element->type));
  }

  TensorData read_tensor(const json& given, DType type) const {
    std::vector<int64_t> shape;
    for (const json* part = &given; part->is_array(); part = &part->front()) {
      shape.push_back(static_cast<int64_t>(part->size()));
      if (shape.size() > kDeepest) refuse("its lists are nested too deep");
      if (part->empty()) break;
    }
    if (kind_of(type) == DTypeKind::kComplex || type == DType::kUndefined) {
      refuse(fmt::format("elements of {} are not written in JSON", name_of(type)));
    }
    TensorData tensor = TensorData::zeros(type, shape);
    int64_t at = 0;
    fill(given, shape, 0, tensor, at);
    return tensor;
  }

  void fill(const json& given, const std::vector<int64_t>& shape, size_t axis, TensorData& tensor, int64_t& at) const {
    if (axis == shape.size()) return put(given, tensor, at++);
    if (!given.is_array() || static_cast<int64_t>(given.size()) != shape[axis]) {
      refuse("the lists of a tensor differ in length");
    }
    for (const json& part : given) fill(part, shape, axis + 1, tensor, at);
  }

  void put(const json& given, TensorData& tensor, int64_t at) const {
    const DType type = tensor.type();
    const bool is_text = type == DType::kString;
    if (is_text && given.is_string()) {
      tensor.mutable_strings()[static_cast<size_t>(at)] = given.get<std::string>();
    } else if (type == DType::kBool && given.is_boolean()) {
      tensor.write_integer(at, given.get<bool>());
    } else if (is_float(type) && (given.is_number() || given.is_null())) {
      const double value = given.is_null() ? std::numeric_limits<double>::quiet_NaN() : given.get<double>();
      tensor.write_double(at, value);
      if (std::isfinite(value) && !std::isfinite(tensor.read_double(at))) refuse_element(given, type);
    } else if (is_integer(type) && given.is_number_integer() && is_in_range(given, type)) {
      tensor.write_integer(at, given.get<int64_t>());
    } else {
      refuse_element(given, type);
    }
  }
  [[noreturn]] void refuse_element(const json& given, DType type) const {
    refuse(fmt::format("{} is no {}", given.dump().substr(0, 40), name_of(type)));
  }

  /// Whether a type has an integer of JSON, which is unsigned there unless it is negative.
  static bool is_in_range(const json& given, DType type) {
    const int bits = bit_width(type) - (is_unsigned(type) ? 0 : 1);
    const uint64_t largest = bits == 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1;
    if (given.is_number_unsigned()) return given.get<uint64_t>() <= largest;
    const int64_t value = given.get<int64_t>();
    return value >= 0 || (!is_unsigned(type) && -(value + 1) <= static_cast<int64_t>(largest));
  }

  std::string path_;
};

json element_json(const TensorData& tensor, int64_t at) {
  const DType type = tensor.type();
  if (type == DType::kString) return tensor.strings()[static_cast<size_t>(at)];
  if (type == DType::kBool) return tensor.read_integer(at) != 0;
  if (type == DType::kUint64) return static_cast<uint64_t>(tensor.read_integer(at));
  if (!is_float(type)) return tensor.read_integer(at);
  const double value = tensor.read_double(at);
  return std::isfinite(value) ? json(value) : json(nullptr);
}

json tensor_json(const TensorData& tensor, size_t axis, int64_t& at) {
  if (axis == tensor.shape().size()) return element_json(tensor, at++);
  json list = json::array();
  for (int64_t i = 0; i < tensor.shape()[axis]; ++i) list.push_back(tensor_json(tensor, axis + 1, at));
  return list;
}

}  // namespace

DynamicValue read_value(const std::string& path, const std::string& type) {
  const ValueReader reader(path);
  const auto file = MappedFile::open(path);
  const auto* text = reinterpret_cast<const char*>(file->bytes().data());
  const json given = parse_json({text, file->bytes().size()}, ErrorKind::kInvalidArgument, path);
  return reader.read(given, parse_dynamic_type(type));
}

json value_json(const DynamicValue& value) {
  int64_t at = 0;
  switch (value.kind()) {
    case DynamicValue::Kind::kNothing:
      return nullptr;
    case DynamicValue::Kind::kTensor:
      return tensor_json(value.tensor(), 0, at);
    case DynamicValue::Kind::kSequence: {
      json list = json::array();
      value.for_each([&](const DynamicValue& element) { list.push_back(value_json(element)); });
      return list;
    }
    case DynamicValue::Kind::kMap: {
      const json keys = value_json(value.tensor()), values = value_json(value.map_values());
      json map = json::object();
      for (size_t i = 0; i < keys.size(); ++i) {
        map[keys[i].is_string() ? keys[i].get<std::string>() : keys[i].dump()] = values[i];
      }
      return map;
    }
  }
  return nullptr;
}

}  // namespace graft
