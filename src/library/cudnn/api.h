// SPDX-License-Identifier: Apache-2.0
// The functions of libcudnn.so that are used, found at run time, and its descriptors with an owner.
#pragma once

#include <cudnn_backend.h>

#include <memory>
#include <string>
#include <vector>

namespace graft::cudnn {

/// cuDNN's entry points; `missing` says why there are none.
struct Api {
  std::string missing, path;
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnDestroy) destroy = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnGetVersion) version = nullptr;
  decltype(&cudnnGetErrorString) status_text = nullptr;
  decltype(&cudnnGetLastErrorString) last_error = nullptr;
  decltype(&cudnnBackendCreateDescriptor) descriptor_create = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) descriptor_destroy = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendSetAttribute) set = nullptr;
  decltype(&cudnnBackendGetAttribute) get = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;
};

/// Opened once per process.
const Api& api();

/// Throws Error{unsupported} naming `what` and cuDNN's own words when `status` is not success.
void check(cudnnStatus_t status, const char* what);

/// The first reason in cuDNN's account of what this thread could not have last; empty when it gives none.
std::string first_reason();

/// One of cuDNN's descriptors.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);

  cudnnBackendDescriptor_t get() const { return owned_.get(); }
  /// Throws as check() does.
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void* values);
  void set(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values);
  void set(cudnnBackendAttributeName_t name, int64_t value);
  void set(cudnnBackendAttributeName_t name, const Descriptor& value);
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t value);
  void finalize(const char* what);
  /// Whether it can be finalised: plans that cuDNN does not support cannot.
  bool try_finalize() const { return api().finalize(get()) == CUDNN_STATUS_SUCCESS; }

 private:
  struct Destroy {
    void operator()(void* descriptor) const { api().descriptor_destroy(descriptor); }
  };
  std::unique_ptr<void, Destroy> owned_;
};

}  // namespace graft::cudnn
