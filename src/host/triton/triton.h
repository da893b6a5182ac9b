// SPDX-License-Identifier: Apache-2.0
// What the backend takes from Triton's server and gives to it: the part of its C interface that is used here, declared
// anew from its documentation (backend API 1.19, of server 2.51). The names are Triton's, since the server exports them
// and looks for the entry points; the calls are resolved when the server opens this library.
//
// Errors: a call that fails returns a TRITONSERVER_Error, which the receiver deletes; null is success.
// Lifetime: texts that a call gives belong to the object that was asked.
#pragma once

#include <cstddef>
#include <cstdint>

// Opaque objects of the server.
struct TRITONSERVER_Error;
struct TRITONSERVER_Message;
struct TRITONSERVER_Metric;
struct TRITONSERVER_MetricFamily;
struct TRITONSERVER_Parameter;
struct TRITONBACKEND_Backend;
struct TRITONBACKEND_BackendAttribute;
struct TRITONBACKEND_Input;
struct TRITONBACKEND_Model;
struct TRITONBACKEND_ModelInstance;
struct TRITONBACKEND_Output;
struct TRITONBACKEND_Request;
struct TRITONBACKEND_Response;
struct TRITONBACKEND_State;

namespace graft::triton {

constexpr uint32_t kApiMajor = 1, kApiMinor = 19;  ///< what this file was written from

enum class DataType : int32_t {
  kInvalid, kBool, kUint8, kUint16, kUint32, kUint64, kInt8, kInt16, kInt32, kInt64, kFloat16, kFloat32, kFloat64,
  kBytes, kBFloat16,
};
enum class MemoryType : int32_t { kCpu, kPinned, kGpu };
enum class InstanceKind : int32_t { kAuto, kCpu, kGpu, kModel };
enum class ErrorCode : int32_t {
  kUnknown, kInternal, kNotFound, kInvalidArgument, kUnavailable, kUnsupported, kAlreadyExists, kCancelled,
};
enum class ServerLog : int32_t { kInfo, kWarning, kError, kVerbose };
enum class MetricKind : int32_t { kCounter, kGauge };
enum class ParameterType : int32_t { kString };
enum class ArtifactType : int32_t { kFileSystem };

constexpr uint32_t kFinalResponse = 1;   ///< of TRITONBACKEND_ResponseSend: no other response follows
constexpr uint32_t kReleaseRequest = 1;  ///< of TRITONBACKEND_RequestRelease: the backend is done with it
constexpr uint32_t kConfigVersion = 1;   ///< of the JSON that configurations are exchanged in

}  // namespace graft::triton

extern "C" {

// ---- Errors, messages (JSON) and the log ----
TRITONSERVER_Error* TRITONSERVER_ErrorNew(graft::triton::ErrorCode code, const char* message);
void TRITONSERVER_ErrorDelete(TRITONSERVER_Error* error);
const char* TRITONSERVER_ErrorMessage(TRITONSERVER_Error* error);
TRITONSERVER_Error* TRITONSERVER_LogMessage(graft::triton::ServerLog level, const char* file, int line,
                                            const char* message);
TRITONSERVER_Error* TRITONSERVER_MessageNewFromSerializedJson(TRITONSERVER_Message** message, const char* text,
                                                              size_t bytes);
TRITONSERVER_Error* TRITONSERVER_MessageSerializeToJson(TRITONSERVER_Message* message, const char** text,
                                                        size_t* bytes);
TRITONSERVER_Error* TRITONSERVER_MessageDelete(TRITONSERVER_Message* message);

// ---- Metrics ----
TRITONSERVER_Parameter* TRITONSERVER_ParameterNew(const char* name, graft::triton::ParameterType type,
                                                  const void* value);
void TRITONSERVER_ParameterDelete(TRITONSERVER_Parameter* parameter);
TRITONSERVER_Error* TRITONSERVER_MetricFamilyNew(TRITONSERVER_MetricFamily** family, graft::triton::MetricKind kind,
                                                 const char* name, const char* description);
TRITONSERVER_Error* TRITONSERVER_MetricFamilyDelete(TRITONSERVER_MetricFamily* family);
TRITONSERVER_Error* TRITONSERVER_MetricNew(TRITONSERVER_Metric** metric, TRITONSERVER_MetricFamily* family,
                                           const TRITONSERVER_Parameter** labels, uint64_t label_count);
TRITONSERVER_Error* TRITONSERVER_MetricDelete(TRITONSERVER_Metric* metric);
TRITONSERVER_Error* TRITONSERVER_MetricIncrement(TRITONSERVER_Metric* metric, double value);

// ---- The backend, a model, an instance ----
TRITONSERVER_Error* TRITONBACKEND_ApiVersion(uint32_t* major, uint32_t* minor);
TRITONSERVER_Error* TRITONBACKEND_BackendConfig(TRITONBACKEND_Backend* backend, TRITONSERVER_Message** config);
TRITONSERVER_Error* TRITONBACKEND_BackendState(TRITONBACKEND_Backend* backend, void** state);
TRITONSERVER_Error* TRITONBACKEND_BackendSetState(TRITONBACKEND_Backend* backend, void* state);
TRITONSERVER_Error* TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
    TRITONBACKEND_BackendAttribute* attributes, graft::triton::InstanceKind kind, uint64_t count,
    const uint64_t* devices, uint64_t device_count);

TRITONSERVER_Error* TRITONBACKEND_ModelName(TRITONBACKEND_Model* model, const char** name);
TRITONSERVER_Error* TRITONBACKEND_ModelVersion(TRITONBACKEND_Model* model, uint64_t* version);
TRITONSERVER_Error* TRITONBACKEND_ModelRepository(TRITONBACKEND_Model* model, graft::triton::ArtifactType* type,
                                                  const char** location);
TRITONSERVER_Error* TRITONBACKEND_ModelConfig(TRITONBACKEND_Model* model, uint32_t version,
                                              TRITONSERVER_Message** config);
TRITONSERVER_Error* TRITONBACKEND_ModelAutoCompleteConfig(TRITONBACKEND_Model* model, bool* wanted);
TRITONSERVER_Error* TRITONBACKEND_ModelSetConfig(TRITONBACKEND_Model* model, uint32_t version,
                                                 TRITONSERVER_Message* config);
TRITONSERVER_Error* TRITONBACKEND_ModelBackend(TRITONBACKEND_Model* model, TRITONBACKEND_Backend** backend);
TRITONSERVER_Error* TRITONBACKEND_ModelState(TRITONBACKEND_Model* model, void** state);
TRITONSERVER_Error* TRITONBACKEND_ModelSetState(TRITONBACKEND_Model* model, void* state);

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceKind(TRITONBACKEND_ModelInstance* instance,
                                                    graft::triton::InstanceKind* kind);
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceDeviceId(TRITONBACKEND_ModelInstance* instance, int32_t* device);
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance* instance,
                                                     TRITONBACKEND_Model** model);
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceState(TRITONBACKEND_ModelInstance* instance, void** state);
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceSetState(TRITONBACKEND_ModelInstance* instance, void* state);
/// Times in nanoseconds of the steady clock: of the call, and of the computation within it.
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportStatistics(TRITONBACKEND_ModelInstance* instance,
                                                                TRITONBACKEND_Request* request, bool success,
                                                                uint64_t begin, uint64_t compute_begin,
                                                                uint64_t compute_end, uint64_t end);
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportBatchStatistics(TRITONBACKEND_ModelInstance* instance,
                                                                     uint64_t rows, uint64_t begin,
                                                                     uint64_t compute_begin, uint64_t compute_end,
                                                                     uint64_t end);

// ---- Requests and responses ----
/// What the client calls it; empty if it said nothing.
TRITONSERVER_Error* TRITONBACKEND_RequestId(TRITONBACKEND_Request* request, const char** id);
TRITONSERVER_Error* TRITONBACKEND_RequestIsCancelled(TRITONBACKEND_Request* request, bool* cancelled);
/// 0: the client set none.
TRITONSERVER_Error* TRITONBACKEND_InferenceRequestTimeoutMicroseconds(TRITONBACKEND_Request* request,
                                                                      uint64_t* timeout);
TRITONSERVER_Error* TRITONBACKEND_RequestInputCount(TRITONBACKEND_Request* request, uint32_t* count);
TRITONSERVER_Error* TRITONBACKEND_RequestInputByIndex(TRITONBACKEND_Request* request, uint32_t index,
                                                      TRITONBACKEND_Input** input);
TRITONSERVER_Error* TRITONBACKEND_RequestOutputCount(TRITONBACKEND_Request* request, uint32_t* count);
TRITONSERVER_Error* TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request* request, uint32_t index, const char** name);
/// Where the client has memory for an output: give what is preferred, get what is there.
TRITONSERVER_Error* TRITONBACKEND_RequestOutputBufferProperties(TRITONBACKEND_Request* request, const char* name,
                                                                size_t* bytes, graft::triton::MemoryType* memory,
                                                                int64_t* device);
TRITONSERVER_Error* TRITONBACKEND_RequestRelease(TRITONBACKEND_Request* request, uint32_t flags);
/// The elements lie in `buffers` pieces, in order, of `bytes` altogether.
TRITONSERVER_Error* TRITONBACKEND_InputProperties(TRITONBACKEND_Input* input, const char** name,
                                                  graft::triton::DataType* type, const int64_t** shape, uint32_t* rank,
                                                  uint64_t* bytes, uint32_t* buffers);
/// `memory` and `device`: where the backend would like the piece, then where it is.
TRITONSERVER_Error* TRITONBACKEND_InputBuffer(TRITONBACKEND_Input* input, uint32_t index, const void** buffer,
                                              uint64_t* bytes, graft::triton::MemoryType* memory, int64_t* device);
TRITONSERVER_Error* TRITONBACKEND_ResponseNew(TRITONBACKEND_Response** response, TRITONBACKEND_Request* request);
TRITONSERVER_Error* TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response* response, TRITONBACKEND_Output** output,
                                                 const char* name, graft::triton::DataType type, const int64_t* shape,
                                                 uint32_t rank);
TRITONSERVER_Error* TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output* output, void** buffer, uint64_t bytes,
                                               graft::triton::MemoryType* memory, int64_t* device);
/// What a sequence keeps for its next request: made with the name of an output, filled, and then in force.
TRITONSERVER_Error* TRITONBACKEND_StateNew(TRITONBACKEND_State** state, TRITONBACKEND_Request* request,
                                           const char* name, graft::triton::DataType type, const int64_t* shape,
                                           uint32_t rank);
TRITONSERVER_Error* TRITONBACKEND_StateBuffer(TRITONBACKEND_State* state, void** buffer, uint64_t bytes,
                                              graft::triton::MemoryType* memory, int64_t* device);
TRITONSERVER_Error* TRITONBACKEND_StateUpdate(TRITONBACKEND_State* state);
/// Hands the response over, with an error, which stays the caller's, or (null) the outputs that it has.
TRITONSERVER_Error* TRITONBACKEND_ResponseSend(TRITONBACKEND_Response* response, uint32_t flags,
                                               TRITONSERVER_Error* error);
}
