// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <fmt/format.h>

namespace graft {

std::string_view name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidModel: return "invalid model";
    case ErrorKind::kInvalidArgument: return "invalid argument";
    case ErrorKind::kUnsupported: return "unsupported";
    case ErrorKind::kDevice: return "device error";
    case ErrorKind::kOutOfMemory: return "out of memory";
    case ErrorKind::kCancelled: return "cancelled";
    case ErrorKind::kInternal: return "internal error";
  }
  return "error";
}

Error::Error(ErrorKind kind, const std::string& message, const std::string& where)
    : std::runtime_error(where.empty() ? message : fmt::format("{}: {}", where, message)),
      kind_(kind),
      message_(message),
      where_(where) {}

void throw_internal(const char* file, int line, const char* condition, const std::string& message) {
  const std::string_view path(file);
  const size_t source = path.rfind("src/");
  throw Error(ErrorKind::kInternal,
              fmt::format("{} ({} at {}:{}). This is a bug in Graft; please report it.", message,
                          condition, source == path.npos ? path : path.substr(source), line));
}

}  // namespace graft
