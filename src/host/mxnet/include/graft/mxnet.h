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

#ifdef __cplusplus
}
#endif

#endif
