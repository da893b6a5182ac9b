// SPDX-License-Identifier: Apache-2.0
// The C interface of a library module (libgraft_onednn.so, libgraft_cublaslt.so, libgraft_cudnn.so). Modules are opened
// with dlopen when a candidate is tried or an engine uses one, and speak text: a call goes in as printed
// (library/call.h), so that nothing of C++ or of the library crosses the border.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

/// Receives one text: `kind` is "error" or "implementation" (which of the library's own kernels it chose).
typedef void (*graft_library_sink)(void* context, const char* kind, const void* data, size_t bytes);

/// Makes a call with concrete sizes ready. `choice`: which of the library's own ways to do it, 0 the one that it would
/// take itself; an error when there are not so many. `stream`: the device's own handle (a CUstream, its context current
/// on this thread), null on a CPU; what a library keeps for each stream lives as long as a handle of that stream.
/// Returns a handle, or null after sending an "error". Thread-safe, never throws. The handle computes the whole call on
/// the thread or stream that runs it.
typedef void* (*graft_library_create_fn)(const char* call, size_t bytes, int choice, void* stream,
                                         graft_library_sink sink, void* context);

/// Bytes of scratch memory that each run needs, 64-byte aligned; on a device 256-byte aligned and the device's own.
typedef int64_t (*graft_library_scratch_fn)(const void* handle);

/// Computes. `buffers`: what the offsets of the call's operands are counted from, in the order of its text. Returns 0,
/// or the library's own code. Allocates no tensors, starts no threads, never throws. One thread at a time may run a
/// handle. On a device the work is put into the stream of the handle and nothing is waited for, so that it can be
/// captured.
typedef int (*graft_library_run_fn)(void* handle, void* const* buffers, void* scratch);

typedef void (*graft_library_destroy_fn)(void* handle);

/// Name and version of the library; empty when it has a problem.
typedef const char* (*graft_library_version_fn)(void);

/// Why the library cannot be used (its files are not found, say), or an empty text.
typedef const char* (*graft_library_problem_fn)(void);

/// What each module exports.
#define GRAFT_LIBRARY_EXPORT __attribute__((visibility("default")))
GRAFT_LIBRARY_EXPORT void* graft_library_create(const char* call, size_t bytes, int choice, void* stream,
                                                graft_library_sink sink, void* context);
GRAFT_LIBRARY_EXPORT int64_t graft_library_scratch(const void* handle);
GRAFT_LIBRARY_EXPORT int graft_library_run(void* handle, void* const* buffers, void* scratch);
GRAFT_LIBRARY_EXPORT void graft_library_destroy(void* handle);
GRAFT_LIBRARY_EXPORT const char* graft_library_version(void);
GRAFT_LIBRARY_EXPORT const char* graft_library_problem(void);
#undef GRAFT_LIBRARY_EXPORT
}
