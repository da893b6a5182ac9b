// SPDX-License-Identifier: Apache-2.0
// The results that ONNX Runtime gives for a model.
#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "child_process.h"
#include "console.h"
#include "python_program.h"
#include "tensor_set.h"

namespace graft {
namespace {

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
  const std::string python = find_python("'numpy', 'onnxruntime'");
  const int status = run_program({python, "-c", kScript, model, given, results});
  stop_if_interrupted();
  GRAFT_USER_CHECK(status == 0, kUnsupported,
                   fmt::format("ONNX Runtime of '{}' did not give results; its message is above", python), model);
  return open_reference(results, 0);  // which stays open when the folder is gone
}

}  // namespace graft
