// SPDX-License-Identifier: Apache-2.0
// Results against a reference: one that was stored, or ONNX Runtime's.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file.h"
#include "console.h"
#include "tensor_set.h"

extern char** environ;

namespace graft {
namespace {

/// How two tensors of the same type and shape differ.
struct Difference {
  double largest = 0;    ///< absolute
  double magnitude = 0;  ///< largest finite of the reference
  int64_t count = 0;     ///< integers that differ
  bool mismatch = false; ///< NaN or infinity on one side only
};

Difference differ(const TensorData& result, const TensorData& reference) {
  Difference found;
  const bool floating = is_float(reference.type()) || kind_of(reference.type()) == DTypeKind::kComplex;
  for (int64_t i = 0; i < reference.element_count(); ++i) {
    if (!floating) {
      found.count += result.read_integer(i) != reference.read_integer(i);
      continue;
    }
    const double a = result.read_double(i), b = reference.read_double(i);
    if (std::isfinite(b)) found.magnitude = std::max(found.magnitude, std::fabs(b));
    if (std::isnan(a) && std::isnan(b)) continue;
    if (std::isfinite(a) && std::isfinite(b)) {
      found.largest = std::max(found.largest, std::fabs(a - b));
    } else {
      found.mismatch |= !(a == b);
    }
  }
  return found;
}

/// One row of the report; true when it agrees.
bool compare_one(const std::string& name, const TensorData& result, const TensorData& reference, double tolerance,
                 Table& table) {
  const auto row = [&](const std::string& error, const std::string& relative, const std::string& verdict) {
    table.add({name, describe(result), error, relative, verdict});
  };
  if (result.type() != reference.type() || result.shape() != reference.shape()) {
    row("", "", fmt::format("WRONG: the reference is {}", describe(reference)));
    return false;
  }
  const Difference found = differ(result, reference);
  const double relative = found.magnitude > 0 ? found.largest / found.magnitude : found.largest;
  const bool good = !found.mismatch && found.count == 0 && relative <= tolerance;
  if (found.count > 0) {
    row(std::to_string(found.count), "", "WRONG: elements differ");
  } else {
    const std::string fault =
        found.mismatch ? "WRONG: NaN or infinity on one side" : fmt::format("WRONG: over {:.0e}", tolerance);
    row(fmt::format("{:.2e}", found.largest), fmt::format("{:.1e}", relative), good ? "agrees" : fault);
  }
  return good;
}

/// The Python beside the build (the project's own), or the system's.
std::string find_python() {
  std::error_code ignored;
  std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  for (int level = 0; level < 4 && !folder.empty(); ++level, folder = folder.parent_path()) {
    const std::filesystem::path candidate = folder / ".deps/venv/bin/python";
    if (std::filesystem::exists(candidate, ignored)) return candidate;
  }
  return "python3";
}

constexpr const char* kScript = R"(
import sys
try:
    import numpy, onnxruntime
except ImportError as error:
    sys.exit(f"{error}: pip install onnxruntime, or give --reference FILE.npz")
model, given, results = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.log_severity_level = 3
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
values = session.run(None, dict(numpy.load(given)))
numpy.savez(results, **{out.name: value for out, value in zip(session.get_outputs(), values)})
)";

/// A folder that goes away with everything in it.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "graft-XXXXXX";
    GRAFT_USER_CHECK(mkdtemp(pattern.data()), kDevice, std::strerror(errno), pattern);
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string operator/(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Runs a program to its end and gives its exit status; what it prints goes where ours goes.
int spawn_and_wait(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int fault = posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ);
  GRAFT_USER_CHECK(fault == 0, kDevice, std::strerror(fault), words[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    GRAFT_USER_CHECK(errno == EINTR, kDevice, std::strerror(errno), words[0]);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

bool compare_tensors(const NamedTensors& results, const NamedTensors& reference, double tolerance) {
  Table table("llrrl");
  table.add({"output", "type", "max error", "relative", "against the reference"});
  bool good = true;
  for (const auto& [name, result] : results) {
    const TensorData* expected = nullptr;
    for (const auto& [key, tensor] : reference) {
      if (key == name) expected = &tensor;
    }
    if (expected) {
      good &= compare_one(name, result, *expected, tolerance, table);
    } else {
      table.add({name, describe(result), "", "", "WRONG: the reference does not have it"});
      good = false;
    }
  }
  fmt::print("{}", table.print());
  return good;
}

NamedTensors run_onnxruntime(const std::string& model, const NamedTensors& inputs) {
  const ScratchFolder scratch;
  const std::string given = scratch / "inputs.npz", results = scratch / "outputs.npz";
  write_npz(given, inputs);
  const int status = spawn_and_wait({find_python(), "-c", kScript, model, given, results});
  stop_if_interrupted();
  GRAFT_USER_CHECK(status == 0, kDevice, "ONNX Runtime did not give results; its message is above", model);
  return read_npz(results);
}

}  // namespace graft
