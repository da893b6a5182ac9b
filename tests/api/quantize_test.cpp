// SPDX-License-Identifier: Apache-2.0
// Quantising through the public headers: samples and a metric from functions of the caller.
#include "graft/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "base/random.h"
#include "graft/graft_host.h"
#include "plan/temporary_directory.h"
#include "support/text_network.h"

namespace {

constexpr char kNetwork[] = R"(graph "network" {
  opset "" 28
  input %x: f32[batch, 12]
  constant %w1: f32[12, 32] = all 0.5
  constant %w2: f32[32, 4] = all 0.25
  %m: ? = MatMul "hidden" (%x, %w1)
  %r: ? = Relu "clamp" (%m)
  %y: f32[batch, 4] = MatMul "last" (%r, %w2)
  output %y
})";
constexpr int64_t kRows = 8, kColumns = 12;

class Quantize : public testing::Test {
 protected:
  void SetUp() override {
    graft::Random random(3);
    model_ = folder_.path() + "/network.onnx";
    std::ofstream(model_, std::ios::binary) << graft_test::onnx_of_text(kNetwork);
    for (float& element : samples_) element = static_cast<float>(random.uniform(-2, 2));
  }

  /// Three batches of the same samples, the last one half as long.
  std::vector<graft::TensorView> batch(size_t index) {
    asked_.push_back(index);
    if (index == 3) return {};
    return {graft::view("x", samples_.data(), {index == 2 ? kRows / 2 : kRows, kColumns})};
  }
  graft::Calibration calibration() {
    return {.batch = [this](size_t index) { return batch(index); }};
  }
  std::vector<float> run(const graft::Engine& engine) {
    graft::Session session(engine);
    graft::TensorView input = graft::view("x", samples_.data(), {kRows, kColumns}), output{.name = "y"};
    const graft::Status status = session.run({input}, {&output, 1});
    EXPECT_TRUE(status.ok()) << status.message();
    const auto* data = static_cast<const float*>(output.data);
    return {data, data + kRows * 4};
  }

  graft::TemporaryDirectory folder_;
  std::string model_;
  std::vector<float> samples_ = std::vector<float>(kRows * kColumns);
  std::vector<size_t> asked_;
};

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max<double>(largest, std::fabs(a[i] - b[i]));
  return largest;
}

TEST_F(Quantize, asks_for_batches_until_there_is_none) {
  const graft::Quantized made = graft::quantize(model_, calibration());
  EXPECT_EQ(asked_, (std::vector<size_t>{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_NE(made.report().find(R"("samples":20)"), std::string::npos) << made.report();
  EXPECT_NE(made.text().find("2 of 2 layers are int8"), std::string::npos) << made.text();
}

TEST_F(Quantize, gives_a_model_and_an_engine_near_f32) {
  const graft::Quantized made = graft::quantize(model_, calibration(), {{"method", "minmax"}, {"threads", "1"}});
  const std::string file = folder_.path() + "/quantized.onnx";
  made.save(file);
  EXPECT_NE(made.model().find("QuantizeLinear"), std::string::npos);
  const std::vector<float> exact = run(graft::compile(model_)), low = run(made.compile());
  EXPECT_LT(largest_difference(exact, low), 0.3);
  EXPECT_GT(largest_difference(exact, low), 0);
  EXPECT_LT(largest_difference(low, run(graft::compile(file))), 1e-5);
}

TEST_F(Quantize, keeps_layers_that_the_metric_needs) {
  graft::Calibration given = calibration();
  const std::vector<float> exact = run(graft::compile(model_));
  given.metric = [&](const graft::Engine& network) { return -largest_difference(run(network), exact); };
  EXPECT_NE(graft::quantize(model_, given, {{"max-drop", "10"}}).text().find("2 of 2 layers"), std::string::npos);
  try {
    graft::quantize(model_, given, {{"max-drop", "0"}});
    FAIL() << "a bound of nothing was met";
  } catch (const graft::Error& error) {
    EXPECT_EQ(error.kind(), graft::ErrorKind::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("the best that was found has a metric of"), std::string::npos);
  }
}

TEST_F(Quantize, lets_what_the_caller_throws_through) {
  graft::Calibration failing = calibration();
  failing.batch = [](size_t) -> std::vector<graft::TensorView> { throw std::out_of_range("no such sample"); };
  EXPECT_THROW(graft::quantize(model_, failing), std::out_of_range);
  failing = calibration();
  failing.metric = [](const graft::Engine&) -> double { throw std::logic_error("no score"); };
  EXPECT_THROW(graft::quantize(model_, failing), std::logic_error);
}

TEST_F(Quantize, names_what_is_wrong) {
  const auto said = [&](const graft::Calibration& given, const std::vector<std::pair<std::string, std::string>>& more) {
    try {
      graft::quantize(model_, given, more);
    } catch (const graft::Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const auto with = [&](std::vector<graft::TensorView> views) {
    return graft::Calibration{.batch = [views](size_t) { return views; }, .count = 1};
  };
  float* const data = samples_.data();
  EXPECT_NE(said(with({graft::view("z", data, {2, 12})}), {}).find("no tensor for the input 'x'"), std::string::npos);
  EXPECT_NE(said(with({graft::view("x", data, {2, 11})}), {}).find("its shape is [2, 11]"), std::string::npos);
  EXPECT_NE(said(with({graft::view("x", data, {2, 12}, {1, 2})}), {}).find("not row-major"), std::string::npos);
  EXPECT_NE(said(with({graft::view<float>("x", nullptr, {2, 12})}), {}).find("has no data"), std::string::npos);
  EXPECT_NE(said(with({{.name = "x", .shape = {2, 12}, .data = data}}), {}).find("no element type"), std::string::npos);
  EXPECT_NE(said({}, {}).find("int8 needs samples of the inputs, or a calibration file"), std::string::npos);
  EXPECT_NE(said(calibration(), {{"method", "best"}}).find("mse, entropy"), std::string::npos);
  EXPECT_NE(said(calibration(), {{"max-error", "1x"}}).find("'1x' is not a share"), std::string::npos);
  EXPECT_NE(said(calibration(), {{"max-drop", "1"}}).find("there is no metric"), std::string::npos);
  EXPECT_NE(said(calibration(), {{"metod", "mse"}}).find("metod"), std::string::npos);
}

TEST_F(Quantize, tells_in_c_what_a_function_says_and_stops_when_asked) {
  graft_calibration given = {};
  given.struct_size = sizeof given;
  given.batch = [](void*, size_t, graft_tensor*, size_t, graft_error* error) {
    error->status = GRAFT_DEVICE;
    std::strcpy(error->message, "the camera is off");
    return -1;
  };
  graft_quantized* made = nullptr;
  graft_error error;
  const auto quantize = [&](graft_progress_function progress) {
    return graft_quantize(model_.c_str(), nullptr, 0, nullptr, 0, &given, progress, nullptr, &made, &error);
  };
  EXPECT_EQ(quantize(nullptr), GRAFT_DEVICE);
  EXPECT_STREQ(error.message, "batch: the camera is off");
  EXPECT_EQ(quantize([](void*, const char*, const char*, int32_t, int32_t) { return 1; }), GRAFT_CANCELLED);
  given.struct_size = 8;
  EXPECT_EQ(quantize(nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(made, nullptr);
  graft_quantized_destroy(nullptr);
}

/// Engines that run in f32 and learn to be of 8 bits.
class Learning : public Quantize {
 protected:
  graft::Engine compiled(std::vector<std::pair<std::string, std::string>> more) {
    return graft::compile(model_, {.tune = "off", .precision = "int8", .extra = std::move(more)});
  }
  std::string said(const std::string& precision, const std::vector<std::pair<std::string, std::string>>& more) {
    try {
      graft::compile(model_, {.precision = precision, .extra = more});
    } catch (const graft::Error& error) {
      return error.what();
    }
    return "nothing";
  }
  std::vector<float> exact() { return run(graft::compile(model_)); }
};

TEST_F(Learning, changes_over_after_so_many_runs_and_takes_its_sessions_along) {
  const graft::Engine engine = compiled({{"calibration-iters", "2"}});
  graft::Session session(engine);
  const auto run_once = [&] {
    const graft::TensorView input = graft::view("x", samples_.data(), {kRows, kColumns});
    graft::TensorView output{.name = "y"};
    const graft::Status status = session.run({input}, {&output, 1});
    EXPECT_TRUE(status.ok()) << status.message();
    const auto* data = static_cast<const float*>(output.data);
    return std::vector<float>(data, data + kRows * 4);
  };
  const std::vector<float> wanted = exact();
  for (int64_t n = 0; n < 2; ++n) {
    EXPECT_EQ(graft_engine_calibration_runs(engine.handle()), n);
    EXPECT_LT(largest_difference(run_once(), wanted), 1e-4);
  }
  EXPECT_EQ(graft_engine_calibration_runs(engine.handle()), -1);
  const std::vector<float> low = run_once();
  EXPECT_GT(largest_difference(low, wanted), 1e-4);
  EXPECT_LT(largest_difference(low, wanted), 0.3);
  EXPECT_NE(std::string(graft_engine_quantization_text(engine.handle())).find("2 of 2 layers are int8"),
            std::string::npos);
}

TEST_F(Learning, changes_over_when_it_is_told_to) {
  const graft::Engine engine = compiled({{"calibration-iters", "0"}});
  graft_error error;
  EXPECT_EQ(graft_engine_finish_calibration(engine.handle(), nullptr, nullptr, nullptr, &error),
            GRAFT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error.message).find("nothing has run yet"), std::string::npos) << error.message;
  EXPECT_STREQ(graft_engine_quantization_report(engine.handle()), "null");
  for (int n = 0; n < 3; ++n) run(engine);
  EXPECT_EQ(graft_engine_calibration_runs(engine.handle()), 3);
  graft_engine* made = nullptr;
  ASSERT_EQ(graft_engine_finish_calibration(engine.handle(), nullptr, nullptr, &made, &error), GRAFT_OK)
      << error.message;
  const graft::Engine quantized(made);
  EXPECT_EQ(run(quantized), run(engine));
  EXPECT_GT(largest_difference(run(engine), exact()), 1e-4);
}

TEST_F(Learning, gives_what_graft_quantize_gives_for_the_same_samples) {
  const graft::Engine engine = compiled({{"calibration-iters", "1"}, {"method", "minmax"}});
  run(engine);
  graft::Calibration once{.batch = [this](size_t index) -> std::vector<graft::TensorView> {
    if (index > 0) return {};
    return {graft::view("x", samples_.data(), {kRows, kColumns})};
  }};
  EXPECT_EQ(run(engine), run(graft::quantize(model_, once, {{"method", "minmax"}, {"tune", "off"}}).compile()));
}

TEST_F(Learning, keeps_ranges_in_a_file_and_refuses_that_of_another_network) {
  const std::string file = folder_.path() + "/ranges.json";
  const graft::Engine engine = compiled({{"calibration-iters", "1"}, {"calibration-file", file}});
  const std::vector<float> wanted = (run(engine), run(engine));
  EXPECT_EQ(run(compiled({{"calibration-file", file}})), wanted);
  EXPECT_EQ(graft_engine_calibration_runs(compiled({{"calibration-iters", "1"}, {"calibration-file", file}}).handle()),
            -1);
  std::string other = kNetwork;
  other.replace(other.find("0.25"), 4, "0.75");
  std::ofstream(model_, std::ios::binary) << graft_test::onnx_of_text(other);
  EXPECT_NE(said("int8", {{"calibration-iters", "1"}, {"calibration-file", file}})
                .find("calibrated for another network"), std::string::npos);
}

TEST_F(Learning, stays_f32_where_samples_cannot_calibrate) {
  const graft::Engine engine = compiled({{"calibration-iters", "1"}});
  const float kept = std::exchange(samples_[3], std::nanf(""));
  const uint64_t before = graft_host_fallback_count();
  run(engine);
  samples_[3] = kept;
  EXPECT_EQ(graft_host_fallback_count(), before + 1);
  EXPECT_EQ(graft_engine_calibration_runs(engine.handle()), -1);
  EXPECT_LT(largest_difference(run(engine), exact()), 1e-4);
}

TEST_F(Learning, names_what_is_missing) {
  EXPECT_NE(said("int8", {}).find("give samples of the inputs to calibrate with"), std::string::npos);
  EXPECT_NE(said("fp32", {{"calibration-iters", "2"}}).find("a choice of the precisions int8"), std::string::npos);
  EXPECT_NE(said("int8", {{"calibration-iters", "-1"}}).find("is not a number of runs"),
            std::string::npos);
  EXPECT_NE(said("int8", {{"calibration-file", folder_.path() + "/none.json"}})
                .find("give samples of the inputs"), std::string::npos);
}

}  // namespace
