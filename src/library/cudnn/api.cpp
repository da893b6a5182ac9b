// SPDX-License-Identifier: Apache-2.0
#include "library/cudnn/api.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "base/cuda_library.h"
#include "base/error.h"

namespace graft::cudnn {
namespace {

Api open_api() {
  // cuDNN opens these by name when it needs them, and then finds what is open.
  open_cuda_library("nvrtc", {13, 12});
  open_cuda_library("cublasLt", {13, 12});
  CudaLibrary library = open_cuda_library("cudnn", {9});
  Api api{.path = library.path};
  library.require(api.create, "cudnnCreate");
  library.require(api.destroy, "cudnnDestroy");
  library.require(api.set_stream, "cudnnSetStream");
  library.require(api.version, "cudnnGetVersion");
  library.require(api.status_text, "cudnnGetErrorString");
  library.require(api.last_error, "cudnnGetLastErrorString");
  library.require(api.descriptor_create, "cudnnBackendCreateDescriptor");
  library.require(api.descriptor_destroy, "cudnnBackendDestroyDescriptor");
  library.require(api.finalize, "cudnnBackendFinalize");
  library.require(api.set, "cudnnBackendSetAttribute");
  library.require(api.get, "cudnnBackendGetAttribute");
  library.require(api.execute, "cudnnBackendExecute");
  api.missing = library.missing;
  return api;
}

}  // namespace

const Api& api() {
  static const Api instance = open_api();
  return instance;
}

void check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char detail[512] = "";
  api().last_error(detail, sizeof detail);
  throw Error(ErrorKind::kUnsupported,
              fmt::format("{}: {}{}{}", what, api().status_text(status), *detail ? ": " : "", detail), "cuDNN");
}

std::string first_reason() {
  char account[4096] = "";
  api().last_error(account, sizeof account);
  constexpr std::string_view kBegin = "Reason: ";
  std::string_view text = account;
  const size_t begin = text.find(kBegin);
  if (begin == text.npos) return "";
  text.remove_prefix(begin + kBegin.size());
  return std::string(text.substr(0, std::min(text.find('\n'), text.find(" at: "))));
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t made = nullptr;
  check(api().descriptor_create(type, &made), "a descriptor cannot be made");
  owned_.reset(made);
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                     const void* values) {
  check(api().set(get(), name, type, count, values), "an attribute cannot be set");
}

void Descriptor::set(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values) {
  set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
}

void Descriptor::set(cudnnBackendAttributeName_t name, int64_t value) { set(name, CUDNN_TYPE_INT64, 1, &value); }

void Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& value) {
  const cudnnBackendDescriptor_t descriptor = value.get();
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &descriptor);
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
  set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}

void Descriptor::finalize(const char* what) { check(api().finalize(get()), what); }

}  // namespace graft::cudnn
