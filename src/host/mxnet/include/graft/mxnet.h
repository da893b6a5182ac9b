/* SPDX-License-Identifier: Apache-2.0 */
/* Engines inside MXNet: what libgraft_mxnet.so has beside what MXNet itself calls. MXLoadLib (mx.library.load) makes
 * MXNet know the backend `graft` of MXOptimizeForBackend (Symbol.optimize_for). */
#ifndef GRAFT_MXNET_H
#define GRAFT_MXNET_H

#include "graft/graft_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What became of the last symbol that the calling thread had optimised, as a text for people: each engine with its
 * operators and borders, each other operator with the reason. Lives until the next one; empty before the first. */
GRAFT_API const char* graft_mxnet_report(void);

/* Whether the environment asks for engines in what is bound for inference, read anew in each call: MXNET_USE_GRAFT, or,
 * where that is not set, MXNet_USE_TENSORRT or MXNET_USE_TENSORRT. 1; 0, also where none is set; or -1 for a value that
 * is neither 0 nor 1. `variable`, unless it is NULL, becomes the name of the one that decides. */
GRAFT_API int graft_mxnet_use_at_bind(const char** variable);

/* A number that stays as long as the contents of arrays (NDArrayHandle) do, of so many bytes each, for a caller that
 * keeps engines of them: they are waited for and read, wholly (`whole` 1), or up to 4 KiB wholly and 16 places of
 * larger ones. MXOptimizeForBackend takes addresses: call MXNDArrayWaitAll before it, so that what is still being
 * computed is there. */
GRAFT_API uint64_t graft_mxnet_fingerprint(void* const* arrays, const size_t* sizes, size_t count, int whole);

#ifdef __cplusplus
}
#endif

#endif
