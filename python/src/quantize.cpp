// SPDX-License-Identifier: Apache-2.0
#include "quantize.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "array_view.h"
#include "bytes_of.h"
#include "failure.h"
#include "graft/graft_host.h"
#include "options.h"
#include "progress.h"
#include "session.h"
#include "without_gil.h"

namespace nb = nanobind;

namespace graft_python {
namespace {

struct Quantized {
  std::shared_ptr<graft_quantized> handle;
};

/// What the contexts of graft_quantize are: Python's functions, and the batch that the library reads.
struct Calibrating {
  nb::object batch, metric, progress;
  std::vector<ArrayView> views;

  /// Calls `body` with the GIL held. An exception of Python's stays pending, which check() then raises.
  template <class Body>
  static int32_t with_gil(graft_error* error, const Body& body) {
    const nb::gil_scoped_acquire gil;
    try {
      return body();
    } catch (nb::python_error& raised) {
      raised.restore();
    } catch (const Failure& failure) {
      error->status = failure.status();
      std::strncpy(error->message, failure.what(), sizeof error->message - 1);
    } catch (const std::exception& fault) {
      error->status = GRAFT_INTERNAL;
      std::strncpy(error->message, fault.what(), sizeof error->message - 1);
    }
    return -1;
  }

  static int32_t give(void* context, size_t index, graft_tensor* tensors, size_t count, graft_error* error) {
    auto& self = *static_cast<Calibrating*>(context);
    return with_gil(error, [&]() -> int32_t {
      nb::list names;
      for (size_t n = 0; n < count; ++n) names.append(tensors[n].name);
      self.views.clear();
      const nb::object arrays = self.batch(index, names);
      if (arrays.is_none()) return 0;
      for (size_t n = 0; n < count; ++n) {
        self.views.push_back(view_of_given(nb::object(arrays[n]), tensors[n].name));
      }
      for (size_t n = 0; n < count; ++n) {
        const char* const name = tensors[n].name;
        tensors[n] = self.views[n].tensor();
        tensors[n].name = name;
      }
      return 1;
    });
  }

  static int32_t measure(void* context, graft_engine* network, double* score, graft_error* error) {
    const auto& self = *static_cast<Calibrating*>(context);
    return with_gil(error, [&]() -> int32_t {
      const Engine engine{std::shared_ptr<graft_engine>(graft_engine_retain(network), graft_engine_release)};
      *score = nb::cast<double>(self.metric(engine));
      return 0;
    });
  }

  static int32_t tell(void* context, const char* stage, const char* step, int32_t done, int32_t total) {
    return tell_python(static_cast<Calibrating*>(context)->progress.ptr(), stage, step, done, total);
  }
};

/// `batch(index, names)` gives a list of arrays, one per name, or None after the last; `metric(engine)` a float. Either
/// may be None.
Quantized quantize(const nb::object& path, const nb::object& model, const Options& options, nb::object progress,
                   nb::object batch, nb::object metric, size_t count) {
  const std::vector<graft_option> list = as_options(options);
  const std::string name = path.is_none() ? "" : nb::cast<std::string>(path);
  const nb::bytes bytes = model.is_none() ? nb::bytes("", 0) : nb::cast<nb::bytes>(model);
  Calibrating context{std::move(batch), std::move(metric), std::move(progress), {}};
  graft_calibration calibration = {};
  calibration.struct_size = sizeof calibration, calibration.context = &context, calibration.count = count;
  calibration.batch = context.batch.is_none() ? nullptr : Calibrating::give;
  calibration.metric = context.metric.is_none() ? nullptr : Calibrating::measure;
  graft_quantized* quantized = nullptr;
  graft_error error;
  graft_status status = GRAFT_OK;
  {
    const WithoutGil without_gil;
    status = graft_quantize(path.is_none() ? nullptr : name.c_str(), model.is_none() ? nullptr : bytes.c_str(),
                            bytes.size(), list.data(), list.size(), &calibration, Calibrating::tell, &context,
                            &quantized, &error);
  }
  if (status != GRAFT_OK) check(status, error);
  return {std::shared_ptr<graft_quantized>(quantized, graft_quantized_destroy)};
}

void save(const Quantized& quantized, const std::string& path) {
  graft_error error;
  graft_status status = GRAFT_OK;
  {
    const WithoutGil without_gil;
    status = graft_quantized_save(quantized.handle.get(), path.c_str(), &error);
  }
  check(status, error);
}

Engine compile(const Quantized& quantized, nb::object progress) {
  graft_engine* engine = nullptr;
  graft_error error;
  graft_status status = GRAFT_OK;
  {
    const WithoutGil without_gil;
    status = graft_quantized_compile(quantized.handle.get(), tell_python, progress.ptr(), &engine, &error);
  }
  return engine_of(status, engine, error);
}

/// What an engine that learns has become; of any other one itself.
Engine finish_calibration(const Engine& learning, nb::object progress) {
  graft_engine* engine = nullptr;
  graft_error error;
  graft_status status = GRAFT_OK;
  {
    const WithoutGil without_gil;
    status = graft_engine_finish_calibration(learning.handle.get(), tell_python, progress.ptr(), &engine, &error);
  }
  return engine_of(status, engine, error);
}

nb::object find_engine(const std::string& name) {
  graft_engine* const engine = graft_host_find_engine(name.c_str());
  if (!engine) return nb::none();
  return nb::cast(Engine{std::shared_ptr<graft_engine>(engine, graft_engine_release)});
}

}  // namespace

void bind_quantizing(nb::module_& module) {
  nb::class_<Quantized>(module, "Quantized")
      .def("save", save)
      .def("save_bytes",
           [](const Quantized& quantized) { return bytes_of(graft_quantized_save_bytes, quantized.handle.get()); })
      .def("compile", compile, nb::arg("progress").none())
      .def("report", [](const Quantized& quantized) { return graft_quantized_report(quantized.handle.get()); })
      .def("text", [](const Quantized& quantized) { return graft_quantized_text(quantized.handle.get()); });
  module.def("quantize", quantize, nb::arg("path").none(), nb::arg("model").none(), nb::arg("options"),
             nb::arg("progress").none(), nb::arg("batch").none(), nb::arg("metric").none(), nb::arg("count"));
  module.def("calibration_runs",
             [](const Engine& engine) { return graft_engine_calibration_runs(engine.handle.get()); });
  module.def("finish_calibration", finish_calibration, nb::arg("engine"), nb::arg("progress").none());
  module.def("quantization", [](const Engine& engine) {
    return std::pair<std::string, std::string>(graft_engine_quantization_text(engine.handle.get()),
                                               graft_engine_quantization_report(engine.handle.get()));
  });
  module.def("find_engine", find_engine, nb::arg("name"));
  module.def("withdraw_engine", [](const std::string& name) { graft_host_withdraw_engine(name.c_str()); });
}

}  // namespace graft_python
