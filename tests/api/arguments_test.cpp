// SPDX-License-Identifier: Apache-2.0
// Calls of the C interface that are wrong: the message names the tensor, the axis, the value and what it may be, and
// the session serves the next call.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "graft/graft_c.h"
#include "support/text_network.h"

namespace {

constexpr const char* kNetwork = R"(graph "network" {
  opset "" 28
  range batch 2 4 8
  input %ids: i64[batch, length]
  input %table_of_embeddings: f32[5, 3]
  input %double: f32[2*length]
  %rows: ? = Gather "look up" (%table_of_embeddings, %ids) {axis = 0}
  %y: ? = Mul "square" (%rows, %rows)
  %z: ? = Relu "clamp" (%double)
  output %y
  output %z
})";

class Arguments : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    engine_ = graft_test::compile_text(kNetwork, {{"threads", "1"}, {"mode", GetParam()}});
    graft_error error;
    ASSERT_EQ(graft_session_create(engine_, 0, &session_, &error), GRAFT_OK) << error.message;
  }
  void TearDown() override {
    graft_session_destroy(session_);
    graft_engine_release(engine_);
  }

  /// Runs; an empty text is success.
  std::string run(size_t input_count = 3, size_t output_count = 2) {
    graft_error error;
    const graft_status status =
        graft_session_run(session_, inputs_, input_count, outputs_, output_count, nullptr, &error);
    if (status == GRAFT_OK) return "";
    EXPECT_EQ(status, GRAFT_INVALID_ARGUMENT) << error.message;
    EXPECT_EQ(error.status, status);
    return error.message;
  }

  /// Fails unless the run's message holds all the words; then a right call must succeed.
  void expect_message(std::initializer_list<const char*> words, size_t input_count = 3, size_t output_count = 2) {
    const std::string message = run(input_count, output_count);
    for (const char* word : words) EXPECT_NE(message.find(word), std::string::npos) << word << " in: " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    std::copy(std::begin(right_inputs_), std::end(right_inputs_), inputs_);
    std::copy(std::begin(right_outputs_), std::end(right_outputs_), outputs_);
    EXPECT_EQ(run(), "");
  }

  int64_t ids_[8] = {0, 1, 2, 3, 4, 0, 1, 2};
  float table_[15] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  float double_[8] = {1, -1, 2, -2, 3, -3, 4, -4};
  float y_[24] = {}, z_[8] = {};
  int64_t ids_shape_[2] = {2, 4}, table_shape_[2] = {5, 3}, double_shape_[1] = {8}, y_shape_[3] = {2, 4, 3};
  static constexpr size_t kSize = sizeof(graft_tensor);
  const graft_tensor right_inputs_[3] = {
      {kSize, "ids", GRAFT_INT64, 2, ids_shape_, nullptr, ids_, sizeof ids_},
      {kSize, "table_of_embeddings", GRAFT_FLOAT32, 2, table_shape_, nullptr, table_, sizeof table_},
      {kSize, "double", GRAFT_FLOAT32, 1, double_shape_, nullptr, double_, sizeof double_}};
  const graft_tensor right_outputs_[2] = {{kSize, "y", GRAFT_FLOAT32, 3, y_shape_, nullptr, y_, sizeof y_},
                                          {kSize, "z", GRAFT_FLOAT32, 1, double_shape_, nullptr, z_, sizeof z_}};
  graft_tensor inputs_[3] = {right_inputs_[0], right_inputs_[1], right_inputs_[2]};
  graft_tensor outputs_[2] = {right_outputs_[0], right_outputs_[1]};
  graft_engine* engine_ = nullptr;
  graft_session* session_ = nullptr;
};

TEST_P(Arguments, types_are_checked) {
  inputs_[0].dtype = GRAFT_INT32;
  expect_message({"'ids'", "i64", "i32"});
  inputs_[1].dtype = 77;
  expect_message({"'table_of_embeddings'", "77"});
  inputs_[1].dtype = -1;
  expect_message({"'table_of_embeddings'", "-1"});
  outputs_[1].dtype = GRAFT_FLOAT64, outputs_[1].bytes = 0;
  expect_message({"output 'z'", "f32", "f64"});
}

TEST_P(Arguments, ranks_are_checked) {
  inputs_[0].rank = 1;
  expect_message({"'ids'", "2 axes", "[2]"});
  inputs_[0].rank = -1;
  expect_message({"'ids'", "-1", "64"});
  inputs_[0].rank = 65;
  expect_message({"'ids'", "65", "64"});
  outputs_[0].rank = 2;
  expect_message({"output 'y'", "[2, 4, 3]", "[2, 4]"});
}

TEST_P(Arguments, sizes_are_checked) {
  const int64_t five_four[] = {5, 4}, nine[] = {9, 4}, one[] = {1, 4}, negative[] = {2, -4}, seven[] = {7};
  inputs_[1].shape = five_four, inputs_[1].bytes = 0;
  expect_message({"'table_of_embeddings'", "axis 1", "3", "4"});
  inputs_[0].shape = nine, inputs_[0].bytes = 0;
  expect_message({"'ids'", "axis 0", "batch = 9", "2..8"});
  inputs_[0].shape = one, inputs_[0].bytes = 0;
  expect_message({"'ids'", "axis 0", "batch = 1", "2..8"});
  inputs_[0].shape = negative, inputs_[0].bytes = 0;
  expect_message({"'ids'", "axis 1", "-4"});
  inputs_[2].shape = seven;
  expect_message({"'double'", "axis 0", "2*length = 8", "7"});
  outputs_[1].shape = seven;
  expect_message({"output 'z'", "[8]", "[7]"});
}

TEST_P(Arguments, sizes_beyond_memory_are_refused) {
  const int64_t huge[] = {8, std::numeric_limits<int64_t>::max() / 8};
  inputs_[0].shape = huge, inputs_[0].bytes = 0;
  expect_message({"'ids'", "memory"});
  const int64_t far[] = {std::numeric_limits<int64_t>::max() / 2, 1};
  inputs_[0].strides = far, inputs_[0].bytes = 0;
  expect_message({"'ids'", "strides", "memory"});
  const int64_t below[] = {std::numeric_limits<int64_t>::min(), 1};
  inputs_[0].strides = below, inputs_[0].bytes = 0;
  expect_message({"'ids'", "strides", "memory"});
}

TEST_P(Arguments, memory_that_is_too_short_is_refused) {
  inputs_[0].bytes = sizeof ids_ - 1;
  expect_message({"'ids'", "64", "63"});
  const int64_t apart[] = {5, 1};
  inputs_[0].strides = apart;
  expect_message({"'ids'", "72", "64"});
  outputs_[0].bytes = 12;
  expect_message({"output 'y'", "96", "12"});
}

TEST_P(Arguments, missing_pointers_are_named) {
  inputs_[1].data = nullptr;
  expect_message({"'table_of_embeddings'", "NULL"});
  const int64_t backwards[] = {-4, -1};
  inputs_[0].data = nullptr, inputs_[0].strides = backwards;
  expect_message({"'ids'", "NULL"});
  inputs_[2].shape = nullptr;
  expect_message({"'double'", "shape", "NULL"});
  outputs_[0].shape = nullptr;
  expect_message({"output 'y'", "shape", "NULL"});
  graft_error error;
  EXPECT_EQ(graft_session_run(session_, nullptr, 3, outputs_, 2, nullptr, &error), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_session_run(session_, inputs_, 3, nullptr, 2, nullptr, &error), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_session_run(nullptr, inputs_, 3, outputs_, 2, nullptr, &error), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_session_run(nullptr, inputs_, 3, outputs_, 2, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
}

TEST_P(Arguments, each_input_is_given_once) {
  expect_message({"'double'", "not given"}, 2);
  expect_message({"'ids'", "not given"}, 0);
  inputs_[2] = inputs_[0];
  expect_message({"'ids'", "twice"});
  inputs_[2].name = "triple";
  expect_message({"'triple'", "ids, table_of_embeddings, double"});
  outputs_[1].name = "w";
  expect_message({"'w'", "y, z"});
  outputs_[1].name = "y";
  expect_message({"'y'", "twice"});
  const graft_tensor fourth = {kSize, nullptr, GRAFT_FLOAT32, 1, double_shape_, nullptr, double_, sizeof double_};
  const graft_tensor four[] = {inputs_[0], inputs_[1], inputs_[2], fourth};
  graft_error error;
  EXPECT_EQ(graft_session_run(session_, four, 4, outputs_, 2, nullptr, &error), GRAFT_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(error.message, "4 inputs"), nullptr) << error.message;
}

TEST_P(Arguments, a_struct_size_that_is_not_set_is_named) {
  inputs_[1].struct_size = 0;
  expect_message({"inputs", "struct_size of tensor 1", "sizeof(graft_tensor)"});
  inputs_[1].struct_size = kSize, outputs_[0].struct_size = 8;
  expect_message({"outputs", "struct_size of tensor 0"});
}

TEST_P(Arguments, tensors_of_a_later_version_are_read_at_their_distance) {
  struct Later {
    graft_tensor tensor;
    int64_t more[5] = {-1, -1, -1, -1, -1};
  };
  Later inputs[3], outputs[2];
  for (size_t i = 0; i < 3; ++i) inputs[i].tensor = inputs_[i], inputs[i].tensor.struct_size = sizeof(Later);
  for (size_t i = 0; i < 2; ++i) outputs[i].tensor = outputs_[i], outputs[i].tensor.struct_size = sizeof(Later);
  graft_error error{};
  EXPECT_EQ(graft_session_run(session_, &inputs[0].tensor, 3, &outputs[0].tensor, 2, nullptr, &error), GRAFT_OK)
      << error.message;
  EXPECT_EQ(run(), "");
}

TEST_P(Arguments, indices_out_of_range_are_named) {
  ids_[3] = 5;
  const std::string message = run();
  EXPECT_NE(message.find("look up"), std::string::npos) << message;
  EXPECT_NE(message.find("5"), std::string::npos) << message;
  ids_[3] = -1;  // counts from the end
  EXPECT_EQ(run(), "");
  EXPECT_EQ(y_[9], 169);
}

TEST_P(Arguments, sessions_are_made_for_a_sensible_number_of_threads) {
  graft_session* session = nullptr;
  graft_error error;
  EXPECT_EQ(graft_session_create(engine_, -1, &session, &error), GRAFT_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(error.message, "-1"), nullptr) << error.message;
  EXPECT_EQ(graft_session_create(engine_, 1 << 20, &session, &error), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_session_create(nullptr, 1, &session, &error), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_session_create(engine_, 1, nullptr, &error), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(session, nullptr);
}

TEST_P(Arguments, nothing_is_allowed_where_nothing_is_needed) {
  graft_session_destroy(nullptr);
  graft_engine_release(nullptr);
  EXPECT_EQ(graft_engine_retain(nullptr), nullptr);
  EXPECT_EQ(graft_engine_input(engine_, 3), nullptr);
  EXPECT_EQ(graft_engine_output(nullptr, 0), nullptr);
  EXPECT_EQ(graft_session_profile(nullptr, nullptr, 0), 0u);
  EXPECT_EQ(run(3, 0), "");
}

INSTANTIATE_TEST_SUITE_P(Api, Arguments, testing::Values("generated", "interpret"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
