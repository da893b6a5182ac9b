// SPDX-License-Identifier: Apache-2.0
// What a model's configuration says to this backend: the parameters of its config.pbtxt.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace graft::triton {

/// parameters { key: "threads" value { string_value: "2" } }, in the words of the command line.
struct Settings {
  /// For graft_compile, of a model that is no plan: dim, shape, precision, tune, mode, disable. Several values of a key
  /// are separated by spaces.
  std::vector<std::pair<std::string, std::string>> compile;
  std::string device;            ///< cpu, cuda, cuda:1; empty: as the instance group says
  std::string weights = "copied";  ///< or mapped: where nobody writes to the repository while the server runs
  int threads = 0;               ///< of each instance; 0: as the plan was made for
  uint64_t memory_limit = 0;     ///< bytes of each instance beside the weights; 0: none
  double deadline = 0;           ///< seconds that a run may take; 0: as long as it needs
};

/// Throws Error at a parameter that there is not, and at a value that is none.
Settings read_settings(const nlohmann::json& config);

}  // namespace graft::triton
