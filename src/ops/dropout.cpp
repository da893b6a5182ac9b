// SPDX-License-Identifier: Apache-2.0
// Dropout, in inference and in training, and the random words that a seed of it means.
#include "ops/compose.h"
#include "ops/philox.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

constexpr int kState = 3, kWords = 4;  // inputs that the passes give (seed_random)

Expr word(uint32_t value) { return make_integer(DType::kUint32, static_cast<int64_t>(value)); }

/// A word of MT19937 out of its state.
Expr tempered(Expr x) {
  x = x ^ (x >> word(11));
  x = x ^ ((x << word(7)) & word(0x9D2C5680u));
  x = x ^ ((x << word(15)) & word(0xEFC60000u));
  return x ^ (x >> word(18));
}

/// numpy.random.uniform's number at a place of the stream.
Expr mersenne_unit(const Tensor& words, const Expr& place) {
  const auto at = [&](int64_t next) {
    const Expr k = place * make_index(2) + make_index(next), row = make_size(words.size(1));
    return tempered(words({floor_div(k, row), mod(k, row)}));
  };
  const auto real = [](double value) { return make_constant(DType::kFloat64, value); };
  const Expr high = make_cast(DType::kFloat64, at(0) >> word(5)), low = make_cast(DType::kFloat64, at(1) >> word(6));
  return (high * real(0x1p26) + low) * real(0x1p-53);
}

/// Whether training is known to drop nothing.
bool keeps_all(Definition& d) {
  const TensorData *ratio = d.constant(1), *training = d.constant(2);
  return !d.has_input(2) || (training && training->read_integer(0) == 0) || (ratio && ratio->read_double(0) == 0);
}

Expr scalar_of(Definition& d, int index) {
  const Tensor t = d.in(index);
  return t(Indices(static_cast<size_t>(t.rank()), make_index(0)));
}

void define_dropout(Definition& d) {
  const Tensor x = d.in(0);
  if (keeps_all(d)) {
    d.out(0, copy_of(d, "y", x));
    if (!d.wants_output(1)) return;
    return d.out(1, d.compute("mask", DType::kBool, Shape(x.shape()),
                              [](const Indices&) { return make_integer(DType::kBool, 1); }));
  }
  const DType exact = DType::kFloat64;
  const auto ratio = [&] {
    return d.has_input(1) ? make_cast(exact, scalar_of(d, 1)) : make_constant(exact, 0.5);
  };
  for (const int input : {1, 2}) {
    if (!d.has_input(input)) continue;
    d.require_equal(element_count(d.in(input).shape()), 1, "its ratio or mode is not one number");
  }
  const bool has_words = d.has_input(kWords);
  if (has_words) {
    const Tensor words = d.in(kWords);
    if (words.rank() != 2) d.reject("its random words should be rows");
    const Size needed = element_count(x.shape()) * Size(2);
    d.require_at_least(words.size(0) * words.size(1), needed, "it has too few random words");
  }
  const RandomKey key = has_words ? RandomKey() : random_key(d, kState);
  const auto keeps = [&](const Indices& i) {
    const Expr place = flat_index(x.shape(), i);
    const Expr unit = has_words ? mersenne_unit(d.in(kWords), place)
                                : make_cast(exact, random_unit(DType::kFloat32, philox(key, place)));
    return logical_not(scalar_of(d, 2)) || ge(unit, ratio());
  };
  const Tensor mask = d.compute("mask", DType::kBool, Shape(x.shape()), keeps);
  const DType wide = compute_type(x.type());
  d.out(0, d.compute("y", x.type(), Shape(x.shape()), [&](const Indices& i) {
    const Expr one = make_constant(exact, 1);
    const Expr scale = select(scalar_of(d, 2), make_cast(wide, one / (one - ratio())), literal(x.type(), 1));
    return select(mask(i), x.wide(i) * scale, literal(x.type(), 0));
  }));
  if (d.wants_output(1)) d.out(1, mask);
}

/// The state of MT19937 (Matsumoto, Nishimura 1998) after 624 words.
void define_mersenne_round(Definition& d) {
  constexpr int64_t kSize = 624, kMiddle = 397;
  const Tensor old = d.in(0);
  d.require_shape(old, {Size(kSize)}, "its state should be 624 words");
  const auto mixed = [](const Expr& other, const Expr& upper, const Expr& lower) {
    const Expr both = (upper & word(0x80000000u)) | (lower & word(0x7FFFFFFFu));
    return other ^ (both >> word(1)) ^ select(ne(both & word(1), word(0)), word(0x9908B0DFu), word(0));
  };
  // Words from `first` on, of which each follows from one that lies 227 before it.
  const auto part = [&](std::string_view name, int64_t first, int64_t count, const Tensor& before, int64_t shift) {
    return d.compute(name, DType::kUint32, {Size(count)}, [&](const Indices& i) {
      const Expr at = i[0] + make_index(first);
      return mixed(before({i[0] + make_index(shift)}), old({at}), old({at + make_index(1)}));
    });
  };
  constexpr int64_t kReach = kSize - kMiddle;
  const Tensor first = part("first", 0, kReach, old, kMiddle);
  const Tensor second = part("second", kReach, kReach, first, 0);
  const Tensor third = part("third", 2 * kReach, kSize - 1 - 2 * kReach, second, 0);
  d.out(0, d.compute("next", DType::kUint32, {Size(kSize)}, [&](const Indices& i) {
    const auto before = [&](int64_t end) { return lt(i[0], make_index(end)); };
    const Expr last = mixed(second({make_index(kMiddle - 1 - kReach)}), old({make_index(kSize - 1)}),
                            first({make_index(0)}));
    const Expr late = select(before(kSize - 1), third({i[0] - make_index(2 * kReach)}), last);
    return select(before(kReach), first({i[0]}),
                  select(before(2 * kReach), second({i[0] - make_index(kReach)}), late));
  }));
}

std::vector<Sample> dropout_samples() {
  const SampleInput training = scalar(DType::kBool, 1);
  SampleInput decided = training;
  decided.constant = false;
  const SampleInput state = values(DType::kInt64, {}, {987654321});
  return {{.name = "nothing_is_dropped", .inputs = {f32({3, 5})}},
          {.name = "mask_is_true", .inputs = {f32({3, 5}), scalar(DType::kFloat32, 0.3)}, .outputs = 2},
          {.name = "drops_by_a_state", .inputs = {f32({3, 7}), scalar(DType::kFloat32, 0.3), training, state},
           .outputs = 2},
          {.name = "the_run_decides", .inputs = {f16({9}), values(DType::kFloat32, {}, {0.5}), decided, state},
           .outputs = 2, .tolerance = 2e-3},
          {.name = "drops_by_words",
           .inputs = {f32({2, 11}), scalar(DType::kFloat32, 0.6), training, absent(),
                      of(DType::kUint32, {1, 624}, 0, 4294967295.0)},
           .attributes = {{"seed", int64_t{3}}}, .outputs = 2}};
}

std::vector<Sample> mersenne_samples() {
  return {{.name = "next_words", .inputs = {of(DType::kUint32, {624}, 0, 4294967295.0)}}};
}

}  // namespace

std::vector<OpDef> dropout_ops() {
  return {{.domain = "", .name = "Dropout", .since = 22,
           .inputs = {"data", "ratio?", "training_mode?", kRandomState, "words?"}, .outputs = {"output", "mask?"},
           .attributes = {{"seed", {}, true}}, .define = define_dropout, .samples = dropout_samples,
           .doc = "The input itself; in training elements are dropped at random, and the others scaled."},
          {.domain = "graft", .name = "MersenneRound", .since = 1, .inputs = {"state"}, .outputs = {"next"},
           .attributes = {}, .define = define_mersenne_round, .samples = mersenne_samples,
           .doc = "The next 624 words of the random numbers of MT19937."}};
}

}  // namespace graft
