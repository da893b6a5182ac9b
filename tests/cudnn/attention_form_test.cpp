// SPDX-License-Identifier: Apache-2.0
// Attention calls as cuDNN takes them.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "library/cudnn/attention_form.h"

namespace graft::cudnn {
namespace {

std::string text_of(const TensorForm& t) {
  return fmt::format("{}+{} {} by {}\n", t.buffer, t.offset, t.extents, t.strides);
}

std::string form_of(const std::string& call) {
  try {
    const AttentionForm form = attention_form(parse_library_call(call));
    return "q " + text_of(form.queries) + "k " + text_of(form.keys) + "v " + text_of(form.values) + "y " +
           text_of(form.result) + fmt::format("scale {}{}\n", form.scale, form.causal ? " causal" : "") +
           (form.mask ? fmt::format("mask {} {}", name_of(form.mask->type), text_of(*form.mask)) : "");
  } catch (const Error& error) {
    return "no: " + error.message();
  }
}

constexpr const char* kOperands =
    "source 0 offset 0, strides [8192, 64, 128, 1]\n"
    "weights 1 offset 0, strides [8192, 64, 1, 128]\n"
    "result 4 offset 0, strides [8192, 64, 128, 1]\n"
    "post linear 0.125:f32 0:f32\n";

TEST(AttentionForm, heads_scale_and_a_mask_that_all_rows_share) {
  EXPECT_EQ(form_of(std::string("product f16 batch [3, 2], rows 64, columns 64, depth 64\n") + kOperands +
                    "post add 3 offset 0, strides [64, 0, 0, 1]\n"
                    "values width 64, 2 offset 0, strides [8192, 64, 128, 1]\n"),
            "q 0+0 [3, 2, 64, 64] by [8192, 64, 128, 1]\n"
            "k 1+0 [3, 2, 64, 64] by [8192, 64, 1, 128]\n"
            "v 4+0 [3, 2, 64, 64] by [8192, 64, 128, 1]\n"
            "y 2+0 [3, 2, 64, 64] by [8192, 64, 128, 1]\n"
            "scale 0.125\n"
            "mask f16 3+0 [3, 1, 1, 64] by [64, 64, 64, 1]\n");
}

TEST(AttentionForm, a_mask_may_be_wider_and_what_lies_ahead_hidden) {
  const std::string text =
      form_of(std::string("product f16 batch [3, 2], rows 64, columns 64, depth 64\n") + kOperands +
              "post add 3 f32 offset 64, strides [0, 0, 64, 1]\n"
              "causal\n"
              "values width 64, 2 offset 0, strides [8192, 64, 128, 1]\n");
  EXPECT_NE(text.find("scale 0.125 causal\nmask f32 3+64 [1, 1, 64, 64] by [4096, 4096, 64, 1]\n"), text.npos) << text;
}

TEST(AttentionForm, one_batch_axis_is_that_of_heads) {
  EXPECT_EQ(form_of("product bf16 batch [6], rows 5, columns 7, depth 64\n"
                    "source 0 offset 0, strides [320, 64, 1]\n"
                    "weights 1 offset 0, strides [448, 1, 64]\n"
                    "result 3 offset 0, strides [160, 32, 1]\n"
                    "values width 32, 2 offset 0, strides [224, 32, 1]\n"),
            "q 0+0 [1, 6, 5, 64] by [1920, 320, 64, 1]\n"
            "k 1+0 [1, 6, 64, 7] by [2688, 448, 1, 64]\n"
            "v 3+0 [1, 6, 7, 32] by [1344, 224, 32, 1]\n"
            "y 2+0 [1, 6, 5, 32] by [960, 160, 32, 1]\n"
            "scale 1\n");
}

TEST(AttentionForm, what_it_has_not_is_refused_by_name) {
  const std::string values = "values width 64, 2 offset 0, strides [8192, 64, 128, 1]\n";
  EXPECT_EQ(form_of(std::string("product f32 batch [3, 2], rows 64, columns 64, depth 64\n") + kOperands + values),
            "no: it has no attention of f32");
  EXPECT_EQ(form_of(std::string("product f16 batch [3, 2], rows 64, columns 64, depth 64\n") + kOperands +
                    "post tanh\n" + values),
            "no: its attention has no 'tanh' here");
}

}  // namespace
}  // namespace graft::cudnn
