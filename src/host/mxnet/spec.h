// SPDX-License-Identifier: Apache-2.0
// What the caller of optimize_for chooses: keyword arguments, which MXNet hands on as texts.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graft/graft_c.h"

namespace graft::extension {

using Choices = std::vector<std::pair<std::string, std::string>>;

struct Spec {
  std::vector<std::string> data_names;  ///< the arguments that change from run to run; empty: found by their names
  bool fixed_batch = false;
  int64_t smallest_batch = 1, usual_batch = 0, largest_batch = 0;  ///< usual 0: as given; largest 0: no bound
  bool is_int8 = false;                                            ///< nothing less is built instead
  bool learns = false;               ///< engines run in fp32 and are calibrated by that
  std::vector<std::string> engines;  ///< names of those that stand for the segments, in order; none: they are compiled
  bool strict = false;                                             ///< an engine that cannot be built is an error
  std::string onnx_folder;  ///< each segment is written there, as an ONNX file; empty: none
  std::string device = "cpu";
  bool shares_scratch = false;  ///< intermediate results lie in MXNet's temporary space
  Choices partition, compiling;  ///< by the keys of graft_host.h and graft_c.h
};

/// Throws Failure for a keyword or a value that there is not, naming both and what is allowed.
Spec parse_spec(const std::unordered_map<std::string, std::string>& keywords);

/// As the C interface takes them; the texts stay those of `choices`.
std::vector<graft_option> as_options(const Choices& choices);

}  // namespace graft::extension
