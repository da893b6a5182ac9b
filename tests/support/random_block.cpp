// SPDX-License-Identifier: Apache-2.0
#include "support/random_block.h"

#include <fmt/format.h>

#include "base/random.h"
#include "graph/evaluate_graph.h"
#include "graph/infer.h"

namespace graft {
namespace {

/// The graph of these statements, its inputs whose names begin with `w` made constants.
Graph with_weights(const std::string& statements, uint64_t seed) {
  Graph graph = parse_graph("graph \"block\" {\n  opset \"\" 20\n" + statements + "}\n");
  TensorsByName values = random_inputs(graph, seed);
  std::vector<ValueId> inputs;
  for (const ValueId id : graph.inputs) {
    if (graph.value(id).name.starts_with("w")) {
      graph.value(id).constant = values.at(graph.value(id).name);
    } else {
      inputs.push_back(id);
    }
  }
  graph.inputs = inputs;
  return graph;
}

class ImageBlock {
 public:
  explicit ImageBlock(uint64_t seed) : random_(seed), seed_(seed) {
    batch_ = random_.chance(0.5) ? "1" : random_.chance(0.5) ? "2" : "n";
    if (batch_ == "n") text_ += "range n 1 3 8\n";
    channels_ = random_.integer(1, 3) * 8 + (random_.chance(0.2) ? 3 : 0);
    size_ = random_.integer(6, 12);
    text_ += fmt::format("input %x: f32[{}, {}, {}, {}]\n", batch_, channels_, size_, size_);
  }

  Graph make() {
    for (int piece = 0; piece < 5; ++piece) add_piece();
    return with_weights(text_ + fmt::format("output {}\n", value_), seed_);
  }

 private:
  std::string node(const std::string& op, const std::string& inputs, const std::string& attributes = "") {
    const std::string made = fmt::format("%v{}", ++count_);
    text_ += fmt::format("{}: ? = {} \"n{}\" ({}) {}\n", made, op, count_, inputs, attributes);
    return made;
  }
  std::string weight(const std::string& shape) {
    const std::string made = fmt::format("%w{}", ++count_);
    text_ += fmt::format("input {}: f32[{}]\n", made, shape);
    return made;
  }
  std::string scalar(double value) {
    const std::string made = fmt::format("%c{}", ++count_);
    text_ += fmt::format("constant {}: f32[] = {{{}}}\n", made, value);
    return made;
  }

  void add_piece() {
    switch (random_.integer(0, 5)) {
      case 0:
        convolve(random_.integer(1, 3) * 8, 1, 1, false);
        break;
      case 1:
        convolve(channels_, random_.chance(0.5) ? 3 : 5, random_.chance(0.3) ? 2 : 1, true);
        break;
      case 2:
        convolve(random_.integer(1, 3) * 8, 3, 1, false);
        break;
      case 3:
        value_ = node("MaxPool", value_, "{kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [1, 1]}");
        break;
      case 4:
        gate();
        break;
      default:
        mix_channels();
    }
    activate();
  }

  void convolve(int64_t outputs, int64_t kernel, int64_t stride, bool depthwise) {
    const std::string before = value_;
    const int64_t pad = kernel / 2, size = (size_ - 1) / stride + 1;
    const std::string w = weight(fmt::format("{}, {}, {}, {}", outputs, depthwise ? 1 : channels_, kernel, kernel));
    value_ = node("Conv", fmt::format("{}, {}, {}", value_, w, weight(fmt::format("{}", outputs))),
                  fmt::format("{{group = {}, pads = [{}, {}, {}, {}], strides = [{}, {}]}}", depthwise ? channels_ : 1,
                              pad, pad, pad, pad, stride, stride));
    const bool fits = outputs == channels_ && size == size_;
    channels_ = outputs, size_ = size;
    if (fits && random_.chance(0.4)) value_ = node("Add", before + ", " + value_);
  }

  void activate() {
    switch (random_.integer(0, 4)) {
      case 0:
        value_ = node("Mul", value_ + ", " + node("Sigmoid", value_));
        break;
      case 1:
        value_ = node("Mul", value_ + ", " + node("HardSigmoid", value_));
        break;
      case 2: {
        const std::string error = node("Erf", node("Div", value_ + ", " + scalar(1.4142135)));
        const std::string half = node("Mul", value_ + ", " + scalar(0.5));
        value_ = node("Mul", half + ", " + node("Add", error + ", " + scalar(1)));
        break;
      }
      case 3:
        value_ = node("Relu", value_);
        break;
      default:
        break;
    }
  }

  void gate() {
    const std::string average = node("GlobalAveragePool", value_);
    const std::string w = weight(fmt::format("{}, {}, 1, 1", channels_, channels_));
    value_ = node("Mul", value_ + ", " + node("Sigmoid", node("Conv", average + ", " + w)));
  }

  /// A normalisation and products over channels, with the channels last.
  void mix_channels() {
    const std::string before = value_, one = fmt::format("{}", channels_);
    std::string rows = node("Transpose", value_, "{perm = [0, 2, 3, 1]}");
    if (random_.chance(0.7)) rows = node("LayerNormalization", rows + ", " + weight(one) + ", " + weight(one));
    rows = node("MatMul", rows + ", " + weight(fmt::format("{}, 24", channels_)));
    rows = node("Add", rows + ", " + weight("24"));
    rows = node("Mul", rows + ", " + node("Tanh", rows));
    rows = node("MatMul", rows + ", " + weight(fmt::format("24, {}", channels_)));
    value_ = node("Transpose", rows, "{perm = [0, 3, 1, 2]}");
    if (random_.chance(0.6)) value_ = node("Add", before + ", " + value_);
  }

  Random random_;
  uint64_t seed_;
  std::string text_, value_ = "%x", batch_;
  int64_t channels_ = 0, size_ = 0;
  int count_ = 0;
};

}  // namespace

Graph random_image_block(uint64_t seed) { return ImageBlock(seed).make(); }

Graph random_attention(uint64_t seed) {
  Random random(seed);
  const int64_t images = random.integer(1, 2), windows = random.integer(1, 3), heads = random.integer(1, 3);
  const int64_t batch = images * windows, queries = random.integer(3, 70), keys = random.integer(3, 140);
  const int64_t depth = 8 * random.integer(1, 5), width = 8 * random.integer(1, 5);
  const auto either = [&](int64_t extent) { return random.chance(0.5) ? extent : int64_t{1}; };
  std::string text = fmt::format(
      "input %q: f32[{0}, {1}, {2}, {4}]\n"
      "input %k: f32[{0}, {1}, {3}, {4}]\n"
      "input %v: f32[{0}, {1}, {3}, {5}]\n",
      batch, heads, queries, keys, depth, width);
  text += "%t: ? = Transpose \"t\" (%k) {perm = [0, 1, 3, 2]}\n%s0: ? = MatMul \"s\" (%q, %t)\n";
  int last = 0;
  const auto add = [&](const std::string& op, const std::string& inputs) {
    text += fmt::format("%s{}: ? = {} \"s{}\" (%s{}{})\n", last + 1, op, last + 1, last, inputs);
    ++last;
  };
  if (random.chance(0.5)) {
    text += fmt::format("input %factor: f32[{}, {}, {}, 1]\n", either(batch), either(heads), either(queries));
    add("Mul", ", %factor");
  }
  if (random.chance(0.7)) {
    text += fmt::format("input %bias: f32[{}, {}, {}]\n", either(heads), either(queries), keys);
    add("Add", ", %bias");
  }
  if (random.chance(0.5)) {
    text += fmt::format("input %mask: f32[1, {}, {}, {}, {}]\n", windows, either(heads), either(queries), keys);
    text += fmt::format("constant %apart: i64[5] = {{{}, {}, {}, {}, {}}}\n", images, windows, heads, queries, keys);
    text += fmt::format("constant %whole: i64[4] = {{{}, {}, {}, {}}}\n", batch, heads, queries, keys);
    add("Reshape", ", %apart");
    add("Add", ", %mask");
    add("Reshape", ", %whole");
  }
  add("Softmax", "");
  add("MatMul", ", %v");
  if (random.chance(0.6)) {
    text += fmt::format("%turned: ? = Transpose \"turned\" (%s{}) {{perm = [0, 2, 1, 3]}}\noutput %turned\n", last);
  } else {
    text += fmt::format("output %s{}\n", last);
  }
  return with_weights(text, seed);
}

}  // namespace graft
