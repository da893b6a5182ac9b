// SPDX-License-Identifier: Apache-2.0
#include "support/sample_case.h"

#include <ostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/random.h"

namespace graft {
namespace {

uint64_t seed_of(const std::string& text) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

TensorData draw(const SampleInput& input, Random& random) {
  if (input.absent) return {};
  if (input.data) return *input.data;
  TensorData data = TensorData::zeros(input.type, input.shape);
  for (int64_t i = 0; i < data.element_count(); ++i) {
    if (is_float(input.type)) {
      data.write_double(i, random.uniform(input.low, input.high));
    } else {
      data.write_integer(i, random.integer(static_cast<int64_t>(input.low), static_cast<int64_t>(input.high)));
    }
  }
  return data;
}

std::string hexadecimal(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", std::to_integer<int>(b));
  return text;
}

nlohmann::json tensor_to_json(const TensorData& tensor) {
  return {{"type", onnx_code(tensor.type())}, {"shape", tensor.shape()}, {"bytes", hexadecimal(tensor.bytes())}};
}

nlohmann::json attribute_to_json(const Attribute& attribute) {
  return std::visit(
      [](const auto& value) -> nlohmann::json {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, TensorData>) {
          return {{"tensor", tensor_to_json(value)}};
        } else if constexpr (std::is_same_v<T, std::monostate> || std::is_same_v<T, std::shared_ptr<const Graph>>) {
          return nullptr;
        } else {
          return value;
        }
      },
      attribute);
}

Shape shape_of(const SampleCase& c, size_t input, Openness openness) {
  const TensorData& data = c.inputs[input];
  const bool list = is_integer(data.type()) && data.rank() <= 1;
  Shape shape;
  for (int axis = 0; axis < data.rank(); ++axis) {
    const int64_t size = data.shape()[axis];
    const bool open = openness == Openness::kSizes && size > 1 && !list;
    shape.push_back(open ? Size::symbol(fmt::format("size_{}_{}", input, axis)) : Size(size));
  }
  return shape;
}

}  // namespace

std::vector<SampleCase> all_sample_cases() {
  std::vector<SampleCase> cases;
  for (const OpDef& op : all_ops()) {
    for (Sample& sample : op.samples()) {
      SampleCase c{&op, std::move(sample), {}};
      Random random(seed_of(c.name()));
      for (const SampleInput& input : c.sample.inputs) c.inputs.push_back(draw(input, random));
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

void PrintTo(const SampleCase& c, std::ostream* stream) { *stream << c.name(); }

Graph make_graph(const SampleCase& c, Openness openness) {
  Graph graph;
  graph.name = c.name();
  graph.opsets[""] = kOpset;
  Node node{.name = "sample", .domain = std::string(c.op->domain), .op = std::string(c.op->name),
            .attributes = c.sample.attributes, .inputs = {}, .outputs = {}};
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const std::string name = fmt::format("input_{}", i);
    if (!c.inputs[i]) {
      node.inputs.push_back(kNoValue);
    } else if (openness == Openness::kNothing || c.sample.inputs[i].constant) {
      node.inputs.push_back(graph.add_constant(name, c.inputs[i]));
    } else {
      graph.inputs.push_back(graph.add_value(name, c.inputs[i].type(), shape_of(c, i, openness)));
      node.inputs.push_back(graph.inputs.back());
    }
  }
  for (int i = 0; i < c.sample.outputs; ++i) {
    graph.outputs.push_back(graph.add_value(fmt::format("output_{}", i), DType::kUndefined));
    node.outputs.push_back(graph.outputs.back());
  }
  graph.add_node(std::move(node));
  return graph;
}

nlohmann::json to_json(const SampleCase& c) {
  nlohmann::json inputs = nlohmann::json::array(), attributes = nlohmann::json::object();
  for (const TensorData& input : c.inputs) inputs.push_back(input ? tensor_to_json(input) : nlohmann::json());
  for (const auto& [name, value] : c.sample.attributes) attributes[name] = attribute_to_json(value);
  return {{"name", c.name()},       {"domain", c.op->domain},     {"op", c.op->name}, {"since", c.op->since},
          {"inputs", inputs},       {"attributes", attributes},   {"outputs", c.sample.outputs}};
}

TensorData tensor_from_json(const nlohmann::json& text) {
  const std::string hex = text.at("bytes");
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return TensorData::from_bytes(dtype_from_onnx(text.at("type")).value(), text.at("shape"), bytes);
}

}  // namespace graft
