// SPDX-License-Identifier: Apache-2.0
// Library calls in the terms of cuBLASLt: how operands lie, what its epilogue does, and what it refuses.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error.h"
#include "library/cublaslt/product_form.h"

namespace graft::cublaslt {
namespace {

std::string text_of(const Matrix& m) {
  return fmt::format("{}+{} {}{}x{} ld {} batch {}", m.buffer, m.offset, m.transposed ? "T " : "", m.rows, m.columns,
                     m.leading, m.batch_stride);
}

std::string form_of(const std::string& call) {
  try {
    const ProductForm form = product_form(parse_library_call(call));
    std::string text = fmt::format("{} batch {} alpha {}\na {}\nb {}\nd {}\n", name_of(form.type), form.batch,
                                   form.alpha, text_of(form.a), text_of(form.b), text_of(form.result));
    if (form.added) text += "c " + text_of(*form.added) + "\n";
    if (form.bias) text += fmt::format("bias {}+{}\n", form.bias->buffer, form.bias->offset);
    if (form.activation != Activation::kNone) text += form.activation == Activation::kRelu ? "relu\n" : "gelu_tanh\n";
    for (const auto& r : form.repeats)
      text += fmt::format("{} times {} {} {} {}\n", r.count, r.a, r.b, r.result, r.added);
    return text;
  } catch (const Error& error) {
    return "no: " + error.message();
  }
}

constexpr const char* kProduct =
    "product f32 batch [], rows 5, columns 64, depth 32\n"
    "source 0 offset 0, strides [32, 1]\n"
    "weights 1 offset 4, strides [64, 1]\n"
    "result 2 offset 0, strides [64, 1]\n";

TEST(ProductForm, rows_of_the_result_are_columns_of_cublaslt) {
  EXPECT_EQ(form_of(kProduct),
            "f32 batch 1 alpha 1\n"
            "a 1+4 64x32 ld 64 batch 0\n"
            "b 0+0 32x5 ld 32 batch 0\n"
            "d 2+0 64x5 ld 64 batch 0\n");
}

TEST(ProductForm, transposed_operands_are_told_by_their_strides) {
  EXPECT_EQ(form_of("product f16 batch [], rows 5, columns 64, depth 32\n"
                    "source 0 offset 0, strides [1, 8]\n"
                    "weights 1 offset 0, strides [1, 40]\n"
                    "result 2 offset 0, strides [64, 1]\n"),
            "f16 batch 1 alpha 1\n"
            "a 1+0 T 32x64 ld 40 batch 0\n"
            "b 0+0 T 5x32 ld 8 batch 0\n"
            "d 2+0 64x5 ld 64 batch 0\n");
}

TEST(ProductForm, weights_in_panels_of_one_column_are_columns_one_after_the_other) {
  EXPECT_EQ(form_of("product f16 batch [], rows 5, columns 64, depth 32\n"
                    "source 0 offset 0, strides [32, 1]\n"
                    "weights 1 offset 0, panel 1\n"
                    "result 2 offset 0, strides [64, 1]\n"),
            "f16 batch 1 alpha 1\n"
            "a 1+0 T 32x64 ld 32 batch 0\n"
            "b 0+0 32x5 ld 32 batch 0\n"
            "d 2+0 64x5 ld 64 batch 0\n");
}

TEST(ProductForm, a_result_by_columns_exchanges_the_operands) {
  EXPECT_EQ(form_of("product f32 batch [], rows 5, columns 64, depth 32\n"
                    "source 0 offset 0, strides [32, 1]\n"
                    "weights 1 offset 0, strides [64, 1]\n"
                    "result 2 offset 0, strides [1, 5]\n"),
            "f32 batch 1 alpha 1\n"
            "a 0+0 T 32x5 ld 32 batch 0\n"
            "b 1+0 T 64x32 ld 64 batch 0\n"
            "d 2+0 5x64 ld 5 batch 0\n");
}

TEST(ProductForm, scale_bias_residual_and_relu_are_its_epilogue) {
  EXPECT_EQ(form_of(std::string(kProduct) + "post linear 0.125:f32 0:f32\n"
                                            "post add 3 offset 2, strides [0, 1]\n"
                                            "post add 4 offset 0, strides [64, 1]\n"
                                            "post relu 0:f32\n"),
            "f32 batch 1 alpha 0.125\n"
            "a 1+4 64x32 ld 64 batch 0\n"
            "b 0+0 32x5 ld 32 batch 0\n"
            "d 2+0 64x5 ld 64 batch 0\n"
            "c 4+0 64x5 ld 64 batch 0\n"
            "bias 3+2\n"
            "relu\n");
}

TEST(ProductForm, other_epilogues_are_refused_by_name) {
  EXPECT_EQ(form_of(std::string(kProduct) + "post gelu\n"), "no: it has no epilogue for 'gelu' here");
  EXPECT_EQ(form_of(std::string(kProduct) + "post relu 0.1:f32\n"), "no: it has no epilogue for 'relu' here");
  EXPECT_EQ(form_of(std::string(kProduct) + "post linear 1:f32 2:f32\n"), "no: it has no epilogue for 'linear' here");
  EXPECT_EQ(form_of(std::string(kProduct) + "post relu 0:f32\npost add 3 offset 0, strides [64, 1]\n"),
            "no: something follows the activation function");
  EXPECT_EQ(form_of(std::string(kProduct) + "post add 3 offset 0, strides [1, 0]\n"),
            "no: the tensor that is added lies in another order than the result");
}

TEST(ProductForm, batch_axes_that_run_together_are_one_and_others_repeat) {
  EXPECT_EQ(form_of("product f32 batch [2, 3], rows 9, columns 9, depth 32\n"
                    "source 0 offset 0, strides [864, 32, 96, 1]\n"
                    "weights 1 offset 0, strides [864, 32, 1, 96]\n"
                    "result 2 offset 0, strides [243, 81, 9, 1]\n"),
            "f32 batch 3 alpha 1\n"
            "a 1+0 T 32x9 ld 96 batch 32\n"
            "b 0+0 32x9 ld 96 batch 32\n"
            "d 2+0 9x9 ld 9 batch 81\n"
            "2 times 864 864 243 0\n");
  EXPECT_EQ(form_of("product f32 batch [2, 3], rows 4, columns 6, depth 8\n"
                    "source 0 offset 0, strides [96, 32, 8, 1]\n"
                    "weights 1 offset 0, strides [0, 0, 6, 1]\n"
                    "result 2 offset 0, strides [72, 24, 6, 1]\n"),
            "f32 batch 6 alpha 1\n"
            "a 1+0 6x8 ld 6 batch 0\n"
            "b 0+0 8x4 ld 8 batch 32\n"
            "d 2+0 6x4 ld 6 batch 24\n");
}

TEST(ProductForm, operands_without_a_contiguous_axis_are_refused) {
  EXPECT_EQ(form_of("product f32 batch [], rows 5, columns 64, depth 32\n"
                    "source 0 offset 0, strides [64, 2]\n"
                    "weights 1 offset 0, strides [64, 1]\n"
                    "result 2 offset 0, strides [64, 1]\n"),
            "no: neither rows nor columns of the source are contiguous");
}

TEST(ProductForm, a_single_row_or_column_lies_in_any_order) {
  EXPECT_EQ(form_of("product f32 batch [], rows 1, columns 1, depth 32\n"
                    "source 0 offset 0, strides [0, 1]\n"
                    "weights 1 offset 0, strides [1, 0]\n"
                    "result 2 offset 0, strides [0, 0]\n"),
            "f32 batch 1 alpha 1\n"
            "a 1+0 T 32x1 ld 32 batch 0\n"
            "b 0+0 32x1 ld 32 batch 0\n"
            "d 2+0 1x1 ld 1 batch 0\n");
}

TEST(ProductForm, convolutions_and_panels_are_refused) {
  EXPECT_EQ(form_of("product f32 batch [], rows 1, columns 8, depth 8\n"
                    "window input 9, output 7, kernel 3, stride 1, dilation 1, before 0\n"
                    "source 0 offset 0, strides [72, 1, 8]\n"
                    "weights 1 offset 0, strides [1, 8, 64]\n"
                    "result 2 offset 0, strides [56, 1, 8]\n"),
            "no: it does products of matrices only");
}

}  // namespace
}  // namespace graft::cublaslt
