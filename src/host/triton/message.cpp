// SPDX-License-Identifier: Apache-2.0
#include "message.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "failure.h"

namespace graft::triton {

nlohmann::json read_message(TRITONSERVER_Message* message, bool owned) {
  const auto drop = [](TRITONSERVER_Message* each) { ignore(TRITONSERVER_MessageDelete(each)); };
  const std::unique_ptr<TRITONSERVER_Message, decltype(drop)> owner(owned ? message : nullptr, drop);
  const char* text = nullptr;
  size_t bytes = 0;
  check(TRITONSERVER_MessageSerializeToJson(message, &text, &bytes));
  return nlohmann::json::parse(std::string_view(text, bytes));
}

std::string backend_option(TRITONBACKEND_Backend* backend, const char* key) {
  TRITONSERVER_Message* message = nullptr;
  check(TRITONBACKEND_BackendConfig(backend, &message));
  const nlohmann::json config = read_message(message, false);
  const auto line = config.find("cmdline");
  return line == config.end() ? std::string() : line->value(key, std::string());
}

}  // namespace graft::triton
