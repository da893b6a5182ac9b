// SPDX-License-Identifier: Apache-2.0
// Arrays of other libraries, seen where they lie: by the buffer protocol (numpy) or DLPack (torch, CuPy, JAX).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "graft/graft_c.h"

namespace graft_python {

/// DLPack's number of the stream that an array on a GPU is handed over to, whose order its library then keeps; -1: that
/// is the stream already.
using StreamFor = std::function<int64_t(nanobind::handle array)>;

/// A borrowed array. It keeps the array's memory alive; must be made and destroyed with the GIL held.
class ArrayView {
 public:
  /// `dtype` other than 0: the element type that the bytes stand for where the array's own library has no such type
  /// (a uint16 array that holds bf16). Throws Failure{invalid argument} naming `name` for objects that are no arrays,
  /// element types that ONNX lacks, and, where `writable`, arrays that are read-only. An empty `stream_for` is -1.
  /// The array may also be a capsule of DLPack, which is thereby used up.
  ArrayView(nanobind::handle array, const std::string& name, int dtype, bool writable,
            const StreamFor& stream_for = {});
  /// The array holds the bytes of elements that share bytes: so many of them.
  void set_packed_shape(std::vector<int64_t> shape);
  ArrayView(ArrayView&&) = default;
  ArrayView& operator=(ArrayView&&) = default;

  /// For a call: refers to this view.
  graft_tensor tensor() const;

 private:
  void take_buffer(nanobind::handle array, const std::string& name, bool writable);
  void take_dlpack(nanobind::handle array, const std::string& name, bool writable, const StreamFor& stream_for);
  void take_capsule(nanobind::handle capsule, const std::string& name, bool writable);

  /// The exporter's memory, given back when the last copy goes.
  std::shared_ptr<void> owner_;
  std::vector<int64_t> shape_, strides_;
  void* data_ = nullptr;
  uint64_t bytes_ = 0;  ///< of packed elements
  int32_t dtype_ = 0;
  int32_t device_ = GRAFT_HOST;
};

/// The view of an array, or of (array, dtype, shape) where its bytes stand for elements of another type; shape None:
/// the array's own.
ArrayView view_of_given(nanobind::handle given, const std::string& name, const StreamFor& stream_for = {});

/// Deletes an ArrayView that an engine has held, as the C interface's callback, from any thread.
void release_view(void* view);

}  // namespace graft_python
