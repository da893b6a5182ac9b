// SPDX-License-Identifier: Apache-2.0
// The C interface to weights that engines have, for what runs in the framework in their stead.
#include <algorithm>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include "api/given_tensor.h"
#include "api/handles.h"
#include "driver/weight_places.h"
#include "graft/graft_host.h"

using graft::api_detail::guarded, graft::api_detail::parameter_of, graft::api_detail::tensor_at;

graft_status graft_host_find_weights(const graft_engine* engine, const graft_tensor* weights, size_t count,
                                     void* context,
                                     void (*take)(void* context, size_t weight, const char* place),
                                     graft_error* error) {
  return guarded(error, [&] {
    const char* const where = "graft_host_find_weights";
    GRAFT_USER_CHECK(engine && take && (weights || count == 0), kInvalidArgument, "engine, weights or take is NULL",
                     where);
    std::vector<graft::TensorData> given;
    for (size_t i = 0; i < count; ++i) {
      given.push_back(parameter_of(tensor_at(weights, i, where), fmt::format("weight {}", i)));
    }
    const auto places = graft::find_weights(engine->latest().plan, given);
    for (size_t i = 0; i < count; ++i) {
      if (places[i]) take(context, i, print(*places[i]).c_str());
    }
  });
}

graft_status graft_host_read_weight(const graft_engine* engine, const char* place, const graft_tensor* weight,
                                    graft_error* error) {
  return guarded(error, [&] {
    const char* const where = "graft_host_read_weight";
    GRAFT_USER_CHECK(engine && place && weight && weight->data, kInvalidArgument,
                     "engine, place, weight or its data is NULL", where);
    const graft::TensorData like = parameter_of(tensor_at(weight, 0, where), where);
    const graft::TensorData made =
        graft::read_weight(engine->latest().plan, graft::parse_weight_place(place), like.type(), like.shape());
    const auto bytes = made.bytes();
    std::copy(bytes.begin(), bytes.end(), static_cast<std::byte*>(weight->data));
  });
}
