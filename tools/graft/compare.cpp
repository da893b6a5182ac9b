// SPDX-License-Identifier: Apache-2.0
// Results against a reference: one that was stored, or ONNX Runtime's.
#include "base/compare.h"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "console.h"
#include "tensor_set.h"

namespace graft {
namespace {

Tolerance tolerance_for(const TensorData& reference, const ToleranceOptions& options) {
  Tolerance tolerance = default_tolerance(reference.type(), options.absolute ? 0 : largest_magnitude(reference));
  return {options.relative.value_or(tolerance.relative), options.absolute.value_or(tolerance.absolute)};
}

/// `NaN 3` when both have as many, `NaN 3, reference 0` otherwise, nothing when there are none.
std::string counts_text(const char* what, int64_t count, int64_t of_reference) {
  if (count == 0 && of_reference == 0) return "";
  const std::string text = fmt::format("; {} {}", what, count);
  return count == of_reference ? text : fmt::format("{}, reference {}", text, of_reference);
}

std::string verdict(const Comparison& found, const TensorData& result, const TensorData& reference,
                    const Tolerance& tolerance) {
  std::string text = "agrees";
  if (!found.agrees()) {
    text = fmt::format("WRONG: {} of {}; worst {}: {}, reference {}", found.outside, found.elements,
                       index_text(result, found.worst), show_element(result, found.worst),
                       show_element(reference, found.worst));
    if (tolerance.relative > 0 || tolerance.absolute > 0) {
      text += fmt::format(" (allowed {:.2g} of it + {:.2g})", tolerance.relative, tolerance.absolute);
    }
  }
  return text + counts_text("NaN", found.nan, found.reference_nan) +
         counts_text("infinite", found.infinite, found.reference_infinite);
}

/// One row of the report; true when it agrees.
bool compare_one(const std::string& name, const TensorData& result, const PendingTensor& pending,
                 const ToleranceOptions& options, Table& table) {
  const auto row = [&](const std::string& error, const std::string& words) {
    table.add({name, describe(result), error, words});
  };
  if (!pending) {
    row("", "WRONG: the reference does not have it");
    return false;
  }
  if (result.type() != pending.type || result.shape() != pending.shape) {
    row("", fmt::format("WRONG: the reference is {}[{}]", name_of(pending.type), fmt::join(pending.shape, ", ")));
    return false;
  }
  const TensorData reference = pending.load();
  const bool exact = !is_float(result.type()) && kind_of(result.type()) != DTypeKind::kComplex;
  const Tolerance tolerance = exact ? Tolerance{} : tolerance_for(reference, options);
  const Comparison found = compare(result, reference, tolerance, stop_if_interrupted);
  row(exact ? "" : fmt::format("{:.2e}", found.largest), verdict(found, result, reference, tolerance));
  return found.agrees();
}

}  // namespace

void ToleranceOptions::add_to(CLI::App& command) {
  command.add_option("--rtol", relative,
                     "a result may differ from the reference by this times the reference's magnitude, plus --atol;\n"
                     "where not given, what is usual for the element type (docs/ARRAYS.md)")
      ->check(CLI::NonNegativeNumber)->type_name("NUMBER");
  command.add_option("--atol", absolute,
                     "the part of the difference that does not depend on the element; integers, bools and\n"
                     "strings must be equal")
      ->check(CLI::NonNegativeNumber)->type_name("NUMBER");
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

bool compare_tensors(const NamedTensors& results, const FindTensor& reference, const ToleranceOptions& tolerance) {
  Table table("llrl");
  table.add({"output", "type", "max error", "against the reference"});
  bool good = true;
  for (const auto& [name, result] : results) {
    good &= compare_one(name, result, reference(name, result.type()), tolerance, table);
  }
  print_to(stdout, "{}", table);
  return good;
}

}  // namespace graft
