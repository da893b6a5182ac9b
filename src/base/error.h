// SPDX-License-Identifier: Apache-2.0
// Errors of the compile path (exceptions) and of the runtime (Status).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace graft {

/// Who is to blame, and so what the reader can do about it.
enum class ErrorKind {
  kInvalidModel,     ///< The model or plan is malformed.
  kInvalidArgument,  ///< An option, name, shape or type that the caller gave is wrong.
  kUnsupported,      ///< Well-formed, but outside what Graft can do.
  kDevice,           ///< The machine, the file system or a driver failed.
  kOutOfMemory,      ///< An allocation failed or a ceiling was reached.
  kCancelled,        ///< The caller asked to stop.
  kInternal,         ///< A bug of Graft's own.
};

std::string_view name_of(ErrorKind kind);

/// Thrown by everything that compiles or loads; `where` names the node, file or section.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message, const std::string& where = "");
  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const std::string& where() const { return where_; }

 private:
  ErrorKind kind_;
  std::string message_;
  std::string where_;
};

/// The outcome of a runtime call, which never throws.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ErrorKind kind, std::string message) : failed_(true), kind_(kind), message_(std::move(message)) {}
  bool ok() const { return !failed_; }
  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }

 private:
  bool failed_ = false;
  ErrorKind kind_ = ErrorKind::kInternal;
  std::string message_;
};

/// Throws an internal error that names the failed condition; used by GRAFT_CHECK.
[[noreturn]] void throw_internal(const char* file, int line, const char* condition,
                                 const std::string& message);

}  // namespace graft

/// A condition that only a bug of ours can break. `message` is a std::string expression.
#define GRAFT_CHECK(condition, message)                                         \
  do {                                                                          \
    if (!(condition)) ::graft::throw_internal(__FILE__, __LINE__, #condition, message); \
  } while (false)

/// A condition that the caller's input can break: throws Error{kind, message, where}.
#define GRAFT_USER_CHECK(condition, kind, message, where)                 \
  do {                                                                    \
    if (!(condition)) throw ::graft::Error(::graft::ErrorKind::kind, message, where); \
  } while (false)
