// SPDX-License-Identifier: Apache-2.0
// Members of JSON that strangers wrote: what is missing or of another kind is an error that says where.
#pragma once

#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "base/parse_json.h"

namespace graft::pt2 {

using nlohmann::json;

/// Parses an entry; throws invalid_model naming `where`.
template <class Document = json>
Document parse_entry(std::span<const std::byte> bytes, const std::string& where) {
  return parse_json<Document>({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, ErrorKind::kInvalidModel,
                              where);
}
/// An object's member of a kind; throws invalid_model naming `where`.
const json& member(const json& object, const char* key, const std::string& where);
const json& object_member(const json& object, const char* key, const std::string& where);
const json& list_member(const json& object, const char* key, const std::string& where);
std::string text_member(const json& object, const char* key, const std::string& where);
int64_t integer(const json& value, const std::string& where);
/// The one member of an object that says of what kind it is: `{"as_int": 1}`.
std::pair<std::string, const json*> tagged(const json& value, const std::string& where);

}  // namespace graft::pt2
