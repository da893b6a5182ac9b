// SPDX-License-Identifier: Apache-2.0
// Library cases on a GPU, where there is one.
#pragma once

#include <gtest/gtest.h>

#include "device/cuda/cuda_device.h"
#include "modules/library_source.h"
#include "support/library_case.h"

namespace graft {

/// The first GPU; opened once.
inline std::shared_ptr<Device> first_gpu() {
  static const std::shared_ptr<Device> gpu = open_cuda_device(0);
  return gpu;
}

/// How far results of a type may be from the interpreter's, as a share of the largest: roundings between a product and
/// its end are left out, and sums are in another order.
inline double tolerance_of(std::string_view type) {
  if (type == "f32") return 3e-6;
  if (type == "tf32") return 1e-3;
  return type == "f16" ? 1.5e-3 : 1.2e-2;
}

/// Runs a region in every one of a library's own ways and compares with the interpreter. Returns how many there were.
inline int expect_all_ways(const Region& region, const std::string& library, int64_t panel, std::string_view type,
                           const Bindings& bindings = {}) {
  int ways = 0;
  for (int choice = 0; choice < 4; ++choice) {
    const std::string schedule = library + " choice=" + std::to_string(choice) + " panel=" + std::to_string(panel);
    SCOPED_TRACE(schedule);
    const LibraryCase c(region, schedule, bindings);
    const auto match = match_library(region, parse_library_schedule(schedule));
    const auto* matched = std::get_if<LibraryMatch>(&match);
    EXPECT_TRUE(matched) << call_text(region, schedule);
    if (!matched) return ways;
    const auto refuses = library_refusal(first_gpu()->make_stream());
    const std::string reason = refuses(parse_library_schedule(schedule), evaluate(matched->call, bindings));
    if (!reason.empty()) {
      testing::Test::RecordProperty("refused", reason);
      if (choice == 0) printf("    refused: %s\n", reason.c_str());
      return ways;
    }
    Status status;
    const TensorData actual = c.run(1, status, library_source(), first_gpu());
    EXPECT_TRUE(status.ok()) << status.message() << "\n" << call_text(region, schedule);
    if (!status.ok()) return ways;
    EXPECT_LT(LibraryCase::difference(c.expected(), actual), tolerance_of(type)) << call_text(region, schedule);
    ++ways;
  }
  return ways;
}

}  // namespace graft
