// SPDX-License-Identifier: Apache-2.0
#include "converter.h"

#include <cstring>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "failure.h"
#include "graft/graft_converter.h"
#include "host_arguments.h"

namespace nb = nanobind;

namespace graft_python {
namespace {

/// Ends a Python converter whose conversion has failed: the reason lies with the conversion.
struct ConversionStopped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

nb::object object_of(const graft_host_argument& given) {
  switch (given.kind) {
    case GRAFT_ARGUMENT_VALUE: return nb::cast(ValueArgument{static_cast<int32_t>(given.integer)});
    case GRAFT_ARGUMENT_INTEGER: return nb::int_(given.integer);
    case GRAFT_ARGUMENT_REAL: return nb::float_(given.real);
    case GRAFT_ARGUMENT_BOOL: return nb::bool_(given.integer != 0);
    case GRAFT_ARGUMENT_TEXT: return nb::str(given.text);
    case GRAFT_ARGUMENT_TYPE: return nb::cast(TypeArgument{static_cast<int32_t>(given.integer)});
    case GRAFT_ARGUMENT_LIST: {
      nb::list list;
      for (size_t i = 0; i < given.count; ++i) list.append(object_of(given.list[i]));
      return list;
    }
    default: return nb::none();
  }
}

/// A graft_conversion for as long as its converter runs.
class Conversion {
 public:
  explicit Conversion(graft_conversion* handle) : handle_(handle) {}
  void end() { handle_ = nullptr; }

  graft_conversion* handle() const {
    if (!handle_) throw std::runtime_error("the conversion is over: its converter has returned");
    return handle_;
  }
  std::string op() const { return handle()->op; }
  std::string name() const { return handle()->name; }
  std::string source() const { return handle()->source; }
  size_t result_count() const { return handle()->result_count; }

  nb::object argument(const std::string& name) const {
    graft_host_argument argument = {};
    done(handle()->argument(handle(), name.c_str(), &argument));
    return object_of(argument);
  }
  int32_t tensor(const std::string& name) const {
    int32_t value = -1;
    done(handle()->tensor(handle(), name.c_str(), &value));
    return value;
  }
  int32_t shape_tensor(const std::string& name) const {
    int32_t value = -1;
    done(handle()->shape_tensor(handle(), name.c_str(), &value));
    return value;
  }
  /// (name, number of the element type, sizes or None); a size is a number or its text.
  nb::tuple describe(int32_t value) const {
    const graft_value_info* info = nullptr;
    done(handle()->describe(handle(), value, &info));
    nb::object sizes = nb::none();
    if (info->rank >= 0) {
      nb::list list;
      for (int32_t i = 0; i < info->rank; ++i) {
        const graft_axis& axis = info->axes[i];
        list.append(axis.size >= 0 ? nb::object(nb::int_(axis.size)) : nb::object(nb::str(axis.text)));
      }
      sizes = std::move(list);
    }
    return nb::make_tuple(info->name, info->dtype, sizes);
  }
  /// (number of the element type, sizes, bytes).
  nb::tuple content(int32_t value) const {
    graft_tensor elements = {};
    done(handle()->content(handle(), value, &elements));
    const std::vector<int64_t> shape(elements.shape, elements.shape + elements.rank);
    return nb::make_tuple(elements.dtype, shape, nb::bytes(static_cast<const char*>(elements.data), elements.bytes));
  }
  int32_t constant(int32_t dtype, const std::vector<int64_t>& shape, nb::bytes data) const {
    graft_tensor tensor = {};
    tensor.struct_size = sizeof tensor, tensor.dtype = dtype, tensor.rank = static_cast<int32_t>(shape.size());
    tensor.shape = shape.data(), tensor.data = const_cast<char*>(data.c_str()), tensor.bytes = data.size();
    int32_t value = -1;
    done(handle()->constant(handle(), &tensor, &value));
    return value;
  }
  std::vector<int32_t> add(const std::string& op, const std::string& domain, const std::vector<int32_t>& inputs,
                           const nb::dict& attributes, size_t outputs, const std::string& definition) const {
    HostArguments converted;
    std::deque<std::string> names;
    std::vector<const char*> texts;
    std::vector<graft_host_argument> values;
    for (const auto& [key, value] : attributes) {
      texts.push_back(names.emplace_back(nb::cast<std::string>(key)).c_str());
      values.push_back(converted.of(value));
    }
    std::vector<int32_t> made(outputs, -1);
    graft_added_node node = {.struct_size = sizeof node, .op = op.c_str(), .domain = domain.c_str(),
                             .inputs = inputs.data(), .input_count = inputs.size(), .attribute_names = texts.data(),
                             .attributes = values.data(), .attribute_count = values.size(), .outputs = made.data(),
                             .output_count = made.size(),
                             .definition = definition.empty() ? nullptr : definition.c_str()};
    done(handle()->add(handle(), &node));
    return made;
  }
  void give(const std::vector<int32_t>& values) const { done(handle()->give(handle(), values.data(), values.size())); }
  void give_list(const std::vector<int32_t>& values) const {
    done(handle()->give_list(handle(), values.data(), values.size()));
  }
  void refuse(const std::string& reason) const { done(handle()->refuse(handle(), reason.c_str())); }
  void fail(const std::string& message) const { done(handle()->fail(handle(), message.c_str())); }

 private:
  static void done(graft_status status) {
    if (status != GRAFT_OK) throw ConversionStopped("the conversion has failed, which its caller is told");
  }
  graft_conversion* handle_;
};

/// Calls the Python function, from whatever thread. What it raises is the conversion's failure.
graft_status call(graft_conversion* handle, void* context) {
  const nb::gil_scoped_acquire gil;
  const nb::handle function(static_cast<PyObject*>(context));
  graft_status status = GRAFT_OK;
  try {
    const nb::object conversion = nb::cast(Conversion(handle));
    try {
      function(conversion);
    } catch (nb::python_error& error) {
      status = handle->fail(handle, error.what());  // its own failure is the first one, if that is what was raised
    }
    nb::cast<Conversion&>(conversion).end();
  } catch (const std::exception& error) {
    status = handle->fail(handle, error.what());
  }
  return status;
}

void forget(void* context) {
  if (!Py_IsInitialized()) return;
  const nb::gil_scoped_acquire gil;
  Py_DECREF(static_cast<PyObject*>(context));
}

uint64_t add_converter(const std::string& frontend, const std::string& signature, int32_t priority,
                       const std::string& origin, nb::object function) {
  const graft_converter converter = {.struct_size = sizeof converter, .frontend = frontend.c_str(),
                                     .signature = signature.c_str(), .priority = priority, .convert = call,
                                     .context = function.release().ptr(), .destroy = forget};
  uint64_t id = 0;
  graft_error error;
  check(graft_converters_add(&converter, 1, origin.c_str(), &id, &error), error);
  return id;
}

uint64_t load_converters(const std::string& path) {
  uint64_t id = 0;
  graft_error error;
  check(graft_converters_load(path.c_str(), &id, &error), error);
  return id;
}

}  // namespace

void bind_converters(nb::module_& module) {
  nb::exception<ConversionStopped>(module, "ConversionStopped");
  nb::class_<Conversion>(module, "Conversion")
      .def_prop_ro("op", &Conversion::op)
      .def_prop_ro("name", &Conversion::name)
      .def_prop_ro("source", &Conversion::source)
      .def_prop_ro("result_count", &Conversion::result_count)
      .def("argument", &Conversion::argument)
      .def("tensor", &Conversion::tensor)
      .def("shape_tensor", &Conversion::shape_tensor)
      .def("describe", &Conversion::describe)
      .def("content", &Conversion::content)
      .def("constant", &Conversion::constant)
      .def("add", &Conversion::add)
      .def("give", &Conversion::give)
      .def("give_list", &Conversion::give_list)
      .def("refuse", &Conversion::refuse)
      .def("fail", &Conversion::fail);
  module.def("add_converter", add_converter, nb::arg("frontend"), nb::arg("signature"), nb::arg("priority"),
             nb::arg("origin"), nb::arg("function"));
  module.def("load_converters", load_converters, nb::arg("path"));
  module.def("remove_converters", graft_converters_remove, nb::arg("id"));
}

}  // namespace graft_python
