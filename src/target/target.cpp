// SPDX-License-Identifier: Apache-2.0
#include "target/target.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "base/available_threads.h"
#include "base/error.h"
#include "base/words.h"
#include "target/tile_registers.h"

namespace graft {
namespace {

constexpr std::string_view kBaseline = "+sse,+sse2,+cx8,+fxsr,+mmx";
constexpr std::string_view kV2 = "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx16,+sahf";
constexpr std::string_view kV3 = "+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe,+xsave";
constexpr std::string_view kV4 = "+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl";

struct Level {
  std::string_view name;
  std::string features;
  int vector_bits, vector_registers;
  bool masked;
};

/// The x86-64 levels from lowest to highest.
const std::vector<Level>& levels() {
  static const std::vector<Level> all = {
      {"portable", std::string(kBaseline), 128, 16, false},
      {"x86-64-v2", fmt::format("{},{}", kBaseline, kV2), 128, 16, false},
      {"x86-64-v3", fmt::format("{},{},{}", kBaseline, kV2, kV3), 256, 16, true},
      {"x86-64-v4", fmt::format("{},{},{},{}", kBaseline, kV2, kV3, kV4), 512, 32, true},
  };
  return all;
}

Target from_level(const Level& level, int threads) {
  Target target;
  target.name = level.name;
  target.architecture = "x86_64";
  target.features = level.features;
  target.vector_bits = level.vector_bits;
  target.vector_registers = level.vector_registers;
  target.masked_memory = level.masked;
  target.threads = threads > 0 ? threads : available_threads();
  return target;
}

int64_t cache_bytes(int name, int64_t otherwise) {
  const long bytes = sysconf(name);
  return bytes > 0 ? bytes : otherwise;
}

const Level& host_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
  return levels()[v4 && v3 ? 3 : v3 ? 2 : v2 ? 1 : 0];
#else
  return levels()[0];
#endif
}

/// What the host has beyond its level: dot products, bf16 and products of tiles.
std::string extra_features() {
  std::string extra;
#if defined(__x86_64__)
  const auto add = [&](bool has, std::string_view feature) {
    if (has) extra += fmt::format(",{}", feature);
  };
  const bool v4 = host_level().vector_bits == 512;
  add(v4 && __builtin_cpu_supports("avx512vnni"), "+avx512vnni");
  add(v4 && __builtin_cpu_supports("avx512vbmi"), "+avx512vbmi");
  add(v4 && __builtin_cpu_supports("avx512bf16"), "+avx512bf16");
  add(v4 && may_use_tile_registers(), "+amx-tile,+amx-int8,+amx-bf16");
#endif
  return extra;
}

/// A kind of GPU, by the largest of those that share its instructions.
struct GpuKind {
  std::string_view name;
  int shared_kilobytes, multiprocessors, l2_megabytes;
};

constexpr GpuKind kGpuKinds[] = {
    {"sm_80", 163, 108, 40},    // A100
    {"sm_86", 99, 84, 6},       // RTX 3090
    {"sm_89", 99, 142, 96},     // L40S
    {"sm_90a", 227, 132, 50},   // H100, H200
    {"sm_100", 227, 148, 126},  // B200
    {"sm_120", 99, 170, 96},    // RTX 5090
};

Target cuda_target(const GpuKind& kind) {
  Target target;
  target.kind = TargetKind::kCuda;
  target.name = target.architecture = kind.name;
  target.shared_bytes = int64_t{kind.shared_kilobytes} << 10;
  target.multiprocessors = kind.multiprocessors;
  target.l2_bytes = int64_t{kind.l2_megabytes} << 20;
  if (target.architecture == "sm_90a") target.features = "+wgmma";
  return target;
}

}  // namespace

Target host_cpu(int threads) {
  Target target = from_level(host_level(), threads);
  target.features += extra_features();
  target.name = "native";
  target.l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, target.l1_bytes);
  target.l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, target.l2_bytes);
  target.l3_bytes = cache_bytes(_SC_LEVEL3_CACHE_SIZE, target.l3_bytes);
  return target;
}

Target find_target(std::string_view name_or_text, int threads) {
  if (name_or_text.empty() || name_or_text == "native") return host_cpu(threads);
  for (const Level& level : levels()) {
    if (level.name == name_or_text) return from_level(level, threads);
  }
  for (const GpuKind& kind : kGpuKinds) {
    if (kind.name == name_or_text) return cuda_target(kind);
  }
  if (name_or_text.find('=') != std::string_view::npos) return parse_target(name_or_text);
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("unknown target '{}'; known are native, portable, x86-64-v2, x86-64-v3 (AVX2), x86-64-v4 "
                          "(AVX-512), sm_80, sm_86, sm_89, sm_90a, sm_100, sm_120, or the text that `graft env` prints",
                          name_or_text),
              "--target");
}

namespace {

/// The one list of fields, from which printing and parsing derive.
template <class T, class Visitor>
void fields(T& target, Visitor visit) {
  visit("name", target.name);
  visit("architecture", target.architecture);
  visit("features", target.features);
  visit("vector_bits", target.vector_bits);
  visit("vector_registers", target.vector_registers);
  visit("masked_memory", target.masked_memory);
  visit("l1_bytes", target.l1_bytes);
  visit("l2_bytes", target.l2_bytes);
  visit("l3_bytes", target.l3_bytes);
  visit("threads", target.threads);
  visit("multiprocessors", target.multiprocessors);
  visit("shared_bytes", target.shared_bytes);
}

void assign(std::string& slot, std::string_view text) { slot = text; }

void assign(bool& slot, std::string_view text) {
  GRAFT_USER_CHECK(text == "true" || text == "false", kInvalidArgument, fmt::format("'{}' is not true or false", text),
                   "target");
  slot = text == "true";
}

template <class Integer>
void assign(Integer& slot, std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = error == std::errc() && end == text.data() + text.size() && value >= 0 && value <= int64_t{1} << 40;
  GRAFT_USER_CHECK(good, kInvalidArgument, fmt::format("'{}' is not a number", text), "target");
  slot = static_cast<Integer>(value);
}

}  // namespace

std::string print(const Target& target) {
  std::string text = target.kind == TargetKind::kCuda ? "kind=cuda" : "kind=cpu";
  fields(target, [&](std::string_view name, const auto& value) { text += fmt::format(" {}={}", name, value); });
  return text;
}

Target parse_target(std::string_view text) {
  Target target;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    const size_t equals = word.find('=');
    GRAFT_USER_CHECK(equals != word.npos, kInvalidArgument, fmt::format("'{}' is not name=value", word), "target");
    const std::string_view name = word.substr(0, equals), value = word.substr(equals + 1);
    bool found = name == "kind";
    if (found) {
      GRAFT_USER_CHECK(value == "cpu" || value == "cuda", kInvalidArgument, "kind is cpu or cuda", "target");
      target.kind = value == "cuda" ? TargetKind::kCuda : TargetKind::kCpu;
    }
    fields(target, [&](std::string_view field, auto& slot) {
      if (field != name) return;
      assign(slot, value);
      found = true;
    });
    GRAFT_USER_CHECK(found, kInvalidArgument, fmt::format("unknown field '{}'", name), "target");
  }
  const bool cpu = target.kind == TargetKind::kCpu;
  const int bits = target.vector_bits;
  GRAFT_USER_CHECK(!cpu || bits == 128 || bits == 256 || bits == 512, kInvalidArgument,
                   "vector_bits is 128, 256 or 512", "target");
  return target;
}

int gpu_generation(std::string_view architecture) {
  constexpr std::string_view kPrefix = "sm_";
  int number = 0;
  if (!architecture.starts_with(kPrefix)) return number;
  std::from_chars(architecture.data() + kPrefix.size(), architecture.data() + architecture.size(), number);
  return number;
}

int gpu_generation(const Target& target) {
  return target.kind == TargetKind::kCuda ? gpu_generation(target.architecture) : 0;
}

bool multiplies_tf32(const Target& target) { return gpu_generation(target) >= 80; }

std::string why_not_runnable(const Target& built, const Target& machine) {
  if (built.kind != machine.kind) return "it was built for another kind of device";
  if (built.architecture != machine.architecture) return "it was built for " + built.architecture;
  const std::string have = "," + machine.features + ",";
  for (const std::string& feature : words_of(built.features)) {
    if (have.find("," + feature + ",") == have.npos) {
      return "it needs the processor feature " + feature.substr(1);  // behind its sign
    }
  }
  return "";
}

}  // namespace graft
