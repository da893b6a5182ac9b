// SPDX-License-Identifier: Apache-2.0
#include "instance.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>

#include "failure.h"
#include "text_elements.h"

namespace graft::triton {
namespace {

/// Where an instance runs: by its configuration's parameter, or by its group.
std::string device_of(TRITONBACKEND_ModelInstance* instance, const Settings& settings) {
  if (!settings.device.empty()) return settings.device;
  InstanceKind kind{};
  int32_t device = 0;
  check(TRITONBACKEND_ModelInstanceKind(instance, &kind));
  if (kind != InstanceKind::kGpu) return "cpu";
  check(TRITONBACKEND_ModelInstanceDeviceId(instance, &device));
  return "cuda:" + std::to_string(device);
}

uint64_t now() {
  return static_cast<uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

std::string_view name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kNone: return "ok";
    case ErrorKind::kInvalidModel: return "invalid_model";
    case ErrorKind::kInvalidArgument: return "invalid_argument";
    case ErrorKind::kUnsupported: return "unsupported";
    case ErrorKind::kDevice: return "device";
    case ErrorKind::kOutOfMemory: return "out_of_memory";
    case ErrorKind::kCancelled: return "cancelled";
    default: return "internal";
  }
}

int64_t nothing = 0;  ///< the memory of a tensor without elements

/// Adds an output to a response and gives its memory. Throws Error where it lies elsewhere than it can be written.
void* make_output(const Request& request, const Port& port, const int64_t* shape, uint32_t rank, uint64_t bytes,
                  bool on_gpu) {
  TRITONBACKEND_Output* output = nullptr;
  void* buffer = nullptr;
  MemoryType memory = on_gpu ? MemoryType::kGpu : MemoryType::kCpu;
  int64_t device = 0;
  const int64_t one = 1;  // a scalar is a tensor of one element, as in the configuration
  check(TRITONBACKEND_ResponseOutput(request.response, &output, port.name.c_str(), port.type->server,
                                     rank > 0 ? shape : &one, std::max(rank, 1U)));
  check(TRITONBACKEND_OutputBuffer(output, &buffer, bytes, &memory, &device));
  if ((memory == MemoryType::kGpu) != on_gpu && bytes > 0) {
    throw Error(ErrorKind::kUnsupported, "output '" + port.name + "': its memory is " +
                                             (on_gpu ? "not " : "") + "a GPU's, which the model cannot write");
  }
  return bytes > 0 ? buffer : &nothing;
}

/// Hands the next request of the sequence what it begins with.
void keep(const Request& request, const Port& port, const std::vector<int64_t>& shape, const void* data,
          uint64_t bytes) {
  TRITONBACKEND_State* state = nullptr;
  void* buffer = nullptr;
  MemoryType memory = MemoryType::kCpu;
  int64_t device = 0;
  check(TRITONBACKEND_StateNew(&state, request.handle, port.name.c_str(), port.type->server, shape.data(),
                               static_cast<uint32_t>(shape.size())));
  check(TRITONBACKEND_StateBuffer(state, &buffer, bytes, &memory, &device));
  if (memory == MemoryType::kGpu) throw Error(ErrorKind::kUnsupported, "the state of a sequence lies in GPU memory");
  if (bytes > 0) std::memcpy(buffer, data, bytes);
  check(TRITONBACKEND_StateUpdate(state));
}

}  // namespace

/// What graft_allocator's context is: the outputs of one request.
struct Instance::Allocation {
  const Instance& instance;
  const Request& request;
  std::string failure = {};

  static void* allocate(void* context, int32_t output, int32_t, int32_t rank, const int64_t* shape, size_t bytes) {
    Allocation& self = *static_cast<Allocation*>(context);
    const Model& model = self.instance.model_;
    const size_t index = self.instance.ports_[static_cast<size_t>(output)];
    const Port& port = model.signature().outputs[index];
    try {
      if (model.batched() && (rank == 0 || shape[0] != self.request.rows)) {
        throw Error(ErrorKind::kInvalidModel, "output '" + port.name + "' has not as many rows as the inputs");
      }
      return make_output(self.request, port, shape, static_cast<uint32_t>(rank), bytes,
                         self.request.wanted[index] == Wanted::kOnGpu);
    } catch (const std::exception& failure) {
      self.failure = failure.what();
      return nullptr;
    }
  }
};

Instance::Instance(TRITONBACKEND_ModelInstance* instance, Model& model)
    : handle_(instance),
      model_(model),
      gpu_(device_of(instance, model.settings()) != "cpu"),
      session_(model.engine_on(device_of(instance, model.settings()))),
      seat_(model.watch()),
      joined_(model.signature().inputs.size()) {
  session_.set_memory_limit(model.settings().memory_limit);
}

Instance::~Instance() { model_.metrics().arena_bytes.add(-arena_bytes_); }

void Instance::execute(std::span<TRITONBACKEND_Request* const> requests) noexcept {
  Times times{.begin = now()};
  if (requests_.size() < requests.size()) requests_.resize(requests.size());
  pending_.clear();
  for (size_t i = 0; i < requests.size(); ++i) read(requests_[i], requests[i]);
  times.compute_begin = times.compute_end = now();
  run_groups(times);
  release(requests, times);
}

/// One that cannot be read is answered here; the others run.
void Instance::read(Request& place, TRITONBACKEND_Request* request) {
  TRITONSERVER_Error* const error =
      guarded([&] { place.read(request, model_.signature(), model_.batched(), gpu_); });
  if (error) {
    if (model_.run_log().wanted()) log_run({&request, 1}, 0, 0, "refused", TRITONSERVER_ErrorMessage(error));
    place.answer(error);
  } else {
    pending_.push_back(&place);
  }
}

void Instance::run_groups(Times& times) {
  for (size_t begin = 0; begin < pending_.size();) {
    size_t end = begin + 1;
    while (model_.batched() && end < pending_.size() && can_join(*pending_[begin], *pending_[end])) ++end;
    run_group(Group(pending_).subspan(begin, end - begin), times);
    begin = end;
  }
  const auto arena = static_cast<double>(session_.arena_bytes());
  if (arena == arena_bytes_) return;
  model_.metrics().arena_bytes.add(arena - arena_bytes_);
  arena_bytes_ = arena;
}

/// What fails joined runs again alone, so that one request's fault is not the others'.
void Instance::run_group(Group group, Times& times) {
  if (group.size() == 1) return run_alone(*group.front(), times);
  model_.metrics().joined.add(static_cast<double>(group.size()));
  Status status;
  TRITONSERVER_Error* const error = guarded([&] {
    status = run(group, nullptr, times);
    if (status.ok()) split(group);
  });
  for (Request* const request : group) {
    if (request->answered) continue;
    if (error || status.kind() == ErrorKind::kCancelled) {
      request->answer(error ? error_of(ErrorKind::kInternal, TRITONSERVER_ErrorMessage(error))
                            : error_of(status.kind(), status.message()));
    } else {
      model_.metrics().retries.add(1);
      run_alone(*request, times);
    }
  }
  ignore(error);
}

/// Results are written where the response has them; strings, and what sequences keep, go through the session's memory.
void Instance::run_alone(Request& request, Times& times) {
  Request* const one = &request;
  const Group group(&one, 1);
  const std::vector<Port>& ports = model_.signature().outputs;
  bool copied = false;
  for (size_t i = 0; i < ports.size(); ++i) {
    copied = copied || model_.kept_outputs()[i] || (request.wanted[i] != Wanted::kNo && ports[i].holds_strings());
  }
  Allocation allocation{*this, request};
  const graft_allocator allocator{Allocation::allocate, &allocation};
  TRITONSERVER_Error* error = guarded([&] {
    const Status status = run(group, copied ? nullptr : &allocator, times);
    if (!allocation.failure.empty()) throw Error(ErrorKind::kUnsupported, allocation.failure);
    if (!status.ok()) throw Error(status.kind(), status.message());
    if (copied) split(group);
  });
  if (!request.answered) {
    request.answer(error);
  } else {
    ignore(error);
  }
}

Status Instance::run(Group group, const graft_allocator* allocator, Times& times) {
  bind_inputs(group);
  bind_outputs(group);
  if (Status status = limit_time(group); !status.ok()) return status;
  running_.clear();
  for (const Request* request : group) running_.push_back(request->handle);
  graft_error error;
  const uint64_t begin = now();
  seat_.begin(session_.handle(), running_);
  graft_status status = graft_session_run(session_.handle(), inputs_.data(), inputs_.size(), outputs_.data(),
                                          outputs_.size(), allocator, &error);
  if (status == GRAFT_OK && gpu_) status = graft_session_wait(session_.handle(), &error);
  seat_.end();
  times.compute_end = now();
  model_.metrics().runs.add(1);
  model_.metrics().seconds.add(static_cast<double>(times.compute_end - begin) * 1e-9);
  if (model_.run_log().wanted()) {
    int64_t rows = 0;
    for (const Request* request : group) rows += request->rows;
    log_run(running_, rows, times.compute_end - begin, name_of(static_cast<ErrorKind>(status)),
            status == GRAFT_OK ? "" : error.message);
  }
  if (status == GRAFT_OK) return {};
  model_.metrics().failures.add(1);
  if (status == GRAFT_CANCELLED) model_.metrics().cancelled.add(1);
  return {static_cast<ErrorKind>(status), error.message};
}

void Instance::log_run(std::span<TRITONBACKEND_Request* const> requests, int64_t rows, uint64_t nanoseconds,
                       std::string_view status, std::string_view message) {
  model_.run_log().write({.model = model_.name(), .version = model_.version(), .requests = requests, .rows = rows,
                          .nanoseconds = nanoseconds, .status = status, .message = message});
}

void Instance::bind_inputs(Group group) {
  const std::vector<Port>& ports = model_.signature().inputs;
  inputs_.clear();
  for (size_t i = 0; i < ports.size(); ++i) {
    const InputData& first = group.front()->inputs[i];
    Joined& joined = joined_[i];
    joined.shape.assign(first.shape, first.shape + first.rank);
    void* const data = join(group, i);
    if (group.size() > 1) {
      joined.shape[0] = 0;
      for (const Request* request : group) joined.shape[0] += request->rows;
    }
    inputs_.push_back({.struct_size = sizeof(graft_tensor),
                       .name = ports[i].name.c_str(),
                       .dtype = ports[i].type->graft,
                       .rank = static_cast<int32_t>(ports[i].axes.size()),
                       .shape = joined.shape.data(),
                       .strides = nullptr,
                       .data = data,
                       .bytes = 0,
                       .device = first.on_gpu ? GRAFT_CUDA : GRAFT_HOST,
                       .value = nullptr});
  }
}

/// The elements of all requests in a row: where they lie, if they lie side by side.
void* Instance::join(Group group, size_t input) {
  const auto data_of = [&](const Request* request) -> const InputData& { return request->inputs[input]; };
  Joined& joined = joined_[input];
  if (model_.signature().inputs[input].holds_strings()) {
    joined.texts.clear();
    for (const Request* request : group) {
      joined.texts.insert(joined.texts.end(), data_of(request).texts.begin(), data_of(request).texts.end());
    }
    return joined.texts.empty() ? static_cast<void*>(&nothing) : joined.texts.data();
  }
  const std::byte* const begin = data_of(group.front()).data;
  uint64_t bytes = 0;
  bool side_by_side = true;
  for (const Request* request : group) {
    side_by_side = side_by_side && data_of(request).data == begin + bytes;
    bytes += data_of(request).bytes;
  }
  if (bytes == 0) return &nothing;
  if (side_by_side) return const_cast<std::byte*>(begin);  // an input is only read
  model_.metrics().copied_bytes.add(static_cast<double>(bytes));
  if (joined.bytes.size() < bytes) joined.bytes.resize(bytes);
  std::byte* place = joined.bytes.data();
  for (const Request* request : group) {
    std::memcpy(place, data_of(request).data, data_of(request).bytes);
    place += data_of(request).bytes;
  }
  return joined.bytes.data();
}

/// Those that any of the requests wants.
void Instance::bind_outputs(Group group) {
  const std::vector<Port>& ports = model_.signature().outputs;
  outputs_.clear();
  ports_.clear();
  for (size_t i = 0; i < ports.size(); ++i) {
    const auto wants = [i](const Request* request) { return request->wanted[i] != Wanted::kNo; };
    if (!model_.kept_outputs()[i] && std::ranges::none_of(group, wants)) continue;
    graft_tensor output = {};
    output.struct_size = sizeof output;
    output.name = ports[i].name.c_str();
    if (group.front()->wanted[i] == Wanted::kOnGpu) output.device = GRAFT_CUDA;
    outputs_.push_back(output);
    ports_.push_back(i);
  }
}

/// Copies each request's rows out of what the session gave, and answers it.
void Instance::split(Group group) {
  int64_t all_rows = 0, row = 0;
  for (const Request* request : group) all_rows += request->rows;
  for (size_t i = 0; model_.batched() && i < outputs_.size(); ++i) {
    if (outputs_[i].rank > 0 && outputs_[i].shape[0] == all_rows) continue;
    throw Error(ErrorKind::kInvalidModel, "output '" + model_.signature().outputs[ports_[i]].name +
                                              "' has not as many rows as the inputs");
  }
  for (Request* const request : group) {
    request->answer(guarded([&] { give(*request, row, all_rows); }));
    row += request->rows;
  }
}

void Instance::give(Request& request, int64_t first_row, int64_t all_rows) {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const bool wanted = request.wanted[ports_[i]] != Wanted::kNo, kept = model_.kept_outputs()[ports_[i]];
    if (!wanted && !kept) continue;
    const Port& port = model_.signature().outputs[ports_[i]];
    std::vector<int64_t> shape(outputs_[i].shape, outputs_[i].shape + outputs_[i].rank);
    if (model_.batched()) shape[0] = request.rows;
    const auto elements = static_cast<uint64_t>(
        std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>()));
    const uint64_t row_elements =
        all_rows > 0 && model_.batched() && request.rows > 0 ? elements / static_cast<uint64_t>(request.rows) : 0;
    const uint64_t begin = row_elements * static_cast<uint64_t>(first_row);
    const auto rank = static_cast<uint32_t>(shape.size());
    if (kept && port.holds_strings()) throw Error(ErrorKind::kUnsupported, "a state of strings is not supported");
    if (port.holds_strings()) {
      const std::span<const graft_text> texts(static_cast<const graft_text*>(outputs_[i].data) + begin, elements);
      const uint64_t bytes = bytes_of_texts(texts);
      write_texts(texts, static_cast<std::byte*>(make_output(request, port, shape.data(), rank, bytes, false)));
      continue;
    }
    const uint64_t bytes = elements * port.type->bytes;
    const std::byte* const data = static_cast<const std::byte*>(outputs_[i].data) + begin * port.type->bytes;
    if (kept) keep(request, port, shape, data, bytes);
    if (!wanted) continue;
    void* const place = make_output(request, port, shape.data(), rank, bytes, false);
    if (bytes > 0) std::memcpy(place, data, bytes);
  }
}

/// The model's deadline, and the most time that a client gives, if all of them give one.
Status Instance::limit_time(Group group) {
  double seconds = 0;
  for (const Request* request : group) {
    if (request->timeout_us == 0) {
      seconds = 0;
      break;
    }
    seconds = std::max(seconds, static_cast<double>(request->timeout_us) * 1e-6);
  }
  const double limit = model_.settings().deadline;
  if (limit > 0) seconds = seconds > 0 ? std::min(seconds, limit) : limit;
  if (seconds == deadline_) return {};
  deadline_ = seconds;
  return session_.set_deadline(seconds);
}

void Instance::release(std::span<TRITONBACKEND_Request* const> requests, const Times& times) {
  const uint64_t end = now();
  uint64_t rows = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const Request& request = requests_[i];
    if (request.succeeded) rows += static_cast<uint64_t>(request.rows);
    ignore(TRITONBACKEND_ModelInstanceReportStatistics(handle_, requests[i], request.succeeded, times.begin,
                                                       times.compute_begin, times.compute_end, end));
  }
  if (rows > 0) {
    ignore(TRITONBACKEND_ModelInstanceReportBatchStatistics(handle_, rows, times.begin, times.compute_begin,
                                                            times.compute_end, end));
  }
  for (TRITONBACKEND_Request* const request : requests) {
    ignore(TRITONBACKEND_RequestRelease(request, kReleaseRequest));
  }
}

}  // namespace graft::triton
