// SPDX-License-Identifier: Apache-2.0
#include "native_stream.h"

#include <dlfcn.h>

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

namespace graft::torchscript {
namespace {

using HandleOf = void* (*)(const c10::Stream*);

/// CUDAStream::stream() of the library that torch has loaded for its CUDA streams. A CUDAStream is a Stream alone.
HandleOf handle_of_cuda_stream() {
  void* const library = dlopen("libc10_cuda.so", RTLD_NOW | RTLD_NOLOAD);
  const auto found = library ? dlsym(library, "_ZNK3c104cuda10CUDAStream6streamEv") : nullptr;
  TORCH_CHECK(found, "this torch has no CUDA streams, or others than Graft knows: give the option device=\"cpu\"");
  return reinterpret_cast<HandleOf>(found);
}

/// Streams tell their handles since torch 2.11; before, the library of CUDA streams does.
template <typename Stream>
void* handle_of(const Stream& stream) {
  if constexpr (requires { stream.native_handle(); }) {
    return stream.native_handle();
  } else {
    static const HandleOf handle = handle_of_cuda_stream();
    return handle(&stream);
  }
}

}  // namespace

void* native_stream(c10::Device gpu) {
  return handle_of(c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getStream(gpu));
}

}  // namespace graft::torchscript
