// SPDX-License-Identifier: Apache-2.0
// Graft for C++20: compile or load a network, run it. Everything here is a thin layer over graft_c.h, so a program and
// the library may come from different compilers and standard libraries.
//
// Errors: compile, load and save throw graft::Error; running returns a Status and never throws.
// Threads: an Engine is immutable and cheap to copy, and any number of threads may use it. A Session is used by one
//   thread at a time: make one for each run that goes on at the same time, or take them from a SessionPool.
//   graft/run_async.h runs on a thread of the session.
// Lifetime: a session keeps its engine alive. Tensors refer to memory that they do not own.
// Units: shapes and strides are in elements.
//
//   graft::Engine engine = graft::load("model.graft");
//   graft::Session session(engine);
//   std::vector<float> x(4), y(4);
//   graft::TensorView input = graft::view("x", x.data(), {1, 4});
//   graft::TensorView output = graft::view("y", y.data(), {1, 4});
//   if (graft::Status status = session.run({input}, {&output, 1}); !status.ok()) {
//     std::fprintf(stderr, "%s\n", status.message().c_str());
//   }
#pragma once

#if __cplusplus < 202002L
#error "graft.h is C++20: compile with -std=c++20 or later, or use graft_c.h, which is C and any C++"
#endif

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "graft/graft_c.h"

namespace graft {
// The names of this layer differ from those inside the library, with which they share the namespace `graft`.
inline namespace api {

/// Who is to blame, and so what can be done about it.
enum class ErrorKind : int32_t {
  kNone = GRAFT_OK,
  kInvalidModel = GRAFT_INVALID_MODEL,        ///< the model or plan is malformed
  kInvalidArgument = GRAFT_INVALID_ARGUMENT,  ///< an option, name, shape or type that the caller gave is wrong
  kUnsupported = GRAFT_UNSUPPORTED,           ///< well-formed, but outside what Graft can do
  kDevice = GRAFT_DEVICE,                     ///< the machine, the file system or a driver failed
  kOutOfMemory = GRAFT_OUT_OF_MEMORY,         ///< an allocation failed or a ceiling was reached
  kCancelled = GRAFT_CANCELLED,               ///< the caller asked to stop
  kInternal = GRAFT_INTERNAL,                 ///< a bug of Graft's own
};

/// Thrown by what compiles, loads and saves. `what()` says where, what, and the remedy.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// The outcome of a run.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  bool ok() const { return kind_ == ErrorKind::kNone; }
  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }

 private:
  ErrorKind kind_ = ErrorKind::kNone;
  std::string message_;
};

/// Element types, with the numbers of ONNX's TensorProto.DataType. Those narrower than a byte share bytes, lowest bits
/// first.
enum class DataType : int32_t {
  kUndefined = 0,
  kFloat32 = GRAFT_FLOAT32, kUint8 = GRAFT_UINT8, kInt8 = GRAFT_INT8, kUint16 = GRAFT_UINT16, kInt16 = GRAFT_INT16,
  kInt32 = GRAFT_INT32, kInt64 = GRAFT_INT64, kString = GRAFT_STRING, kBool = GRAFT_BOOL, kFloat16 = GRAFT_FLOAT16,
  kFloat64 = GRAFT_FLOAT64, kUint32 = GRAFT_UINT32, kUint64 = GRAFT_UINT64, kComplex64 = GRAFT_COMPLEX64,
  kComplex128 = GRAFT_COMPLEX128, kBFloat16 = GRAFT_BFLOAT16, kFloat8E4M3FN = GRAFT_FLOAT8E4M3FN,
  kFloat8E4M3FNUZ = GRAFT_FLOAT8E4M3FNUZ, kFloat8E5M2 = GRAFT_FLOAT8E5M2, kFloat8E5M2FNUZ = GRAFT_FLOAT8E5M2FNUZ,
  kUint4 = GRAFT_UINT4, kInt4 = GRAFT_INT4, kFloat4E2M1 = GRAFT_FLOAT4E2M1, kFloat8E8M0 = GRAFT_FLOAT8E8M0,
  kUint2 = GRAFT_UINT2, kInt2 = GRAFT_INT2,
};

/// The element type of a C++ type.
template <class T>
constexpr DataType data_type_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, float>) return DataType::kFloat32;
  else if constexpr (std::is_same_v<U, double>) return DataType::kFloat64;
  else if constexpr (std::is_same_v<U, bool>) return DataType::kBool;
  else if constexpr (std::is_integral_v<U> && sizeof(U) == 1)
    return std::is_signed_v<U> ? DataType::kInt8 : DataType::kUint8;
  else if constexpr (std::is_integral_v<U> && sizeof(U) == 2)
    return std::is_signed_v<U> ? DataType::kInt16 : DataType::kUint16;
  else if constexpr (std::is_integral_v<U> && sizeof(U) == 4)
    return std::is_signed_v<U> ? DataType::kInt32 : DataType::kUint32;
  else if constexpr (std::is_integral_v<U> && sizeof(U) == 8)
    return std::is_signed_v<U> ? DataType::kInt64 : DataType::kUint64;
  else static_assert(sizeof(U) == 0, "no element type has this C++ type; set TensorView::dtype yourself");
}

struct TensorView;

/// What a Value is.
enum class ValueKind : int32_t {
  kNothing = GRAFT_NOTHING, kTensor = GRAFT_TENSOR, kSequence = GRAFT_SEQUENCE, kMap = GRAFT_MAP,
};

/// A sequence, an optional, a map, or a tensor where one of those may be. Immutable; copies share it. What makes one
/// throws Error.
class Value {
 public:
  Value() = default;
  /// Takes over a handle from graft_c.h.
  explicit Value(graft_value* handle) : handle_(handle, graft_value_release) {}
  /// An optional that is empty.
  static Value nothing();
  /// A copy of a row-major tensor on the host.
  static Value tensor(const TensorView& tensor);
  static Value texts(std::span<const std::string> texts, std::vector<int64_t> shape);
  static Value sequence(std::span<const Value> elements);
  /// Keys (i64 or strings) and as many values along the first axis.
  static Value map(const TensorView& keys, const TensorView& values);

  /// False for one that was made by nobody.
  explicit operator bool() const { return handle_ != nullptr; }
  ValueKind kind() const { return static_cast<ValueKind>(graft_value_kind(handle())); }
  /// Of a sequence; 2 for a map.
  size_t size() const { return graft_value_count(handle()); }
  /// An element of a sequence, or the keys (0) and values (1) of a map.
  Value operator[](size_t index) const { return Value(graft_value_retain(graft_value_element(handle(), index))); }
  /// The tensor that it is, in memory of the value's; throws Error when it is none.
  TensorView tensor() const;
  /// The strings of a tensor of strings.
  std::vector<std::string> texts() const;
  graft_value* handle() const { return handle_.get(); }

 private:
  std::shared_ptr<graft_value> handle_;
};

/// A tensor in memory that somebody else owns. The elements of DataType::kString are graft_texts.
struct TensorView {
  std::string name = {};         ///< of the input or output; empty: by its position in the call
  DataType dtype = DataType::kUndefined;
  std::vector<int64_t> shape = {};
  std::vector<int64_t> strides = {};  ///< in elements, of any sign; empty: row-major
  void* data = nullptr;  ///< of any alignment. An output with null gets memory, see Session::run
  int32_t device = GRAFT_HOST;  ///< where the data lies: GRAFT_CUDA for the engine's GPU
  Value value = {};  ///< of an input or output that is no tensor, see ValueInfo::type
};

/// Describes row-major or strided memory. An input is only read, so constant memory will do.
template <class T>
TensorView view(std::string name, T* data, std::vector<int64_t> shape, std::vector<int64_t> strides = {}) {
  return {std::move(name), data_type_of<T>(), std::move(shape), std::move(strides),
          const_cast<std::remove_cv_t<T>*>(data)};
}

/// Describes a tensor of DLPack (`DLTensor` of any version of dlpack.h) without copying it. Throws Error for element
/// types that ONNX lacks and for several lanes.
template <class DlTensor>
TensorView view_of_dlpack(std::string name, const DlTensor& tensor) {
  constexpr DataType kSigned[] = {DataType::kInt8, DataType::kInt16, DataType::kInt32, DataType::kInt64};
  constexpr DataType kUnsigned[] = {DataType::kUint8, DataType::kUint16, DataType::kUint32, DataType::kUint64};
  constexpr DataType kFloats[] = {DataType::kUndefined, DataType::kFloat16, DataType::kFloat32, DataType::kFloat64};
  const int bits = tensor.dtype.bits, log = bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : bits == 64 ? 3 : -1;
  DataType type = DataType::kUndefined;
  switch (static_cast<int>(tensor.dtype.code)) {  // DLDataTypeCode
    case 0: if (log >= 0) type = kSigned[log]; break;
    case 1: if (log >= 0) type = kUnsigned[log]; break;
    case 2: if (log >= 0) type = kFloats[log]; break;
    case 4: if (log == 1) type = DataType::kBFloat16; break;
    case 6: if (log == 0) type = DataType::kBool; break;
    default: break;
  }
  if (type == DataType::kUndefined || tensor.dtype.lanes != 1) {
    throw Error(ErrorKind::kUnsupported, "tensor '" + name + "': DLPack type " + std::to_string(tensor.dtype.code) +
                                             " of " + std::to_string(bits) + " bits and " +
                                             std::to_string(tensor.dtype.lanes) + " lanes has no equal here");
  }
  TensorView view{.name = std::move(name), .dtype = type};
  view.shape.assign(tensor.shape, tensor.shape + tensor.ndim);
  if (tensor.strides) view.strides.assign(tensor.strides, tensor.strides + tensor.ndim);
  view.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  view.device = static_cast<int32_t>(tensor.device.device_type);
  return view;
}

/// An axis of an input or output; `size` is -1 when it depends on the run, and then min, opt and max are its symbol's
/// range (max 0: unbounded).
struct Axis {
  int64_t size = -1;
  std::string text;  ///< `384`, `batch`, `2*length`
  int64_t min = 0, opt = 0, max = 0;
};

/// What an engine takes or gives.
struct ValueInfo {
  std::string name;
  DataType dtype = DataType::kUndefined;
  std::vector<Axis> axes;
  std::string type = {};  ///< empty for a tensor, else `seq(f32[2, n])`: it is a Value
};

/// Choices for compiling. `extra` takes any key and value of graft_option.
struct CompileOptions {
  std::vector<std::string> dims = {};    ///< `batch=8`, `batch=1:8:64`: by the model's own names
  std::vector<std::string> shapes = {};  ///< `x:1x3x224x224`
  std::vector<std::string> ops = {};     ///< own operators: files or texts of definitions (docs/OWN_OPERATORS.md)
  int threads = 0;                       ///< 0: all that this process can use
  std::string tune = "fast";             ///< off, fast, full
  std::string precision = "fp32";        ///< fp32, tf32 (GPUs), fp16, bf16: inputs and outputs keep their types
  std::string target = "native";         ///< x86-64-v3, sm_90a ...: what is not this machine can be saved, not run
  std::vector<std::pair<std::string, std::string>> extra = {};
  /// Told about each step; false stops compiling with a `cancelled` error. Must not throw.
  std::function<bool(std::string_view stage, std::string_view step, int done, int total)> progress = {};
};

/// Gives an output its memory: called with the output's position, type, shape and bytes; null when there is none.
using Allocator = std::function<void*(int output, DataType type, std::span<const int64_t> shape, size_t bytes)>;

namespace detail {

inline void check(graft_status status, const graft_error& error) {
  if (status != GRAFT_OK) throw Error(static_cast<ErrorKind>(status), error.message);
}

inline graft_tensor describe(const TensorView& view) {
  return {.struct_size = sizeof(graft_tensor),
          .name = view.name.empty() ? nullptr : view.name.c_str(),
          .dtype = static_cast<int32_t>(view.dtype),
          .rank = static_cast<int32_t>(view.shape.size()),
          .shape = view.shape.data(),
          .strides = view.strides.empty() ? nullptr : view.strides.data(),
          .data = view.data,
          .bytes = 0,
          .device = view.device,
          .value = view.value.handle()};
}

inline ValueInfo describe(const graft_value_info& value) {
  ValueInfo info{value.name, static_cast<DataType>(value.dtype), {}};
  for (int32_t axis = 0; axis < value.rank; ++axis) {
    const graft_axis& a = value.axes[axis];
    info.axes.push_back({a.size, a.text, a.min, a.opt, a.max});
  }
  if (value.type) info.type = value.type;
  return info;
}

/// Copies what a run filled in.
inline void take_outputs(std::span<const graft_tensor> filled, std::span<TensorView> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (filled[i].value) outputs[i].value = Value(graft_value_retain(filled[i].value));
    if (filled[i].value || outputs[i].data) continue;
    outputs[i].data = filled[i].data;
    outputs[i].dtype = static_cast<DataType>(filled[i].dtype);
    outputs[i].shape.assign(filled[i].shape, filled[i].shape + filled[i].rank);
  }
}

inline void* allocate_by(void* of, int32_t output, int32_t type, int32_t rank, const int64_t* shape, size_t bytes) {
  const std::span<const int64_t> sizes(shape, static_cast<size_t>(rank));
  return (*static_cast<const Allocator*>(of))(output, static_cast<DataType>(type), sizes, bytes);
}

/// Makes a value by a function of graft_c.h.
template <class Make>
Value value_of(const Make& make) {
  graft_value* value = nullptr;
  graft_error error;
  check(make(&value, &error), error);
  return Value(value);
}

}  // namespace detail

inline Value Value::nothing() {
  return detail::value_of([](graft_value** value, graft_error* error) { return graft_value_of_nothing(value, error); });
}
inline Value Value::tensor(const TensorView& tensor) {
  const graft_tensor described = detail::describe(tensor);
  return detail::value_of([&](graft_value** value, graft_error* error) {
    return graft_value_of_tensor(&described, value, error);
  });
}
inline Value Value::texts(std::span<const std::string> texts, std::vector<int64_t> shape) {
  std::vector<graft_text> elements;
  for (const std::string& text : texts) elements.push_back({text.data(), text.size()});
  return tensor({.dtype = DataType::kString, .shape = std::move(shape), .data = elements.data()});
}
inline Value Value::sequence(std::span<const Value> elements) {
  std::vector<graft_value*> list;
  for (const Value& element : elements) list.push_back(element.handle());
  return detail::value_of([&](graft_value** value, graft_error* error) {
    return graft_value_of_sequence(list.data(), list.size(), value, error);
  });
}
inline Value Value::map(const TensorView& keys, const TensorView& values) {
  const graft_tensor first = detail::describe(keys), second = detail::describe(values);
  return detail::value_of([&](graft_value** value, graft_error* error) {
    return graft_value_of_map(&first, &second, value, error);
  });
}
inline TensorView Value::tensor() const {
  graft_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  graft_error error;
  detail::check(graft_value_tensor(handle(), &tensor, &error), error);
  TensorView view{.dtype = static_cast<DataType>(tensor.dtype)};
  view.shape.assign(tensor.shape, tensor.shape + tensor.rank);
  view.data = tensor.data;
  return view;
}
inline std::vector<std::string> Value::texts() const {
  const TensorView view = tensor();
  if (view.dtype != DataType::kString) throw Error(ErrorKind::kInvalidArgument, "the value holds no strings");
  int64_t count = 1;
  for (const int64_t size : view.shape) count *= size;
  std::vector<std::string> texts;
  for (int64_t i = 0; i < count; ++i) {
    const graft_text& text = static_cast<const graft_text*>(view.data)[i];
    texts.emplace_back(text.data, text.bytes);
  }
  return texts;
}

/// A compiled network. Immutable; copies share it.
class Engine {
 public:
  /// Takes over a handle from graft_c.h.
  explicit Engine(graft_engine* handle) : handle_(handle, graft_engine_release) {}

  /// Writes a plan that `load` reads; the file is replaced whole or not at all. Throws Error.
  void save(const std::string& path) const {
    graft_error error;
    detail::check(graft_engine_save(handle_.get(), path.c_str(), &error), error);
  }
  std::vector<ValueInfo> inputs() const {
    std::vector<ValueInfo> values;
    for (size_t i = 0; i < graft_engine_input_count(handle()); ++i) {
      values.push_back(detail::describe(*graft_engine_input(handle(), i)));
    }
    return values;
  }
  std::vector<ValueInfo> outputs() const {
    std::vector<ValueInfo> values;
    for (size_t i = 0; i < graft_engine_output_count(handle()); ++i) {
      values.push_back(detail::describe(*graft_engine_output(handle(), i)));
    }
    return values;
  }
  /// The shape that output number `output` gets from inputs of these types and shapes (data is not read); -1 for an
  /// axis that the values of tensors decide. Throws Error as a run of such inputs would fail.
  std::vector<int64_t> output_shape(std::span<const TensorView> inputs, size_t output = 0) const {
    std::vector<graft_tensor> tensors;
    for (const TensorView& input : inputs) tensors.push_back(detail::describe(input));
    const graft_value_info* info = graft_engine_output(handle(), output);
    std::vector<int64_t> shape(info ? static_cast<size_t>(info->rank) + 1 : 1);  // one more: never empty
    graft_error error;
    detail::check(graft_engine_output_shape(handle(), tensors.data(), tensors.size(), output, shape.data(), &error),
                  error);
    shape.pop_back();
    return shape;
  }
  /// The engine, and where it comes from, as JSON; see graft_engine_describe and graft_engine_metadata.
  std::string_view describe() const { return graft_engine_describe(handle()); }
  std::string_view metadata() const { return graft_engine_metadata(handle()); }
  graft_engine* handle() const { return handle_.get(); }

 private:
  std::shared_ptr<graft_engine> handle_;
};

/// Compiles an ONNX file. Throws Error naming node, cause and remedy.
inline Engine compile(const std::string& path, const CompileOptions& options = {}) {
  const std::string threads = std::to_string(options.threads);
  std::vector<graft_option> list = {
      {"threads", threads.c_str()},
      {"tune", options.tune.c_str()},
      {"precision", options.precision.c_str()},
      {"target", options.target.c_str()}};
  for (const std::string& dim : options.dims) list.push_back({"dim", dim.c_str()});
  for (const std::string& shape : options.shapes) list.push_back({"shape", shape.c_str()});
  for (const std::string& source : options.ops) list.push_back({"ops", source.c_str()});
  for (const auto& [key, value] : options.extra) list.push_back({key.c_str(), value.c_str()});
  const auto progress = [](void* context, const char* stage, const char* step, int32_t done, int32_t total) -> int32_t {
    return !static_cast<const CompileOptions*>(context)->progress(stage, step, done, total);
  };
  graft_engine* engine = nullptr;
  graft_error error;
  detail::check(graft_compile(path.c_str(), list.data(), list.size(), options.progress ? +progress : nullptr,
                              const_cast<CompileOptions*>(&options), &engine, &error),
                error);
  return Engine(engine);
}

/// Where the weights of a plan are while an engine uses them.
enum class WeightStorage : int32_t {
  kMapped,  ///< in the plan's file, shared with other processes
  kCopied,  ///< in memory of this process: the file may change after loading
};

/// Loads a plan on `cpu`, `cuda` or `cuda:1`, or, with `auto`, on the device that it was made for where that is here,
/// else the CPU. Kernels come from the kernel cache and are compiled where it lacks them.
/// `threads` of the CPU run it; 0: as many as it was made for, and no more than the process can use. A mapped file must
/// not be written to while the engine lives: replace it by renaming a new one (as Engine::save does), not by copying
/// over it. Runs that begin after a write fail; see graft_load. Throws Error.
inline Engine load(const std::string& path, const std::string& device = "auto", int threads = 0,
                   WeightStorage weights = WeightStorage::kMapped) {
  const std::string number = std::to_string(threads);
  const graft_option options[] = {{"device", device.c_str()},
                                  {"threads", number.c_str()},
                                  {"weights", weights == WeightStorage::kCopied ? "copied" : "mapped"}};
  graft_engine* engine = nullptr;
  graft_error error;
  detail::check(graft_load_with(path.c_str(), options, 3, &engine, &error), error);
  return Engine(engine);
}

/// The same from the bytes of a plan, which are copied.
inline Engine load(std::span<const std::byte> plan, const std::string& device = "auto", int threads = 0) {
  const std::string number = std::to_string(threads);
  const graft_option options[] = {{"device", device.c_str()}, {"threads", number.c_str()}};
  graft_engine* engine = nullptr;
  graft_error error;
  detail::check(graft_load_bytes(plan.data(), plan.size(), nullptr, nullptr, options, 2, &engine, &error), error);
  return Engine(engine);
}

/// Time of one step of a profiled run, in microseconds from its start.
struct StepTime {
  std::string_view name;  ///< the model's node name; lives as long as the engine
  double begin_us = 0, end_us = 0;
};

/// What one run at a time needs. Move-only.
class Session {
 public:
  /// `threads` 0: as many as the engine was compiled or loaded with. Throws Error.
  explicit Session(const Engine& engine, int threads = 0) : handle_(nullptr, graft_session_destroy) {
    graft_session* session = nullptr;
    graft_error error;
    detail::check(graft_session_create(engine.handle(), threads, &session, &error), error);
    handle_.reset(session);
  }

  /// Runs once. `inputs`: each input once, by name or in order, of any strides. `outputs`: those that are wanted. One
  /// with data is written there; its type and shape must be right. One without gets memory from `allocator`, or, when
  /// that is empty, from the session, where it stays until the next run; type, shape and data are then filled in.
  /// Outputs may share memory with inputs but not with each other; graft_session_run says what strides, alignment and
  /// overlap mean. With all outputs on the GPU it returns when the work is queued. Never throws (unless the allocator
  /// does).
  Status run(std::span<const TensorView> inputs, std::span<TensorView> outputs, const Allocator& allocator = {}) {
    inputs_.clear(), outputs_.clear();
    for (const TensorView& input : inputs) inputs_.push_back(detail::describe(input));
    for (const TensorView& output : outputs) {
      outputs_.push_back(detail::describe(output));
      outputs_.back().value = nullptr;  // what an earlier run gave
    }
    const graft_allocator forward{detail::allocate_by, const_cast<Allocator*>(&allocator)};
    graft_error error;
    const graft_status status = graft_session_run(handle_.get(), inputs_.data(), inputs_.size(), outputs_.data(),
                                                  outputs_.size(), allocator ? &forward : nullptr, &error);
    if (status != GRAFT_OK) return {static_cast<ErrorKind>(status), error.message};
    detail::take_outputs(outputs_, outputs);
    return {};
  }
  Status run(std::initializer_list<TensorView> inputs, std::span<TensorView> outputs, const Allocator& allocator = {}) {
    return run(std::span(inputs.begin(), inputs.size()), outputs, allocator);
  }

  /// Puts the following runs into the order of a cudaStream_t or CUstream; see graft_session_set_stream.
  Status set_stream(void* stream) {
    graft_error error;
    const graft_status status = graft_session_set_stream(handle_.get(), stream, &error);
    return status == GRAFT_OK ? Status() : Status(static_cast<ErrorKind>(status), error.message);
  }
  /// Whether a run went into a CUDA graph, to which the session belongs then; see graft_session_was_captured.
  bool was_captured() const { return graft_session_was_captured(handle_.get()) != 0; }
  /// Returns when all runs have finished, with the first error that their kernels found.
  Status wait() {
    graft_error error;
    const graft_status status = graft_session_wait(handle_.get(), &error);
    return status == GRAFT_OK ? Status() : Status(static_cast<ErrorKind>(status), error.message);
  }
  /// The most bytes that the session may hold beside the engine's constants; 0: no limit.
  void set_memory_limit(uint64_t bytes) { graft_session_set_memory_limit(handle_.get(), bytes); }
  /// Where the following runs take the memory of intermediate results from; see graft_session_set_scratch.
  void set_scratch(graft_scratch_function allocate, void* context) {
    graft_session_set_scratch(handle_.get(), allocate, context);
  }
  /// Ends the run that is going on, which then returns `cancelled`, and all asynchronous ones so far; from any thread
  /// and from a signal handler. See graft_session_cancel.
  void cancel() { graft_session_cancel(handle_.get()); }
  /// The most seconds that each following run may take before it is ended like this; 0: as long as it needs.
  Status set_deadline(double seconds) {
    graft_error error;
    const graft_status status = graft_session_set_deadline(handle_.get(), seconds, &error);
    return status == GRAFT_OK ? Status() : Status(static_cast<ErrorKind>(status), error.message);
  }

  /// Records the time of each step of the following runs.
  void set_profiling(bool on) { graft_session_set_profiling(handle_.get(), on); }
  std::vector<StepTime> profile() const {
    std::vector<graft_step_time> times(graft_session_profile(handle_.get(), nullptr, 0));
    graft_session_profile(handle_.get(), times.data(), times.size());
    std::vector<StepTime> steps;
    for (const graft_step_time& time : times) steps.push_back({time.name, time.begin_us, time.end_us});
    return steps;
  }
  /// Bytes of the memory that intermediate results of the last run took.
  uint64_t arena_bytes() const { return graft_session_arena_bytes(handle_.get()); }
  graft_session* handle() const { return handle_.get(); }

 private:
  std::unique_ptr<graft_session, void (*)(graft_session*)> handle_;
  std::vector<graft_tensor> inputs_, outputs_;  // kept, so that a run allocates nothing
};

/// Sessions of one engine for calls that come from any number of threads: as many are made as calls ever go on at the
/// same time, and each is used again. The pool outlives what was taken from it.
///
///   graft::SessionPool pool(engine);
///   const auto session = pool.take();  // goes back at the end of the scope, and its outputs with it
///   graft::Status status = session->run(inputs, outputs);
class SessionPool {
 public:
  /// `threads`: of each session, see Session.
  explicit SessionPool(Engine engine, int threads = 0) : engine_(std::move(engine)), threads_(threads) {}
  SessionPool(const SessionPool&) = delete;
  SessionPool& operator=(const SessionPool&) = delete;

  struct GiveBack {
    SessionPool* pool = nullptr;
    void operator()(Session* session) const noexcept { pool->give_back(session); }
  };
  using Taken = std::unique_ptr<Session, GiveBack>;

  /// A session that nobody else uses: the one whose call ended last, or a new one. Throws Error.
  Taken take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        Session* const session = free_.back().release();
        free_.pop_back();
        return {session, GiveBack{this}};
      }
      free_.reserve(++made_);  // so that giving back needs no memory
      captured_.reserve(made_);
    }
    return {new Session(engine_, threads_), GiveBack{this}};
  }
  const Engine& engine() const { return engine_; }

 private:
  void give_back(Session* session) noexcept {
    const std::lock_guard lock(mutex_);
    (session->was_captured() ? captured_ : free_).emplace_back(session);
  }

  Engine engine_;
  int threads_;
  std::mutex mutex_;
  size_t made_ = 0;
  std::vector<std::unique_ptr<Session>> free_;
  std::vector<std::unique_ptr<Session>> captured_;  ///< those of CUDA graphs, as long as the engine lives
};

/// How much a message matters; each level includes those before it.
enum class LogLevel : int32_t { kError, kWarning, kStep, kReason, kChoice, kDetail, kTrace };

/// Sends the process's messages up to `level` to `log`, one at a time, from any thread; an empty function restores
/// standard error. `log` must neither throw nor call into Graft. Threads that run and compile may go on meanwhile; two
/// that call this at the same time must agree on an order themselves.
inline void set_log(std::function<void(LogLevel, std::string_view)> log, LogLevel level = LogLevel::kWarning) {
  static std::function<void(LogLevel, std::string_view)> current;
  graft_set_log(nullptr, nullptr, static_cast<int32_t>(level));
  current = std::move(log);
  if (!current) return;
  graft_set_log([](void*, int32_t severity, const char* message) { current(static_cast<LogLevel>(severity), message); },
                nullptr, static_cast<int32_t>(level));
}

inline std::string_view version() { return graft_version(); }

}  // namespace api
}  // namespace graft
