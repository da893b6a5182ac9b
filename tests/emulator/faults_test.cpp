// SPDX-License-Identifier: Apache-2.0
// What a kernel may do wrong without a GPU noticing it, and what the emulated one says to it.
#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "codegen/cuda/nvrtc.h"
#include "codegen/progress.h"
#include "device/cuda/driver.h"

namespace graft::cuda {
namespace {

constexpr const char* kBegin = R"(
typedef unsigned char u8; typedef unsigned u32; typedef unsigned long long u64;
static __device__ u32 shared_at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
extern "C" __global__ void __launch_bounds__(128) kernel(float* x) {
  extern __shared__ __align__(1024) u8 bytes[];
  float* const shared = (float*)bytes;
  const int t = threadIdx.x;
)";
constexpr size_t kFloats = 128;

std::string cubin_of(const std::string& source) {
  const auto ignore = [](void*, const char*, const void*, size_t) { return 0; };
  codegen::Progress progress(ignore, nullptr);
  return compile_source(source, "sm_90a", progress);
}

/// What a block of 128 threads with 512 bytes of shared memory leaves in x, and what the launch said.
struct Outcome {
  std::vector<float> x;
  std::string fault;
};

/// Runs the body of a kernel on x = 0, 1, 2, ...
Outcome run(const std::string& body) {
  const Driver& api = driver();
  const std::string cubin = cubin_of(kBegin + body + "\n}\n");
  Handle context = nullptr, module = nullptr, function = nullptr;
  check(api.retain_context(&context, 0), "context");
  const Current current(context);
  check(api.module_load(&module, cubin.data()), "module");
  check(api.module_function(&function, module, "kernel"), "kernel");
  Outcome outcome{std::vector<float>(kFloats), ""};
  for (size_t i = 0; i < kFloats; ++i) outcome.x[i] = static_cast<float>(i);
  Address memory = 0;
  check(api.allocate(&memory, kFloats * 4), "memory");
  check(api.upload(memory, outcome.x.data(), kFloats * 4, nullptr), "upload");
  void* arguments[] = {&memory};
  LaunchConfig config;
  config.block[0] = kFloats, config.shared_bytes = kFloats * 4;
  if (const Result result = api.launch(&config, function, arguments, nullptr)) {
    const char* text = "";
    api.error_string(result, &text);
    outcome.fault = text;
  }
  check(api.download(outcome.x.data(), memory, kFloats * 4, nullptr), "download");
  api.release(memory), api.module_unload(module);
  return outcome;
}

/// The launch fails with a reason that contains these words, and names kernel, block and thread.
void expect_fault(const std::string& body, const std::string& words) {
  const std::string fault = run(body).fault;
  EXPECT_NE(fault.find(words), fault.npos) << fault;
  EXPECT_NE(fault.find("kernel kernel"), fault.npos) << fault;
}

TEST(EmulatedGpu, runs_threads_that_wait_for_each_other) {
  const Outcome outcome = run("shared[t] = x[t]; __syncthreads(); x[t] = shared[127 - t];");
  EXPECT_EQ(outcome.fault, "");
  for (size_t i = 0; i < kFloats; ++i) EXPECT_EQ(outcome.x[i], static_cast<float>(127 - i));
}

TEST(EmulatedGpu, stops_at_memory_that_is_not_there) {
  expect_fault("x[t + 1000000] = 1;", "an illegal memory access");
  expect_fault("x[t] = x[t + 128];", " bytes into an allocation of 512 bytes");
  expect_fault("x[t] = x[t - 5000];", "an illegal memory access");
  expect_fault("char* c = (char*)x; c[511 + t] = 1;", " bytes into an allocation of 512 bytes");
}

TEST(EmulatedGpu, stops_at_shared_memory_beyond_what_was_asked_for) {
  expect_fault("shared[t + 1] = x[t];", "byte 512 of shared memory of 512");
  expect_fault("x[t] = shared[(int)t - 1];", "byte -4 of shared memory of 512");
  expect_fault("u32 a; asm volatile(\"mapa.shared::cluster.u32 %0, %1, 1;\" : \"=r\"(a) : \"r\"(shared_at(shared)));",
               "a cluster has no block 1");
}

TEST(EmulatedGpu, what_was_not_written_is_nan) {
  const Outcome outcome = run("x[t] = shared[t];");
  for (const float value : outcome.x) EXPECT_TRUE(std::isnan(value));
}

TEST(EmulatedGpu, a_missing_barrier_shows) {
  const Outcome outcome = run("shared[t] = x[t]; x[t] = shared[127 - t];");
  EXPECT_EQ(outcome.fault, "");
  bool differs = false;
  for (size_t i = 0; i < kFloats; ++i) differs |= !(outcome.x[i] == static_cast<float>(127 - i));
  EXPECT_TRUE(differs);
}

TEST(EmulatedGpu, waits_for_registers_that_others_give_up) {
  const std::string few = "asm volatile(\"setmaxnreg.dec.sync.aligned.u32 %0;\" :: \"n\"(40));";
  const std::string many = "asm volatile(\"setmaxnreg.inc.sync.aligned.u32 %0;\" :: \"n\"(256));";
  EXPECT_EQ(run("if (t < 96) { " + many + " } else { " + few + " } x[t] += 1;").x[5], 6.0f);
  expect_fault(many, "all threads wait for each other");
}

TEST(EmulatedGpu, a_missing_wait_for_copies_shows) {
  const std::string copy =
      "asm volatile(\"cp.async.ca.shared.global [%0], [%1], %2, %3;\" :: \"r\"(shared_at(shared + t)), \"l\"(x + t), "
      "\"n\"(4), \"r\"(4)); asm volatile(\"cp.async.commit_group;\");";
  const std::string wait = "asm volatile(\"cp.async.wait_group %0;\" :: \"n\"(0));";
  EXPECT_EQ(run(copy + wait + "x[t] = shared[t] + 1;").x[5], 6.0f);
  EXPECT_TRUE(std::isnan(run(copy + "x[t] = shared[t] + 1;").x[5]));
}

TEST(EmulatedGpu, threads_that_wait_for_ever_are_named) {
  expect_fault("if (t < 64) __syncthreads();", "all threads wait for each other");
  expect_fault("if (t < 64) x[t] = __shfl_xor_sync(0xffffffffu, x[t], 1); else if (t < 80) __syncthreads();",
               "block 0 thread 64 at a barrier");
}

TEST(EmulatedGpu, lanes_that_part_are_named) {
  expect_fault("if (t % 2) __ballot_sync(0xffffffffu, true); else __shfl_xor_sync(0xffffffffu, t, 1);",
               "lanes of a warp meet for different things");
  expect_fault("if (t % 2) __ballot_sync(0xffffffffu, true);", "while others of its warp wait for it in a vote");
}

TEST(EmulatedGpu, stops_at_misaligned_addresses) {
  expect_fault("struct alignas(8) Pair { float a, b; }; *(Pair*)(x + 1) = Pair{1, 2};", "a misaligned address");
  expect_fault("asm volatile(\"st.global.v2.b32 [%0], {%1, %2};\" :: \"l\"(x + 1), \"r\"(1), \"r\"(2));", "misaligned");
}

TEST(EmulatedGpu, stops_at_stores_to_global_memory_that_go_to_shared_memory) {
  expect_fault("asm volatile(\"st.global.b32 [%0], %1;\" :: \"l\"(shared), \"r\"(1));", "an address of shared memory");
}

TEST(EmulatedGpu, stops_at_an_index_beyond_an_array) {
  expect_fault("float v[4] = {}; v[(int)x[t] / 16] = 1; x[t] = v[0];", "an index beyond an array");
}

constexpr const char* kArrive =
    "asm volatile(\"mbarrier.arrive.shared::cta.b64 _, [%0];\" :: \"r\"(shared_at(shared)));";
constexpr const char* kMake =
    "if (t == 0) asm volatile(\"mbarrier.init.shared::cta.b64 [%0], %1;\" :: \"r\"(shared_at(shared)), \"r\"(64));"
    "__syncthreads();";

TEST(EmulatedGpu, stops_at_mbarriers_that_are_used_wrongly) {
  expect_fault(kArrive, "not initialised");
  EXPECT_EQ(run(std::string(kMake) + "if (t < 64) " + kArrive).fault, "");
  const std::string wait =
      "u32 done; do { asm volatile(\"{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, "
      "1, 0, p; }\" : \"=r\"(done) : \"r\"(shared_at(shared)), \"r\"(0)); } while (!done);";
  EXPECT_EQ(run(std::string(kMake) + "if (t < 64) " + kArrive + wait).fault, "");
  expect_fault(std::string(kMake) + "if (t < 63) " + kArrive + wait, "all threads wait for each other");
}

TEST(EmulatedGpu, an_instruction_that_it_lacks_is_named_when_compiling) {
  try {
    cubin_of(std::string(kBegin) + "asm volatile(\"discard.global.L2 [%0], 128;\" :: \"l\"(x)); }");
    ADD_FAILURE() << "compiled";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("discard_global_L2"), std::string::npos) << error.what();
  }
}

TEST(EmulatedGpu, products_of_fragments_add_rows_times_columns) {
  // a = 1 in column 0 of row 3 (lane 12, low half of register 0), b = 2 in row 0 of column 5 (lane 20).
  const Outcome outcome = run(
      "float d[4] = {0, 0, 0, 0}; const u32 a = t == 12 ? 0x3c00u : 0u, b = t == 20 ? 0x4000u : 0u;"
      "if (t < 32) { asm(\"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};\" : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3]) : \"r\"(a), \"r\"(0), \"r\"(0), "
      "\"r\"(0), \"r\"(b), \"r\"(0)); for (int i = 0; i < 4; ++i) x[t * 4 + i] = d[i]; }");
  EXPECT_EQ(outcome.fault, "");
  const size_t lane = 3 * 4 + 5 / 2;  // holds row 3, columns 4 and 5
  for (size_t i = 0; i < kFloats; ++i) EXPECT_EQ(outcome.x[i], i == lane * 4 + 1 ? 2.0f : 0.0f) << i;
}

}  // namespace
}  // namespace graft::cuda
