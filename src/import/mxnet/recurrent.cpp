// SPDX-License-Identifier: Apache-2.0
// Recurrent layers: MXNet has all layers in one operator, and all their weights in one vector.
#include <fmt/format.h>

#include "import/mxnet/attributes.h"
#include "import/mxnet/rows.h"

namespace graft::mxnet {
namespace {

using frontend::Conversion;

/// A kind of cell: its operator, and where its gates stand in MXNet's order, in the order of ONNX.
struct Cell {
  std::string_view op;
  std::vector<int64_t> gates;
  std::string activation = {};
};

Cell cell_of(const Conversion& c) {
  const std::string mode = word(c, "mode");
  if (mode == "lstm") return {"LSTM", {0, 3, 1, 2}};  // i f c o -> i o f c
  if (mode == "gru") return {"GRU", {1, 0, 2}};       // r z n -> z r n
  if (mode == "rnn_tanh") return {"RNN", {0}, "Tanh"};
  if (mode == "rnn_relu") return {"RNN", {0}, "Relu"};
  c.refuse(fmt::format("the mode '{}'", mode));
}

/// One node's layers.
class Layers {
 public:
  explicit Layers(Conversion& c)
      : c_(c), cell_(cell_of(c)), size_(integer(c, "state_size")), layers_(integer(c, "num_layers")),
        directions_(flag(c, "bidirectional") ? 2 : 1), parameters_(c.tensor("parameters")), output_(c.tensor("data")) {
    constexpr int64_t kMost = 1 << 20;
    if (size_ < 1 || size_ > kMost || layers_ < 1 || layers_ > 1024) c.refuse("a number of layers or states of no use");
    if (c.rank_of(output_) != 3) c.refuse("data that is no (length, batch, channels)");
    const auto channels = c.size_of(output_, 2).as_constant();
    if (!channels) c.refuse("a number of channels that is known only while running");
    channels_ = *channels;
    for (int64_t layer = 0; layer < layers_; ++layer) {
      const int64_t row = c.sum(inputs_of(layer), size_);
      bias_first_ = c.sum(bias_first_, c.product(c.product(directions_, gates()), row));
    }
  }

  void convert() {
    for (int64_t layer = 0; layer < layers_; ++layer) add_layer(layer);
    std::vector<ValueId> results = {output_};
    if (flag(c_, "state_outputs")) {
      results.push_back(joined(hidden_));
      if (cell_.op == "LSTM") results.push_back(joined(cells_));
    }
    c_.give(std::move(results));
  }

 private:
  int64_t gates() const { return static_cast<int64_t>(cell_.gates.size()) * size_; }
  int64_t inputs_of(int64_t layer) const { return layer == 0 ? channels_ : directions_ * size_; }

  ValueId slice(ValueId value, int64_t begin, int64_t count) {
    return c_.add("Slice", {value, c_.integers_constant({begin}), c_.integers_constant({c_.sum(begin, count)}),
                            c_.integers_constant({0})});
  }

  /// The next `rows` x `columns` of the vector, its gates in the order of ONNX.
  ValueId matrix(int64_t& position, int64_t columns) {
    const int64_t count = c_.product(gates(), columns);
    const ValueId part = slice(parameters_, position, count);
    position = c_.sum(position, count);
    return by_gates(c_.add("Reshape", {part, c_.integers_constant({gates(), columns})}));
  }

  ValueId by_gates(ValueId value) {
    if (cell_.gates.size() == 1) return value;
    std::vector<ValueId> parts;
    for (const int64_t gate : cell_.gates) parts.push_back(slice(value, gate * size_, size_));
    return c_.add("Concat", parts, {{"axis", int64_t{0}}});
  }

  ValueId joined(const std::vector<ValueId>& parts) {
    return parts.size() == 1 ? parts[0] : c_.add("Concat", parts, {{"axis", int64_t{0}}});
  }

  ValueId stacked(std::vector<ValueId> parts) {
    for (ValueId& each : parts) each = c_.add("Unsqueeze", {each, c_.integers_constant({0})});
    return joined(parts);
  }

  void add_layer(int64_t layer) {
    std::vector<ValueId> input, recurrent, bias;
    for (int64_t direction = 0; direction < directions_; ++direction) {
      input.push_back(matrix(weight_, inputs_of(layer)));
      recurrent.push_back(matrix(weight_, size_));
      const int64_t first = bias_first_ + 2 * gates() * (layer * directions_ + direction);
      bias.push_back(joined({by_gates(slice(parameters_, first, gates())),
                             by_gates(slice(parameters_, first + gates(), gates()))}));
    }
    const auto state = [&](std::string_view name) {
      return slice(c_.tensor(name), layer * directions_, directions_);
    };
    std::vector<ValueId> inputs = {output_,       stacked(input), stacked(recurrent),
                                   stacked(bias), kNoValue,       state("state")};
    Attributes attributes = {{"hidden_size", size_},
                             {"direction", std::string(directions_ == 2 ? "bidirectional" : "forward")}};
    if (cell_.op == "LSTM") inputs.push_back(state("state_cell"));
    if (cell_.op == "GRU") attributes["linear_before_reset"] = int64_t{1};
    if (!cell_.activation.empty()) {
      attributes["activations"] = std::vector<std::string>(static_cast<size_t>(directions_), cell_.activation);
    }
    const std::vector<ValueId> made = c_.add_several(cell_.op, inputs, attributes, cell_.op == "LSTM" ? 3 : 2);
    // (length, directions, batch, size) -> (length, batch, directions * size)
    const ValueId turned = c_.add("Transpose", {made[0]}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    output_ = c_.add("Reshape", {turned, c_.integers_constant({0, 0, directions_ * size_})});
    hidden_.push_back(made[1]);
    if (cell_.op == "LSTM") cells_.push_back(made[2]);
  }

  Conversion& c_;
  Cell cell_;
  int64_t size_, layers_, directions_, channels_ = 0;
  ValueId parameters_, output_;
  int64_t weight_ = 0;      ///< where the next weights stand
  int64_t bias_first_ = 0;  ///< where biases begin, behind the weights of all layers
  std::vector<ValueId> hidden_, cells_;
};

/// In inference nothing is dropped between layers.
void rnn(Conversion& c) {
  if (given(c, "projection_size")) c.refuse("a projection");
  if (given(c, "lstm_state_clip_min") || given(c, "lstm_state_clip_max")) c.refuse("states that are clipped");
  if (flag(c, "use_sequence_length")) c.refuse("lengths of sequences, which MXNet ignores on CPUs");
  Layers(c).convert();
}

void joined_parameters(Conversion& c) { c.give(c.add("Concat", c.inputs(), {{"axis", integer(c, "dim")}})); }

}  // namespace

std::vector<Row> recurrent_rows() {
  return {
      {"RNN", "data, parameters, state, state_cell=None, sequence_length=None, state_size, num_layers, "
       "bidirectional=False, mode, p=0, state_outputs=False, projection_size=None, lstm_state_clip_min=None, "
       "lstm_state_clip_max=None, lstm_state_clip_nan=False, use_sequence_length=False", rnn},
      {"_rnn_param_concat", "... data, num_args=0, dim=1", joined_parameters},
  };
}

}  // namespace graft::mxnet
