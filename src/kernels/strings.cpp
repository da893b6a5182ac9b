// SPDX-License-Identifier: Apache-2.0
// The kernels of strings that stand on no library.
#include <algorithm>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "base/printable.h"
#include "base/run_limits.h"
#include "kernels/broadcast.h"
#include "kernels/host_kernel.h"

namespace graft {
namespace {

using Inputs = std::span<const DynamicValue>;
using Values = std::vector<DynamicValue>;

constexpr size_t kPartBytes = sizeof(std::string);

/// What Python and Unicode call white space.
bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/// The number of bytes at the beginning that are white space, or that are none.
size_t run_of(std::string_view text, bool space) {
  size_t at = 0;
  while (at < text.size()) {
    const CodePoint next = first_character(text.substr(at));
    if ((next.valid && is_space(next.value)) != space) break;
    at += next.bytes;
  }
  return at;
}

/// Between runs of white space, which are left out at both ends; the last part is the rest as it is.
std::vector<std::string> split_at_space(std::string_view text, int64_t splits) {
  std::vector<std::string> parts;
  for (text.remove_prefix(run_of(text, true)); !text.empty(); text.remove_prefix(run_of(text, true))) {
    if (static_cast<int64_t>(parts.size()) == splits) {
      parts.emplace_back(text);
      return parts;
    }
    const size_t length = run_of(text, false);
    parts.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return parts;
}

/// At most so many parts.
size_t most_parts(std::string_view text, std::string_view delimiter, int64_t splits) {
  const size_t parts = text.size() / std::max<size_t>(delimiter.size(), 1) + 1;
  return static_cast<size_t>(std::min<uint64_t>(parts, static_cast<uint64_t>(splits) + 1));
}

std::vector<std::string> split_at(std::string_view text, std::string_view delimiter, int64_t splits) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t end = static_cast<int64_t>(parts.size()) == splits ? text.npos : text.find(delimiter);
    parts.emplace_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + delimiter.size());
  }
}

}  // namespace

HostKernel make_string_concat(const Node&) {
  return [](Inputs inputs) {
    const TensorData& x = tensor_input(inputs, 0, DType::kString);
    const TensorData& y = tensor_input(inputs, 1, DType::kString);
    const Broadcast pairs(x.shape(), y.shape());
    TextMeter meter;
    TensorData joined = TensorData::zeros(DType::kString, pairs.shape());
    std::vector<std::string>& texts = joined.mutable_strings();
    pairs.for_each([&](int64_t at, int64_t first, int64_t second) {
      const std::string& one = x.strings()[static_cast<size_t>(first)];
      const std::string& other = y.strings()[static_cast<size_t>(second)];
      meter.take(one.size() + other.size());
      texts[static_cast<size_t>(at)] = one + other;
    });
    return Values{std::move(joined)};
  };
}

HostKernel make_equal(const Node&) {
  return [](Inputs inputs) {
    const TensorData& a = tensor_input(inputs, 0, DType::kString);
    const TensorData& b = tensor_input(inputs, 1, DType::kString);
    const Broadcast pairs(a.shape(), b.shape());
    TensorData same = TensorData::zeros(DType::kBool, pairs.shape());
    const std::span<std::byte> bytes = same.mutable_bytes();
    pairs.for_each([&](int64_t at, int64_t first, int64_t second) {
      stop_if_requested();
      const bool equal = a.strings()[static_cast<size_t>(first)] == b.strings()[static_cast<size_t>(second)];
      bytes[static_cast<size_t>(at)] = static_cast<std::byte>(equal);
    });
    return Values{std::move(same)};
  };
}

HostKernel make_string_split(const Node& node) {
  const KernelAttributes attributes(node);
  const std::string delimiter = attributes.text("delimiter", "");
  const int64_t given = attributes.integer("maxsplit", -1);
  const int64_t splits = given < 0 ? std::numeric_limits<int64_t>::max() : given;
  return [delimiter, splits](Inputs inputs) {
    const TensorData& x = tensor_input(inputs, 0, DType::kString);
    std::vector<std::vector<std::string>> all;
    size_t most = 0;
    TextMeter meter;
    for (const std::string& text : x.strings()) {
      meter.take(text.size() + kPartBytes * most_parts(text, delimiter, splits));
      all.push_back(delimiter.empty() ? split_at_space(text, splits) : split_at(text, delimiter, splits));
      most = std::max(most, all.back().size());
    }
    std::vector<int64_t> shape = x.shape();
    TensorData counts = TensorData::zeros(DType::kInt64, shape);
    shape.push_back(static_cast<int64_t>(most));
    meter.take(kPartBytes * all.size() * most);
    TensorData parts = TensorData::zeros(DType::kString, std::move(shape));
    std::vector<std::string>& texts = parts.mutable_strings();
    for (size_t i = 0; i < all.size(); ++i) {
      counts.write_integer(static_cast<int64_t>(i), static_cast<int64_t>(all[i].size()));
      std::move(all[i].begin(), all[i].end(), texts.begin() + static_cast<std::ptrdiff_t>(i * most));
    }
    return Values{std::move(parts), std::move(counts)};
  };
}

}  // namespace graft
