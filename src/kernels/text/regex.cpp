// SPDX-License-Identifier: Apache-2.0
// RegexFullMatch through RE2, whose time is linear in the text whatever the expression is.
#include <memory>

#include <fmt/format.h>
#include <re2/re2.h>

#include "base/error.h"
#include "kernels/text/text_kernels.h"

namespace graft {
namespace {

/// Memory that the automata of one expression may take.
constexpr int64_t kMostExpressionBytes = int64_t{16} << 20;

}  // namespace

HostKernel make_regex_full_match(const Node& node) {
  const std::string pattern = KernelAttributes(node).text("pattern", "");
  RE2::Options options(RE2::Quiet);
  options.set_max_mem(kMostExpressionBytes);
  const auto expression = std::make_shared<const RE2>(pattern, options);
  GRAFT_USER_CHECK(expression->ok(), kInvalidModel,
                   fmt::format("its pattern is no regular expression of RE2: {}", expression->error()), "");
  return [expression](std::span<const DynamicValue> inputs) {
    const TensorData& x = tensor_input(inputs, 0, DType::kString);
    TensorData matches = TensorData::zeros(DType::kBool, x.shape());
    const std::span<std::byte> bytes = matches.mutable_bytes();
    for (size_t i = 0; i < bytes.size(); ++i) {
      stop_if_requested();
      bytes[i] = static_cast<std::byte>(RE2::FullMatch(x.strings()[i], *expression));
    }
    return std::vector<DynamicValue>{std::move(matches)};
  };
}

}  // namespace graft
