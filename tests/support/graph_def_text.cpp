// SPDX-License-Identifier: Apache-2.0
#include "support/graph_def_text.h"

#include <sstream>

#include "import/tensorflow/element_types.h"

namespace graft::test {
namespace {

using graft_tensorflow::AttrValue;
using graft_tensorflow::GraphDef;
using graft_tensorflow::NodeDef;
using tensorflow::element_type_named;
using tensorflow::number_of;

/// `T=float`, `padding=SAME`, `strides=1,2,2,1`, `n=3`, `keep_dims=true`, `shape=?,8,8,3`, `f=@body`.
void read_attribute(NodeDef& node, const std::string& word) {
  const size_t equals = word.find('=');
  const std::string key = word.substr(0, equals), text = word.substr(equals + 1);
  AttrValue& value = attribute(node, key);
  const bool numbers = text.find_first_not_of("-0123456789,?") == std::string::npos;
  if (const auto type = element_type_named(text)) {
    value.set_type(number_of(*type));
  } else if (text == "true" || text == "false") {
    value.set_b(text == "true");
  } else if (text.starts_with('@')) {
    value.mutable_func()->set_name(text.substr(1));
  } else if (key == "shape" && numbers) {
    value.mutable_shape();
    std::istringstream sizes(text);
    for (std::string size; std::getline(sizes, size, ',');) {
      value.mutable_shape()->add_dim()->set_size(size == "?" ? -1 : std::stoll(size));
    }
  } else if (numbers && text.find(',') != std::string::npos) {
    std::istringstream elements(text);
    for (std::string element; std::getline(elements, element, ',');) value.mutable_list()->add_i(std::stoll(element));
  } else if (numbers) {
    value.set_i(std::stoll(text));
  } else {
    value.set_s(text);
  }
}

}  // namespace

AttrValue& attribute(NodeDef& node, const std::string& key) {
  auto& entry = *node.add_attr();
  entry.set_key(key);
  return *entry.mutable_value();
}

GraphDef graph_of(const std::string& text) {
  GraphDef graph;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    NodeDef node;
    words >> *node.mutable_name() >> *node.mutable_op();
    if (node.name().empty()) continue;
    bool inputs = true;
    for (std::string word; words >> word;) {
      if (word == ":") {
        inputs = false;
      } else if (inputs) {
        node.add_input(word);
      } else {
        read_attribute(node, word);
      }
    }
    *graph.add_node() = node;
  }
  graph.mutable_versions()->set_producer(1882);
  return graph;
}

void add_weights(GraphDef& graph, const std::string& name, const std::vector<int64_t>& shape) {
  NodeDef& node = *graph.add_node();
  node.set_name(name), node.set_op("Const");
  attribute(node, "dtype").set_type(1);
  auto& tensor = *attribute(node, "value").mutable_tensor();
  tensor.set_dtype(1);
  size_t count = 1;
  for (const int64_t size : shape) {
    tensor.mutable_tensor_shape()->add_dim()->set_size(size);
    count *= static_cast<size_t>(size);
  }
  std::vector<float> elements(count);
  for (size_t i = 0; i < count; ++i) elements[i] = 0.25F * static_cast<float>(i % 7) - 0.5F;
  tensor.set_tensor_content(std::string(reinterpret_cast<const char*>(elements.data()), count * sizeof(float)));
}

}  // namespace graft::test
