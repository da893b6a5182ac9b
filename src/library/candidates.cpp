// SPDX-License-Identifier: Apache-2.0
// Which ways of running a region in a library are worth measuring.
#include "library/match.h"

namespace graft {
namespace {

/// Panels that whole vectors fill; plain weights serve where they are not constant.
std::vector<int64_t> panels_for(const Target& target, const LibraryCall& call, bool constant) {
  if (!constant) return {0};
  const int64_t vector = target.vector_bits / 32;
  const bool depthwise = call.is_convolution() && call.columns.is(1);
  if (depthwise) return {vector};
  // A convolution is taken with one width of panels, which depends on its shape.
  if (call.is_convolution()) return {4 * vector, 2 * vector, 3 * vector};
  return {2 * vector, 0};
}

std::vector<LibraryCut> cuts_for(const LibraryCall& call, const Bindings& typical) {
  if (call.is_convolution()) return {LibraryCut::kRows};
  const int64_t rows = call.rows.evaluate(typical), columns = call.columns.evaluate(typical);
  if (rows < columns) return {LibraryCut::kColumns, LibraryCut::kRows};
  return {LibraryCut::kRows, LibraryCut::kColumns};
}

}  // namespace

std::vector<LibraryCandidate> library_candidates(const Region& region, const std::vector<bool>& constant,
                                                 const Bindings& typical, const Target& target, bool approximate,
                                                 std::string& reason) {
  const auto plain = match_library(region, {});
  if (const auto* mismatch = std::get_if<std::string>(&plain)) {
    reason = *mismatch;
    return {};
  }
  const LibraryCall& call = std::get<LibraryMatch>(plain).call;
  if (!approximate && !call.is_exact()) {
    reason = "a function that follows the product is only approximated by the library";
    return {};
  }
  const bool known = constant[region.inputs[static_cast<size_t>(call.weights.argument)]];
  std::vector<LibraryCandidate> candidates;
  for (const int64_t panel : panels_for(target, call, known)) {
    for (const LibraryCut cut : cuts_for(call, typical)) {
      if (panel > 0 && cut == LibraryCut::kColumns) continue;  // oneDNN has no part of a row for weights in panels
      for (const int64_t pieces : {2, 1}) {
        const LibrarySchedule schedule{.cut = cut, .pieces = target.threads > 1 ? pieces : 1, .panel = panel};
        auto match = match_library(region, schedule);
        if (auto* matched = std::get_if<LibraryMatch>(&match)) {
          candidates.push_back({schedule, std::move(matched->layouts)});
        }
        if (target.threads == 1) break;
      }
    }
  }
  return candidates;
}

}  // namespace graft
