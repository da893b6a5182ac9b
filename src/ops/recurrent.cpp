// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM: the input's part of all gates is one contraction, the state's part one for each step. The cells
// of the domain graft are one step, of one direction, whose input is that contraction's result: what loops run.
#include <cmath>

#include "ops/recurrent.h"
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

const ActivationRow* find_activation(std::string_view name) {
  for (const ActivationRow& row : kActivations) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

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
    const ActivationRow* row = find_activation(name);
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

/// Whether the node is one step. It has no axes of positions and directions and no W, since X is the input times W.
bool is_cell(const Definition& d) { return d.node().domain == "graft"; }

/// The recurrence of one node. Positions of a sequence's padding keep the state and give zeros.
class Recurrence {
 public:
  Recurrence(Definition& d, const Cell& cell) : d_(d), cell_(cell), x_(d.in(0)), r_(given(2)) {
    type_ = compute_type(x_.type());
    is_cell(d) ? read_cell_axes() : read_axes();
    d.require_shape(r_, with_directions({hidden_ * Size(cell.gates), hidden_}), "R does not fit the gates");
    activations_ = read_activations(d, cell.activations, directions_);
    check_further_inputs();
  }

  void read_cell_axes() {
    if (x_.rank() != 2 || r_.rank() != 2) d_.reject("its inputs x and r should have two axes");
    batch_ = x_.size(0), hidden_ = r_.size(1), steps_ = 1;
    d_.require_equal(x_.size(1), hidden_ * Size(cell_.gates), "its input has another number of gates");
  }
  void read_axes() {
    if (x_.rank() != 3 || r_.rank() != 3) d_.reject("its inputs X and R should have three axes");
    batch_first_ = d_.integer("layout") != 0;
    batch_ = x_.size(batch_first_ ? 0 : 1);
    steps_ = unrolled_steps(d_, x_.size(batch_first_ ? 1 : 0));
    hidden_ = r_.size(2);
    const std::string direction = d_.text("direction");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
      d_.reject("its direction is " + direction);
    }
    directions_ = direction == "bidirectional" ? 2 : 1;
    reverse_ = direction == "reverse";
    d_.require_shape(given(1), {Size(directions_), hidden_ * Size(cell_.gates), x_.size(2)},
                     "W does not fit the direction, the gates and the input's size");
  }

  /// Biases, lengths, initial states and the LSTM's peepholes.
  void check_further_inputs() {
    const Size gates(cell_.gates);
    const auto check = [&](int input, const Shape& shape, std::string_view message) {
      if (has(input)) d_.require_shape(given(input), shape, message);
    };
    check(3, with_directions({Size(2) * gates * hidden_}), "its bias does not fit");
    check(4, {batch_}, "there is not one length for each sequence");
    for (const int input : {5, 6}) check(input, state_shape(), "its initial state does not fit");
    check(7, with_directions({Size(3) * hidden_}), "its peepholes do not fit");
  }

  /// One step's new states (the first is the one that Y shows) from the old ones, for one direction.
  using Step = std::function<std::vector<Tensor>(int direction, int64_t t, const std::vector<Tensor>& states)>;

  /// Runs all directions and states the outputs; `initial` are the inputs that start the states.
  void run(const std::vector<int>& initial, const Step& step) {
    std::vector<std::vector<Tensor>> shown(directions_), last(directions_);
    for (int direction = 0; direction < directions_; ++direction) {
      project(direction);
      std::vector<Tensor> states;
      for (const int input : initial) {
        states.push_back(initial_state(input, direction, states.empty() ? x_.type() : type_));
      }
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
  Expr input_part(int64_t t, const Indices& i, int gate) {
    if (!is_cell(d_)) return projection_({make_index(t), i[0], at(i, gate)});
    const Expr own = x_.wide({i[0], at(i, gate)}) + bias(0, 0, i, gate);
    return last_bias_apart_ && gate == cell_.gates - 1 ? own : own + bias(0, 1, i, gate);
  }
  /// The state's part of some gates: state x R^T, as [batch, count * hidden].
  Tensor state_part(int direction, int first, int count, const Tensor& state) {
    return d_.reduce("state_part", Intrinsic::kAdd, {batch_, hidden_ * Size(count)}, {hidden_},
                     [&](const Indices& i, const Indices& k) {
                       const Expr row = i[1] + make_size(hidden_ * Size(first));
                       return state.wide({i[0], k[0]}) * directed(r_, direction, {row, k[0]});
                     });
  }
  /// Half 0 (of W) or 1 (of R) of the bias of a gate; zero when there is none.
  Expr bias(int direction, int half, const Indices& i, int gate) {
    if (!has(3)) return make_constant(type_, 0);
    return directed(given(3), direction, {at(i, gate + half * cell_.gates)});
  }
  Expr at(const Indices& i, int gate) const { return i[1] + make_size(hidden_ * Size(gate)); }
  /// The state that Y shows has the operator's type, so that products read it as they read weights.
  Tensor shown_state(int64_t t, const Tensor& before, const std::function<Expr(const Indices&)>& f) {
    return state("h", x_.type(), t, before, f);
  }
  /// A state that the cell alone reads.
  Tensor inner_state(int64_t t, const Tensor& before, const std::function<Expr(const Indices&)>& f) {
    return state("c", type_, t, before, f);
  }
  /// What is left of the shown state where only a part of it is multiplied by weights.
  Tensor reset_state(const std::function<Expr(const Indices&)>& f) {
    return d_.compute("kept", x_.type(), {batch_, hidden_}, f);
  }
  Tensor gate(std::string_view name, const std::function<Expr(const Indices&)>& f) {
    return d_.compute(name, type_, {batch_, hidden_}, f);
  }
  const Activation& activation(int direction, int which) const {
    return activations_[direction * cell_.activations.size() + which];
  }
  /// The input that the standard lists at `index`.
  Tensor given(int index) { return d_.in(place(index)); }
  bool has(int index) const { return d_.has_input(place(index)); }
  /// An element of what each direction has its own of.
  Expr directed(const Tensor& t, int direction, Indices indices) const {
    if (!is_cell(d_)) indices.insert(indices.begin(), make_index(direction));
    return t.wide(indices);
  }
  /// The W half of the bias goes with the input; a cell that wants the R half apart says so.
  void keep_last_state_bias_apart() { last_bias_apart_ = true; }

 private:
  int place(int index) const { return is_cell(d_) && index > 1 ? index - 1 : index; }
  Shape with_directions(Shape shape) const {
    if (!is_cell(d_)) shape.insert(shape.begin(), Size(directions_));
    return shape;
  }
  Shape state_shape() const {
    if (is_cell(d_)) return {batch_, hidden_};
    return batch_first_ ? Shape{batch_, Size(directions_), hidden_} : Shape{Size(directions_), batch_, hidden_};
  }
  /// The input at position i[0] of sequence i[1].
  Expr input(const Indices& i, const Expr& element) const {
    return batch_first_ ? x_.wide({i[1], i[0], element}) : x_.wide({i[0], i[1], element});
  }
  void project(int direction) {
    if (is_cell(d_)) return;
    const Size rows = hidden_ * Size(cell_.gates);
    const Shape shape = {Size(steps_), batch_, rows};
    const Tensor product =
        d_.reduce("input_part", Intrinsic::kAdd, shape, {x_.size(2)}, [&](const Indices& i, const Indices& e) {
          return input(i, e[0]) * directed(given(1), direction, {i[2], e[0]});
        });
    projection_ = product;
    if (!has(3)) return;
    const Tensor bias = given(3);
    const Expr apart = make_size(hidden_ * Size(cell_.gates - 1));
    projection_ = d_.compute("biased_part", type_, Shape(product.shape()), [&](const Indices& i) {
      const Expr own = directed(bias, direction, {i[2]});
      const Expr other = directed(bias, direction, {i[2] + make_size(rows)});
      const Expr both = last_bias_apart_ ? own + select(lt(i[2], apart), other, make_constant(type_, 0)) : own + other;
      return product(i) + both;
    });
  }

  Tensor state(std::string_view name, DType type, int64_t t, const Tensor& before,
               const std::function<Expr(const Indices&)>& f) {
    return d_.compute(name, type, {batch_, hidden_}, [&](const Indices& i) {
      if (!has(4)) return f(i);
      return select(lt(make_index(t), make_cast(DType::kInt64, given(4)({i[0]}))), f(i), before.wide(i));
    });
  }
  Tensor initial_state(int input, int direction, DType type) {
    if (is_cell(d_) && has(input) && given(input).type() == type) return given(input);
    return d_.compute("initial", type, {batch_, hidden_}, [&](const Indices& i) {
      if (!has(input)) return make_constant(type_, 0);
      const Expr n = make_index(direction);
      if (is_cell(d_)) return given(input).wide(i);
      return batch_first_ ? given(input).wide({i[0], n, i[1]}) : given(input).wide({n, i[0], i[1]});
    });
  }

  void output_cell(const Tensor& shown) {
    d_.out(0, d_.compute("y", x_.type(), {batch_, hidden_}, [&](const Indices& i) {
      if (!has(4)) return shown(i);
      const Expr left = make_cast(DType::kInt64, given(4)({i[0]}));
      return select(lt(make_index(0), left), shown(i), make_constant(shown.type(), 0));
    }));
  }
  void output_sequence(const std::vector<std::vector<Tensor>>& shown) {
    if (!d_.wants_output(0)) return;
    if (is_cell(d_)) return output_cell(shown[0][0]);
    const Size steps(steps_), directions(directions_);
    const Shape shape =
        batch_first_ ? Shape{batch_, steps, directions, hidden_} : Shape{steps, directions, batch_, hidden_};
    std::vector<Steps> all;
    for (const std::vector<Tensor>& each : shown) all.emplace_back(d_, each);
    d_.out(0, d_.compute("y", x_.type(), shape, [&](const Indices& i) {
      const Expr t = batch_first_ ? i[1] : i[0], n = batch_first_ ? i[2] : i[1], b = batch_first_ ? i[0] : i[2];
      Expr value = all[0].element(t, {b, i[3]});
      if (directions_ == 2) value = select(eq(n, make_index(0)), value, all[1].element(t, {b, i[3]}));
      if (!has(4)) return value;
      return select(lt(t, make_cast(DType::kInt64, given(4)({b}))), value, make_constant(value->type, 0));
    }));
  }

  void output_state(int output, const std::vector<std::vector<Tensor>>& last, size_t k) {
    if (!d_.wants_output(output)) return;
    d_.out(output, d_.compute("y_last", x_.type(), state_shape(), [&](const Indices& i) {
      if (is_cell(d_)) return last[0][k](i);
      const Expr n = batch_first_ ? i[1] : i[0], b = batch_first_ ? i[0] : i[1];
      const Expr first = last[0][k]({b, i[2]});
      return directions_ == 1 ? first : select(eq(n, make_index(0)), first, last[1][k]({b, i[2]}));
    }));
  }

  Definition& d_;
  Cell cell_;
  Tensor x_, r_, projection_;
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
    return States{r.shown_state(t, states[0], [&](const Indices& i) {
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
    const Tensor late = linear ? r.gate("r", [&](const Indices& i) { return gate(i, 1); })
                               : r.state_part(direction, 2, 1, r.reset_state([&](const Indices& i) {
                                   return gate(i, 1) * before.wide(i);
                                 }));
    return States{r.shown_state(t, before, [&](const Indices& i) {
      const Expr own = linear ? late(i) * (part({i[0], r.at(i, 2)}) + r.bias(direction, 1, i, 2)) : late(i);
      const Expr hidden = g(r.clipped(r.input_part(t, i, 2) + own)), z = update(i);
      return (make_constant(z->type, 1) - z) * hidden + z * before.wide(i);
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
      return r.directed(r.given(7), direction, {r.at(i, which)}) * c;
    };
    const auto gate = [&](const Indices& i, int n, int which, const Expr& c) {
      return f(r.clipped(r.has(7) ? sum(i, n) + peephole(i, which, c) : sum(i, n)));
    };
    const Tensor next = r.inner_state(t, cell, [&](const Indices& i) {
      const Expr enter = gate(i, 0, 0, cell(i));
      const Expr keep = coupled ? make_constant(enter->type, 1) - enter : gate(i, 2, 2, cell(i));
      return keep * cell(i) + enter * g(r.clipped(sum(i, 3)));
    });
    const Tensor shown =
        r.shown_state(t, hidden, [&](const Indices& i) { return gate(i, 1, 1, next(i)) * h(next(i)); });
    return States{shown, next};
  });
}

/// Samples of a layer of a cell with `gates` gates and `inputs` inputs at most.
std::vector<Sample> layer_samples(int64_t gates, int outputs) {
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
                              .outputs = outputs},
                             {.name = "of_whole_vectors",
                              .inputs = inputs(f32({3, 5, 4}), 1, 4, 48),
                              .attributes = {{"hidden_size", int64_t{48}}},
                              .outputs = outputs}};
  all[3].inputs.push_back(values(DType::kInt32, {3}, {4, 1, 3}));
  all[3].inputs.push_back(f32({1, 3, 5}, -1, 1));
  return all;
}
std::vector<Sample> rnn_samples() { return layer_samples(1, 2); }
std::vector<Sample> gru_samples() {
  std::vector<Sample> all = layer_samples(3, 2);
  all.push_back(all[0]);
  all.back().name = "linear_before_reset";
  all.back().attributes["linear_before_reset"] = int64_t{1};
  return all;
}
std::vector<Sample> lstm_samples() {
  std::vector<Sample> all = layer_samples(4, 3);
  all.push_back(all[3]);
  all.back().name = "peepholes";
  all.back().inputs.push_back(f32({1, 3, 5}, -1, 1));
  all.back().inputs.push_back(f32({1, 15}, -1, 1));
  return all;
}

/// One step of 3 sequences of which one has ended, and one step of a single sequence without any.
std::vector<Sample> cell_samples(int64_t gates, int states) {
  std::vector<Sample> all;
  for (const bool lengths : {true, false}) {
    const int64_t batch = lengths ? 3 : 1, hidden = lengths ? 5 : 8;
    Sample sample{.name = lengths ? "some_have_ended" : "one_sequence",
                  .inputs = {f32({batch, gates * hidden}), f32({gates * hidden, hidden}, -1, 1),
                             f32({2 * gates * hidden}, -1, 1),
                             lengths ? values(DType::kInt32, {3}, {2, 0, 1}) : absent()},
                  .outputs = states + 1};
    for (int k = 0; k < states; ++k) sample.inputs.push_back(f32({batch, hidden}, -1, 1));
    all.push_back(std::move(sample));
  }
  return all;
}
std::vector<Sample> rnn_cell_samples() { return cell_samples(1, 1); }
std::vector<Sample> gru_cell_samples() {
  std::vector<Sample> all = cell_samples(3, 1);
  all.push_back(all[0]);
  all.back().name = "linear_before_reset";
  all.back().attributes["linear_before_reset"] = int64_t{1};
  return all;
}
std::vector<Sample> lstm_cell_samples() {
  std::vector<Sample> all = cell_samples(4, 2);
  all.push_back(all[0]);
  all.back().name = "peepholes";
  all.back().inputs.push_back(f32({15}, -1, 1));
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

size_t activation_parameters(const std::vector<std::string>& activations, bool beta) {
  size_t count = 0;
  for (const std::string& name : activations) {
    const ActivationRow* row = find_activation(name);
    count += row && row->parameters > (beta ? 1 : 0) ? 1 : 0;
  }
  return count;
}

std::vector<OpDef> recurrent_ops() {
  std::vector<OpDef> ops = {row("RNN", define_rnn, rnn_samples, "A simple recurrent layer."),
                            row("GRU", define_gru, gru_samples, "A layer of gated recurrent units."),
                            row("LSTM", define_lstm, lstm_samples, "A layer of long short-term memory cells.")};
  ops[1].attributes.push_back({"linear_before_reset", int64_t{0}});
  ops[2].attributes.push_back({"input_forget", int64_t{0}});
  for (const std::string_view input : {"initial_c?", "p?"}) ops[2].inputs.push_back(input);
  ops[2].outputs.push_back("y_c?");
  constexpr std::string_view kCells[] = {"RNNCell", "GRUCell", "LSTMCell"};
  constexpr std::vector<Sample> (*kSamples[])() = {rnn_cell_samples, gru_cell_samples, lstm_cell_samples};
  for (size_t k = 0; k < std::size(kCells); ++k) {
    OpDef cell = ops[k];
    cell.domain = "graft";
    cell.name = kCells[k];
    cell.inputs = {"x", "r", "b?", "steps_left?", "h"};
    cell.outputs = {"y?", "h?"};
    if (k == 2) cell.inputs.insert(cell.inputs.end(), {"c", "p?"});
    if (k == 2) cell.outputs.push_back("c?");
    std::erase_if(cell.attributes, [](const AttributeSpec& attribute) {
      return attribute.name == "direction" || attribute.name == "layout" || attribute.name == "hidden_size";
    });
    cell.samples = kSamples[k];
    cell.doc = "One step of the recurrent layer, for an input that has been multiplied by its weights.";
    ops.push_back(std::move(cell));
  }
  return ops;
}

}  // namespace graft
