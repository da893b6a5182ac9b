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

/// Names of one kind that the server's sequences give and take instead of clients: of tensors that it keeps from
/// request to request (`input_name`, `output_name`), and of those that say where a request stands in its sequence
/// (`name`).
std::vector<std::string> sequence_names(const json& config, const char* list, const char* key) {
  std::vector<std::string> names;
  const auto sequences = config.find("sequence_batching");
  if (sequences == config.end() || !sequences->contains(list)) return names;
  for (const json& each : sequences->at(list)) names.push_back(each.value(key, std::string()));
  return names;
}

std::vector<std::string> sequence_inputs(const json& config) {
  std::vector<std::string> names = sequence_names(config, "state", "input_name");
  for (std::string& name : sequence_names(config, "control_input", "name")) names.push_back(std::move(name));
  return names;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

void complete_ports(json& list, const std::vector<Port>& ports, const std::vector<std::string>& without, bool batched) {
  for (const Port& port : ports) {
    if (!find_port(list, port.name) && !contains(without, port.name)) list.push_back(describe(port, batched));
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
  complete_ports(inputs, signature.inputs, sequence_inputs(config), rows > 0);
  complete_ports(outputs, signature.outputs, sequence_names(config, "state", "output_name"), rows > 0);
}

std::vector<bool> kept_outputs(const json& config, const Signature& signature) {
  std::vector<bool> kept;
  const std::vector<std::string> names = sequence_names(config, "state", "output_name");
  for (const Port& port : signature.outputs) kept.push_back(contains(names, port.name));
  for (const std::string& name : names) {
    if (std::ranges::find(signature.outputs, name, &Port::name) == signature.outputs.end()) {
      refuse("the model has no output '" + name + "' for a state");
    }
  }
  return kept;
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
  const std::vector<std::string> of_sequences = sequence_inputs(config);
  for (const Port& port : signature.inputs) {
    if (find_port(inputs, port.name) || contains(of_sequences, port.name)) continue;
    refuse("the model's input '" + port.name + "' is missing");
  }
}

}  // namespace graft::triton
