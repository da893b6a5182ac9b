// SPDX-License-Identifier: Apache-2.0
#include "run_arguments.h"

#include <utility>

#include <nanobind/ndarray.h>

#include "failure.h"
#include "held_value.h"

namespace nb = nanobind;

namespace graft_python {
namespace {

constexpr size_t kAlignment = 64;

/// The numpy type that holds elements of a type: itself, or unsigned integers of its width; types narrower than a byte
/// come as their bytes.
nb::dlpack::dtype numpy_type(int32_t dtype) {
  const auto type = [](nb::dlpack::dtype_code code, int bits) {
    return nb::dlpack::dtype{static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
  };
  using Code = nb::dlpack::dtype_code;
  switch (dtype) {
    case GRAFT_FLOAT32: return type(Code::Float, 32);
    case GRAFT_FLOAT64: return type(Code::Float, 64);
    case GRAFT_FLOAT16: return type(Code::Float, 16);
    case GRAFT_INT8: return type(Code::Int, 8);
    case GRAFT_INT16: return type(Code::Int, 16);
    case GRAFT_INT32: return type(Code::Int, 32);
    case GRAFT_INT64: return type(Code::Int, 64);
    case GRAFT_UINT16:
    case GRAFT_BFLOAT16: return type(Code::UInt, 16);
    case GRAFT_UINT32: return type(Code::UInt, 32);
    case GRAFT_UINT64: return type(Code::UInt, 64);
    case GRAFT_BOOL: return type(Code::Bool, 8);
    case GRAFT_COMPLEX64: return type(Code::Complex, 64);
    case GRAFT_COMPLEX128: return type(Code::Complex, 128);
    default: return type(Code::UInt, 8);
  }
}

bool is_packed(int32_t dtype) {
  return dtype == GRAFT_INT4 || dtype == GRAFT_UINT4 || dtype == GRAFT_FLOAT4E2M1 || dtype == GRAFT_INT2 ||
         dtype == GRAFT_UINT2;
}

/// Asks Python for an output's array, or a pair of it and its capsule of DLPack, with the GIL taken for that long.
void* ask_python(RunArguments& run, int32_t output, int32_t dtype, int32_t rank, const int64_t* shape) {
  nb::gil_scoped_acquire gil;
  try {
    nb::list sizes;
    for (int32_t axis = 0; axis < rank; ++axis) sizes.append(shape[axis]);
    nb::object array = run.allocate(output, dtype, nb::tuple(sizes)), viewed = array;
    if (PyTuple_CheckExact(array.ptr())) {
      viewed = array[1];
      array = nb::object(array[0]);
    }
    const ArrayView view(viewed, "the array of allocate()", dtype, true);
    run.made[static_cast<size_t>(output)].array = std::move(array);
    return view.tensor().data;
  } catch (nb::python_error& error) {
    run.raised = nb::borrow(error.value());
#if PY_VERSION_HEX < 0x030C0000
    if (error.traceback().is_valid()) PyException_SetTraceback(run.raised.ptr(), error.traceback().ptr());
#endif
  } catch (const Failure& failure) {
    run.raised = nb::borrow(PyExc_TypeError)(failure.what());
  }
  return nullptr;
}

void* allocate_output(void* context, int32_t output, int32_t dtype, int32_t rank, const int64_t* shape, size_t bytes) {
  RunArguments& run = *static_cast<RunArguments*>(context);
  if (!run.allocate.is_none()) return ask_python(run, output, dtype, rank, shape);
  NewOutput& made = run.made[static_cast<size_t>(output)];
  made.data.reset(std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment));
  made.dtype = dtype;
  made.shape.assign(shape, shape + rank);
  made.bytes = bytes;
  return made.data.get();
}

/// The memory as a numpy array that owns it.
nb::object as_array(NewOutput made) {
  if (made.array.is_valid()) return std::move(made.array);
  nb::list sizes;
  const bool packed = is_packed(made.dtype);
  if (packed) {
    for (const size_t size : made.shape) sizes.append(size);
    made.shape.assign(1, made.bytes);
  }
  void* data = made.data.release();
  nb::capsule owner(data, [](void* memory) noexcept { std::free(memory); });
  nb::ndarray<nb::numpy> array(data, made.shape.size(), made.shape.data(), owner, nullptr, numpy_type(made.dtype));
  const nb::object result = nb::cast(array, nb::rv_policy::reference);
  return packed ? nb::object(nb::make_tuple(result, nb::tuple(sizes))) : result;
}

}  // namespace

graft_allocator RunArguments::allocator() { return {allocate_output, this}; }

nb::list RunArguments::results(const graft_engine* engine) {
  nb::list results;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const nb::object target = outputs[i];
    const graft_value_info* info = graft_engine_output(engine, i);
    if (info && (info->type || info->dtype == GRAFT_STRING)) {
      results.append(info->type ? HeldValue(graft_value_retain(wanted[i].value)) : HeldValue::texts_of(wanted[i]));
      continue;
    }
    results.append(target.is_none() ? as_array(std::move(made[i])) : target);
  }
  return results;
}

}  // namespace graft_python
