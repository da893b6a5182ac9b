// SPDX-License-Identifier: Apache-2.0
// Writes random graphs piece by piece, by a seed.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/random.h"
#include "graph/evaluate_graph.h"
#include "graph/graph.h"
#include "graph/infer.h"

namespace graft {

using Sizes = std::vector<std::string>;

/// A graph under construction; its inputs whose names begin with `w` become constants.
class RandomBuilder {
 public:
  explicit RandomBuilder(uint64_t seed) : random(seed), seed_(seed) {}

  /// One of the words.
  std::string any(const std::vector<std::string>& words) {
    return words[static_cast<size_t>(random.integer(0, static_cast<int64_t>(words.size()) - 1))];
  }
  std::string number(int64_t least, int64_t most) { return std::to_string(random.integer(least, most)); }
  /// A size, or the symbol that one size of the graph may be.
  std::string size(int64_t least, int64_t most) {
    if (symbol_ || !random.chance(0.15)) return number(least, most);
    symbol_ = true;
    if (random.chance(0.5)) text_ += fmt::format("range n {} {} {}\n", least, (least + most) / 2, most);
    return "n";
  }
  /// A tensor from outside; a constant with a chance, where its sizes are known.
  std::string input(const std::string& type, const Sizes& shape) {
    const bool open = std::find(shape.begin(), shape.end(), "n") != shape.end();
    const bool fixed = !open && random.chance(0.5);
    const std::string made = fmt::format("%{}{}", fixed ? "w" : "x", ++count_);
    text_ += fmt::format("input {}: {}[{}]\n", made, type, fmt::join(shape, ", "));
    return made;
  }
  std::string constant(const std::string& type, const std::string& shape, const std::string& elements) {
    const std::string made = fmt::format("%c{}", ++count_);
    text_ += fmt::format("constant {}: {}[{}] = {{{}}}\n", made, type, shape, elements);
    return made;
  }
  std::string node(const std::string& op, const std::string& inputs, const std::string& attributes = "") {
    const std::string made = fmt::format("%v{}", ++count_);
    text_ += fmt::format("{}: ? = {} \"n{}\" ({}) {{{}}}\n", made, op, count_, inputs, attributes);
    return made;
  }
  /// A map or two, or nothing.
  std::string mapped(std::string value, const std::string& type) {
    const bool real = type[0] == 'f' || type[0] == 'b';
    while (random.chance(0.35)) {
      const std::string op = real ? any({"Relu", "Sigmoid", "Tanh", "Neg", "Abs"}) : any({"Neg", "Abs"});
      const std::string other = node(op, value);
      if (random.chance(0.4)) {
        const std::string joined = any({"Add", "Mul"});
        value = node(joined, value + ", " + other);
      } else {
        value = other;
      }
    }
    return value;
  }
  Graph finish(const std::string& result) {
    Graph graph = parse_graph("graph \"random\" {\n  opset \"\" 20\n" + text_ + "output " + result + "\n}\n");
    const TensorsByName values = random_inputs(graph, {{"n", 5}}, seed_);
    std::vector<ValueId> inputs;
    for (const ValueId id : graph.inputs) {
      Value& value = graph.value(id);
      if (value.name.starts_with("w")) {
        value.constant = values.at(value.name);
      } else {
        inputs.push_back(id);
      }
    }
    graph.inputs = inputs;
    return graph;
  }

  Random random;

 private:
  uint64_t seed_;
  std::string text_;
  bool symbol_ = false;
  int count_ = 0;
};

}  // namespace graft
