// SPDX-License-Identifier: Apache-2.0
// The record of choices: which way each region of a network is done on one target, and what lost. The same model,
// options, target and record give the same engine; a plan file holds one record for each target.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"

namespace graft {

/// How a region is done.
struct RegionChoice {
  std::string step;         ///< the first step with this region, for a person to read
  std::string way;          ///< `generated contract m=56 ...`, `onednn`, `interpreter`
  double milliseconds = 0;  ///< measured; 0 when it was not
  std::vector<Candidate> lost;
};

struct Record {
  std::string target;                                        ///< text of its description
  std::map<std::string, RegionChoice, std::less<>> regions;  ///< by key: a hash of the region and what it was judged by
};

/// The canonical text; parse_record reads it back, and throws invalid_argument naming the line on any other bytes.
///
///   record "kind=cpu name=native ..."
///   region 0f3a... "encoder.0.query"
///     use 0.125 ms: generated contract m=56 n=128
///     not 0.152 ms: onednn: slower
std::string print(const Record& record);
Record parse_record(std::string_view text);

}  // namespace graft
