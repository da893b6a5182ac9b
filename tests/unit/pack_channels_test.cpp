// SPDX-License-Identifier: Apache-2.0
// Convolutions of few channels give the same results after their windows have become channels.
#include "plan/pack_channels.h"

#include <cmath>

#include <gtest/gtest.h>

#include "expr/build.h"
#include "expr/interpreter.h"

namespace graft {
namespace {

struct Stem {
  int64_t channels, size, kernel, stride, pad, dilation;
  DType stored = DType::kFloat32;  ///< of the image
};

int64_t outputs_of(const Stem& s) { return (s.size + 2 * s.pad - (s.kernel - 1) * s.dilation - 1) / s.stride + 1; }

/// relu(conv(f16(image), weights)) with rows of `size` and columns of `size + 3`, its result's channels last or first.
Region convolution(const Stem& s, DType multiplied, bool channels_last = true) {
  RegionBuilder b;
  const Tensor x = b.input("x", s.stored, {2, s.channels, s.size, s.size + 3});
  const Tensor w = b.input("w", multiplied, {5, s.channels, s.kernel, s.kernel});
  const Size high = outputs_of(s), wide = outputs_of({s.channels, s.size + 3, s.kernel, s.stride, s.pad, s.dilation});
  const Shape result = channels_last ? Shape{2, high, wide, 5} : Shape{2, 5, high, wide};
  const Tensor sum = b.reduce(
      "sum", Intrinsic::kAdd, result, {s.channels, s.kernel, s.kernel}, [&](const Indices& i, const Indices& k) {
        const auto place = [&](int axis) {
          const Expr& out = i[channels_last ? axis : axis + 1];
          return out * make_index(s.stride) + k[axis] * make_index(s.dilation) - make_index(s.pad);
        };
        const Expr h = place(1), v = place(2);
        const Expr inside =
            ge(h, make_index(0)) && lt(h, make_index(s.size)) && ge(v, make_index(0)) && lt(v, make_index(s.size + 3));
        const Expr value = make_cast(DType::kFloat32, make_cast(multiplied, x({i[0], k[0], h, v})));
        return select(inside, value, make_constant(DType::kFloat32, 0)) *
               w.wide({i[channels_last ? 3 : 1], k[0], k[1], k[2]});
      });
  return b.finish("stem", {b.compute("y", multiplied, result, [&](const Indices& i) {
                    return max(sum(i), make_constant(DType::kFloat32, 0));
                  })});
}

TensorData filled(const TensorDecl& decl) {
  TensorData data = TensorData::zeros(decl.type, concrete(decl.shape));
  // Small numbers whose products and sums are exact.
  for (int64_t i = 0; i < data.element_count(); ++i) data.write_double(i, static_cast<double>(i * 7 % 11) - 5);
  return data;
}

FusedStep step_of(const Region& region, std::vector<FusedTensor>& tensors) {
  FusedStep step;
  step.name = "stem", step.region = region;
  for (const int tensor : {region.inputs[0], region.inputs[1], region.outputs[0]}) {
    const TensorDecl& decl = region.tensors[tensor];
    (tensors.size() < 2 ? step.inputs : step.outputs).push_back(static_cast<int>(tensors.size()));
    tensors.push_back({decl.name, decl.type, decl.shape, {}, -1});
  }
  tensors[1].constant = filled(region.tensors[region.inputs[1]]);
  return step;
}

/// The program's output after all steps ran in the interpreter.
TensorData run(const std::vector<FusedStep>& steps, const std::vector<FusedTensor>& tensors, const TensorData& image) {
  std::vector<TensorData> values(tensors.size());
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].constant) values[t] = *tensors[t].constant;
  }
  values[0] = image;
  for (const FusedStep& step : steps) {
    std::vector<TensorData> inputs;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      // Normalised regions see tensors without their axes of extent 1.
      const Shape& seen = step.region.tensors[step.region.inputs[i]].shape;
      inputs.push_back(values[step.inputs[i]].reshaped(concrete(seen)));
    }
    Bindings sizes;
    std::vector<TensorData> results = interpret(step.region, inputs, sizes);
    for (size_t i = 0; i < results.size(); ++i) values[step.outputs[i]] = std::move(results[i]);
  }
  return values[2];
}

const Target& gpu() {
  static const Target target = find_target("sm_90a", 2);
  return target;
}

/// A processor with matrix registers of bf16.
const Target& processor() {
  static const Target target = [] {
    Target made = find_target("x86-64-v4", 2);
    made.features += ",+amx-tile,+amx-bf16";
    return made;
  }();
  return target;
}

void expect_same(const Stem& stem, DType multiplied, int64_t packed_channels, bool tf32 = false,
                 bool channels_last = true, const Target& target = gpu()) {
  SCOPED_TRACE(testing::Message() << "kernel " << stem.kernel << " stride " << stem.stride << " pad " << stem.pad
                                  << " dilation " << stem.dilation << " channels " << stem.channels);
  Region region = convolution(stem, multiplied, channels_last);
  region.tf32 = tf32;
  std::vector<FusedTensor> tensors;
  const FusedStep whole = step_of(region, tensors);
  const TensorData image = filled(region.tensors[region.inputs[0]]);
  const TensorData expected = run({whole}, tensors, image);
  const std::vector<FusedStep> steps = pack_channels(whole, tensors, target);
  ASSERT_EQ(steps.size(), 2u);
  for (const FusedStep& step : steps) EXPECT_NO_THROW(verify(step.region));
  EXPECT_EQ(tensors[steps[0].outputs[0]].shape.back(), Size(packed_channels));
  EXPECT_EQ(steps[1].region.tf32, tf32);
  EXPECT_TRUE(run(steps, tensors, image) == expected);
}

TEST(PackChannels, windows_become_channels) {
  const DType f16 = DType::kFloat16;
  expect_same({.channels = 3, .size = 18, .kernel = 7, .stride = 2, .pad = 3, .dilation = 1}, f16, 16);     // ResNet
  expect_same({.channels = 3, .size = 17, .kernel = 3, .stride = 2, .pad = 1, .dilation = 1}, f16, 16);     // MobileNet
  expect_same({.channels = 3, .size = 32, .kernel = 16, .stride = 16, .pad = 0, .dilation = 1}, f16, 768);  // ViT
  expect_same({.channels = 1, .size = 21, .kernel = 5, .stride = 3, .pad = 2, .dilation = 1}, f16, 16);
  expect_same({.channels = 3, .size = 9, .kernel = 2, .stride = 3, .pad = 0, .dilation = 1}, f16, 16);
  expect_same({.channels = 4, .size = 19, .kernel = 6, .stride = 4, .pad = 1, .dilation = 1, .stored = f16}, f16, 64);
}

TEST(PackChannels, channels_of_f32_fill_rounds_of_a_unit_that_splits_them) {
  const DType f32 = DType::kFloat32;
  expect_same({.channels = 3, .size = 18, .kernel = 7, .stride = 2, .pad = 3, .dilation = 1}, f32, 16);
  expect_same({.channels = 3, .size = 32, .kernel = 16, .stride = 16, .pad = 0, .dilation = 1}, f32, 768);
}

TEST(PackChannels, of_processors_with_matrix_registers_have_their_taps_joined) {
  const DType bf16 = DType::kBFloat16;
  const auto expect_packed = [&](const Stem& stem, int64_t places, int64_t channels) {
    expect_same(stem, bf16, places * channels, false, true, processor());
  };
  expect_packed({.channels = 3, .size = 18, .kernel = 7, .stride = 2, .pad = 3, .dilation = 1}, 14, 16);  // ResNet
  expect_packed({.channels = 3, .size = 17, .kernel = 3, .stride = 2, .pad = 1, .dilation = 1}, 11, 16);  // MobileNet
  expect_packed({.channels = 1, .size = 20, .kernel = 10, .stride = 5, .pad = 0, .dilation = 1}, 1, 32);  // fill
}

TEST(PackChannels, results_may_have_their_channels_first) {
  const Stem patches{.channels = 3, .size = 24, .kernel = 8, .stride = 8, .pad = 0, .dilation = 1};
  expect_same(patches, DType::kFloat16, 192, false, false);
}

TEST(PackChannels, unit_strides_only_pad_the_channels) {
  // The channels of a tap fill half of an instruction: those of three lie behind each other, in rows of 15 places.
  expect_same({.channels = 3, .size = 10, .kernel = 3, .stride = 1, .pad = 1, .dilation = 1}, DType::kFloat16, 15 * 8);
  expect_same({.channels = 5, .size = 12, .kernel = 3, .stride = 1, .pad = 2, .dilation = 2}, DType::kBFloat16, 8);
  expect_same({.channels = 3, .size = 10, .kernel = 3, .stride = 1, .pad = 1, .dilation = 1}, DType::kFloat32, 4, true);
}

TEST(PackChannels, what_gains_nothing_stays) {
  const auto steps_of = [](const Stem& stem, DType multiplied, const Target& target) {
    std::vector<FusedTensor> tensors;
    const FusedStep whole = step_of(convolution(stem, multiplied), tensors);
    return pack_channels(whole, tensors, target).size();
  };
  const Stem stem{.channels = 3, .size = 10, .kernel = 3, .stride = 2, .pad = 1, .dilation = 1};
  EXPECT_EQ(steps_of(stem, DType::kFloat32, find_target("sm_86", 2)), 1u) << "its matrix units split no f32";
  Stem unit_stride = stem;
  unit_stride.stride = 1;
  EXPECT_EQ(steps_of(unit_stride, DType::kFloat32, gpu()), 1u) << "13 of 16 channels would be padding";
  EXPECT_EQ(steps_of(stem, DType::kFloat16, find_target("x86-64-v3", 2)), 1u);
  EXPECT_EQ(steps_of(stem, DType::kFloat32, processor()), 1u) << "units that split operands copy them anyway";
  Stem changed = stem;
  changed.channels = 8;
  EXPECT_EQ(steps_of(changed, DType::kFloat16, gpu()), 1u) << "8 halves are a vector";
  changed = stem;
  changed.kernel = 1;
  changed.pad = 0;
  EXPECT_EQ(steps_of(changed, DType::kFloat16, gpu()), 1u) << "without a window there is little to read";
  changed = stem;
  changed.dilation = 2;
  EXPECT_EQ(steps_of(changed, DType::kFloat16, gpu()), 1u) << "strides over dilated windows do not repeat";
}

}  // namespace
}  // namespace graft
