// SPDX-License-Identifier: Apache-2.0
// The extension module `graft._graft`: the C interface for the package's Python code, which nobody else imports.
#include <cstring>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "array_view.h"
#include "bytes_of.h"
#include "converter.h"
#include "failure.h"
#include "held_value.h"
#include "host.h"
#include "interrupt.h"
#include "options.h"
#include "progress.h"
#include "quantize.h"
#include "session.h"
#include "tensor_states.h"
#include "without_gil.h"

namespace nb = nanobind;

namespace graft_python {
namespace {

Engine compile_file(const std::string& path, const Options& options, nb::object progress) {
  const std::vector<graft_option> list = as_options(options);
  graft_engine* engine = nullptr;
  graft_error error;
  graft_status status = GRAFT_OK;
  {
    const WithoutGil without_gil;
    status = graft_compile(path.c_str(), list.data(), list.size(), tell_python, progress.ptr(), &engine, &error);
  }
  return engine_of(status, engine, error);
}

Engine compile_bytes(nb::bytes model, const nb::object& directory, const Options& options, nb::object progress) {
  const std::vector<graft_option> list = as_options(options);
  const std::string folder = directory.is_none() ? "" : nb::cast<std::string>(directory);
  graft_engine* engine = nullptr;
  graft_error error;
  graft_status status = GRAFT_OK;
  {
    const WithoutGil without_gil;
    status = graft_compile_bytes(model.c_str(), model.size(), directory.is_none() ? nullptr : folder.c_str(),
                                 list.data(), list.size(), tell_python, progress.ptr(), &engine, &error);
  }
  return engine_of(status, engine, error);
}

Engine load_file(const std::string& path, const Options& options) {
  const std::vector<graft_option> list = as_options(options);
  graft_engine* engine = nullptr;
  graft_error error;
  graft_status status = GRAFT_OK;
  {
    const WithoutGil without_gil;
    status = graft_load_with(path.c_str(), list.data(), list.size(), &engine, &error);
  }
  return engine_of(status, engine, error);
}

Engine load_bytes(nb::bytes plan, const Options& options) {
  const std::vector<graft_option> list = as_options(options);
  graft_engine* engine = nullptr;
  graft_error error;
  graft_status status = GRAFT_OK;
  {
    const WithoutGil without_gil;
    status = graft_load_bytes(plan.c_str(), plan.size(), nullptr, nullptr, list.data(), list.size(), &engine, &error);
  }
  return engine_of(status, engine, error);
}

/// A plan in an array's memory, which the engine keeps and reads its weights from.
Engine load_array(nb::handle array, const Options& options) {
  auto* view = new ArrayView(array, "the plan", GRAFT_UINT8, false);
  const graft_tensor tensor = view->tensor();
  uint64_t bytes = 1;
  for (int32_t axis = 0; axis < tensor.rank; ++axis) bytes *= static_cast<uint64_t>(tensor.shape[axis]);
  const std::vector<graft_option> list = as_options(options);
  graft_engine* engine = nullptr;
  graft_error error;
  graft_status status = GRAFT_OK;
  {
    const WithoutGil without_gil;
    status = graft_load_bytes(tensor.data, bytes, release_view, view, list.data(), list.size(), &engine, &error);
  }
  return engine_of(status, engine, error);
}

/// What graft_check's context is.
struct Check {
  PyObject* progress;
  std::string answer;
};

void check_options(const Options& options) {
  const std::vector<graft_option> list = as_options(options);
  graft_error error;
  check(graft_check_options(list.data(), list.size(), &error), error);
}

/// The answer of graft_check for a file, or for bytes with the folder of their external data.
std::string check_model(const nb::object& path, const nb::object& model, const Options& options,
                        const nb::object& progress) {
  const std::vector<graft_option> list = as_options(options);
  const std::string name = path.is_none() ? "" : nb::cast<std::string>(path);
  const nb::bytes bytes = model.is_none() ? nb::bytes("", 0) : nb::cast<nb::bytes>(model);
  Check context{progress.ptr(), {}};
  const auto tell = [](void* to, const char* stage, const char* step, int32_t done, int32_t total) {
    return tell_python(static_cast<Check*>(to)->progress, stage, step, done, total);
  };
  const auto take = [](void* to, const char* json) { static_cast<Check*>(to)->answer = json; };
  graft_error error;
  graft_status status = GRAFT_OK;
  {
    const WithoutGil without_gil;
    status = graft_check(path.is_none() ? nullptr : name.c_str(), model.is_none() ? nullptr : bytes.c_str(),
                         bytes.size(), list.data(), list.size(), tell, &context, take, &error);
  }
  check(status, error);
  return context.answer;
}

/// A parameter: its name, an array, and the number of the type that its elements stand for, or 0.
using Parameter = std::tuple<std::string, nb::object, int>;

/// The symbol of mixed precision and the report, both JSON. `parameters` None: they are found by where they stand.
std::pair<std::string, std::string> convert_symbol(const std::string& symbol, const std::string& request,
                                                   const nb::object& parameters) {
  std::vector<ArrayView> views;
  std::vector<graft_tensor> tensors;
  const auto given = parameters.is_none() ? std::vector<Parameter>() : nb::cast<std::vector<Parameter>>(parameters);
  views.reserve(given.size());
  for (const auto& [name, array, dtype] : given) {
    views.emplace_back(array, name, dtype, false);
    tensors.push_back(views.back().tensor());
    tensors.back().name = name.c_str();
  }
  tensors.reserve(1);  // its address is not null
  std::pair<std::string, std::string> answer;
  const auto take = [](void* to, const char* made, const char* report) {
    *static_cast<std::pair<std::string, std::string>*>(to) = {made, report};
  };
  graft_error error;
  graft_status status = GRAFT_OK;
  {
    const WithoutGil without_gil;
    status = graft_convert_symbol(symbol.c_str(), request.c_str(), parameters.is_none() ? nullptr : tensors.data(),
                                  tensors.size(), &answer, take, &error);
  }
  check(status, error);
  return answer;
}

/// The shapes of all outputs for inputs of these types and shapes, in the engine's order: -1 where values decide.
nb::list output_shapes(const Engine& engine, const std::vector<std::vector<int64_t>>& shapes) {
  std::vector<graft_tensor> inputs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const graft_value_info* info = graft_engine_input(engine.handle.get(), i);
    inputs.push_back({.struct_size = sizeof(graft_tensor),
                      .dtype = info ? info->dtype : 0,
                      .rank = static_cast<int32_t>(shapes[i].size()),
                      .shape = shapes[i].data()});
  }
  nb::list results;
  for (size_t output = 0; output < graft_engine_output_count(engine.handle.get()); ++output) {
    const int32_t rank = graft_engine_output(engine.handle.get(), output)->rank;
    std::vector<int64_t> shape(static_cast<size_t>(rank) + 1);  // one more: its address is never null
    graft_error error;
    check(graft_engine_output_shape(engine.handle.get(), inputs.data(), inputs.size(), output, shape.data(), &error),
          error);
    shape.pop_back();
    results.append(nb::tuple(nb::cast(shape)));
  }
  return results;
}

/// (name, kind, engine or None, device or None, value) of each.
nb::list metrics() {
  nb::list list;
  const auto take = [](void* to, const graft_metric* metric) {
    const auto label = [](const char* text) {
      return text ? nb::steal(PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "replace"))
                  : nb::none();
    };
    static_cast<nb::list*>(to)->append(nb::make_tuple(metric->name, metric->kind, label(metric->engine),
                                                      label(metric->device), metric->value));
  };
  graft_error error;
  check(graft_metrics(take, &list, &error), error);
  return list;
}

nb::bytes metrics_text() {
  std::string text;
  const auto take = [](void* to, const char* given) { *static_cast<std::string*>(to) = given; };
  graft_error error;
  check(graft_metrics_text(take, &text, &error), error);
  return nb::bytes(text.c_str(), text.size());
}

void save(const Engine& engine, const std::string& path) {
  graft_error error;
  graft_status status = GRAFT_OK;
  {
    const WithoutGil without_gil;
    status = graft_engine_save(engine.handle.get(), path.c_str(), &error);
  }
  check(status, error);
}

nb::bytes save_bytes(const Engine& engine) { return bytes_of(graft_engine_save_bytes, engine.handle.get()); }

/// (name, dtype or the text of a type that is no tensor's, ((size, text, min, opt, max), ...)) of each.
nb::list describe_values(size_t count, const graft_engine* engine,
                         const graft_value_info* (*get)(const graft_engine*, size_t)) {
  nb::list values;
  for (size_t i = 0; i < count; ++i) {
    const graft_value_info& info = *get(engine, i);
    nb::list axes;
    for (int32_t axis = 0; axis < info.rank; ++axis) {
      const graft_axis& a = info.axes[axis];
      axes.append(nb::make_tuple(a.size, a.text, a.min, a.opt, a.max));
    }
    const nb::object type = info.type ? nb::object(nb::str(info.type)) : nb::object(nb::int_(info.dtype));
    values.append(nb::make_tuple(info.name, type, nb::tuple(axes)));
  }
  return values;
}

/// Messages of the library on their way to Python's logging: threads that log may hold locks that a thread with the GIL
/// waits for, so they only leave their messages here.
struct Log {
  std::mutex mutex;
  std::vector<std::pair<int, std::string>> messages;
};
Log& log() {
  static Log& one = *new Log;  // outlives the interpreter: threads may log while it ends
  return one;
}

std::vector<std::pair<int, std::string>> take_messages() {
  const std::lock_guard lock(log().mutex);
  return std::exchange(log().messages, {});
}

void keep_message(void*, int32_t level, const char* message) {
  const std::lock_guard lock(log().mutex);
  log().messages.emplace_back(level, message);
}

}  // namespace
}  // namespace graft_python

NB_MODULE(_graft, module) {
  using namespace graft_python;
  nb::set_leak_warnings(false);  // a daemon thread leaves its engine behind when the interpreter ends
  bind_failures(module);
  nb::class_<Engine>(module, "Engine")
      .def("save", save)
      .def("save_bytes", save_bytes)
      .def("device", [](const Engine& engine) { return graft_engine_device(engine.handle.get()); })
      .def("output_shapes", output_shapes)
      .def("metadata", [](const Engine& engine) { return graft_engine_metadata(engine.handle.get()); })
      .def("describe", [](const Engine& engine) { return graft_engine_describe(engine.handle.get()); })
      .def("inputs", [](const Engine& engine) {
        return describe_values(graft_engine_input_count(engine.handle.get()), engine.handle.get(), graft_engine_input);
      })
      .def("outputs", [](const Engine& engine) {
        return describe_values(graft_engine_output_count(engine.handle.get()), engine.handle.get(),
                               graft_engine_output);
      });
  bind_held_values(module);
  bind_session(module);
  bind_host(module);
  bind_converters(module);
  bind_quantizing(module);
  nb::class_<TensorStates>(module, "TensorStates")
      .def(nb::init<const nb::object&, nb::object, std::vector<size_t>, std::vector<int64_t>>())
      .def("__call__", &TensorStates::read);
  module.def("compile_file", compile_file, nb::arg("path"), nb::arg("options"), nb::arg("progress").none());
  module.def("compile_bytes", compile_bytes, nb::arg("model"), nb::arg("directory").none(), nb::arg("options"),
             nb::arg("progress").none());
  module.def("load_file", load_file);
  module.def("load_bytes", load_bytes);
  module.def("load_array", load_array);
  module.def("check", check_model, nb::arg("path").none(), nb::arg("model").none(), nb::arg("options"),
             nb::arg("progress").none());
  module.def("check_options", check_options);
  module.def("convert_symbol", convert_symbol, nb::arg("symbol"), nb::arg("request"), nb::arg("parameters").none());
  module.def("set_main_thread", set_main_thread);
  module.def("version", graft_version);
  module.def("compilation_count", graft_compilation_count);
  module.def("metrics", metrics);
  module.def("metrics_text", metrics_text);
  module.def("end_of_interpreter", end_of_interpreter);
  module.def("take_messages", take_messages);
  module.def("set_log_level", [](int level) { graft_set_log(keep_message, nullptr, level); });
}
