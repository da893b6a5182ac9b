// SPDX-License-Identifier: Apache-2.0
// Errors on their way to MXNet, which takes a status and a message.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

#include "graft/graft_c.h"
#include "mxnet/lib_api.h"

namespace graft::extension {

/// What is wrong, for the caller of MXNet.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws what a failed call says.
inline void check(graft_status status, const graft_error& error) {
  if (status != GRAFT_OK) throw Failure(error.message);
}

/// Hands a message to MXNet, from any thread.
void tell(const std::string& message);

/// Does the work; an exception becomes a message.
template <class Work>
mxnet::ext::MXReturnValue guarded(const Work& work) {
  try {
    work();
    return mxnet::ext::MX_SUCCESS;
  } catch (const std::exception& failure) {
    tell(failure.what());
  }
  return mxnet::ext::MX_FAIL;
}

}  // namespace graft::extension
