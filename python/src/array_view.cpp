// SPDX-License-Identifier: Apache-2.0
#include "array_view.h"

#include <cstring>
#include <exception>
#include <optional>

#include <nanobind/stl/vector.h>

#include "dlpack_abi.h"
#include "failure.h"

namespace nb = nanobind;

namespace graft_python {
namespace {

constexpr int kMostAxes = 64;

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Failure(GRAFT_INVALID_ARGUMENT, "'" + name + "': " + why);
}

/// The element type of a format of the struct module as numpy writes it, 0 when there is none.
int32_t type_of_format(const char* format, Py_ssize_t size) {
  if (!format) return GRAFT_UINT8;
  if (*format == '@' || *format == '=' || (*format == '<' && PY_LITTLE_ENDIAN)) ++format;
  if (std::strcmp(format, "Zf") == 0) return GRAFT_COMPLEX64;
  if (std::strcmp(format, "Zd") == 0) return GRAFT_COMPLEX128;
  if (std::strlen(format) != 1) return 0;
  const int log = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : size == 8 ? 3 : -1;
  if (log < 0) return 0;
  constexpr int32_t kSigned[] = {GRAFT_INT8, GRAFT_INT16, GRAFT_INT32, GRAFT_INT64};
  constexpr int32_t kUnsigned[] = {GRAFT_UINT8, GRAFT_UINT16, GRAFT_UINT32, GRAFT_UINT64};
  if (std::strchr("bhilqn", *format)) return kSigned[log];
  if (std::strchr("BHILQN", *format)) return kUnsigned[log];
  switch (*format) {
    case '?': return GRAFT_BOOL;
    case 'e': return GRAFT_FLOAT16;
    case 'f': return GRAFT_FLOAT32;
    case 'd': return GRAFT_FLOAT64;
    default: return 0;
  }
}

/// The element type of DLPack's, 0 when ONNX has none.
int32_t type_of_dlpack(const DlDataType& type) {
  constexpr int32_t kSigned[] = {GRAFT_INT8, GRAFT_INT16, GRAFT_INT32, GRAFT_INT64};
  constexpr int32_t kUnsigned[] = {GRAFT_UINT8, GRAFT_UINT16, GRAFT_UINT32, GRAFT_UINT64};
  constexpr int32_t kFloats[] = {0, GRAFT_FLOAT16, GRAFT_FLOAT32, GRAFT_FLOAT64};
  const int log = type.bits == 8 ? 0 : type.bits == 16 ? 1 : type.bits == 32 ? 2 : type.bits == 64 ? 3 : -1;
  if (type.lanes != 1) return 0;
  if (type.code == kDlComplex) return type.bits == 64 ? GRAFT_COMPLEX64 : type.bits == 128 ? GRAFT_COMPLEX128 : 0;
  if (log < 0) return 0;
  switch (type.code) {
    case kDlInt: return kSigned[log];
    case kDlUInt: return kUnsigned[log];
    case kDlFloat: return kFloats[log];
    case kDlBfloat: return log == 1 ? GRAFT_BFLOAT16 : 0;
    case kDlBool: return log == 0 ? GRAFT_BOOL : 0;
    case kDlFloat8E4M3FN: return log == 0 ? GRAFT_FLOAT8E4M3FN : 0;
    case kDlFloat8E4M3FNUZ: return log == 0 ? GRAFT_FLOAT8E4M3FNUZ : 0;
    case kDlFloat8E5M2: return log == 0 ? GRAFT_FLOAT8E5M2 : 0;
    case kDlFloat8E5M2FNUZ: return log == 0 ? GRAFT_FLOAT8E5M2FNUZ : 0;
    case kDlFloat8E8M0: return log == 0 ? GRAFT_FLOAT8E8M0 : 0;
    default: return 0;
  }
}

/// The kind of device that DLPack names for the array's memory, or nothing when it gives no pair of numbers.
std::optional<int32_t> device_of(nb::handle array) {
  const nb::object place = array.attr("__dlpack_device__")();
  const bool pair = PyTuple_Check(place.ptr()) && PyTuple_Size(place.ptr()) == 2;
  const nb::object kind = pair ? nb::steal(PyNumber_Index(nb::object(place[0]).ptr())) : nb::object();
  PyErr_Clear();
  int32_t device = 0;
  if (!kind.is_valid() || !nb::try_cast(kind, device)) return std::nullopt;
  return device;
}

/// Whether the buffer protocol gives the array's own memory. CuPy and JAX have it for all of their arrays, and refuse
/// it, or copy, for those of a GPU: their DLPack tells. numpy's arrays are not asked, as that takes time.
bool is_read_as_buffer(nb::handle array, bool has_dlpack) {
  if (!PyObject_CheckBuffer(array.ptr())) return false;
  static const nb::handle numpy_array = nb::object(nb::module_::import_("numpy").attr("ndarray")).release();
  if (!has_dlpack || array.type().is(numpy_array)) return true;
  const std::optional<int32_t> device = device_of(array);
  return device == GRAFT_CPU || device == GRAFT_CUDA_HOST;
}

}  // namespace

ArrayView::ArrayView(nb::handle array, const std::string& name, int dtype, bool writable, const StreamFor& stream_for) {
  if (PyCapsule_CheckExact(array.ptr())) {
    take_capsule(array, name, writable);
    if (dtype != 0) dtype_ = dtype;
    return;
  }
  const bool has_dlpack = nb::hasattr(array, "__dlpack__") && nb::hasattr(array, "__dlpack_device__");
  if (is_read_as_buffer(array, has_dlpack)) {
    take_buffer(array, name, writable);
  } else if (has_dlpack) {
    take_dlpack(array, name, writable, stream_for);
  } else {
    refuse(name, std::string("a ") + nb::type_name(array.type()).c_str() +
                     " is no array: give a numpy array, or anything with DLPack (a torch, CuPy or JAX tensor)");
  }
  if (dtype != 0) dtype_ = dtype;
}

void ArrayView::take_buffer(nb::handle array, const std::string& name, bool writable) {
  auto buffer = std::make_unique<Py_buffer>();
  const int flags = PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(array.ptr(), buffer.get(), flags) != 0) {
    nb::python_error reason;
    refuse(name, std::string(writable ? "its memory cannot be written: " : "its memory cannot be read: ") +
                     nb::str(reason.value()).c_str());
  }
  owner_ = std::shared_ptr<Py_buffer>(buffer.release(), [](Py_buffer* held) {
    PyBuffer_Release(held);
    delete held;
  });
  const Py_buffer& view = *static_cast<const Py_buffer*>(owner_.get());
  dtype_ = type_of_format(view.format, view.itemsize);
  if (dtype_ == 0) {
    refuse(name, std::string("elements of format '") + (view.format ? view.format : "?") +
                     "' have no equal in ONNX: convert the array, or bring it into this machine's byte order");
  }
  shape_.assign(view.shape, view.shape + view.ndim);
  strides_.assign(view.ndim, 0);
  for (int axis = 0; axis < view.ndim; ++axis) {
    if (view.strides[axis] % view.itemsize != 0) {
      refuse(name, "its strides are no multiples of an element: copy it with numpy.ascontiguousarray");
    }
    strides_[axis] = view.strides[axis] / view.itemsize;
  }
  data_ = view.buf;
}

void ArrayView::take_dlpack(nb::handle array, const std::string& name, bool writable, const StreamFor& stream_for) {
  const std::optional<int32_t> device = device_of(array);
  if (!device) refuse(name, "its __dlpack_device__ gives no pair of numbers");
  device_ = *device;
  const auto stream = [&] { return stream_for ? stream_for(array) : -1; };
  const auto export_as = [&](bool versioned) -> nb::object {
    nb::dict choices;
    if (device_ == GRAFT_CUDA) choices["stream"] = stream();
    if (versioned) choices["max_version"] = nb::make_tuple(kDlMajor, 0);
    return array.attr("__dlpack__")(**choices);
  };
  nb::object capsule;
  try {  // what is only to be read has the versioned form alone
    capsule = export_as(/*versioned=*/false);
  } catch (nb::python_error& error) {
    if (writable || !error.matches(PyExc_BufferError)) throw;
    const std::exception_ptr refused = std::current_exception();
    try {
      capsule = export_as(/*versioned=*/true);
    } catch (nb::python_error& other) {  // an older library does not know that form: it has another reason
      if (other.matches(PyExc_TypeError)) std::rethrow_exception(refused);
      throw;
    }
  }
  take_capsule(capsule, name, writable);
  device_ = *device;
}

namespace {

/// What a capsule of one of the two forms holds, whose name then says that it is used; or null.
template <class Managed>
std::shared_ptr<Managed> take_managed(nb::handle capsule, const char* given, const char* used) {
  if (!PyCapsule_IsValid(capsule.ptr(), given)) return nullptr;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), given));
  PyCapsule_SetName(capsule.ptr(), used);
  return std::shared_ptr<Managed>(managed, [](Managed* held) {
    if (held->deleter) held->deleter(held);
  });
}

}  // namespace

void ArrayView::take_capsule(nb::handle capsule, const std::string& name, bool writable) {
  constexpr const char* kVersioned = "dltensor_versioned";
  if (PyCapsule_IsValid(capsule.ptr(), kVersioned)) {  // of another version it stays whose it is
    const auto* given = static_cast<const DlManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), kVersioned));
    if (given->major != kDlMajor) {
      refuse(name, "its DLPack capsule is of version " + std::to_string(given->major) + ", and 1 is read");
    }
  }
  const DlTensor* described = nullptr;
  if (auto managed = take_managed<DlManagedTensor>(capsule, "dltensor", "used_dltensor")) {
    described = &managed->tensor;
    owner_ = std::move(managed);
  } else if (auto versioned = take_managed<DlManagedTensorVersioned>(capsule, kVersioned,
                                                                     "used_dltensor_versioned")) {
    if (writable && (versioned->flags & kDlReadOnly)) refuse(name, "its memory cannot be written: it is read-only");
    described = &versioned->tensor;
    owner_ = std::move(versioned);
  }
  if (!described) refuse(name, "its __dlpack__ gives no capsule named 'dltensor' or 'dltensor_versioned'");
  const DlTensor& tensor = *described;
  device_ = tensor.device.type;
  if (tensor.rank < 0 || tensor.rank > kMostAxes || (tensor.rank > 0 && !tensor.shape)) {
    refuse(name, "its DLPack description has " + std::to_string(tensor.rank) + " axes and no shape for them");
  }
  dtype_ = type_of_dlpack(tensor.dtype);
  if (dtype_ == 0) {
    refuse(name, "DLPack type " + std::to_string(tensor.dtype.code) + " of " + std::to_string(tensor.dtype.bits) +
                     " bits and " + std::to_string(tensor.dtype.lanes) + " lanes has no equal in ONNX");
  }
  shape_.assign(tensor.shape, tensor.shape + tensor.rank);
  bool empty = false;
  for (const int64_t size : shape_) {
    if (size < 0) refuse(name, "its DLPack description has a negative size");
    empty = empty || size == 0;
  }
  if (tensor.strides) strides_.assign(tensor.strides, tensor.strides + tensor.rank);
  if (!tensor.data && !empty) refuse(name, "its DLPack description has no memory");
  data_ = tensor.data ? static_cast<char*>(tensor.data) + tensor.byte_offset : nullptr;
}

void ArrayView::set_packed_shape(std::vector<int64_t> shape) {
  bytes_ = 1;
  for (const int64_t size : shape_) bytes_ *= static_cast<uint64_t>(size);
  shape_ = std::move(shape);
  strides_.clear();
}

graft_tensor ArrayView::tensor() const {
  return {.struct_size = sizeof(graft_tensor),
          .name = nullptr,
          .dtype = dtype_,
          .rank = static_cast<int32_t>(shape_.size()),
          .shape = shape_.data(),
          .strides = strides_.size() == shape_.size() && !shape_.empty() ? strides_.data() : nullptr,
          .data = data_,
          .bytes = bytes_,
          .device = device_};
}

ArrayView view_of_given(nb::handle given, const std::string& name, const StreamFor& stream_for) {
  if (!PyTuple_CheckExact(given.ptr())) return ArrayView(given, name, 0, false, stream_for);
  const auto parts = nb::borrow<nb::tuple>(given);
  ArrayView view(parts[0], name, nb::cast<int>(nb::object(parts[1])), false, stream_for);
  const nb::object shape = parts[2];
  if (!shape.is_none()) view.set_packed_shape(nb::cast<std::vector<int64_t>>(shape));
  return view;
}

void release_view(void* view) {
  if (!Py_IsInitialized()) return;  // engines may outlive the interpreter
  const nb::gil_scoped_acquire gil;
  delete static_cast<ArrayView*>(view);
}

}  // namespace graft_python
