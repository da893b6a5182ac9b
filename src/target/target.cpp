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
#include "target/cpus.h"

namespace graft {
namespace {

Target from_cpu(const Cpu& cpu, std::string_view name, int threads) {
  Target target;
  target.name = name;
  target.architecture = cpu.architecture;
  target.features = cpu.features;
  target.vector_bits = cpu.vector_bits;
  target.vector_registers = cpu.vector_registers;
  target.masked_memory = cpu.masked_memory;
  target.l1_bytes = int64_t{cpu.l1_kilobytes} << 10;
  target.l2_bytes = int64_t{cpu.l2_kilobytes} << 10;
  target.l3_bytes = int64_t{cpu.l3_kilobytes} << 10;
  target.threads = threads > 0 ? threads : available_threads();
  return target;
}

int64_t cache_bytes(int name, int64_t otherwise) {
  const long bytes = sysconf(name);
  return bytes > 0 ? bytes : otherwise;
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
  Target target = from_cpu(*find_cpu("portable"), "native", threads);
  detect_host(target);
  target.l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, target.l1_bytes);
  target.l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, target.l2_bytes);
  target.l3_bytes = cache_bytes(_SC_LEVEL3_CACHE_SIZE, target.l3_bytes);
  return target;
}

std::vector<std::string> target_names() {
  std::vector<std::string> names = {"native", "portable"};
  for (const Cpu& cpu : all_cpus()) names.emplace_back(cpu.name);
  for (const GpuKind& kind : kGpuKinds) names.emplace_back(kind.name);
  return names;
}

Target find_target(std::string_view name_or_text, int threads) {
  if (name_or_text.empty() || name_or_text == "native") return host_cpu(threads);
  if (const Cpu* cpu = find_cpu(name_or_text)) return from_cpu(*cpu, name_or_text, threads);
  for (const GpuKind& kind : kGpuKinds) {
    if (kind.name == name_or_text) return cuda_target(kind);
  }
  if (name_or_text.find('=') != std::string_view::npos) return parse_target(name_or_text);
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("unknown target '{}'; known are {}, or the text that `graft env` prints", name_or_text,
                          fmt::join(target_names(), ", ")),
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

bool converts_float8(const Target& target) { return gpu_generation(target) >= 89; }

bool has_feature(const Target& target, std::string_view feature) {
  return fmt::format(",{},", target.features).find(fmt::format(",+{},", feature)) != std::string::npos;
}

std::string why_not_runnable(const Target& built, const Target& machine) {
  if (built.kind != machine.kind) return "it was built for another kind of device";
  if (built.architecture != machine.architecture) return "it was built for " + built.architecture;
  for (const std::string& feature : words_of(built.features)) {
    const std::string name = feature.substr(1);  // behind its sign
    if (!has_feature(machine, name)) return "it needs the processor feature " + name;
  }
  if (has_scalable_vectors(built) && built.vector_bits > machine.vector_bits) {
    return fmt::format("it needs vectors of {} bits, and this machine's have {}", built.vector_bits,
                       machine.vector_bits);
  }
  return "";
}

}  // namespace graft
