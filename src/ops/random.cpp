// SPDX-License-Identifier: Apache-2.0
// Random tensors. A node with a seed gives the same numbers in each run; one without gets a state of its own from the
// passes (seed_random), which each run draws anew.
#include "ops/compose.h"
#include "ops/philox.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

/// What a draw becomes.
using Draw = Expr (*)(Definition&, DType, const RandomWords&);

Expr draw_uniform(Definition& d, DType type, const RandomWords& words) {
  const Expr low = literal(type, d.real("low")), high = literal(type, d.real("high"));
  const Expr value = low + random_unit(type, words) * (high - low);
  return select(lt(value, high), value, low);  // rounding may reach what the interval ends before
}

Expr draw_normal(Definition& d, DType type, const RandomWords& words) {
  return literal(type, d.real("mean")) + literal(type, d.real("scale")) * random_normal(type, words);
}

DType float_type(Definition& d, DType type) {
  if (!is_float(type) || bit_width(type) < 16) d.reject("its dtype should be f16, f32, f64 or bf16");
  return type;
}

void fill(Definition& d, DType type, const Shape& shape, int state, Draw draw) {
  const RandomKey key = random_key(d, state);
  d.out(0, d.compute("drawn", float_type(d, type), shape, [&](const Indices& i) {
    return draw(d, type, philox(key, flat_index(shape, i)));
  }));
}

void fill_shape(Definition& d, Draw draw) {
  Shape shape;
  for (const int64_t size : d.integers("shape")) {
    if (size < 0) d.reject("its attribute 'shape' has a negative entry");
    shape.emplace_back(size);
  }
  fill(d, d.type("dtype"), shape, 0, draw);
}

void fill_like(Definition& d, Draw draw) {
  fill(d, d.has("dtype") ? d.type("dtype") : d.input_type(0), d.input_shape(0), 1, draw);
}

void define_uniform(Definition& d) { fill_shape(d, draw_uniform); }
void define_normal(Definition& d) { fill_shape(d, draw_normal); }
void define_uniform_like(Definition& d) { fill_like(d, draw_uniform); }
void define_normal_like(Definition& d) { fill_like(d, draw_normal); }

void define_bernoulli(Definition& d) {
  const Tensor p = d.in(0);
  const DType type = d.has("dtype") ? d.type("dtype") : p.type();
  if (!is_float(type) && !is_integer(type) && type != DType::kBool) d.reject("its dtype should be a number or bool");
  const DType drawn = p.type() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const RandomKey key = random_key(d, 1);
  d.out(0, d.compute("drawn", type, Shape(p.shape()), [&](const Indices& i) {
    return lt(random_unit(drawn, philox(key, flat_index(p.shape(), i))), p.wide(i));
  }));
}

/// The class whose part of the sum of exp(x) a draw falls into.
void define_multinomial(Definition& d) {
  const Tensor x = d.in(0);
  if (x.rank() != 2) d.reject("its input should be a matrix: [batch, classes]");
  const DType type = d.type("dtype");
  if (type != DType::kInt32 && type != DType::kInt64) d.reject("its dtype should be i32 or i64");
  const int64_t samples = d.integer("sample_size");
  if (samples < 0) d.reject("its attribute 'sample_size' is negative");
  const Size rows = x.size(0), classes = x.size(1);
  d.require_at_least(classes, 1, "it has no class to choose");
  const RandomKey key = random_key(d, 1);
  const Tensor most = d.reduce("most", Intrinsic::kMax, {rows}, {classes},
                               [&](const Indices& i, const Indices& k) { return x.wide({i[0], k[0]}); });
  const Tensor sums = d.scan("sums", {rows}, classes, [&](Scan& scan, const Indices& i, const Expr& k) {
    const Expr sum = make_variable(DType::kFloat64);
    scan.state = {sum};
    scan.initial = {make_constant(DType::kFloat64, 0)};
    scan.step = {sum + make_cast(DType::kFloat64, exp(x.wide({i[0], k}) - most({i[0]})))};
    scan.emit = {sum};
  })[0];
  const Shape shape = {rows, Size(samples)};
  const Tensor goal = d.compute("goal", DType::kFloat64, shape, [&](const Indices& i) {
    const Expr unit = random_unit(DType::kFloat64, philox(key, flat_index(shape, i)));
    return unit * sums({i[0], make_size(classes) - make_index(1)});
  });
  const Tensor below = d.reduce("below", Intrinsic::kAdd, shape, {classes}, [&](const Indices& i, const Indices& k) {
    return make_cast(DType::kInt64, le(sums({i[0], k[0]}), goal(i)));
  });
  d.out(0, d.compute("drawn", type, shape, [&](const Indices& i) {
    return min(below(i), make_size(classes) - make_index(1));
  }));
}

/// What a run draws for the nodes that read it; the session fills it in before the steps.
void define_seed(Definition& d) {
  d.out(0, d.compute("state", DType::kInt64, Shape{}, [](const Indices&) { return make_index(0); }));
}

const SampleInput kState = [] {
  SampleInput state = values(DType::kInt64, {}, {0});
  state.data->write_integer(0, 0x123456789ABCDEF);
  return state;
}();

std::vector<Sample> shape_samples(const Attributes& attributes) {
  Attributes seeded = attributes, half = attributes, wide = attributes, drawn = attributes;
  seeded["shape"] = std::vector<int64_t>{3, 5};
  seeded["seed"] = 1.5;
  half["shape"] = std::vector<int64_t>{17};
  half["seed"] = 2.0;
  half["dtype"] = int64_t{10};
  wide["shape"] = std::vector<int64_t>{2, 3, 1};
  wide["seed"] = -4.0;
  wide["dtype"] = int64_t{11};
  drawn["shape"] = std::vector<int64_t>{2, 7};
  return {{.name = "seeded", .attributes = seeded},
          {.name = "half_precision", .attributes = half, .tolerance = 2e-3},
          {.name = "double_precision", .attributes = wide},
          {.name = "of_a_state", .inputs = {kState}, .attributes = drawn}};
}
std::vector<Sample> uniform_samples() { return shape_samples({{"low", -1.0}, {"high", 3.0}}); }
std::vector<Sample> normal_samples() { return shape_samples({{"mean", 2.0}, {"scale", 0.5}}); }

std::vector<Sample> like_samples(const Attributes& attributes) {
  Attributes seeded = attributes, other = attributes;
  seeded["seed"] = 3.0;
  other["seed"] = 3.0;
  other["dtype"] = int64_t{1};
  return {{.name = "seeded", .inputs = {f32({3, 7})}, .attributes = seeded},
          {.name = "half_precision", .inputs = {f16({5})}, .attributes = seeded, .tolerance = 2e-3},
          {.name = "of_another_type", .inputs = {of(DType::kInt32, {2, 2}, 0, 9)}, .attributes = other},
          {.name = "of_a_state", .inputs = {f32({4, 1, 3}), kState}, .attributes = attributes},
          {.name = "no_elements", .inputs = {f32({0, 2})}, .attributes = seeded}};
}
std::vector<Sample> uniform_like_samples() { return like_samples({{"low", 0.0}, {"high", 10.0}}); }
std::vector<Sample> normal_like_samples() { return like_samples({{"mean", 0.0}, {"scale", 2.0}}); }

std::vector<Sample> bernoulli_samples() {
  const Attributes seeded = {{"seed", 5.0}};
  return {{.name = "seeded", .inputs = {f32({4, 9}, 0, 1)}, .attributes = seeded},
          {.name = "certain", .inputs = {values(DType::kFloat32, {4}, {0, 1, 0, 1})}, .attributes = seeded},
          {.name = "doubles_to_bool", .inputs = {of(DType::kFloat64, {21}, 0, 1)},
           .attributes = {{"seed", 5.0}, {"dtype", int64_t{9}}}},
          {.name = "of_a_state", .inputs = {f32({2, 3}, 0, 1), kState}}};
}

std::vector<Sample> multinomial_samples() {
  return {{.name = "seeded", .inputs = {f32({2, 5})}, .attributes = {{"sample_size", int64_t{7}}, {"seed", 1.0}}},
          {.name = "long_integers", .inputs = {f32({3, 4}, -9, 9)},
           .attributes = {{"dtype", int64_t{7}}, {"sample_size", int64_t{3}}, {"seed", 2.0}}},
          {.name = "one_class", .inputs = {f16({2, 1})},
           .attributes = {{"sample_size", int64_t{4}}, {"seed", 2.0}}},
          {.name = "of_a_state", .inputs = {f32({1, 9}), kState}, .attributes = {{"sample_size", int64_t{5}}}}};
}

std::vector<Sample> seed_samples() { return {{.name = "before_a_run"}}; }

OpDef drawn(std::string_view name, int since, std::vector<std::string_view> inputs,
            std::vector<AttributeSpec> attributes, void (*define)(Definition&), std::vector<Sample> (*samples)(),
            std::string_view doc) {
  inputs.push_back(kRandomState);
  attributes.push_back({"seed", {}, true});
  return row(name, since, std::move(inputs), std::move(attributes), define, samples, doc);
}

}  // namespace

std::vector<OpDef> random_ops() {
  const AttributeSpec type{"dtype", int64_t{1}}, own_type{"dtype", {}, true}, shape{"shape"};
  const AttributeSpec low{"low", 0.0}, high{"high", 1.0}, mean{"mean", 0.0}, scale{"scale", 1.0};
  return {
      drawn("RandomUniform", 22, {}, {type, high, low, shape}, define_uniform, uniform_samples,
            "Numbers drawn evenly between two bounds."),
      drawn("RandomNormal", 22, {}, {type, mean, scale, shape}, define_normal, normal_samples,
            "Numbers drawn from a normal distribution."),
      drawn("RandomUniformLike", 22, {"input"}, {own_type, high, low}, define_uniform_like, uniform_like_samples,
            "Numbers drawn evenly between two bounds, in the input's shape."),
      drawn("RandomNormalLike", 22, {"input"}, {own_type, mean, scale}, define_normal_like, normal_like_samples,
            "Numbers drawn from a normal distribution, in the input's shape."),
      drawn("Bernoulli", 22, {"input"}, {own_type}, define_bernoulli, bernoulli_samples,
            "1 with the probability that the input says, else 0."),
      drawn("Multinomial", 22, {"input"}, {{"dtype", int64_t{6}}, {"sample_size", int64_t{1}}}, define_multinomial,
            multinomial_samples, "Classes drawn with the probabilities whose logarithms, up to a sum, the input says."),
      {.domain = "graft", .name = "Seed", .since = 1, .inputs = {}, .outputs = {"state"}, .attributes = {},
       .define = define_seed, .samples = seed_samples,
       .doc = "What each run draws anew for the random numbers that follow from it."},
  };
}

}  // namespace graft
