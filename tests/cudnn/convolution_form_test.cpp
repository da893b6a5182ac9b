// SPDX-License-Identifier: Apache-2.0
// Library calls as cuDNN's graph of operations: extents and strides as it wants them, and what it refuses.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "library/cudnn/convolution_form.h"

namespace graft::cudnn {
namespace {

std::string text_of(const TensorForm& t) {
  return fmt::format("{}+{} {} by {}", t.buffer, t.offset, t.extents, t.strides);
}

std::string form_of(const std::string& call) {
  try {
    const ConvolutionForm form = convolution_form(parse_library_call(call));
    std::string text =
        fmt::format("x {}\nw {}\ny {}\nstrides {} dilations {} before {} after {}\n", text_of(form.source),
                    text_of(form.weights), text_of(form.result), form.strides, form.dilations, form.before, form.after);
    for (const PointwiseForm& operation : form.operations) {
      text += operation.kind == Pointwise::kAdd ? fmt::format("add {}\n", text_of(operation.operand))
                                                : fmt::format("relu {}\n", operation.largest);
    }
    return text;
  } catch (const Error& error) {
    return "no: " + error.message();
  }
}

TEST(ConvolutionForm, a_residual_is_added_before_the_bias) {
  EXPECT_EQ(form_of("product f32 batch [], rows 2, columns 32, depth 8\n"
                    "window input 14, output 7, kernel 3, stride 2, dilation 1, before 1\n"
                    "window input 13, output 13, kernel 3, stride 1, dilation 1, before 1\n"
                    "source 0 offset 0, strides [1456, 1, 104, 8]\n"
                    "weights 1 offset 0, panel 1\n"
                    "result 4 offset 0, strides [2912, 1, 416, 32]\n"
                    "post add 2 offset 0, strides [0, 1, 0, 0]\n"
                    "post add 3 offset 4, strides [2912, 1, 416, 32]\n"
                    "post clip 0:f32 6:f32\n"),
            "x 0+0 [2, 8, 14, 13] by [1456, 1, 104, 8]\n"
            "w 1+0 [32, 8, 3, 3] by [72, 1, 24, 8]\n"
            "y 2+0 [2, 32, 7, 13] by [2912, 1, 416, 32]\n"
            "strides [2, 1] dilations [1, 1] before [1, 1] after [0, 1]\n"
            "add 4+4 [2, 32, 7, 13] by [2912, 1, 416, 32]\n"
            "add 3+0 [1, 32, 1, 1] by [32, 1, 32, 32]\n"
            "relu 6\n");
}

TEST(ConvolutionForm, groups_are_told_by_the_inputs_of_the_weights) {
  EXPECT_EQ(form_of("product f16 batch [48], rows 1, columns 1, depth 1\n"
                    "window input 9, output 7, kernel 3, stride 1, dilation 1, before 0\n"
                    "window input 10, output 8, kernel 3, stride 1, dilation 1, before 0\n"
                    "source 0 offset 0, strides [1, 0, 0, 480, 48]\n"
                    "weights 1 offset 0, strides [9, 0, 0, 3, 1]\n"
                    "result 2 offset 0, strides [1, 0, 0, 384, 48]\n"),
            "x 0+0 [1, 48, 9, 10] by [4320, 1, 480, 48]\n"
            "w 1+0 [48, 1, 3, 3] by [9, 1, 3, 1]\n"
            "y 2+0 [1, 48, 7, 8] by [2688, 1, 384, 48]\n"
            "strides [1, 1] dilations [1, 1] before [0, 0] after [0, 0]\n");
}

TEST(ConvolutionForm, one_position_axis_becomes_two) {
  EXPECT_EQ(form_of("product f32 batch [], rows 2, columns 4, depth 8\n"
                    "window input 14, output 12, kernel 3, stride 1, dilation 1, before 0\n"
                    "source 0 offset 0, strides [112, 1, 8]\n"
                    "weights 1 offset 0, strides [3, 24, 1]\n"
                    "result 2 offset 0, strides [48, 1, 4]\n"),
            "x 0+0 [2, 8, 1, 14] by [112, 1, 112, 8]\n"
            "w 1+0 [4, 8, 1, 3] by [24, 3, 3, 1]\n"
            "y 2+0 [2, 4, 1, 12] by [48, 1, 48, 4]\n"
            "strides [1, 1] dilations [1, 1] before [0, 0] after [0, 0]\n");
}

TEST(ConvolutionForm, other_operations_and_products_are_refused_by_name) {
  const std::string call =
      "product f32 batch [], rows 2, columns 4, depth 8\n"
      "window input 14, output 12, kernel 3, stride 1, dilation 1, before 0\n"
      "source 0 offset 0, strides [112, 1, 8]\n"
      "weights 1 offset 0, strides [3, 24, 1]\n"
      "result 2 offset 0, strides [48, 1, 4]\n";
  EXPECT_EQ(form_of(call + "post relu 0:f32\n"), "no: it is slow at an activation of f32 without a bias");
  EXPECT_EQ(form_of(call + "post gelu\n"), "no: no operation of it is 'gelu' here");
  EXPECT_EQ(form_of(call + "post clip -1:f32 1:f32\n"), "no: no operation of it is 'clip' here");
  EXPECT_EQ(form_of("product f32 batch [], rows 5, columns 64, depth 32\n"
                    "source 0 offset 0, strides [32, 1]\n"
                    "weights 1 offset 4, strides [64, 1]\n"
                    "result 2 offset 0, strides [64, 1]\n"),
            "no: it does convolutions and attention only");
}

}  // namespace
}  // namespace graft::cudnn
