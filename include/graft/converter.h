// SPDX-License-Identifier: Apache-2.0
// Converters in C++17: graft_converter.h with exceptions in place of statuses. Nothing of Graft's is linked.
//
//   void swish(graft::NodeConversion& c) {
//     const auto x = c.tensor("self");
//     const auto inside = c.add("Mul", {x, c.scalar(static_cast<float>(c.real("beta")))});
//     c.give({c.add("Mul", {x, c.add("Sigmoid", {inside})})});
//   }
//   extern "C" GRAFT_API const graft_converter_list* graft_converters() {
//     static const graft_converter rows[] = {
//         graft::converter<swish>("example::swish(Tensor self, float beta=1.0) -> Tensor")};
//     static const graft_converter_list list = {sizeof list, GRAFT_CONVERTER_VERSION, rows, 1};
//     return &list;
//   }
//
// Whatever a converter throws is its fault and becomes an error with its message; `refuse` is no fault.
#ifndef GRAFT_CONVERTER_H
#define GRAFT_CONVERTER_H

#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "graft/graft_converter.h"

namespace graft {

/// A value of the graph that is built; by default none.
struct NodeValue {
  int32_t index = -1;
  explicit operator bool() const { return index >= 0; }
};

/// An attribute of a node that is added.
struct NodeAttribute {
  NodeAttribute(const char* called, int64_t number) : name(called) {
    value.kind = GRAFT_ARGUMENT_INTEGER, value.integer = number;
  }
  NodeAttribute(const char* called, int number) : NodeAttribute(called, int64_t{number}) {}
  NodeAttribute(const char* called, double number) : name(called) {
    value.kind = GRAFT_ARGUMENT_REAL, value.real = number;
  }
  NodeAttribute(const char* called, const char* text) : name(called) {
    value.kind = GRAFT_ARGUMENT_TEXT, value.text = text;
  }
  NodeAttribute(const char* called, const std::vector<int64_t>& numbers) : name(called) {
    value.kind = GRAFT_ARGUMENT_LIST;
    for (const int64_t number : numbers) elements.push_back(NodeAttribute("", number).value);
  }

  const char* name;
  graft_host_argument value = {};
  std::vector<graft_host_argument> elements;  ///< of a list
};

/// One node that is to be converted: what graft_conversion has, by the same names.
class NodeConversion {
 public:
  /// Ends a converter whose conversion has failed; the conversion has the reason.
  struct Stopped {
    graft_status status;
  };

  explicit NodeConversion(graft_conversion* handle) : handle_(handle) {}
  const graft_conversion& node() const { return *handle_; }

  bool has(const char* name) const {
    graft_host_argument given = {};
    check(handle_->argument(handle_, name, &given));
    return given.kind != GRAFT_ARGUMENT_NONE;
  }
  NodeValue tensor(const char* name) const { return ask<NodeValue, int32_t>(handle_->tensor, name); }
  NodeValue shape_tensor(const char* name) const { return ask<NodeValue, int32_t>(handle_->shape_tensor, name); }
  int64_t integer(const char* name) const { return ask<int64_t, int64_t>(handle_->integer, name); }
  double real(const char* name) const { return ask<double, double>(handle_->real, name); }
  bool flag(const char* name) const { return ask<int32_t, int32_t>(handle_->flag, name) != 0; }
  int32_t type(const char* name) const { return ask<int32_t, int32_t>(handle_->type, name); }
  std::string text(const char* name) const { return ask<const char*, const char*>(handle_->text, name); }
  std::vector<int64_t> integers(const char* name, size_t wanted = 0) const {
    const int64_t* first = nullptr;
    size_t count = 0;
    check(handle_->integers(handle_, name, wanted, &first, &count));
    return {first, first + count};
  }
  std::vector<NodeValue> tensors(const char* name) const {
    const int32_t* first = nullptr;
    size_t count = 0;
    check(handle_->tensors(handle_, name, &first, &count));
    std::vector<NodeValue> values;
    for (size_t i = 0; i < count; ++i) values.push_back({first[i]});
    return values;
  }
  /// Type, rank and sizes.
  const graft_value_info& describe(NodeValue value) const {
    const graft_value_info* info = nullptr;
    check(handle_->describe(handle_, value.index, &info));
    return *info;
  }
  /// Elements of a constant; refuses another value.
  graft_tensor content(NodeValue value) const {
    graft_tensor elements = {};
    check(handle_->content(handle_, value.index, &elements));
    return elements;
  }

  NodeValue constant(int32_t dtype, const std::vector<int64_t>& shape, const void* data) const {
    graft_tensor tensor = {};
    tensor.struct_size = sizeof tensor, tensor.dtype = dtype, tensor.rank = static_cast<int32_t>(shape.size());
    tensor.shape = shape.data(), tensor.data = const_cast<void*>(data);
    NodeValue made;
    check(handle_->constant(handle_, &tensor, &made.index));
    return made;
  }
  NodeValue scalar(float number) const { return constant(GRAFT_FLOAT32, {}, &number); }
  NodeValue integers_constant(const std::vector<int64_t>& numbers) const {
    return constant(GRAFT_INT64, {static_cast<int64_t>(numbers.size())}, numbers.data());
  }
  /// A node of one result. `definition`: the text of an operator of one's own, called `domain::op`.
  NodeValue add(const char* op, const std::vector<NodeValue>& inputs, const std::vector<NodeAttribute>& attributes = {},
                const char* domain = nullptr, const char* definition = nullptr) const {
    return add_several(op, inputs, 1, attributes, domain, definition)[0];
  }
  std::vector<NodeValue> add_several(const char* op, const std::vector<NodeValue>& inputs, size_t results,
                                     const std::vector<NodeAttribute>& attributes = {}, const char* domain = nullptr,
                                     const char* definition = nullptr) const {
    std::vector<const char*> names;
    std::vector<graft_host_argument> values;
    for (const NodeAttribute& each : attributes) {
      names.push_back(each.name), values.push_back(each.value);
      if (each.value.kind != GRAFT_ARGUMENT_LIST) continue;
      values.back().list = each.elements.data(), values.back().count = each.elements.size();
    }
    const std::vector<int32_t> given = indices(inputs);
    std::vector<int32_t> made(results, -1);
    graft_added_node node = {};
    node.struct_size = sizeof node, node.op = op, node.domain = domain, node.definition = definition;
    node.inputs = given.data(), node.input_count = given.size();
    node.attribute_names = names.data(), node.attributes = values.data(), node.attribute_count = values.size();
    node.outputs = made.data(), node.output_count = made.size();
    check(handle_->add(handle_, &node));
    std::vector<NodeValue> nodes;
    for (const int32_t each : made) nodes.push_back({each});
    return nodes;
  }

  void give(const std::vector<NodeValue>& results) const {
    const std::vector<int32_t> given = indices(results);
    check(handle_->give(handle_, given.data(), given.size()));
  }
  void give_list(const std::vector<NodeValue>& elements) const {
    const std::vector<int32_t> given = indices(elements);
    check(handle_->give_list(handle_, given.data(), given.size()));
  }
  [[noreturn]] void refuse(const std::string& reason) const { throw Stopped{handle_->refuse(handle_, reason.c_str())}; }

 private:
  static void check(graft_status status) {
    if (status != GRAFT_OK) throw Stopped{status};
  }
  template <class Result, class Place>
  Result ask(graft_status (*function)(graft_conversion*, const char*, Place*), const char* name) const {
    Place place = {};
    check(function(handle_, name, &place));
    return Result{place};
  }
  static std::vector<int32_t> indices(const std::vector<NodeValue>& values) {
    std::vector<int32_t> made;
    for (const NodeValue& each : values) made.push_back(each.index);
    return made;
  }

  graft_conversion* handle_;
};

/// A row for a function, `void convert(NodeConversion&)`.
template <void (*Convert)(NodeConversion&)>
graft_converter converter(const char* signature, int32_t priority = 0, const char* frontend = "aten") {
  graft_converter row = {};
  row.struct_size = sizeof row, row.frontend = frontend, row.signature = signature, row.priority = priority;
  row.convert = [](graft_conversion* handle, void*) -> graft_status {
    try {
      NodeConversion conversion(handle);
      Convert(conversion);
      return GRAFT_OK;
    } catch (const NodeConversion::Stopped& stopped) {
      return stopped.status;
    } catch (const std::exception& error) {
      return handle->fail(handle, error.what());
    } catch (...) {
      return handle->fail(handle, "it threw");
    }
  };
  return row;
}

}  // namespace graft

#endif
