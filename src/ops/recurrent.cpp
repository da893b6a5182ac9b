// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM: the input's part of all gates is one contraction, the state's part one for each step.
#include <cmath>

#include "ops/samples.h"
#include "ops/unrolled.h"

namespace graft {
namespace {

using namespace samples;

/// A gate's function by its name in the standard, with the standard's parameters unless the node gives others.
struct Activation {
  std::string name;
  double alpha = 0, beta = 0;

  Expr operator()(const Expr& x) const {
    const auto c = [&](double value) { return make_constant(x->type, value); };
    if (name == "Sigmoid") return c(1) / (c(1) + exp(-x));
    if (name == "Tanh") return tanh(x);
    if (name == "Relu") return max(x, c(0));
    if (name == "Affine") return c(alpha) * x + c(beta);
    if (name == "LeakyRelu") return select(lt(x, c(0)), c(alpha) * x, x);
    if (name == "ThresholdedRelu") return select(ge(x, c(alpha)), x, c(0));
    if (name == "ScaledTanh") return c(alpha) * tanh(c(beta) * x);
    if (name == "HardSigmoid") return min(max(c(alpha) * x + c(beta), c(0)), c(1));
    if (name == "Elu") return select(lt(x, c(0)), c(alpha) * expm1(x), x);
    if (name == "Softsign") return x / (c(1) + abs(x));
    return max(x, c(0)) + log1p(exp(-abs(x)));  // Softplus
  }
};

struct ActivationRow {
  std::string_view name;
  double alpha, beta;
  int parameters;
};
constexpr ActivationRow kActivations[] = {{"Sigmoid", 0, 0, 0},      {"Tanh", 0, 0, 0},
                                          {"Relu", 0, 0, 0},         {"Affine", 1, 0, 2},
                                          {"LeakyRelu", 0.01, 0, 1}, {"ThresholdedRelu", 1, 0, 1},
                                          {"ScaledTanh", 1, 1, 2},   {"HardSigmoid", 0.2, 0.5, 2},
                                          {"Elu", 1, 0, 1},          {"Softsign", 0, 0, 0},
                                          {"Softplus", 0, 0, 0}};

/// The functions of all directions; alpha and beta are taken in order by those that have such parameters.
std::vector<Activation> read_activations(Definition& d, std::vector<std::string> names, int directions) {
  std::vector<std::string> chosen;
  for (int i = 0; i < directions; ++i) chosen.insert(chosen.end(), names.begin(), names.end());
  const auto given = d.node().attributes.find("activations");
  if (given != d.node().attributes.end()) {
    const auto* list = std::get_if<std::vector<std::string>>(&given->second);
    if (!list || list->size() != chosen.size()) d.reject("its activations should be one per gate and direction");
    chosen = *list;
  }
  const std::vector<double> alphas = d.has("activation_alpha") ? d.reals("activation_alpha") : std::vector<double>{};
  const std::vector<double> betas = d.has("activation_beta") ? d.reals("activation_beta") : std::vector<double>{};
  size_t next_alpha = 0, next_beta = 0;
  std::vector<Activation> result;
  for (const std::string& name : chosen) {
    const ActivationRow* row = nullptr;
    for (const ActivationRow& r : kActivations) row = r.name == name ? &r : row;
    if (!row) d.reject("its activation " + name + " is not one of the standard's");
    Activation a{name, row->alpha, row->beta};
    if (row->parameters > 0 && next_alpha < alphas.size()) a.alpha = alphas[next_alpha++];
    if (row->parameters > 1 && next_beta < betas.size()) a.beta = betas[next_beta++];
    result.push_back(std::move(a));
  }
  return result;
}

/// What a cell has besides the recurrence that all three share.
struct Cell {
  int gates;
  std::vector<std::string> activations;
};

/// The recurrence of one node. Positions of a sequence's padding keep the state and give zeros.
class Recurrence {
 public:
  Recurrence(Definition& d, const Cell& cell) : d_(d), cell_(cell), x_(d.in(0)), w_(d.in(1)), r_(d.in(2)) {
    if (x_.rank() != 3 || w_.rank() != 3 || r_.rank() != 3) d.reject("its inputs X, W and R should have three axes");
    batch_first_ = d.integer("layout") != 0;
    batch_ = x_.size(batch_first_ ? 0 : 1);
    steps_ = unrolled_steps(d, x_.size(batch_first_ ? 1 : 0));
    hidden_ = r_.size(2);
    type_ = compute_type(x_.type());
    const std::string direction = d.text("direction");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
      d.reject("its direction is " + direction);
    }
    directions_ = direction == "bidirectional" ? 2 : 1;
    reverse_ = direction == "reverse";
    d.require_equal(w_.size(0), Size(directions_), "W has another number of directions");
    d.require_equal(w_.size(1), hidden_ * Size(cell.gates), "W has another number of gates");
    d.require_equal(w_.size(2), x_.size(2), "W does not fit the input's size");
    d.require_equal(r_.size(1), hidden_ * Size(cell.gates), "R has another number of gates");
    activations_ = read_activations(d, cell.activations, directions_);
  }

  /// One step's new states (the first is the one that Y shows) from the old ones, for one direction.
  using Step = std::function<std::vector<Tensor>(int direction, int64_t t, const std::vector<Tensor>& states)>;

  /// Runs all directions and states the outputs; `initial` are the inputs that start the states.
  void run(const std::vector<int>& initial, const Step& step) {
    std::vector<std::vector<Tensor>> shown(directions_), last(directions_);
    for (int direction = 0; direction < directions_; ++direction) {
      project(direction);
      std::vector<Tensor> states;
      for (const int input : initial) states.push_back(initial_state(input, direction));
      shown[direction].resize(steps_);
      const bool backwards = reverse_ || direction == 1;
      for (int64_t s = 0; s < steps_; ++s) {
        const int64_t t = backwards ? steps_ - 1 - s : s;
        states = step(direction, t, states);
        shown[direction][t] = states[0];
      }
      last[direction] = states;
    }
    output_sequence(shown);
    for (size_t k = 0; k < initial.size(); ++k) output_state(static_cast<int>(k) + 1, last, k);
  }

  Expr clipped(const Expr& x) const {
    if (!d_.has("clip")) return x;
    const Expr bound = make_constant(type_, d_.real("clip"));
    return min(max(x, -bound), bound);
  }
  /// The input's and the biases' part of gate `gate` at step t.
  Expr input_part(int64_t t, const Indices& i, int gate) const {
    return projection_({make_index(t), i[0], at(i, gate)});
  }
  /// The state's part of some gates: state x R^T, as [batch, count * hidden]; `lift` reads the state.
  Tensor state_part(int direction, int first, int count, const std::function<Expr(const Indices&)>& state) {
    return d_.reduce("state_part", Intrinsic::kAdd, {batch_, hidden_ * Size(count)}, {hidden_},
                     [&](const Indices& i, const Indices& k) {
                       const Expr row = i[1] + make_size(hidden_ * Size(first));
                       return state({i[0], k[0]}) * r_.wide({make_index(direction), row, k[0]});
                     });
  }
  /// Half 0 (of W) or 1 (of R) of the bias of a gate; zero when there is none.
  Expr bias(int direction, int half, const Indices& i, int gate) {
    if (!d_.has_input(3)) return make_constant(type_, 0);
    return d_.in(3).wide({make_index(direction), at(i, gate + half * cell_.gates)});
  }
  Expr at(const Indices& i, int gate) const { return i[1] + make_size(hidden_ * Size(gate)); }
  Tensor state(std::string_view name, int64_t t, const Tensor& before, const std::function<Expr(const Indices&)>& f) {
    return d_.compute(name, type_, {batch_, hidden_}, [&](const Indices& i) {
      if (!d_.has_input(4)) return f(i);
      return select(lt(make_index(t), make_cast(DType::kInt64, d_.in(4)({i[0]}))), f(i), before(i));
    });
  }
  Tensor gate(std::string_view name, const std::function<Expr(const Indices&)>& f) {
    return d_.compute(name, type_, {batch_, hidden_}, f);
  }
  const Activation& activation(int direction, int which) const {
    return activations_[direction * cell_.activations.size() + which];
  }
  Definition& d() { return d_; }
  /// The W half of the bias goes with the input; a cell that wants the R half apart says so.
  void keep_last_state_bias_apart() { last_bias_apart_ = true; }

 private:
  void project(int direction) {
    const Tensor product =
        d_.reduce("input_part", Intrinsic::kAdd, {Size(steps_), batch_, w_.size(1)}, {x_.size(2)},
                  [&](const Indices& i, const Indices& e) {
                    const Expr x = batch_first_ ? x_.wide({i[1], i[0], e[0]}) : x_.wide({i[0], i[1], e[0]});
                    return x * w_.wide({make_index(direction), i[2], e[0]});
                  });
    projection_ = product;
    if (!d_.has_input(3)) return;
    const Tensor bias = d_.in(3);
    const Expr apart = make_size(hidden_ * Size(cell_.gates - 1));
    projection_ = d_.compute("biased_part", type_, Shape(product.shape()), [&](const Indices& i) {
      const Expr own = bias.wide({make_index(direction), i[2]});
      const Expr other = bias.wide({make_index(direction), i[2] + make_size(w_.size(1))});
      const Expr both = last_bias_apart_ ? own + select(lt(i[2], apart), other, make_constant(type_, 0)) : own + other;
      return product(i) + both;
    });
  }

  Tensor initial_state(int input, int direction) {
    return d_.compute("initial", type_, {batch_, hidden_}, [&](const Indices& i) {
      if (!d_.has_input(input)) return make_constant(type_, 0);
      const Expr n = make_index(direction);
      return batch_first_ ? d_.in(input).wide({i[0], n, i[1]}) : d_.in(input).wide({n, i[0], i[1]});
    });
  }

  void output_sequence(const std::vector<std::vector<Tensor>>& shown) {
    if (!d_.wants_output(0)) return;
    const Size steps(steps_), directions(directions_);
    const Shape shape =
        batch_first_ ? Shape{batch_, steps, directions, hidden_} : Shape{steps, directions, batch_, hidden_};
    d_.out(0, d_.compute("y", x_.type(), shape, [&](const Indices& i) {
      const Expr t = batch_first_ ? i[1] : i[0], n = batch_first_ ? i[2] : i[1], b = batch_first_ ? i[0] : i[2];
      Expr value = element_at_step(shown[0], t, {b, i[3]});
      if (directions_ == 2) value = select(eq(n, make_index(0)), value, element_at_step(shown[1], t, {b, i[3]}));
      if (!d_.has_input(4)) return value;
      return select(lt(t, make_cast(DType::kInt64, d_.in(4)({b}))), value, make_constant(type_, 0));
    }));
  }

  void output_state(int output, const std::vector<std::vector<Tensor>>& last, size_t k) {
    if (!d_.wants_output(output)) return;
    const Size directions(directions_);
    const Shape shape = batch_first_ ? Shape{batch_, directions, hidden_} : Shape{directions, batch_, hidden_};
    d_.out(output, d_.compute("y_last", x_.type(), shape, [&](const Indices& i) {
      const Expr n = batch_first_ ? i[1] : i[0], b = batch_first_ ? i[0] : i[1];
      const Expr first = last[0][k]({b, i[2]});
      return directions_ == 1 ? first : select(eq(n, make_index(0)), first, last[1][k]({b, i[2]}));
    }));
  }

  Definition& d_;
  Cell cell_;
  Tensor x_, w_, r_, projection_;
  bool batch_first_ = false, reverse_ = false, last_bias_apart_ = false;
  Size batch_, hidden_;
  int64_t steps_ = 0;
  int directions_ = 1;
  DType type_ = DType::kFloat32;
  std::vector<Activation> activations_;
};

using States = std::vector<Tensor>;

/// H = f(X W^T + H R^T + biases).
void define_rnn(Definition& d) {
  Recurrence r(d, {1, {"Tanh"}});
  r.run({5}, [&](int direction, int64_t t, const States& states) {
    const Tensor part = r.state_part(direction, 0, 1, states[0]);
    return States{r.state("h", t, states[0], [&](const Indices& i) {
      return r.activation(direction, 0)(r.clipped(r.input_part(t, i, 0) + part(i)));
    })};
  });
}

/// Gates z, r, h; H = (1 - z) h + z H.
void define_gru(Definition& d) {
  Recurrence r(d, {3, {"Sigmoid", "Tanh"}});
  const bool linear = d.integer("linear_before_reset") != 0;
  if (linear) r.keep_last_state_bias_apart();
  r.run({5}, [&](int direction, int64_t t, const States& states) {
    const Tensor& before = states[0];
    const Activation &f = r.activation(direction, 0), &g = r.activation(direction, 1);
    const Tensor part = r.state_part(direction, 0, linear ? 3 : 2, before);
    const auto gate = [&](const Indices& i, int n) {
      return f(r.clipped(r.input_part(t, i, n) + part({i[0], r.at(i, n)})));
    };
    const Tensor update = r.gate("z", [&](const Indices& i) { return gate(i, 0); });
    const Tensor reset = r.gate("r", [&](const Indices& i) { return gate(i, 1); });
    const Tensor late =
        linear ? Tensor() : r.state_part(direction, 2, 1, [&](const Indices& i) { return reset(i) * before(i); });
    return States{r.state("h", t, before, [&](const Indices& i) {
      const Expr own = linear ? reset(i) * (part({i[0], r.at(i, 2)}) + r.bias(direction, 1, i, 2)) : late(i);
      const Expr hidden = g(r.clipped(r.input_part(t, i, 2) + own)), z = update(i);
      return (make_constant(z->type, 1) - z) * hidden + z * before(i);
    })};
  });
}

/// Gates i, o, f, c; C = f C + i c; H = o h(C).
void define_lstm(Definition& d) {
  Recurrence r(d, {4, {"Sigmoid", "Tanh", "Tanh"}});
  const bool coupled = d.integer("input_forget") != 0;
  r.run({5, 6}, [&](int direction, int64_t t, const States& states) {
    const Tensor &hidden = states[0], &cell = states[1];
    const Activation &f = r.activation(direction, 0), &g = r.activation(direction, 1), &h = r.activation(direction, 2);
    const Tensor part = r.state_part(direction, 0, 4, hidden);
    const auto sum = [&](const Indices& i, int gate) { return r.input_part(t, i, gate) + part({i[0], r.at(i, gate)}); };
    const auto peephole = [&](const Indices& i, int which, const Expr& c) {
      return d.in(7).wide({make_index(direction), r.at(i, which)}) * c;
    };
    const auto gate = [&](const Indices& i, int n, int which, const Expr& c) {
      return f(r.clipped(d.has_input(7) ? sum(i, n) + peephole(i, which, c) : sum(i, n)));
    };
    const Tensor next = r.state("c", t, cell, [&](const Indices& i) {
      const Expr enter = gate(i, 0, 0, cell(i));
      const Expr keep = coupled ? make_constant(enter->type, 1) - enter : gate(i, 2, 2, cell(i));
      return keep * cell(i) + enter * g(r.clipped(sum(i, 3)));
    });
    const Tensor shown = r.state("h", t, hidden, [&](const Indices& i) { return gate(i, 1, 1, next(i)) * h(next(i)); });
    return States{shown, next};
  });
}

/// Samples of a cell with `gates` gates and `inputs` inputs at most.
std::vector<Sample> cell_samples(int64_t gates, int outputs) {
  const auto weights = [&](int64_t n, int64_t in, int64_t h) {
    return std::vector<SampleInput>{f32({n, gates * h, in}, -1, 1), f32({n, gates * h, h}, -1, 1),
                                    f32({n, 2 * gates * h}, -1, 1)};
  };
  const auto inputs = [&](SampleInput x, int64_t n, int64_t in, int64_t h) {
    std::vector<SampleInput> all = {std::move(x)};
    for (SampleInput& w : weights(n, in, h)) all.push_back(std::move(w));
    return all;
  };
  std::vector<Sample> all = {{.name = "forwards",
                              .inputs = inputs(f32({5, 2, 3}), 1, 3, 7),
                              .attributes = {{"hidden_size", int64_t{7}}},
                              .outputs = outputs},
                             {.name = "both_directions",
                              .inputs = inputs(f32({3, 2, 5}), 2, 5, 4),
                              .attributes = {{"hidden_size", int64_t{4}}, {"direction", std::string("bidirectional")}},
                              .outputs = outputs},
                             {.name = "backwards",
                              .inputs = inputs(f32({4, 1, 3}), 1, 3, 5),
                              .attributes = {{"hidden_size", int64_t{5}}, {"direction", std::string("reverse")}},
                              .outputs = outputs},
                             {.name = "sequences_of_several_lengths",
                              .inputs = inputs(f32({4, 3, 2}), 1, 2, 5),
                              .attributes = {{"hidden_size", int64_t{5}}},
                              .outputs = outputs},
                             {.name = "batch_first",
                              .inputs = inputs(f32({2, 5, 3}), 1, 3, 4),
                              .attributes = {{"hidden_size", int64_t{4}}, {"layout", int64_t{1}}},
                              .outputs = outputs}};
  all[3].inputs.push_back(values(DType::kInt32, {3}, {4, 1, 3}));
  all[3].inputs.push_back(f32({1, 3, 5}, -1, 1));
  return all;
}
std::vector<Sample> rnn_samples() { return cell_samples(1, 2); }
std::vector<Sample> gru_samples() {
  std::vector<Sample> all = cell_samples(3, 2);
  all.push_back(all[0]);
  all.back().name = "linear_before_reset";
  all.back().attributes["linear_before_reset"] = int64_t{1};
  return all;
}
std::vector<Sample> lstm_samples() {
  std::vector<Sample> all = cell_samples(4, 3);
  all.push_back(all[3]);
  all.back().name = "peepholes";
  all.back().inputs.push_back(f32({1, 3, 5}, -1, 1));
  all.back().inputs.push_back(f32({1, 15}, -1, 1));
  return all;
}

OpDef row(std::string_view name, void (*define)(Definition&), std::vector<Sample> (*samples)(), std::string_view doc) {
  return {.domain = "",
          .name = name,
          .since = 22,
          .inputs = {"x", "w", "r", "b?", "sequence_lens?", "initial_h?"},
          .outputs = {"y?", "y_h?"},
          .attributes = {{"activation_alpha", {}, true},
                         {"activation_beta", {}, true},
                         {"activations", {}, true},
                         {"clip", {}, true},
                         {"direction", std::string("forward")},
                         {"hidden_size", {}, true},
                         {"layout", int64_t{0}}},
          .define = define,
          .samples = samples,
          .doc = doc};
}

}  // namespace

std::vector<OpDef> recurrent_ops() {
  std::vector<OpDef> ops = {row("RNN", define_rnn, rnn_samples, "A simple recurrent layer."),
                            row("GRU", define_gru, gru_samples, "A layer of gated recurrent units."),
                            row("LSTM", define_lstm, lstm_samples, "A layer of long short-term memory cells.")};
  ops[1].attributes.push_back({"linear_before_reset", int64_t{0}});
  ops[2].attributes.push_back({"input_forget", int64_t{0}});
  for (const std::string_view input : {"initial_c?", "p?"}) ops[2].inputs.push_back(input);
  ops[2].outputs.push_back("y_c?");
  return ops;
}

}  // namespace graft
