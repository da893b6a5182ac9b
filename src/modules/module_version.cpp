// SPDX-License-Identifier: Apache-2.0
// Linked into every module: open_module() asks it before anything else of the module is used.
#include "base/source_identity.h"

extern "C" __attribute__((visibility("default"))) const char* graft_module_version() {
  return GRAFT_VERSION " " GRAFT_SOURCES;
}
