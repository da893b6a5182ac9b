// SPDX-License-Identifier: Apache-2.0
// Results against a reference: one that was stored, or what another runtime gave.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "comparison_report.h"
#include "console.h"
#include "tensor_set.h"

namespace graft {
namespace {

Judgement judge_pending(const TensorData& result, const PendingTensor& reference, const ToleranceChoice& choice) {
  if (!reference) return {.words = "WRONG: the reference does not have it"};
  if (result.type() != reference.type || result.shape() != reference.shape) {
    return {.words = fmt::format("WRONG: the reference is {}[{}]", name_of(reference.type),
                                 fmt::join(reference.shape, ", "))};
  }
  return judge(result, reference.load(), choice, stop_if_interrupted);
}

}  // namespace

void ToleranceOptions::add_to(Command command) {
  command.add_option("--rtol", choice.relative,
                     "relative tolerance: allowed difference as a share of the reference's magnitude, added to --atol\n"
                     "(default: by element type, docs/ARRAYS.md)")
      .not_negative().type_name("NUMBER");
  command.add_option("--atol", choice.absolute,
                     "absolute tolerance; integers, bools and strings have to be equal")
      .not_negative().type_name("NUMBER");
}

FindTensor open_reference(const std::string& path, size_t results) {
  if (path.ends_with(".npy")) {
    GRAFT_USER_CHECK(results == 1, kInvalidArgument,
                     fmt::format("there are {} results, and an .npy file has one; give an .npz file, or choose one "
                                 "with --outputs", results), path);
    return [path](const std::string&, DType type) { return open_npy(path, type); };
  }
  return [file = NpzFile(path)](const std::string& name, DType type) { return file.find(name, type); };
}

FindTensor reference_of(NamedTensors tensors) {
  return [tensors = std::move(tensors)](const std::string& name, DType) {
    for (const auto& [known, tensor] : tensors) {
      if (known == name) return PendingTensor{tensor.type(), tensor.shape(), 0, [tensor = tensor] { return tensor; }};
    }
    return PendingTensor();
  };
}

std::vector<ComparedTensor> compare_tensors(const NamedTensors& results, const FindTensor& reference,
                                            const ToleranceOptions& tolerance) {
  std::vector<ComparedTensor> rows;
  for (const auto& [name, result] : results) {
    const PendingTensor other = reference(name, result.type());
    rows.push_back({name, "", describe(result), judge_pending(result, other, tolerance.choice)});
  }
  return rows;
}

}  // namespace graft
