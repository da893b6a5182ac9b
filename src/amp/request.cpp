// SPDX-License-Identifier: Apache-2.0
#include "amp/request.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse_json.h"
#include "base/spelling.h"

namespace graft::amp {
namespace {

using nlohmann::json;

class RequestReader {
 public:
  RequestReader(std::string where, Request& request) : where_(std::move(where)), request_(request) {}

  void read(const json& given) {
    check(given.is_object(), "is no object", "");
    for (const auto& [key, value] : given.items()) {
      if (!value.is_null()) read_key(key, value);
    }
  }

 private:
  void check(bool holds, const std::string& message, const std::string& key) const {
    GRAFT_USER_CHECK(holds, kInvalidArgument, message, key.empty() ? where_ : fmt::format("{}: '{}'", where_, key));
  }

  void read_key(const std::string& key, const json& value) {
    if (key == "target_dtype") {
      check(value.is_string(), "is no text", key);
      request_.low = low_type_of(value.get<std::string>(), where_);
    } else if (key == "target_dtype_ops") {
      request_.lists.low = names(value, key);
    } else if (key == "fp32_ops") {
      request_.lists.wide = names(value, key);
    } else if (key == "widest_dtype_ops") {
      request_.lists.widest = names(value, key);
    } else if (key == "conditional_fp32_ops") {
      request_.lists.conditional = conditions(value, key);
    } else if (key == "excluded_sym_names") {
      request_.lists.excluded = names(value, key);
    } else if (key == "data_names") {
      request_.data_names = names(value, key);
    } else if (key == "input_dtypes") {
      read_input_types(value, key);
    } else if (key == "cast_optional_params") {
      check(value.is_boolean(), "is neither true nor false", key);
      request_.convert_parameters = value.get<bool>();
    } else {
      check(false, "there is no such key" + did_you_mean(key, kKeys), key);
    }
  }

  std::vector<std::string> names(const json& value, const std::string& key) const {
    check(value.is_array(), "is no list of names", key);
    std::vector<std::string> result;
    for (const json& each : value) {
      check(each.is_string(), fmt::format("its entry {} is no text", result.size()), key);
      result.push_back(each.get<std::string>());
    }
    return result;
  }

  std::vector<Condition> conditions(const json& value, const std::string& key) const {
    check(value.is_array(), "is no list", key);
    std::vector<Condition> result;
    for (const json& each : value) {
      const bool right = each.is_array() && each.size() == 3 && each[0].is_string() && each[1].is_string();
      check(right, fmt::format("its entry {} is not [operator, attribute, [values]]", result.size()), key);
      result.push_back({each[0].get<std::string>(), each[1].get<std::string>(), names(each[2], key)});
    }
    return result;
  }

  void read_input_types(const json& value, const std::string& key) {
    check(value.is_object(), "is no object of names and types", key);
    for (const auto& [name, type] : value.items()) {
      check(type.is_string() || type.is_null(), fmt::format("the type of '{}' is no text", name), key);
      const std::string text = type.is_null() ? "any" : type.get<std::string>();
      std::optional<DType>& wanted = request_.input_types[name];
      if (text == "any") continue;
      wanted = type_of(text);
      check(wanted.has_value(), fmt::format("there is no element type '{}'; 'any' is none in particular", text), key);
    }
  }

  /// By numpy's name or ours.
  static std::optional<DType> type_of(const std::string& name) {
    static const std::map<std::string, std::string_view> names = {
        {"float32", "f32"}, {"float64", "f64"}, {"float16", "f16"}, {"bfloat16", "bf16"}, {"uint8", "u8"},
        {"int8", "i8"},     {"int16", "i16"},   {"uint16", "u16"},  {"int32", "i32"},     {"uint32", "u32"},
        {"int64", "i64"},   {"uint64", "u64"}};
    const auto known = names.find(name);
    return parse_dtype(known == names.end() ? std::string_view(name) : known->second);
  }

  inline static const std::vector<std::string> kKeys = {
      "target_dtype",       "target_dtype_ops", "fp32_ops",     "widest_dtype_ops",    "conditional_fp32_ops",
      "excluded_sym_names", "data_names",       "input_dtypes", "cast_optional_params"};
  std::string where_;
  Request& request_;
};

}  // namespace

Request parse_request(std::string_view text, const std::string& where, Request defaults) {
  RequestReader(where, defaults).read(parse_json(text, ErrorKind::kInvalidArgument, where));
  return defaults;
}

DType low_type_of(std::string_view name, const std::string& where) {
  if (name == "float16" || name == "fp16" || name == "f16") return DType::kFloat16;
  if (name == "bfloat16" || name == "bf16") return DType::kBFloat16;
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("mixed precision is of float16 or bfloat16, not '{}'", std::string(name)), where);
}

}  // namespace graft::amp
