// SPDX-License-Identifier: Apache-2.0
#include "failure.h"

namespace graft::triton {
namespace {

ErrorCode code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidModel:
    case ErrorKind::kInvalidArgument: return ErrorCode::kInvalidArgument;
    case ErrorKind::kUnsupported: return ErrorCode::kUnsupported;
    case ErrorKind::kDevice:
    case ErrorKind::kOutOfMemory: return ErrorCode::kUnavailable;
    case ErrorKind::kCancelled: return ErrorCode::kCancelled;
    default: return ErrorCode::kInternal;
  }
}

}  // namespace

void check(TRITONSERVER_Error* error) {
  if (!error) return;
  const std::string message = TRITONSERVER_ErrorMessage(error);
  TRITONSERVER_ErrorDelete(error);
  throw ServerFailure(message);
}

void ignore(TRITONSERVER_Error* error) {
  if (error) TRITONSERVER_ErrorDelete(error);
}

TRITONSERVER_Error* error_of(ErrorKind kind, const std::string& message) {
  return TRITONSERVER_ErrorNew(code_of(kind), message.c_str());
}

}  // namespace graft::triton
