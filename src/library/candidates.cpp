// SPDX-License-Identifier: Apache-2.0
// Which ways of running a region in a library are worth measuring.
#include "library/match.h"

namespace graft {
namespace {

/// Panels that whole vectors fill; plain weights serve where they are not constant. oneDNN takes a convolution with one
/// width of panels, which depends on its shape: wide ones for long rows of pixels.
std::vector<int64_t> panels_for(const Target& target, const LibraryCall& call, bool constant, const Bindings& typical) {
  if (!constant) return {0};
  const int64_t vector = target.vector_bits / 32;
  if (!call.is_convolution()) return {2 * vector, 0};
  if (call.columns.is(1)) return {vector};
  if (call.windows.back().output.evaluate(typical) >= 28) return {4 * vector, 2 * vector, 3 * vector};
  return {2 * vector, 3 * vector, 4 * vector};
}

std::vector<LibraryCut> cuts_for(const LibraryCall& call, const Bindings& typical) {
  if (call.is_convolution()) return {LibraryCut::kRows};
  const int64_t rows = call.rows.evaluate(typical), columns = call.columns.evaluate(typical);
  if (rows < columns) return {LibraryCut::kColumns, LibraryCut::kRows};
  return {LibraryCut::kRows, LibraryCut::kColumns};
}

/// Slices of the call for the threads of a CPU.
std::vector<LibrarySchedule> sliced(const LibraryInfo& library, const LibraryCall& call, bool constant,
                                    const Bindings& typical, const Target& target) {
  std::vector<LibrarySchedule> schedules;
  for (const int64_t pieces : target.threads > 1 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1}) {
    for (const int64_t panel : panels_for(target, call, constant, typical)) {
      for (const LibraryCut cut : cuts_for(call, typical)) {
        if (panel > 0 && cut == LibraryCut::kColumns) continue;  // oneDNN has no part of a row for weights in panels
        schedules.push_back({.library = std::string(library.name), .cut = cut, .pieces = pieces, .panel = panel});
      }
    }
  }
  return schedules;
}

/// The whole call in each of the library's own ways. Constant weights of a convolution lie like its images, with the
/// input channels last: in panels of one column; those of a product of matrices in either way.
std::vector<LibrarySchedule> chosen(const LibraryInfo& library, const LibraryCall& call, bool constant) {
  std::vector<int64_t> panels = {call.is_convolution() && constant ? 1 : 0};
  if (!call.is_convolution() && !call.is_attention() && constant && call.batch.empty()) panels = {0, 1};
  std::vector<LibrarySchedule> schedules;
  for (int choice = 0; choice < library.most_choices; ++choice) {
    for (const int64_t panel : panels) {
      schedules.push_back({.library = std::string(library.name), .choice = choice, .panel = panel});
    }
  }
  return schedules;
}

}  // namespace

std::vector<LibraryCandidate> library_candidates(const LibraryInfo& library, const Region& region,
                                                 const std::vector<bool>& constant, const Bindings& typical,
                                                 const Target& target, std::string& reason) {
  const auto plain = match_library(region, {.library = std::string(library.name)});
  if (const auto* mismatch = std::get_if<std::string>(&plain)) {
    reason = *mismatch;
    return {};
  }
  const LibraryCall& call = std::get<LibraryMatch>(plain).call;
  // What approximates a function in f32 is still better than a narrower result.
  if (call.type == DType::kFloat32 && !call.is_exact()) {
    reason = "a function that follows the product is only approximated by the library";
    return {};
  }
  const bool known = constant[region.inputs[static_cast<size_t>(call.weights.argument)]];
  const auto schedules = library.target == TargetKind::kCuda ? chosen(library, call, known)
                                                             : sliced(library, call, known, typical, target);
  std::vector<LibraryCandidate> candidates;
  for (const LibrarySchedule& schedule : schedules) {
    auto match = match_library(region, schedule);
    if (auto* mismatch = std::get_if<std::string>(&match)) {
      reason = std::move(*mismatch);
    } else {
      candidates.push_back({schedule, std::move(std::get<LibraryMatch>(match).layouts)});
    }
  }
  if (!candidates.empty()) reason.clear();
  return candidates;
}

}  // namespace graft
