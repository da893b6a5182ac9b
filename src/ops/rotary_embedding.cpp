// SPDX-License-Identifier: Apache-2.0
// RotaryEmbedding: pairs of elements turned by an angle that depends on the position.
#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

void define_rotary_embedding(Definition& d) {
  const Tensor x = d.in(0), cosine = d.in(1), sine = d.in(2);
  if (x.rank() != 3 && x.rank() != 4) d.reject("its input should have three or four axes");
  const int64_t heads = d.integer("num_heads");
  const bool flat = x.rank() == 3, interleaved = d.integer("interleaved") != 0;
  if (flat && heads < 1) d.reject("an input of three axes needs the attribute 'num_heads'");
  const Size head = flat ? floor_div(x.size(2), heads) : x.size(3);
  const int64_t given = d.integer("rotary_embedding_dim");
  const Size turned = given == 0 ? head : Size(given), half = floor_div(turned, 2);
  const bool positions = d.has_input(3);
  if (cosine.rank() != (positions ? 2 : 3) || sine.rank() != cosine.rank()) d.reject("its caches have the wrong rank");
  d.require_equal(turned, Size(2) * half, "the part that is turned should be a whole number of pairs");
  d.require_at_least(head, turned, "the part that is turned is larger than a head");
  if (flat) d.require_equal(head * Size(heads), x.size(2), "the last axis is not a whole number of heads");
  const Size length = x.size(flat ? 1 : 2);
  const Shape cached_shape = positions ? Shape{cosine.size(0), half} : Shape{x.size(0), length, half};
  for (const Tensor& cache : {cosine, sine}) {
    d.require_shape(cache, cached_shape, "its caches do not fit the part that is turned");
  }
  if (positions) d.require_shape(d.in(3), {x.size(0), length}, "its positions do not fit its input");
  d.out(0, d.compute("y", x.type(), Shape(x.shape()), [&](const Indices& i) {
    const Expr row = flat ? i[1] : i[2], within = flat ? mod(i[2], make_size(head)) : i[3];
    const Expr one = make_index(1), two = make_index(2), middle = make_size(half);
    const Expr first = interleaved ? eq(mod(within, two), make_index(0)) : lt(within, middle);
    const Expr pair = interleaved ? floor_div(within, two) : select(first, within, within - middle);
    const Expr distance = interleaved ? one : middle;
    const auto cached = [&](const Tensor& cache) {
      if (!positions) return cache.wide({i[0], row, pair});
      return cache.wide({wrapped_index(d.in(3)({i[0], row}), cache.size(0)), pair});
    };
    Indices other = i;
    other.back() = select(first, i.back() + distance, i.back() - distance);
    const Expr turn = x.wide(other) * cached(sine), keep = x.wide(i) * cached(cosine);
    const Expr value = select(first, keep - turn, keep + turn);
    return turned == head ? value : select(lt(within, make_size(turned)), value, x.wide(i));
  }));
}

std::vector<Sample> rotary_samples() {
  const SampleInput ids = i64({2, 5}, 0, 8);
  return {{.name = "four_axes_with_positions", .inputs = {f32({2, 3, 5, 8}), f32({9, 4}), f32({9, 4}), ids}},
          {.name = "no_positions", .inputs = {f32({2, 3, 5, 8}), f32({2, 5, 4}), f32({2, 5, 4})}},
          {.name = "heads_in_the_last_axis", .inputs = {f32({2, 5, 12}), f32({9, 2}), f32({9, 2}), ids},
           .attributes = {{"num_heads", int64_t{3}}}},
          {.name = "interleaved_in_part", .inputs = {f32({2, 3, 5, 8}), f32({9, 2}), f32({9, 2}), ids},
           .attributes = {{"interleaved", int64_t{1}}, {"rotary_embedding_dim", int64_t{4}}, {"num_heads",
               int64_t{3}}}}};
}

}  // namespace

std::vector<OpDef> rotary_embedding_ops() {
  return {{.domain = "", .name = "RotaryEmbedding", .since = 23,
           .inputs = {"x", "cos_cache", "sin_cache", "position_ids?"}, .outputs = {"y"},
           .attributes = {{"interleaved", int64_t{0}}, {"num_heads", int64_t{0}}, {"rotary_embedding_dim", int64_t{0}}},
           .define = define_rotary_embedding, .samples = rotary_samples,
           .doc = "Pairs of elements turned by an angle of their position."}};
}

}  // namespace graft
