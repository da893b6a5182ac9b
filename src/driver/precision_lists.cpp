// SPDX-License-Identifier: Apache-2.0
#include "driver/precision_lists.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "driver/host_graph.h"
#include "import/mxnet/precision_lists.h"
#include "passes/precision_lists.h"
#include "passes/precision_rules.h"

namespace graft {
namespace {

using frontend::Argument;
using frontend::Arguments;
using frontend::Parameter;

/// What an operator is given to see what becomes of it; rows take one arrangement or another.
struct Arrangement {
  enum class Integers : uint8_t { kNumber, kOnes, kCounted, kPairs };
  int rank = 4;         ///< of tensors that may have any
  int64_t number = 1;   ///< what integers are
  Integers integers = Integers::kNumber;  ///< how tensors and lists of integers are filled
  bool optional = false;  ///< whether tensors are given that may be left out
};

constexpr int64_t kAxis = 4;  // the size of every axis

std::vector<Arrangement> arrangements() {
  using enum Arrangement::Integers;
  std::vector<Arrangement> made;
  for (const bool optional : {false, true}) {
    for (const int rank : {4, 2, 3, 1, 5}) {
      for (const int64_t number : {1, 0, 2, -1}) {
        for (const auto integers : {kNumber, kOnes, kCounted, kPairs}) {
          made.push_back({rank, number, integers, optional});
        }
      }
    }
  }
  return made;
}

/// One node of an operator with arguments by its signature.
class Sample {
 public:
  Sample(const std::string& op, const frontend::Signature& signature, const Arrangement& arrangement)
      : arrangement_(arrangement) {
    graph_.name = "sample";
    frontend::ForeignNode node{.op = op, .name = "sample"};
    for (const Parameter& parameter : signature.parameters) node.arguments.push_back(argument(parameter));
    graph_.values.push_back({.name = "result"});
    node.outputs = {static_cast<int>(graph_.values.size()) - 1};
    graph_.outputs = node.outputs;
    graph_.nodes.push_back(std::move(node));
  }

  const frontend::ForeignGraph& graph() const { return graph_; }
  int floats() const { return floats_; }  ///< that it was given

 private:
  static bool is_word(const std::string& type) {
    for (const char* word : {"int", "SymInt", "float", "bool", "str", "Scalar", "ScalarType", "Device", "Layout",
                             "MemoryFormat", "Generator", "number"}) {
      if (type == word) return true;
    }
    return type.empty();
  }

  /// TensorFlow's types of indices and sizes, and attributes of such types.
  static bool is_integer_type(const std::string& type) {
    for (const char* word : {"int32", "int64", "Tidx", "Tdim", "Tshape", "Tperm", "Tlen", "Taxis", "Tindices", "Tk",
                             "Tmultiples", "Tpaddings", "Index", "TI", "index_type"}) {
      if (type == word) return true;
    }
    return false;
  }

  Argument argument(const Parameter& parameter) {
    std::string type = parameter.type;
    const bool optional = type.ends_with('?');
    if (optional) type.pop_back();
    const size_t bracket = type.find('['), star = type.find('*');
    std::string element = type.substr(0, bracket);
    const bool list = bracket != type.npos || star != type.npos;
    if (element.ends_with('?')) element.pop_back();
    if (star != type.npos) element = star + 1 == type.size() ? type.substr(0, star) : type.substr(star + 1);
    const bool truths = element == "bool" && parameter.name == "input";  // TensorFlow's; torch's are words
    const bool tensor = truths || !is_word(element);
    const bool given = tensor && arrangement_.optional;
    if (parameter.name == "is_training") return false;
    if (parameter.has_default && !given) return parameter.default_value;
    if (optional && !given) return {};
    if (!tensor) return plain(parameter.name, element, list, bracket == type.npos ? "" : type.substr(bracket + 1));
    const std::optional<int> rank = optional ? 1 : parameter.rank;  // weights and statistics of channels
    if (!list) return reference(parameter.name, element, rank);
    return Arguments{reference(parameter.name, element, rank), reference(parameter.name, element, rank)};
  }

  /// `count`: of a list, as its type states it: `2]`.
  Argument plain(const std::string& name, const std::string& type, bool list, const std::string& count) const {
    if (list) {
      std::vector<int64_t> elements = integers();
      if (count.size() > 1) elements.assign(static_cast<size_t>(count[0] - '0'), arrangement_.number);
      Arguments made;
      for (const int64_t each : elements) {
        made.push_back(type == "float" ? Argument(static_cast<double>(each)) : Argument(each));
      }
      return made;
    }
    if (name == "padding") return std::string("SAME");
    if (name == "equation") return std::string("ab,bc->ac");
    if (name == "mode") return std::string("REFLECT");
    if (name == "num_split" || name == "num" || name == "block_size") return int64_t{arrangement_.number * 2};
    if (name == "DstT" || name == "dtype") return DType::kFloat32;
    if (type == "float" || type == "Scalar") return 0.5;
    if (type == "bool") return arrangement_.number == 1;
    if (type == "str") return std::string("none");
    if (type == "ScalarType") return DType::kFloat32;
    if (type == "int" || type == "SymInt") return arrangement_.number;
    return type.empty() ? Argument(Arguments(static_cast<size_t>(arrangement_.rank), Argument(1))) : Argument();
  }

  std::vector<int64_t> integers() const {
    using enum Arrangement::Integers;
    if (arrangement_.integers == kNumber) return {arrangement_.number};
    std::vector<int64_t> made(static_cast<size_t>(arrangement_.rank), arrangement_.number);
    if (arrangement_.integers == kCounted) std::iota(made.begin(), made.end(), 0);
    if (arrangement_.integers == kPairs) made.resize(2, arrangement_.number);
    return made;
  }

  static bool names_positions(const std::string& name) { return name == "index" || name == "indices"; }
  static bool names_truths(const std::string& name) { return name == "mask" || name == "condition"; }

  Argument reference(const std::string& name, const std::string& type, std::optional<int> rank) {
    frontend::ForeignValue value{.name = fmt::format("value_{}", graph_.values.size()), .type = DType::kFloat32};
    const auto axes = static_cast<size_t>(rank.value_or(arrangement_.rank));
    if (is_integer_type(type)) {
      value.constant = integer_tensor(rank);
      value.type = value.constant.type();
      value.shape = Shape(value.constant.shape().begin(), value.constant.shape().end());
    } else {
      if (type == "bool" || names_truths(name)) value.type = DType::kBool;
      if (names_positions(name)) value.type = DType::kInt64;
      floats_ += value.type == DType::kFloat32 ? 1 : 0;
      value.shape = Shape(axes, Size(kAxis));
      graph_.inputs.push_back(static_cast<int>(graph_.values.size()));
    }
    graph_.values.push_back(std::move(value));
    return frontend::Reference{static_cast<int>(graph_.values.size()) - 1};
  }

  TensorData integer_tensor(std::optional<int> rank) const {
    using enum Arrangement::Integers;
    if (rank == 0 || (!rank && arrangement_.integers == kNumber)) {
      return TensorData::from_values<int32_t>(DType::kInt32, {}, {static_cast<int32_t>(arrangement_.number)});
    }
    if (!rank && arrangement_.integers == kPairs) {
      return TensorData::zeros(DType::kInt32, {arrangement_.rank, 2});
    }
    std::vector<int32_t> made;
    for (const int64_t each : integers()) made.push_back(static_cast<int32_t>(each));
    const auto count = static_cast<int64_t>(made.size());
    return TensorData::from_values<int32_t>(DType::kInt32, {count}, made);
  }

  const Arrangement& arrangement_;
  frontend::ForeignGraph graph_;
  int floats_ = 0;
};

bool computes_floats(const Graph& graph, const Node& node) {
  const auto is_f32 = [&](ValueId id) { return id != kNoValue && graph.value(id).type == DType::kFloat32; };
  return std::ranges::any_of(node.inputs, is_f32) || std::ranges::any_of(node.outputs, is_f32);
}

/// Of what an operator became: f32 where one part has to be, low where the work is.
amp::Rule rule_of(const Graph& graph, int operands) {
  bool low = false;
  for (const Node& node : graph.nodes) {
    if (!computes_floats(graph, node) || node.op == "Cast") continue;
    const passes::PrecisionRow* row = passes::find_precision_row(node);
    const bool square = node.op == "Mul" && node.inputs[0] == node.inputs[1];
    if (!row || row->rule == passes::PrecisionRule::kWide || square) return amp::Rule::kWide;
    low |= row->rule == passes::PrecisionRule::kLow;
  }
  if (low) return amp::Rule::kLow;
  return operands > 1 ? amp::Rule::kWidest : amp::Rule::kFollow;
}

/// The graph operators that operators are whose arguments no arrangement has; none for those that compute no floats of
/// their own: they run functions, or have integers and truths alone.
const std::map<std::string_view, std::string_view>& named_operators() {
  static const std::map<std::string_view, std::string_view> names = {
#define GRAFT_PRECISION_AS(op, graph_operator) {op, graph_operator},
#include "driver/precision_names.inc"
#undef GRAFT_PRECISION_AS
  };
  return names;
}

amp::Rule rule_of(std::string_view graph_operator) {
  const passes::PrecisionRow* row = passes::find_precision_row(graph_operator);
  if (!row || row->rule == passes::PrecisionRule::kWide) return amp::Rule::kWide;
  return row->rule == passes::PrecisionRule::kLow ? amp::Rule::kLow : amp::Rule::kFollow;
}

/// The rules of a front end, each found out when it is asked for.
class DerivedRules {
 public:
  explicit DerivedRules(std::shared_ptr<const frontend::Converters> converters) : converters_(std::move(converters)) {}

  /// Nothing for an operator that is not converted.
  std::optional<amp::Rule> find(std::string_view op) {
    const frontend::Converters::Entry* entry = converters_->find(op);
    if (!entry) return std::nullopt;
    const auto [known, is_new] = known_.try_emplace(std::string(op));
    if (is_new) known->second = derive(known->first, entry->signature);
    return known->second;
  }

 private:
  static std::string_view plain_name(std::string_view op) {  // `aten::exp_` writes what `aten::exp` gives
    const size_t dot = std::min(op.find('.'), op.size());
    return dot > 0 && op[dot - 1] == '_' ? op.substr(0, dot - 1) : op.substr(0, dot);
  }

  /// Nothing for an operator of which no arrangement becomes anything, and that is not named either.
  std::optional<amp::Rule> derive(const std::string& op, const frontend::Signature& signature) const {
    for (const std::string_view name : {std::string_view(op), plain_name(op)}) {
      const auto named = named_operators().find(name);
      if (named != named_operators().end()) return rule_of(named->second);
    }
    static const std::vector<Arrangement> kArrangements = arrangements();
    for (const Arrangement& arrangement : kArrangements) {
      const Sample sample(op, signature, arrangement);
      const frontend::Converted converted = frontend::convert(sample.graph(), *converters_);
      if (converted.reasons[0].empty()) return rule_of(converted.graph, sample.floats());
    }
    return std::nullopt;
  }

  std::shared_ptr<const frontend::Converters> converters_;
  std::map<std::string, std::optional<amp::Rule>, std::less<>> known_;
};

amp::DefaultLists derived_lists(const std::string& front_end) {
  const auto converters = find_converters(front_end);
  const auto rules = std::make_shared<DerivedRules>(converters);
  amp::DefaultLists lists;
  lists.rule = [rules](std::string_view op) { return rules->find(op); };
  lists.canonical = [](std::string_view op) { return std::string(op); };
  lists.names = converters->names();
  lists.otherwise = amp::Rule::kWide;
  return lists;
}

}  // namespace

amp::DefaultLists default_lists(const std::string& front_end, DType low) {
  if (front_end == "onnx") return passes::default_lists();
  if (front_end == "mxnet") return mxnet::default_lists(low);
  GRAFT_USER_CHECK(front_end == "tensorflow" || front_end == "aten", kInvalidArgument,
                   fmt::format("'{}' has no lists: onnx, mxnet, tensorflow and aten have", front_end), "--front-end");
  return derived_lists(front_end);
}

}  // namespace graft
