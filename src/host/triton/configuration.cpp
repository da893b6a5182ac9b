// SPDX-License-Identifier: Apache-2.0
#include "configuration.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace graft::triton {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorKind::kInvalidArgument, "config.pbtxt: " + what); }

/// A list of the configuration, empty where it has none.
json& list_of(json& config, const char* key) {
  json& list = config[key];
  if (!list.is_array()) list = json::array();
  return list;
}

const json* find_port(const json& list, const std::string& name) {
  const auto found = std::ranges::find_if(list, [&](const json& each) { return each.value("name", "") == name; });
  return found == list.end() ? nullptr : &*found;
}

/// An input or output for the configuration. A scalar is a tensor of one element there, as Triton has none.
json describe(const Port& port, bool batched) {
  json dims = json::array();
  for (size_t i = batched ? 1 : 0; i < port.axes.size(); ++i) dims.push_back(port.axes[i].size);
  if (dims.empty()) dims.push_back(1);
  return {{"name", port.name}, {"data_type", port.type->name}, {"dims", dims}};
}

void complete_ports(json& list, const std::vector<Port>& ports, bool batched) {
  for (const Port& port : ports) {
    if (!find_port(list, port.name)) list.push_back(describe(port, batched));
  }
}

bool chooses_a_scheduler(const json& config) {
  return config.contains("dynamic_batching") || config.contains("sequence_batching") ||
         config.contains("ensemble_scheduling");
}

/// The shape that a request brings, with the batch in front.
json shape_of(const json& port, bool batched) {
  const json& dims = port.contains("reshape") ? port.at("reshape").value("shape", json::array())
                                              : port.value("dims", json::array());
  json shape = json::array();
  if (batched) shape.push_back(-1);
  for (const json& size : dims) shape.push_back(size);
  return shape;
}

std::string text_of(const std::vector<Axis>& axes) {
  std::string text = "[";
  for (const Axis& axis : axes) text += (text.size() > 1 ? ", " : "") + axis.text;
  return text + "]";
}

bool fits(const json& shape, const std::vector<Axis>& axes) {
  if (axes.empty()) return shape == json::array({1});
  if (shape.size() != axes.size()) return false;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto size = shape[i].get<int64_t>();
    const Axis& axis = axes[i];
    const bool within = size == -1 || (size >= axis.min && (axis.max == 0 || size <= axis.max));
    if (axis.size == -1 ? !within : size != axis.size) return false;
  }
  return true;
}

void compare_port(const json& port, const Port& engine, const std::string& what, bool batched) {
  const std::string type = port.value("data_type", "");
  if (type != engine.type->name && !(engine.holds_strings() && type == "TYPE_BYTES")) {
    refuse(what + " has data_type " + type + ", and the model " + engine.type->name);
  }
  if (port.value("allow_ragged_batch", false)) refuse(what + " has allow_ragged_batch, which this backend does not do");
  const json shape = shape_of(port, batched);
  if (fits(shape, engine.axes)) return;
  refuse(what + " has the shape " + shape.dump() + (batched ? " (the batch first)" : "") + ", and the model " +
         text_of(engine.axes) + (batched ? "" : " and max_batch_size is 0, so that dims are all axes"));
}

void compare_ports(const json& list, const std::vector<Port>& ports, const std::string& kind, bool batched) {
  for (const json& port : list) {
    const std::string name = port.value("name", "");
    const auto found = std::ranges::find(ports, name, &Port::name);
    if (found != ports.end()) {
      compare_port(port, *found, kind + " '" + name + "'", batched);
      continue;
    }
    std::string names;
    for (const Port& each : ports) names += (names.empty() ? "" : ", ") + each.name;
    refuse("the model has no " + kind + " '" + name + "', but " + names);
  }
}

}  // namespace

void complete(json& config, const Signature& signature, int64_t default_rows) {
  json &inputs = list_of(config, "input"), &outputs = list_of(config, "output");
  int64_t rows = config.value("max_batch_size", int64_t{0});
  if (rows == 0 && inputs.empty() && outputs.empty() && signature.batches) {
    rows = signature.most_rows > 0 ? signature.most_rows : default_rows;
    config["max_batch_size"] = rows;
  }
  if (rows > 1 && !chooses_a_scheduler(config)) config["dynamic_batching"] = json::object();
  complete_ports(inputs, signature.inputs, rows > 0);
  complete_ports(outputs, signature.outputs, rows > 0);
}

void compare(const json& config, const Signature& signature) {
  const auto rows = config.value("max_batch_size", int64_t{0});
  const json none = json::array();
  const json& inputs = config.contains("input") ? config.at("input") : none;
  if (rows > 0 && !signature.batches) {
    refuse("max_batch_size is " + std::to_string(rows) + ", and the model has no batch: a dynamic dimension that is "
           "the first axis of all inputs and outputs, and starts at 1 or below; write 0");
  }
  if (signature.most_rows > 0 && rows > signature.most_rows) {
    refuse("max_batch_size is " + std::to_string(rows) + ", and the model was compiled for up to " +
           std::to_string(signature.most_rows) + ": compile it with another --dim");
  }
  compare_ports(inputs, signature.inputs, "input", rows > 0);
  compare_ports(config.contains("output") ? config.at("output") : none, signature.outputs, "output", rows > 0);
  for (const Port& port : signature.inputs) {
    if (!find_port(inputs, port.name)) refuse("the model's input '" + port.name + "' is missing");
  }
}

}  // namespace graft::triton
