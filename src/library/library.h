// SPDX-License-Identifier: Apache-2.0
// The C interface of a library module (libgraft_onednn.so). Modules are opened with dlopen when a candidate is tried or
// an engine uses one, and speak text: a call goes in as printed (library/call.h), so that nothing of C++ or of the
// library crosses the border.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

/// Receives one text: `kind` is "error" or "implementation" (which of the library's own kernels it chose).
typedef void (*graft_library_sink)(void* context, const char* kind, const void* data, size_t bytes);

/// Makes a call with concrete sizes ready. Returns a handle, or null after sending an "error". Thread-safe, never
/// throws. The handle computes the whole call on the thread that runs it.
typedef void* (*graft_library_create_fn)(const char* call, size_t bytes, graft_library_sink sink, void* context);

/// Bytes of scratch memory that each run needs, 64-byte aligned.
typedef int64_t (*graft_library_scratch_fn)(const void* handle);

/// Computes. `buffers`: where the call's operands begin, in the order of its text. Returns 0, or the library's own
/// code. Allocates no tensors, starts no threads, never throws. One thread at a time may run a handle.
typedef int (*graft_library_run_fn)(void* handle, void* const* buffers, void* scratch);

typedef void (*graft_library_destroy_fn)(void* handle);

/// Name and version of the library.
typedef const char* (*graft_library_version_fn)(void);

/// What each module exports.
#define GRAFT_LIBRARY_EXPORT __attribute__((visibility("default")))
GRAFT_LIBRARY_EXPORT void* graft_library_create(const char* call, size_t bytes, graft_library_sink sink, void* context);
GRAFT_LIBRARY_EXPORT int64_t graft_library_scratch(const void* handle);
GRAFT_LIBRARY_EXPORT int graft_library_run(void* handle, void* const* buffers, void* scratch);
GRAFT_LIBRARY_EXPORT void graft_library_destroy(void* handle);
GRAFT_LIBRARY_EXPORT const char* graft_library_version(void);
#undef GRAFT_LIBRARY_EXPORT
}
