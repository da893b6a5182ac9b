// SPDX-License-Identifier: Apache-2.0
// Models of 8 bits in C++ (docs/PRECISION.md): graft_quantize of graft_c.h.
//
//   graft::Quantized q = graft::quantize("model.onnx", {.batch = [&](size_t index) { return batch_of(index); }},
//                                        {{"max-error", "0.02"}});
//   std::puts(q.text().c_str());
//   graft::Engine engine = q.compile();
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graft/graft.h"

namespace graft {
inline namespace api {

/// Samples of a model's inputs, and how good a network is. Both functions are called by the thread that quantises; what
/// they throw comes out of quantize().
struct Calibration {
  /// Batch `index`: the inputs in the model's order, or by their names, row-major in host memory, which has to stay
  /// until the next call; empty after the last batch. Indices go from 0 on, and again from 0 for each network that is
  /// measured. A tensor is one sample (without the first axis of the input) or any number of them. Empty where the
  /// option `calibration-file` names a file that is there: then the error is not measured.
  std::function<std::vector<TensorView>(size_t index)> batch;
  size_t count = 0;  ///< of batches, for progress; 0: until there is none
  /// How good a network is, more being better: a finite number. Asked for the model in f32 and for each one that is
  /// tried. Empty: only the error is measured.
  std::function<double(const Engine& network)> metric = {};
};

/// A quantised model with the report on it. Move-only; used by one thread at a time.
class Quantized {
 public:
  /// Takes over a handle from graft_c.h.
  explicit Quantized(graft_quantized* handle) : handle_(handle, graft_quantized_destroy) {}

  /// What became of each layer and what it costs, as JSON and as a table in text.
  std::string report() const { return graft_quantized_report(handle_.get()); }
  std::string text() const { return graft_quantized_text(handle_.get()); }
  /// Writes it as ONNX; the file is replaced whole or not at all. Throws Error.
  void save(const std::string& path) const {
    graft_error error;
    detail::check(graft_quantized_save(handle_.get(), path.c_str(), &error), error);
  }
  /// The ONNX file in memory. Throws Error.
  std::string model() const {
    std::string bytes;
    const auto allocate = [](void* context, size_t size) -> void* {
      static_cast<std::string*>(context)->resize(size);
      return static_cast<std::string*>(context)->data();
    };
    graft_error error;
    detail::check(graft_quantized_save_bytes(handle_.get(), allocate, &bytes, &error), error);
    return bytes;
  }
  /// Compiles it for the options that quantize() had. Throws Error.
  Engine compile() const {
    graft_engine* engine = nullptr;
    graft_error error;
    detail::check(graft_quantized_compile(handle_.get(), nullptr, nullptr, &engine, &error), error);
    return Engine(engine);
  }
  graft_quantized* handle() const { return handle_.get(); }

 private:
  std::unique_ptr<graft_quantized, void (*)(graft_quantized*)> handle_;
};

namespace detail {

/// What graft_calibration's context is.
struct Calibrating {
  const Calibration& calibration;
  std::vector<TensorView> batch;  ///< as long as the library reads it
  std::exception_ptr thrown;

  static int32_t give(void* context, size_t index, graft_tensor* tensors, size_t count, graft_error* error) noexcept {
    auto& self = *static_cast<Calibrating*>(context);
    return self.guard(error, [&]() -> int32_t {
      self.batch = self.calibration.batch(index);
      if (self.batch.empty()) return 0;
      if (self.batch.size() != count) {
        throw Error(ErrorKind::kInvalidArgument, "batch " + std::to_string(index) + " has " +
                                                     std::to_string(self.batch.size()) + " tensors, and the model " +
                                                     std::to_string(count) + " inputs");
      }
      for (size_t n = 0; n < count; ++n) fill(tensors[n], self.view_of(tensors[n].name, n));
      return 1;
    });
  }
  static int32_t measure(void* context, graft_engine* network, double* score, graft_error* error) noexcept {
    auto& self = *static_cast<Calibrating*>(context);
    return self.guard(error, [&]() -> int32_t {
      *score = self.calibration.metric(Engine(graft_engine_retain(network)));
      return 0;
    });
  }

 private:
  template <class Body>
  int32_t guard(graft_error* error, const Body& body) noexcept {
    try {
      return body();
    } catch (...) {
      thrown = std::current_exception();
      error->message[0] = '\0';
      return -1;
    }
  }
  const TensorView& view_of(const std::string& name, size_t position) const {
    for (const TensorView& view : batch) {
      if (view.name == name) return view;
    }
    if (!batch[position].name.empty()) {
      throw Error(ErrorKind::kInvalidArgument, "the batch has no tensor for the input '" + name + "'");
    }
    return batch[position];
  }
  static void fill(graft_tensor& tensor, const TensorView& view) {
    const graft_tensor described = describe(view);
    tensor.dtype = described.dtype, tensor.rank = described.rank, tensor.shape = described.shape;
    tensor.strides = described.strides, tensor.data = described.data, tensor.bytes = described.bytes;
    tensor.device = described.device;
  }
};

}  // namespace detail

/// Quantises a model's file to 8 bits; the options are those of graft_quantize, by their keys. Throws Error naming
/// node, cause and remedy, and what the functions of `calibration` throw.
inline Quantized quantize(const std::string& path, const Calibration& calibration,
                          const std::vector<std::pair<std::string, std::string>>& options = {}) {
  std::vector<graft_option> list;
  for (const auto& [key, value] : options) list.push_back({key.c_str(), value.c_str()});
  detail::Calibrating context{calibration, {}, {}};
  graft_calibration given = {};
  given.struct_size = sizeof given, given.context = &context, given.count = calibration.count;
  given.batch = calibration.batch ? detail::Calibrating::give : nullptr;
  given.metric = calibration.metric ? detail::Calibrating::measure : nullptr;
  graft_quantized* quantized = nullptr;
  graft_error error;
  const graft_status status = graft_quantize(path.c_str(), nullptr, 0, list.data(), list.size(), &given, nullptr,
                                             nullptr, &quantized, &error);
  if (context.thrown) std::rethrow_exception(context.thrown);
  detail::check(status, error);
  return Quantized(quantized);
}

}  // namespace api
}  // namespace graft
