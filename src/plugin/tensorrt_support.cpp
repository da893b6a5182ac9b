// SPDX-License-Identifier: Apache-2.0
#include "plugin/tensorrt_support.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "base/printable.h"

namespace graft::plugin {
namespace {

/// What of a node a limit looks at. Numbers in `of` are positions of operands.
enum class LimitRule : uint8_t {
  kOneOf,     ///< the attribute, whose words are all allowed ones, or which is left out
  kAbsent,    ///< the attribute is left out
  kConstant,  ///< the operand is a weight or a Constant, or left out
  kZero,      ///< the same, and its elements are zero
  kBelow,     ///< the operand, where its value is known, is less than this
  kRank,      ///< the number of the operand's axes, where it is known
  kOperands,  ///< how many there may be
  kResults,   ///< how many there may be
};

constexpr std::string_view kAnyType = "";
constexpr std::string_view kBool = "bool";
constexpr std::string_view kFloat32 = "f32";
constexpr std::string_view kNarrowFloats = "f32 f16 f64";
constexpr std::string_view kFloats = "f32 f16 bf16 f64";  // f64 is taken as f32
constexpr std::string_view kNumbers = "f32 f16 bf16 f64 i32 i64";
constexpr std::string_view kNumbersAndBool = "f32 f16 bf16 f64 i32 i64 bool";
constexpr std::string_view kCasts = "f32 f16 bf16 f64 i32 i64 bool u8";
constexpr std::string_view kConstants = "f32 f16 bf16 f64 i32 i64 bool f8e4m3fn f4e2m1 i4";
constexpr std::string_view kQuantized = "i8 f8e4m3fn f4e2m1 i4";
constexpr std::string_view kAttention = "f32 f16 bf16 i8 f8e4m3fn";
constexpr std::string_view kCache = "f32 f16 bf16 i32";
constexpr int kResult = -1;

struct Taken {
  std::string_view domain, name, types;
  int operand;
};
constexpr Taken kTaken[] = {
#define GRAFT_TENSORRT_TAKES(domain, name, types, operand) {domain, #name, types, operand},
#include "plugin/tensorrt_operators.inc"
};

constexpr std::string_view kLacking[] = {
#define GRAFT_TENSORRT_LACKS(name) #name,
#include "plugin/tensorrt_operators.inc"
};

struct Limit {
  std::string_view name;
  LimitRule rule;
  std::string_view of, allowed, refused;
};
constexpr Limit kLimits[] = {
#define GRAFT_TENSORRT_LIMIT(name, rule, of, allowed, refused) {#name, LimitRule::rule, of, allowed, refused},
#include "plugin/tensorrt_operators.inc"
};

/// Types that tensors of a network can have at all; u8 only where an operator's row names it.
constexpr std::string_view kRepresentable = "f32 f16 bf16 f64 i32 i64 i8 i4 bool f8e4m3fn f4e2m1";

bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

bool has_all(std::string_view words, std::string_view wanted) {
  while (!wanted.empty()) {
    const size_t end = std::min(wanted.find(' '), wanted.size());
    if (!has_word(words, wanted.substr(0, end))) return false;
    wanted.remove_prefix(std::min(end + 1, wanted.size()));
  }
  return true;
}

class Judge {
 public:
  explicit Judge(const ModelFile& model) : model_(model) {
    for (const ModelNode& node : model.nodes()) {
      if (node.op != "Constant") continue;
      constants_.insert(node.outputs.begin(), node.outputs.end());
    }
  }

  std::vector<Refusal> judge() {
    for (const ModelNode& node : model_.nodes()) look_at(node, "");
    return std::move(found_);
  }

 private:
  void look_at(const ModelNode& node, const std::string& outer) {
    if (const auto reason = refusal(node, outer.empty())) {
      const std::string op = node.domain.empty() ? node.op : node.domain + "." + node.op;
      const std::string inside = outer.empty() ? "" : fmt::format(", inside '{}'", outer);
      found_.push_back({outer.empty() ? node.name : outer, op, *reason + inside, !outer.empty()});
    }
    for (const ModelNode& inner : node.bodies) look_at(inner, outer.empty() ? node.name : outer);
  }

  std::optional<std::string> refusal(const ModelNode& node, bool types_known) const {
    if (model_.has_function(node.domain, node.op)) return std::nullopt;  // the parser takes functions apart
    if (node.domain.empty() && std::find(std::begin(kLacking), std::end(kLacking), node.op) != std::end(kLacking)) {
      return "TensorRT has no such operator";
    }
    const auto taken = std::find_if(std::begin(kTaken), std::end(kTaken), [&](const Taken& each) {
      return each.domain == node.domain && each.name == node.op;
    });
    if (taken == std::end(kTaken)) {
      return node.domain.empty() ? fmt::format("TensorRT 11 documents operators up to opset {}, and not this one",
                                               kLastTensorRTOpset)
                                 : fmt::format("TensorRT has no operator of '{}' of that name", node.domain);
    }
    if (node.domain.empty()) {
      for (const Limit& limit : kLimits) {
        if (limit.name == node.op && !passes(node, limit, types_known)) {
          return fmt::format("TensorRT does not take {}", limit.refused);
        }
      }
    }
    return types_known ? type_refusal(node, *taken) : std::nullopt;
  }

  std::optional<std::string> type_refusal(const ModelNode& node, const Taken& taken) const {
    const auto& list = taken.operand == kResult ? node.results : node.operands;
    const size_t index = taken.operand == kResult ? 0 : static_cast<size_t>(taken.operand);
    if (!taken.types.empty() && index < list.size() && !list[index].empty()) {
      const DType type = model_.type_of(list[index]).type;
      if (type != DType::kUndefined && !has_word(taken.types, name_of(type))) {
        return fmt::format("TensorRT does not take it of {} ('{}')", name_of(type), printable(list[index]));
      }
    }
    for (const auto* names : {&node.operands, &node.results}) {
      for (const std::string& name : *names) {
        const DType type = name.empty() ? DType::kUndefined : model_.type_of(name).type;
        if (type == DType::kUndefined || has_word(kRepresentable, name_of(type))) continue;
        if (type == DType::kUint8 && has_word(taken.types, "u8")) continue;
        return fmt::format("TensorRT has no tensors of {} such as '{}'", name_of(type), printable(name));
      }
    }
    return std::nullopt;
  }

  bool passes(const ModelNode& node, const Limit& limit, bool types_known) const {
    const auto present = [](const std::vector<std::string>& names) {
      return static_cast<long>(std::count_if(names.begin(), names.end(), [](auto& name) { return !name.empty(); }));
    };
    switch (limit.rule) {
      case LimitRule::kOneOf: {
        const auto attribute = node.attributes.find(std::string(limit.of));
        return attribute == node.attributes.end() || has_all(limit.allowed, attribute->second);
      }
      case LimitRule::kAbsent:
        return node.attributes.count(std::string(limit.of)) == 0;
      case LimitRule::kOperands:
        return present(node.operands) <= std::stol(std::string(limit.allowed));
      case LimitRule::kResults:
        return present(node.results) <= std::stol(std::string(limit.allowed));
      default:
        return !types_known || operand_passes(node, limit);
    }
  }

  bool operand_passes(const ModelNode& node, const Limit& limit) const {
    const size_t index = std::stoul(std::string(limit.of));
    if (index >= node.operands.size() || node.operands[index].empty()) return true;
    const std::string& name = node.operands[index];
    if (limit.rule == LimitRule::kRank) {
      const int rank = model_.type_of(name).rank;
      return rank < 0 || has_word(limit.allowed, std::to_string(rank));
    }
    const auto weight = model_.weights().find(name);
    const bool known = weight != model_.weights().end();
    if (limit.rule == LimitRule::kBelow) {
      return !known || weight->second.element_count() != 1 ||
             weight->second.read_double(0) < std::stod(std::string(limit.allowed));
    }
    if (limit.rule == LimitRule::kConstant || !known) return known || constants_.count(name) != 0;
    for (int64_t i = 0; i < weight->second.element_count(); ++i) {
      if (weight->second.read_double(i) != 0) return false;
    }
    return true;
  }

  const ModelFile& model_;
  std::set<std::string, std::less<>> constants_;
  std::vector<Refusal> found_;
};

}  // namespace

std::vector<Refusal> refused_by_tensorrt(const ModelFile& model) { return Judge(model).judge(); }

}  // namespace graft::plugin
