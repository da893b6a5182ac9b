// SPDX-License-Identifier: Apache-2.0
// The part of DLPack's stable C structures that arrays are exchanged by (dmlc.github.io/dlpack, version 1.1: the
// unversioned capsule, which every library gives, the versioned one, which alone says that memory is only to be read,
// and the table of functions of those that have one).
#pragma once

#include <cstdint>

namespace graft_python {

struct DlDevice {
  int32_t type, id;
};

struct DlDataType {
  uint8_t code, bits;
  uint16_t lanes;
};

enum DlTypeCode : uint8_t {
  kDlInt = 0,
  kDlUInt = 1,
  kDlFloat = 2,
  kDlBfloat = 4,
  kDlComplex = 5,
  kDlBool = 6,
  kDlFloat8E4M3FN = 10,
  kDlFloat8E4M3FNUZ = 11,
  kDlFloat8E5M2 = 12,
  kDlFloat8E5M2FNUZ = 13,
  kDlFloat8E8M0 = 14,
};

struct DlTensor {
  void* data;
  DlDevice device;
  int32_t rank;
  DlDataType dtype;
  int64_t* shape;
  int64_t* strides;  ///< null: row-major
  uint64_t byte_offset;
};

/// What a library's type of arrays has as `__dlpack_c_exchange_api__`, a capsule named "dlpack_exchange_api": functions
/// that skip the interpreter (DLPack 1.3). Those that are not called stand as pointers.
struct DlExchange {
  uint32_t major, minor;
  DlExchange* previous;
  void *allocate, *managed_from_object, *managed_to_object;
  int (*tensor_from_object)(void* object, DlTensor* tensor);  ///< -1: an exception of Python is set
  void* current_stream;
};

struct DlManagedTensor {
  DlTensor tensor;
  void* context;
  void (*deleter)(DlManagedTensor*);
};

/// In a capsule named "dltensor_versioned". Minor versions add flags and types alone.
struct DlManagedTensorVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(DlManagedTensorVersioned*);
  uint64_t flags;
  DlTensor tensor;
};
inline constexpr uint32_t kDlMajor = 1;
inline constexpr uint64_t kDlReadOnly = 1;

}  // namespace graft_python
