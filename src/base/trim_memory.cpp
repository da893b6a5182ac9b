// SPDX-License-Identifier: Apache-2.0
#include "base/trim_memory.h"

#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace graft {

void trim_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace graft
