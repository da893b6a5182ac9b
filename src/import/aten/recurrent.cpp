// SPDX-License-Identifier: Apache-2.0
#include "import/aten/axes.h"
#include "import/aten/rows.h"

namespace graft::aten {
namespace {

using frontend::Conversion;
using frontend::Row;
using Build = std::function<void(Conversion&)>;

/// How torch and the graph operator order the gates of a cell.
struct Cell {
  std::string_view op;
  std::vector<int64_t> order;  ///< the operator's gates, as places among torch's
  Attributes attributes = {};
};

/// Weights of a layer: its gates, which lie behind each other on axis 0, in the operator's order, for one direction.
ValueId gates(Conversion& c, ValueId weight, const Cell& cell) {
  const auto count = std::ssize(cell.order);
  const auto rows = c.size_of(weight, 0).as_constant();
  if (!rows || *rows % count != 0) c.refuse("weights that are not of so many gates");
  std::vector<ValueId> parts;
  for (const int64_t gate : cell.order)
    parts.push_back(sliced(c, weight, 0, gate * (*rows / count), (gate + 1) * (*rows / count)));
  const ValueId all = count == 1 ? weight : c.add("Concat", std::move(parts), {{"axis", int64_t{0}}});
  return c.add("Unsqueeze", {all, c.integers_constant({0})});
}

/// One tensor for both directions.
ValueId stacked(Conversion& c, const std::vector<ValueId>& directions, int64_t axis) {
  return directions.size() == 1 ? directions[0] : c.add("Concat", directions, {{"axis", axis}});
}

/// Layers above each other; [length, batch, features].
class Layers {
 public:
  Layers(Conversion& c, const Cell& cell) : c_(c), cell_(cell) {
    if (c.flag("train") && c.real("dropout") != 0) c.refuse("dropout of a module in training mode: call eval() before");
    if (c.rank_of(c.tensor("input")) != 3) c.refuse("an input without a batch");
    directions_ = c.flag("bidirectional") ? 2 : 1;
  }

  /// The last layer's results, then the last states of each kind.
  std::vector<ValueId> run(const std::vector<ValueId>& states) {
    const bool batch_first = c_.flag("batch_first");
    ValueId x = c_.tensor("input");
    if (batch_first) x = transposed(c_, x, {1, 0, 2});
    std::vector<std::vector<ValueId>> last(states.size());
    for (int64_t layer = 0; layer < c_.integer("num_layers"); ++layer) {
      const std::vector<ValueId> made = run_layer(x, states, layer);
      // [length, directions, batch, hidden] -> [length, batch, directions * hidden]
      const ValueId moved = transposed(c_, made[0], {0, 2, 1, 3});
      x = c_.add("Reshape", {moved, c_.integers_constant({0, 0, -1})});
      for (size_t kind = 0; kind < states.size(); ++kind) last[kind].push_back(made[kind + 1]);
    }
    std::vector<ValueId> results = {batch_first ? transposed(c_, x, {1, 0, 2}) : x};
    for (const auto& layers : last) results.push_back(stacked(c_, layers, 0));
    return results;
  }

 private:
  std::vector<ValueId> run_layer(ValueId x, const std::vector<ValueId>& states, int64_t layer) {
    const std::vector<ValueId> parameters = c_.tensors("params");
    const bool biased = c_.flag("has_biases");
    const size_t each = biased ? 4 : 2;
    std::vector<ValueId> w, r, b;
    for (int64_t direction = 0; direction < directions_; ++direction) {
      const size_t first = static_cast<size_t>(layer * directions_ + direction) * each;
      if (first + each > parameters.size()) c_.refuse("parameters of fewer layers, or projections");
      w.push_back(gates(c_, parameters[first], cell_));
      r.push_back(gates(c_, parameters[first + 1], cell_));
      if (!biased) continue;
      b.push_back(c_.add("Concat", {gates(c_, parameters[first + 2], cell_), gates(c_, parameters[first + 3], cell_)},
                         {{"axis", int64_t{1}}}));
    }
    const auto hidden = c_.size_of(r[0], 2).as_constant();
    if (!hidden) c_.refuse("a size of its states known only while running");
    std::vector<ValueId> inputs = {x, stacked(c_, w, 0), stacked(c_, r, 0), biased ? stacked(c_, b, 0) : kNoValue,
                                   kNoValue};
    for (const ValueId state : states) {
      inputs.push_back(sliced(c_, state, 0, layer * directions_, (layer + 1) * directions_));
    }
    Attributes attributes = cell_.attributes;
    attributes["hidden_size"] = *hidden;
    attributes["direction"] = std::string(directions_ == 2 ? "bidirectional" : "forward");
    return c_.add_several(cell_.op, std::move(inputs), std::move(attributes), static_cast<int>(states.size()) + 1);
  }

  Conversion& c_;
  const Cell& cell_;
  int64_t directions_ = 1;
};

/// torch's gates: input, forget, cell, output.
void lstm(Conversion& c) {
  const Cell cell{.op = "LSTM", .order = {0, 3, 1, 2}};
  const std::vector<ValueId> states = c.tensors("hx");
  if (states.size() != 2) c.refuse("states other than two");
  c.give(Layers(c, cell).run(states));
}

/// torch's gates: reset, update, new; the reset gate stands behind the recurrent product.
void gru(Conversion& c) {
  const Cell cell{.op = "GRU", .order = {1, 0, 2}, .attributes = {{"linear_before_reset", int64_t{1}}}};
  c.give(Layers(c, cell).run({c.tensor("hx")}));
}

/// A cell's one step is a sequence of length one: [batch, features] and states [batch, hidden].
std::vector<ValueId> step(Conversion& c, const Cell& cell, const std::vector<ValueId>& states) {
  if (c.rank_of(c.tensor("input")) != 2) c.refuse("an input without a batch");
  const ValueId front = c.integers_constant({0});
  const auto put_in_front = [&](ValueId value) { return c.add("Unsqueeze", {value, front}); };
  const ValueId w = c.tensor("w_ih"), r = c.tensor("w_hh"), wb = c.tensor("b_ih"), rb = c.tensor("b_hh");
  if ((wb == kNoValue) != (rb == kNoValue)) c.refuse("one of two biases");
  const auto hidden = c.size_of(r, 1).as_constant();
  if (!hidden) c.refuse("a size of its states known only while running");
  const ValueId bias = wb == kNoValue ? kNoValue
                                      : c.add("Concat", {gates(c, wb, cell), gates(c, rb, cell)},
                                              {{"axis", int64_t{1}}});
  std::vector<ValueId> inputs = {put_in_front(c.tensor("input")), gates(c, w, cell), gates(c, r, cell), bias, kNoValue};
  for (const ValueId state : states) inputs.push_back(put_in_front(state));
  Attributes attributes = cell.attributes;
  attributes["hidden_size"] = *hidden;
  std::vector<ValueId> made =
      c.add_several(cell.op, std::move(inputs), std::move(attributes), static_cast<int>(states.size()) + 1);
  made.erase(made.begin());  // the sequence, which has the same elements as the first state
  for (ValueId& state : made) state = c.add("Squeeze", {state, front});
  return made;
}

void lstm_cell(Conversion& c) {
  const std::vector<ValueId> states = c.tensors("hx");
  if (states.size() != 2) c.refuse("states other than two");
  c.give(step(c, {.op = "LSTM", .order = {0, 3, 1, 2}}, states));
}

void gru_cell(Conversion& c) {
  const Cell cell{.op = "GRU", .order = {1, 0, 2}, .attributes = {{"linear_before_reset", int64_t{1}}}};
  c.give(step(c, cell, {c.tensor("hx")}));
}

Build simple_cell(const std::string& activation) {
  return [activation](Conversion& c) {
    const std::vector<std::string> activations = {activation};
    c.give(step(c, {.op = "RNN", .order = {0}, .attributes = {{"activations", activations}}}, {c.tensor("hx")}));
  };
}

Build simple(const std::string& activation) {
  return [activation](Conversion& c) {
    std::vector<std::string> activations(c.flag("bidirectional") ? 2 : 1, activation);
    const Cell cell{.op = "RNN", .order = {0}, .attributes = {{"activations", activations}}};
    c.give(Layers(c, cell).run({c.tensor("hx")}));
  };
}

}  // namespace

std::vector<Row> recurrent_rows() {
  const std::string rest = "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
                           "bool bidirectional, bool batch_first)";
  const std::string cell = " hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> ";
  return {
      {"aten::lstm_cell(Tensor input, Tensor[]" + cell + "(Tensor, Tensor)", lstm_cell},
      {"aten::gru_cell(Tensor input, Tensor" + cell + "Tensor", gru_cell},
      {"aten::rnn_tanh_cell(Tensor input, Tensor" + cell + "Tensor", simple_cell("Tanh")},
      {"aten::rnn_relu_cell(Tensor input, Tensor" + cell + "Tensor", simple_cell("Relu")},
      {"aten::lstm.input(Tensor input, Tensor[] hx, " + rest + " -> (Tensor, Tensor, Tensor)", lstm},
      {"aten::gru.input(Tensor input, Tensor hx, " + rest + " -> (Tensor, Tensor)", gru},
      {"aten::rnn_tanh.input(Tensor input, Tensor hx, " + rest + " -> (Tensor, Tensor)", simple("Tanh")},
      {"aten::rnn_relu.input(Tensor input, Tensor hx, " + rest + " -> (Tensor, Tensor)", simple("Relu")},
  };
}

}  // namespace graft::aten
