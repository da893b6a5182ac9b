// SPDX-License-Identifier: Apache-2.0
// The C interface of a code generator module (libgraft_llvm.so, libgraft_cuda.so). Modules are opened with dlopen on a
// kernel-cache miss only, and speak text: tile programs go in as printed, code comes out as bytes, so that nothing of
// C++ or of LLVM crosses the border.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/kernel_arguments.h"

extern "C" {

/// Receives one result: `kind` is "object" (ELF relocatable, CPU), "cubin", "source" (CUDA C++ or LLVM IR, on request),
/// "launch" (CUDA: a line `name threads N shared BYTES` per kernel, the dynamic shared memory of its launch),
/// "ptx" (on request), "report" (on request; CUDA: the assembler's lines on registers, stack and spills), "error"
/// (text), "log", or "progress": the name of a kernel that is finished, or nothing when the module only asks whether to
/// go on, which it does at least once per kernel. The answer to "progress" is 0 to go on; any other ends the
/// compilation soon. Other answers do not matter. Never called by two threads at a time.
typedef int (*graft_codegen_sink)(void* context, const char* kind, const void* data, size_t bytes);

/// What graft_codegen_compile returns.
enum {
  graft_codegen_done = 0,
  graft_codegen_failed = 1,   ///< after sending an "error"
  graft_codegen_stopped = 2,  ///< because the sink wanted it; no code was sent
};

/// Compiles tile programs (their texts one after the other) for a target (its text) into one unit.
/// `options`: space-separated words; "source", "ptx" and "report" also send these, "no-object" (CPU) and "no-cubin"
/// (CUDA) leave out the code, "emitted" (CPU) has the source before it is optimised and needs "no-object", "quick"
/// (CUDA) optimises less, for code that will not run. Returns graft_codegen_done, _failed or _stopped. Thread-safe.
/// Never throws.
typedef int (*graft_codegen_compile_fn)(const char* programs, size_t program_bytes, const char* target,
                                        const char* options, graft_codegen_sink sink, void* context);

/// Name, sources and compiler of the generator.
typedef const char* (*graft_codegen_version_fn)(void);

/// What each module exports.
__attribute__((visibility("default"))) int graft_codegen_compile(const char* programs, size_t program_bytes,
                                                                 const char* target, const char* options,
                                                                 graft_codegen_sink sink, void* context);
__attribute__((visibility("default"))) const char* graft_codegen_version(void);
}
