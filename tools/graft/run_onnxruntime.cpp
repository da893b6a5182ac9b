// SPDX-License-Identifier: Apache-2.0
// The results that ONNX Runtime gives for a model.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "child_process.h"
#include "console.h"
#include "tensor_set.h"

namespace graft {
namespace {

/// Where ONNX Runtime is looked for: the active environment, what `python3` is here, and the Python beside the build.
std::vector<std::string> pythons() {
  std::vector<std::string> found;
  std::error_code ignored;
  const char* active = std::getenv("VIRTUAL_ENV");
  if (active && *active) found.push_back(std::filesystem::path(active) / "bin/python");
  found.emplace_back("python3");
  std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  for (int level = 0; level < 4 && !folder.empty(); ++level, folder = folder.parent_path()) {
    const std::filesystem::path candidate = folder / ".deps/venv/bin/python";
    if (std::filesystem::exists(candidate, ignored)) found.push_back(candidate);
  }
  return found;
}

/// The first that has ONNX Runtime; where none has, the first, whose message says what it lacks.
std::string find_python() {
  constexpr const char* kLook = "import importlib.util as u, sys; "
                                "sys.exit(not (u.find_spec('numpy') and u.find_spec('onnxruntime')))";
  constexpr double kSeconds = 30;
  const std::vector<std::string> all = pythons();
  for (const std::string& python : all) {
    try {
      const Ended ended = capture_program({python, "-c", kLook}, kSeconds);
      if (ended.status == 0 && ended.signal == 0 && !ended.timed_out) return python;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kCancelled) throw;  // else there is no such program
    }
  }
  return all.front();
}

constexpr const char* kScript = R"python(
import ctypes, sys, urllib.parse
try:
    import numpy, onnxruntime
except ImportError as error:
    sys.exit(f"{sys.executable}: {error}: activate an environment that has ONNX Runtime "
             f"(`{sys.executable} -m pip install onnxruntime`), or give --reference FILE.npz")
# Names of the model may be in messages; the logger would print them as they are.
def shown(text):
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
sys.excepthook = lambda kind, error, trace: print("onnxruntime:", shown(str(error)), file=sys.stderr)
model, given, results = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
# Types that numpy lacks: their code in ONNX and their bits.
foreign = {"tensor(bfloat16)": (16, numpy.uint16), "tensor(float8e4m3fn)": (17, numpy.uint8),
           "tensor(float8e4m3fnuz)": (18, numpy.uint8), "tensor(float8e5m2)": (19, numpy.uint8),
           "tensor(float8e5m2fnuz)": (20, numpy.uint8)}
def value_of(name, array):
    kind = next(value.type for value in session.get_inputs() if value.name == name)
    if kind not in foreign:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    code, bits = foreign[kind]
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(bits), code)
def array_of(value):
    if value.data_type() not in foreign:
        return value.numpy()
    bits = numpy.dtype(foreign[value.data_type()][1])
    count = int(numpy.prod(value.shape(), dtype=numpy.int64))
    place = (ctypes.c_char * (count * bits.itemsize)).from_address(value.data_ptr())
    return numpy.frombuffer(place, bits).reshape(value.shape()).copy()
inputs = {urllib.parse.unquote(name): array for name, array in numpy.load(given).items()}
values = session.run_with_ort_values(None, {name: value_of(name, array) for name, array in inputs.items()})
numpy.savez(results, **{out.name: array_of(value) for out, value in zip(session.get_outputs(), values)})
)python";

}  // namespace

FindTensor run_onnxruntime(const std::string& model, const NamedTensors& inputs) {
  const ScratchFolder scratch;
  const std::string given = scratch / "inputs.npz", results = scratch / "outputs.npz";
  write_npz(given, inputs);
  const std::string python = find_python();
  const int status = run_program({python, "-c", kScript, model, given, results});
  stop_if_interrupted();
  GRAFT_USER_CHECK(status == 0, kUnsupported,
                   fmt::format("ONNX Runtime of '{}' did not give results; its message is above", python), model);
  return open_reference(results, 0);  // which stays open when the folder is gone
}

}  // namespace graft
