// SPDX-License-Identifier: Apache-2.0
// Dropout as inference sees it.
#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

void define_dropout(Definition& d) {
  const TensorData* training = d.constant(2);
  if (d.has_input(2) && (!training || training->read_integer(0) != 0)) {
    const TensorData* ratio = d.constant(1);
    const bool keeps_all = ratio && ratio->read_double(0) == 0;
    if (!keeps_all) d.unsupported("dropping elements at random, as training does");
  }
  const Tensor x = d.in(0);
  d.out(0, copy_of(d, "y", x));
  if (d.wants_output(1)) {
    d.out(1, d.compute("mask", DType::kBool, Shape(x.shape()),
                       [](const Indices&) { return make_integer(DType::kBool, 1); }));
  }
}

std::vector<Sample> dropout_samples() {
  return {{.name = "nothing_is_dropped", .inputs = {f32({3, 5})}},
          {.name = "mask_is_true", .inputs = {f32({3, 5}), scalar(DType::kFloat32, 0.3)}, .outputs = 2}};
}

}  // namespace

std::vector<OpDef> dropout_ops() {
  return {{.domain = "", .name = "Dropout", .since = 22, .inputs = {"data", "ratio?", "training_mode?"},
           .outputs = {"output", "mask?"}, .attributes = {{"seed", {}, true}}, .define = define_dropout,
           .samples = dropout_samples, .doc = "The input itself; elements are dropped only in training."}};
}

}  // namespace graft
