// SPDX-License-Identifier: Apache-2.0
// `_graft.HostGraph` and `_graft.HostPartition`: graft_host.h for frameworks whose graphs are Python objects.
#include "host.h"

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "array_view.h"
#include "failure.h"
#include "graft/graft_host.h"
#include "host_arguments.h"
#include "options.h"
#include "progress.h"
#include "session.h"
#include "without_gil.h"

namespace nb = nanobind;

namespace graft_python {
namespace {

/// A parameter: the array's memory, for as long as graphs and engines want it.
graft_host_constant constant_of(nb::handle array, const std::string& name, int32_t dtype) {
  auto* view = new ArrayView(array, name, dtype, false);
  return {.fetch = [](void* held, void**) -> const void* { return static_cast<ArrayView*>(held)->tensor().data; },
          .release = nullptr,
          .destroy = release_view,
          .context = view};
}

class HostPartition {
 public:
  explicit HostPartition(graft_host_partition* handle) : handle_(handle, graft_host_partition_destroy) {}

  /// (nodes, inputs, outputs, real operators, bytes that cross) of each.
  nb::list segments() const {
    nb::list list;
    for (size_t i = 0; i < graft_host_partition_segment_count(handle_.get()); ++i) {
      const graft_host_segment& segment = *graft_host_partition_segment(handle_.get(), i);
      list.append(nb::make_tuple(std::vector<int32_t>(segment.nodes, segment.nodes + segment.node_count),
                                 std::vector<int32_t>(segment.inputs, segment.inputs + segment.input_count),
                                 std::vector<int32_t>(segment.outputs, segment.outputs + segment.output_count),
                                 segment.size, segment.border_bytes));
    }
    return list;
  }
  std::vector<std::string> reasons() const {
    std::vector<std::string> list;
    while (const char* reason = graft_host_partition_reason(handle_.get(), list.size())) list.emplace_back(reason);
    return list;
  }
  std::string report() const { return graft_host_partition_report(handle_.get()); }

  Engine compile(size_t segment, const Options& options) const {
    const std::vector<graft_option> list = as_options(options);
    graft_engine* engine = nullptr;
    graft_error error;
    graft_status status = GRAFT_OK;
    {
      const WithoutGil without_gil;
      status = graft_host_partition_compile(handle_.get(), segment, list.data(), list.size(), tell_python,
                                            Py_None, &engine, &error);
    }
    check(status, error);
    return {std::shared_ptr<graft_engine>(engine, graft_engine_release)};
  }

 private:
  std::unique_ptr<graft_host_partition, void (*)(graft_host_partition*)> handle_;
};

class HostGraph {
 public:
  explicit HostGraph(const std::string& frontend) : handle_(nullptr, graft_host_graph_destroy) {
    graft_host_graph* graph = nullptr;
    graft_error error;
    check(graft_host_graph_create(frontend.c_str(), &graph, &error), error);
    handle_.reset(graph);
  }

  /// `sizes`: numbers, and names of symbols; None: unknown. `constant`: an array, row-major.
  int32_t add_value(const std::string& name, int32_t dtype, nb::handle sizes, bool is_tensor, nb::handle constant) {
    std::vector<int64_t> numbers;
    std::deque<std::string> names;
    std::vector<const char*> symbols;
    if (!sizes.is_none()) {
      for (const nb::handle size : nb::borrow<nb::object>(sizes)) {
        const bool named = nb::isinstance<nb::str>(size);
        if (named) names.push_back(nb::cast<std::string>(size));
        numbers.push_back(named ? -1 : nb::cast<int64_t>(size));
        symbols.push_back(named ? names.back().c_str() : nullptr);
      }
    }
    graft_host_constant parameter = {};
    if (!constant.is_none()) parameter = constant_of(constant, name, dtype);
    const graft_host_value value{.struct_size = sizeof value,
                                 .name = name.c_str(),
                                 .dtype = dtype,
                                 .rank = sizes.is_none() ? -1 : static_cast<int32_t>(numbers.size()),
                                 .sizes = numbers.data(),
                                 .symbols = symbols.data(),
                                 .is_tensor = is_tensor,
                                 .constant = constant.is_none() ? nullptr : &parameter};
    int32_t index = 0;
    graft_error error;
    check(graft_host_graph_add_value(handle_.get(), &value, &index, &error), error);
    return index;
  }

  void add_node(const std::string& op, const std::string& name, const std::string& scope, const std::string& source,
                const nb::list& arguments, const nb::dict& attributes, const std::vector<int32_t>& outputs,
                const std::vector<int32_t>& after, bool counts, bool replicable, const std::string& kept,
                const nb::dict& functions) {
    HostArguments converted;
    std::vector<graft_host_argument> by_position, by_name;
    std::deque<std::string> names;
    std::vector<const char*> name_texts;
    for (const nb::handle argument : arguments) by_position.push_back(converted.of(argument));
    for (const auto& [key, argument] : attributes) {
      names.push_back(nb::cast<std::string>(key));
      name_texts.push_back(names.back().c_str());
      by_name.push_back(converted.of(argument));
    }
    std::vector<const char*> body_names;
    std::vector<const graft_host_graph*> bodies;
    for (const auto& [key, function] : functions) {
      names.push_back(nb::cast<std::string>(key));
      body_names.push_back(names.back().c_str());
      bodies.push_back(nb::cast<const HostGraph&>(function).handle_.get());
    }
    const graft_host_node node{.struct_size = sizeof node,
                               .op = op.c_str(),
                               .name = name.c_str(),
                               .scope = scope.c_str(),
                               .source = source.c_str(),
                               .arguments = by_position.data(),
                               .argument_count = by_position.size(),
                               .attribute_names = name_texts.data(),
                               .attributes = by_name.data(),
                               .attribute_count = by_name.size(),
                               .outputs = outputs.data(),
                               .output_count = outputs.size(),
                               .after = after.data(),
                               .after_count = after.size(),
                               .counts = counts,
                               .replicable = replicable,
                               .kept = kept.empty() ? nullptr : kept.c_str(),
                               .body_names = body_names.data(),
                               .bodies = bodies.data(),
                               .body_count = bodies.size()};
    graft_error error;
    check(graft_host_graph_add_node(handle_.get(), &node, &error), error);
  }

  void set_range(const std::string& symbol, int64_t min, int64_t opt, int64_t max) {
    graft_error error;
    check(graft_host_graph_set_range(handle_.get(), symbol.c_str(), min, opt, max, &error), error);
  }

  void set_borders(const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs) {
    graft_error error;
    check(graft_host_graph_set_borders(handle_.get(), inputs.data(), inputs.size(), outputs.data(), outputs.size(),
                                       &error),
          error);
  }

  HostPartition partition(const Options& options) const {
    const std::vector<graft_option> list = as_options(options);
    graft_host_partition* partition = nullptr;
    graft_error error;
    check(graft_host_partition_create(handle_.get(), list.data(), list.size(), &partition, &error), error);
    return HostPartition(partition);
  }

 private:
  std::unique_ptr<graft_host_graph, void (*)(graft_host_graph*)> handle_;
};

/// (the rewritten model, how many engines it has, the report).
nb::tuple embed(const std::string& format, nb::bytes model, const std::vector<std::string>& outputs,
                const Options& options) {
  const std::vector<graft_option> list = as_options(options);
  std::vector<const char*> names;
  for (const std::string& output : outputs) names.push_back(output.c_str());
  graft_embedding* made = nullptr;
  graft_error error;
  graft_status status = GRAFT_OK;
  {
    const WithoutGil without_gil;
    status = graft_embed(format.c_str(), model.c_str(), model.size(), names.data(), names.size(), list.data(),
                         list.size(), nullptr, nullptr, &made, &error);
  }
  check(status, error);
  const std::unique_ptr<graft_embedding, void (*)(graft_embedding*)> owned(made, graft_embedding_destroy);
  size_t bytes = 0;
  const void* data = graft_embedding_bytes(made, &bytes);
  return nb::make_tuple(nb::bytes(data, bytes), graft_embedding_engine_count(made), graft_embedding_report(made));
}

}  // namespace

void bind_host(nb::module_& module) {
  nb::class_<ValueArgument>(module, "ValueArgument")
      .def(nb::init<int32_t>(), nb::arg("index"))
      .def_ro("index", &ValueArgument::index);
  nb::class_<TypeArgument>(module, "TypeArgument")
      .def(nb::init<int32_t>(), nb::arg("number"))
      .def_ro("number", &TypeArgument::number);
  nb::class_<HostPartition>(module, "HostPartition")
      .def("segments", &HostPartition::segments)
      .def("reasons", &HostPartition::reasons)
      .def("report", &HostPartition::report)
      .def("compile", &HostPartition::compile, nb::arg("segment"), nb::arg("options"));
  nb::class_<HostGraph>(module, "HostGraph")
      .def(nb::init<const std::string&>(), nb::arg("frontend"))
      .def("add_value", &HostGraph::add_value, nb::arg("name"), nb::arg("dtype"), nb::arg("sizes").none(),
           nb::arg("is_tensor"), nb::arg("constant").none())
      .def("add_node", &HostGraph::add_node, nb::arg("op"), nb::arg("name"), nb::arg("scope"), nb::arg("source"),
           nb::arg("arguments"), nb::arg("attributes"), nb::arg("outputs"), nb::arg("after"), nb::arg("counts"),
           nb::arg("replicable"), nb::arg("kept"), nb::arg("functions") = nb::dict())
      .def("set_range", &HostGraph::set_range, nb::arg("symbol"), nb::arg("min"), nb::arg("opt"), nb::arg("max"))
      .def("set_borders", &HostGraph::set_borders, nb::arg("inputs"), nb::arg("outputs"))
      .def("partition", &HostGraph::partition, nb::arg("options"));
  module.def("count_fallback", [](const std::string& what, const std::string& reason) {
    graft_host_count_fallback(what.c_str(), reason.c_str());
  });
  module.def("embed", embed, nb::arg("format"), nb::arg("model"), nb::arg("outputs"), nb::arg("options"));
  module.def("fallback_count", graft_host_fallback_count);
}

}  // namespace graft_python
