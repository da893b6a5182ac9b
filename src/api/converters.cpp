// SPDX-License-Identifier: Apache-2.0
// The C interface for converters of users.
#include "api/handles.h"
#include "frontend/user_rows.h"
#include "graft/graft_converter.h"

using graft::api_detail::guarded;

graft_status graft_converters_add(const graft_converter* converters, size_t count, const char* origin, uint64_t* id,
                                  graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(converters || count == 0, kInvalidArgument, "an argument is NULL", "graft_converters_add");
    const std::string whose = origin && *origin ? origin : "this program";
    const uint64_t made = graft::frontend::add_user_rows({converters, count}, whose);
    if (id) *id = made;
  });
}

graft_status graft_converters_load(const char* path, uint64_t* id, graft_error* error) {
  return guarded(error, [&] {
    GRAFT_USER_CHECK(path, kInvalidArgument, "an argument is NULL", "graft_converters_load");
    const uint64_t made = graft::frontend::load_user_rows(path);
    if (id) *id = made;
  });
}

void graft_converters_remove(uint64_t id) {
  guarded(nullptr, [&] { graft::frontend::remove_user_rows(id); });
}
