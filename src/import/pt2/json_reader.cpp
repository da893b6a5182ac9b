// SPDX-License-Identifier: Apache-2.0
#include "import/pt2/json_reader.h"

#include <fmt/format.h>

#include "base/error.h"

namespace graft::pt2 {

const json& member(const json& object, const char* key, const std::string& where) {
  const bool there = object.is_object() && object.contains(key);
  GRAFT_USER_CHECK(there, kInvalidModel, fmt::format("'{}' is missing", key), where);
  return object.at(key);
}

const json& object_member(const json& object, const char* key, const std::string& where) {
  const json& found = member(object, key, where);
  GRAFT_USER_CHECK(found.is_object(), kInvalidModel, fmt::format("'{}' is no object", key), where);
  return found;
}

const json& list_member(const json& object, const char* key, const std::string& where) {
  const json& found = member(object, key, where);
  GRAFT_USER_CHECK(found.is_array(), kInvalidModel, fmt::format("'{}' is no list", key), where);
  return found;
}

std::string text_member(const json& object, const char* key, const std::string& where) {
  const json& found = member(object, key, where);
  GRAFT_USER_CHECK(found.is_string(), kInvalidModel, fmt::format("'{}' is no text", key), where);
  return found.get<std::string>();
}

int64_t integer(const json& value, const std::string& where) {
  const bool fits = value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX);
  GRAFT_USER_CHECK(fits, kInvalidModel, "a number is no 64-bit integer", where);
  return value.get<int64_t>();
}

std::pair<std::string, const json*> tagged(const json& value, const std::string& where) {
  GRAFT_USER_CHECK(value.is_object() && value.size() == 1, kInvalidModel, "a value does not say of what kind it is",
                   where);
  return {value.begin().key(), &value.begin().value()};
}

}  // namespace graft::pt2
