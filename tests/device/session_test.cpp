// SPDX-License-Identifier: Apache-2.0
// Sessions whose tensors lie in the memory of a device: a GPU where there is one, and pages that the host may not
// touch.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "api/handles.h"
#include "base/random.h"
#include "device/cuda/cuda_device.h"
#include "device/paged_device.h"
#include "runtime/session.h"
#include "support/text_network.h"

namespace graft {
namespace {

constexpr int64_t kRows = 3, kColumns = 32;

/// Memory of a device that goes back at the end of a test.
class DeviceArray {
 public:
  DeviceArray(Device& device, size_t bytes) : stream_(device.make_stream()), bytes_(bytes) {
    data_ = static_cast<char*>(stream_->allocate(static_cast<int64_t>(bytes)));
  }
  ~DeviceArray() { stream_->release(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  char* data() const { return data_; }
  void write(const std::vector<float>& values, size_t offset = 0) {
    stream_->upload(data_ + offset, values.data(), values.size() * sizeof(float));
  }
  std::vector<float> read(size_t offset = 0) {
    std::vector<float> values((bytes_ - offset) / sizeof(float));
    stream_->download(values.data(), data_ + offset, values.size() * sizeof(float));
    return values;
  }

 private:
  std::unique_ptr<DeviceStream> stream_;
  char* data_ = nullptr;
  size_t bytes_;
};

std::vector<float> seeded(uint64_t seed) {
  std::vector<float> values(kRows * kColumns * 2);
  Random random(seed);
  for (float& value : values) value = static_cast<float>(random.uniform(-1, 1));
  return values;
}

void expect_close(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-5 * (1 + std::abs(b[i]))) << "element " << i;
}

class OnDevice : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (is_gpu() && !why_no_cuda_device().empty()) GTEST_SKIP() << why_no_cuda_device();
    device_ = is_gpu() ? open_cuda_device(0) : graft_test::make_paged_device();
    session_.emplace(load(graft_test::kAttention), 1);
  }
  bool is_gpu() const { return GetParam() == "cuda"; }

  /// A network on the device, with kernels where those run.
  std::shared_ptr<const LoadedEngine> load(const char* text) {
    graft_engine* engine = nullptr;
    if (is_gpu()) {
      engine = graft_test::compile_text(text, {{"device", "cuda"}, {"tune", "off"}});
    } else {
      engine = graft_test::compile_text(text, {{"mode", "interpret"}});
    }
    auto loaded = engine->loaded;
    graft_engine_release(engine);
    return is_gpu() ? loaded : load_code(loaded->engine, {}, device_);
  }
  BufferView view(void* data, bool on_device) const {
    return {data, DType::kFloat32, {2, kRows, kColumns}, {}, on_device};
  }
  /// Runs on the device's memory and waits.
  Status run(const BufferView& x, BufferView y) {
    Status status = session_->run({&x, 1}, {&y, 1});
    return status.ok() ? session_->wait() : status;
  }
  /// The result with host memory on both sides.
  std::vector<float> expected(std::vector<float> x) {
    std::vector<float> y(x.size());
    const Status status = run(view(x.data(), false), view(y.data(), false));
    EXPECT_TRUE(status.ok()) << status.message();
    return y;
  }

  std::shared_ptr<Device> device_;
  std::optional<Session> session_;
};

TEST_P(OnDevice, tensors_are_used_where_they_lie) {
  const std::vector<float> x = seeded(1);
  const std::vector<float> y = expected(x);
  DeviceArray from(*device_, x.size() * sizeof(float)), to(*device_, x.size() * sizeof(float));
  from.write(x);
  for (int i = 0; i < 4; ++i) {  // step by step, recorded, replayed
    to.write(seeded(9));
    const Status status = run(view(from.data(), true), view(to.data(), true));
    ASSERT_TRUE(status.ok()) << status.message();
    expect_close(to.read(), y);
  }
  expect_close(from.read(), x);
}

TEST_P(OnDevice, what_the_session_gives_a_host_output_is_the_host_s) {
  std::vector<float> x = seeded(8);
  const std::vector<float> y = expected(x);
  const auto give = [](void* of, int output, DType, std::span<const int64_t>, size_t bytes) {
    return static_cast<Session*>(of)->give_output(output, bytes);
  };
  for (int i = 0; i < 3; ++i) {
    const BufferView input = view(x.data(), false);
    BufferView output{nullptr, DType::kFloat32, {}, {}};
    const Status status = session_->run({&input, 1}, {&output, 1}, give, &*session_);
    ASSERT_TRUE(status.ok()) << status.message();
    const auto* given = static_cast<const float*>(output.data);
    expect_close({given, given + y.size()}, y);
  }
}

TEST_P(OnDevice, a_replay_reads_the_inputs_anew) {
  const size_t bytes = seeded(0).size() * sizeof(float);
  DeviceArray from(*device_, bytes), to(*device_, bytes);
  for (uint64_t i = 0; i < 5; ++i) {
    const std::vector<float> x = seeded(i);
    from.write(x);
    ASSERT_TRUE(run(view(from.data(), true), view(to.data(), true)).ok());
    const std::vector<float> got = to.read();
    expect_close(got, expected(x));
  }
}

TEST_P(OnDevice, buffers_may_change_with_every_run) {
  const std::vector<float> x = seeded(2);
  const std::vector<float> y = expected(x);
  std::vector<std::unique_ptr<DeviceArray>> arrays;
  for (int i = 0; i < 6; ++i) arrays.push_back(std::make_unique<DeviceArray>(*device_, x.size() * sizeof(float)));
  for (int round = 0; round < 4; ++round) {
    for (size_t i = 0; i + 1 < arrays.size(); ++i) {
      arrays[i]->write(x);
      ASSERT_TRUE(run(view(arrays[i]->data(), true), view(arrays[i + 1]->data(), true)).ok());
      expect_close(arrays[i + 1]->read(), y);
    }
  }
}

TEST_P(OnDevice, misaligned_memory_is_copied_there) {
  const std::vector<float> x = seeded(3);
  DeviceArray from(*device_, (x.size() + 1) * sizeof(float)), to(*device_, (x.size() + 3) * sizeof(float));
  from.write(x, sizeof(float));
  const Status status = run(view(from.data() + 4, true), view(to.data() + 12, true));
  ASSERT_TRUE(status.ok()) << status.message();
  expect_close(to.read(12), expected(x));
}

TEST_P(OnDevice, strided_memory_is_refused_with_a_remedy) {
  const std::vector<float> x = seeded(4);
  DeviceArray from(*device_, x.size() * sizeof(float)), to(*device_, x.size() * sizeof(float));
  for (const bool input : {true, false}) {
    BufferView a = view(from.data(), true), b = view(to.data(), true);
    (input ? a : b).strides = {1, 2, 6};
    const Status status = run(a, b);
    EXPECT_EQ(status.kind(), ErrorKind::kUnsupported);
    EXPECT_NE(status.message().find(input ? "input 'x'" : "output 'y'"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("contiguous"), std::string::npos) << status.message();
  }
}

TEST_P(OnDevice, an_output_may_be_the_input_s_memory) {
  const std::vector<float> x = seeded(5);
  DeviceArray both(*device_, x.size() * sizeof(float));
  both.write(x);
  ASSERT_TRUE(run(view(both.data(), true), view(both.data(), true)).ok());
  expect_close(both.read(), expected(x));
}

TEST_P(OnDevice, what_the_session_gives_may_be_its_next_input) {
  const std::vector<float> x = seeded(6);
  DeviceArray from(*device_, x.size() * sizeof(float));
  from.write(x);
  const BufferView first = view(from.data(), true);
  BufferView given = view(nullptr, true);
  ASSERT_TRUE(session_->run({&first, 1}, {&given, 1}).ok());
  ASSERT_NE(given.data, nullptr);
  std::vector<float> y = x;
  for (int i = 0; i < 4; ++i) {
    const BufferView in = view(given.data, true);
    BufferView out = view(nullptr, true);
    const Status status = session_->run({&in, 1}, {&out, 1});
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_NE(out.data, in.data);
    given.data = out.data;
  }
  ASSERT_TRUE(session_->wait().ok());
  std::vector<float> got(x.size());
  device_->make_stream()->download(got.data(), given.data, got.size() * sizeof(float));
  for (int i = 0; i < 5; ++i) y = expected(y);
  expect_close(got, y);
}

TEST_P(OnDevice, a_memory_limit_names_the_tensor_and_the_session_stays_usable) {
  const std::vector<float> x = seeded(7);
  DeviceArray from(*device_, x.size() * sizeof(float)), to(*device_, x.size() * sizeof(float));
  from.write(x);
  session_->set_memory_limit(512);
  const Status status = run(view(from.data(), true), view(to.data(), true));
  EXPECT_EQ(status.kind(), ErrorKind::kOutOfMemory);
  EXPECT_NE(status.message().find("may have 512"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("the largest of them '"), std::string::npos) << status.message();
  session_->set_memory_limit(0);
  ASSERT_TRUE(run(view(from.data(), true), view(to.data(), true)).ok());
  expect_close(to.read(), expected(x));
}

TEST_P(OnDevice, a_replay_is_told_kernel_by_kernel) {
  std::vector<DeviceActivity> activities;
  EXPECT_NE(session_->trace_steps(activities).message().find("only the steps of a finished run"), std::string::npos);
  expected(seeded(1));
  const Status status = session_->trace_steps(activities);
  if (!is_gpu()) {
    EXPECT_FALSE(status.ok());
    return;
  }
  if (!status.ok() && status.message().find("CUPTI") != std::string::npos) GTEST_SKIP() << status.message();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_GE(activities.size(), session_->engine().kernels.size());
  double begin = 0;
  for (const DeviceActivity& activity : activities) {
    EXPECT_GE(activity.begin_us, begin);
    EXPECT_GT(activity.end_us, activity.begin_us) << activity.name;
    begin = activity.begin_us;
  }
  const std::string& kernel = session_->engine().kernels[0].name;
  const auto is_it = [&](const DeviceActivity& activity) { return activity.name == kernel; };
  EXPECT_TRUE(std::any_of(activities.begin(), activities.end(), is_it)) << kernel;
}

TEST_P(OnDevice, sizes_that_the_run_computes_may_lie_there_too) {
  Session session(load(graft_test::kPositives), 1);
  const std::vector<float> values = {1, -2, 3, -4, 5};
  DeviceArray from(*device_, values.size() * sizeof(float));
  from.write(values);
  const BufferView x{from.data(), DType::kFloat32, {5}, {}, true};
  BufferView outputs[2];
  for (BufferView& output : outputs) output.on_device = true;
  Status status = session.run({&x, 1}, outputs);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(session.wait().ok());
  EXPECT_EQ(outputs[0].shape, (std::vector<int64_t>{1, 3}));
  std::vector<float> kept(3);
  device_->make_stream()->download(kept.data(), outputs[1].data, kept.size() * sizeof(float));
  expect_close(kept, {std::exp(1.0f), std::exp(3.0f), std::exp(5.0f)});
}

INSTANTIATE_TEST_SUITE_P(all, OnDevice, testing::Values("paged", "cuda"), [](const auto& row) { return row.param; });

TEST(OnHost, memory_of_a_device_is_refused) {
  graft_engine* engine = graft_test::compile_text(graft_test::kAttention, {{"mode", "interpret"}});
  Session session(engine->loaded, 1);
  std::vector<float> x = seeded(8), y(x.size());
  const auto view = [](std::vector<float>& data, bool on_device) {
    return BufferView{data.data(), DType::kFloat32, {2, kRows, kColumns}, {}, on_device};
  };
  for (const bool input : {true, false}) {
    const BufferView a = view(x, input);
    BufferView b = view(y, !input);
    const Status status = session.run({&a, 1}, {&b, 1});
    EXPECT_EQ(status.kind(), ErrorKind::kInvalidArgument);
    EXPECT_NE(status.message().find("runs on the CPU"), std::string::npos) << status.message();
  }
  graft_engine_release(engine);
}

}  // namespace
}  // namespace graft
