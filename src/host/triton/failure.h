// SPDX-License-Identifier: Apache-2.0
// Errors between Graft and Triton: an exception on this side, an object with a code on the other.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

#include "graft/graft.h"
#include "triton.h"

namespace graft::triton {

/// What a call of Triton's failed with.
class ServerFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws what a call of Triton's failed with.
void check(TRITONSERVER_Error* error);
/// Drops the error of a call whose failure changes nothing for anybody.
void ignore(TRITONSERVER_Error* error);

/// The error as Triton has it.
TRITONSERVER_Error* error_of(ErrorKind kind, const std::string& message);

/// Does the work of an entry point; an exception becomes the error that it returns.
template <class Work>
TRITONSERVER_Error* guarded(const Work& work) {
  try {
    work();
    return nullptr;
  } catch (const Error& failure) {
    return error_of(failure.kind(), failure.what());
  } catch (const std::bad_alloc&) {
    return error_of(ErrorKind::kOutOfMemory, "graft: no memory");
  } catch (const std::exception& failure) {
    return error_of(ErrorKind::kInternal, failure.what());
  }
}

}  // namespace graft::triton
