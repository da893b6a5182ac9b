// SPDX-License-Identifier: Apache-2.0
// The loader against objects that the code generator wrote and against damaged copies of them.
#include "device/cpu/load_object.h"

#include <elf.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

#include "device/cpu/host_functions.h"
#include "llvm/kernel_runner.h"

namespace graft::codegen {
namespace {

/// A kernel with constants (a read-only section), calls of host functions and a shared micro-kernel.
std::string make_object() {
  const Size n = 40;
  tile::Program program =
      make_program({make_buffer("x", DType::kFloat32, {n}), make_buffer("y", DType::kFloat32, {n}, true)});
  const tile::Axis i = make_axis(n);
  tile::Map map{.axes = {i}, .condition = {}, .stores = {}, .ordered = false};
  map.stores = {store_to(1, {i.variable}, atan(exp(make_load(0, DType::kFloat32, {i.variable}))))};
  program.body.push_back({map});
  return emit_object(std::span(&program, 1), least_target()).elf;
}

Status load(const std::string& bytes, LoadedObject* into) {
  return LoadedObject::load({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, into);
}

TEST(LoadObject, runs_a_kernel_that_calls_the_host) {
  LoadedObject object;
  const Status status = load(make_object(), &object);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(object.find("no_such_kernel"), nullptr);
  LoadedObject moved = std::move(object);
  EXPECT_EQ(object.find("kernel"), nullptr);
  auto function = reinterpret_cast<KernelFunction>(moved.find("kernel"));
  ASSERT_NE(function, nullptr);
  std::vector<float> x(40, 0.5f), y(40);
  void* buffers[] = {x.data(), y.data()};
  int64_t status_words[2] = {};
  const KernelArguments arguments{buffers, nullptr, nullptr, status_words};
  EXPECT_EQ(function(&arguments, 0, 1), 0);
  for (const float v : y) EXPECT_NEAR(v, std::atan(std::exp(0.5f)), 1e-6);
}

TEST(LoadObject, allows_what_llvm_makes_of_choices_and_nothing_else) {
  for (const char* name : {"fminf", "fmaxf", "fmin", "fmax"}) EXPECT_NE(find_host_function(name), nullptr) << name;
  EXPECT_EQ(find_host_function("system"), nullptr);
}

TEST(LoadObject, never_maps_memory_writable_and_executable) {
  LoadedObject object;
  ASSERT_TRUE(load(make_object(), &object).ok());
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) EXPECT_EQ(line.find(" rwx"), std::string::npos) << line;
}

TEST(LoadObject, refuses_every_truncation) {
  const std::string whole = make_object();
  LoadedObject object;
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(load(whole.substr(0, size), &object).ok()) << size;
}

TEST(LoadObject, survives_damaged_bytes) {
  const std::string whole = make_object();
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = whole;
    for (int n = 0; n < 1 + round % 4; ++n)
      damaged[random() % damaged.size()] = static_cast<char>(random() % 8 ? random() : 0xff);
    LoadedObject object;
    refused += !load(damaged, &object).ok();
  }
  EXPECT_GT(refused, 1000);
}

TEST(LoadObject, refuses_symbols_that_kernels_may_not_call) {
  std::string bytes = make_object();
  const size_t at = bytes.find("atanf");
  ASSERT_NE(at, std::string::npos);
  std::memcpy(bytes.data() + at, "execl", 5);
  LoadedObject object;
  const Status status = load(bytes, &object);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("execl"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace graft::codegen
