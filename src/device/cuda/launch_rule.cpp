// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/launch_rule.h"

#include <charconv>

#include <fmt/format.h>

#include "base/error.h"
#include "device/cuda/driver.h"

namespace graft {
namespace {

/// The words of a line, one after the other.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}
  bool at_end() const { return text_.empty(); }
  bool accept(std::string_view word) {
    Words ahead = *this;
    if (ahead.next() != word) return false;
    *this = ahead;
    return true;
  }
  std::string_view next() {
    const size_t end = std::min(text_.find(' '), text_.size());
    const std::string_view word = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    return word;
  }
  int64_t number() {
    const std::string_view word = next();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    check(error == std::errc() && end == word.data() + word.size());
    return value;
  }
  static void check(bool good) {
    GRAFT_USER_CHECK(good, kDevice, "the list of kernels is damaged: compile the plan again", "CUDA");
  }

 private:
  std::string_view text_;
};

BoxRule parse_box(Words& words) {
  BoxRule box{.buffer = static_cast<int>(words.number())};
  Words::check(words.accept("bytes"));
  box.element_bytes = static_cast<int>(words.number());
  Words::check(words.accept("swizzle"));
  box.swizzle = static_cast<int>(words.number());
  while (words.accept("axis")) {
    const Size extent = parse_size(words.next()), stride = parse_size(words.next());
    box.axes.push_back({extent, stride, words.number()});
  }
  Words::check(box.axes.size() >= 2 && box.axes.size() <= 5);
  return box;
}

// Numbers of the driver API.
constexpr int kUint8 = 0, kFloat16 = 6;  // CU_TENSOR_MAP_DATA_TYPE_*: bits are only moved
constexpr int kPromotion = 2;            // CU_TENSOR_MAP_L2_PROMOTION_L2_128B
/// CU_TENSOR_MAP_SWIZZLE_*
int swizzle_of(int bytes) { return bytes == 128 ? 3 : bytes == 64 ? 2 : bytes == 32 ? 1 : 0; }

TensorMap encode(const BoxRule& box, void* address, const Bindings& sizes) {
  uint64_t extents[5], strides[5];
  uint32_t boxes[5], steps[5];
  const auto rank = static_cast<unsigned>(box.axes.size());
  for (size_t i = 0; i < rank; ++i) {
    extents[i] = static_cast<uint64_t>(std::max<int64_t>(box.axes[i].extent.evaluate(sizes), 1));
    if (i > 0) strides[i - 1] = static_cast<uint64_t>(box.axes[i].stride.evaluate(sizes) * box.element_bytes);
    boxes[i] = static_cast<uint32_t>(box.axes[i].box), steps[i] = 1;
  }
  const cuda::Driver& driver = cuda::driver();
  GRAFT_USER_CHECK(driver.encode_tiled, kDevice,
                   "the NVIDIA driver has no cuTensorMapEncodeTiled: install one of CUDA 12 or newer", "CUDA");
  TensorMap map;
  const cuda::Result result = driver.encode_tiled(&map, box.element_bytes == 1 ? kUint8 : kFloat16, rank, address,
                                                  extents, strides, boxes, steps, 0, swizzle_of(box.swizzle),
                                                  kPromotion, 0);
  cuda::check(result, fmt::format("describing a tensor of {} axes for copies", rank));
  return map;
}

}  // namespace

std::pair<std::string, DeviceKernel> parse_launch_line(std::string_view line, int multiprocessors) {
  Words words(line);
  std::string name(words.next());
  DeviceKernel kernel;
  Words::check(words.accept("threads"));
  kernel.threads = static_cast<int>(words.number());
  Words::check(words.accept("shared"));
  kernel.shared_bytes = words.number();
  if (words.at_end()) return {std::move(name), std::move(kernel)};
  auto rule = std::make_shared<LaunchRule>();
  if (words.accept("cluster")) rule->cluster = static_cast<int>(words.number());
  if (words.accept("persistent")) rule->most_blocks = words.number() * multiprocessors;
  if (words.accept("buffers")) rule->buffers = static_cast<int>(words.number());
  if (words.accept("sizes")) rule->sizes = static_cast<int>(words.number());
  while (words.accept("tma")) {
    rule->boxes.push_back(parse_box(words));
    Words::check(rule->boxes.back().buffer < rule->buffers);
  }
  Words::check(words.at_end());
  kernel.rule = std::move(rule);
  return {std::move(name), std::move(kernel)};
}

std::vector<TensorMap> tensor_maps(const LaunchRule& rule, void** arguments) {
  Bindings sizes;
  for (int i = 0; i < rule.sizes; ++i) {
    sizes.emplace(fmt::format("s{}", i), *static_cast<const int64_t*>(arguments[rule.buffers + i]));
  }
  std::vector<TensorMap> maps;
  for (const BoxRule& box : rule.boxes) {
    void* address = *static_cast<void**>(arguments[box.buffer]);
    const bool aligned = reinterpret_cast<uintptr_t>(address) % 16 == 0;
    maps.push_back(aligned ? encode(box, address, sizes) : TensorMap{});
  }
  return maps;
}

std::span<TensorMap> LaunchedMaps::of(const std::shared_ptr<const LaunchRule>& rule, void** arguments) {
  if (rule->boxes.empty()) return {};
  constexpr size_t kMost = 4096;
  const auto word = [&](int argument) { return *static_cast<const uint64_t*>(arguments[argument]); };
  key_.assign(1, reinterpret_cast<uintptr_t>(rule.get()));
  for (const BoxRule& box : rule->boxes) key_.push_back(word(box.buffer));
  for (int i = 0; i < rule->sizes; ++i) key_.push_back(word(rule->buffers + i));
  const auto it = known_.find(key_);
  if (it != known_.end()) return it->second.maps;
  Known fresh{rule, tensor_maps(*rule, arguments)};
  if (known_.size() == kMost) known_.clear();
  return known_.emplace(key_, std::move(fresh)).first->second.maps;
}

}  // namespace graft
