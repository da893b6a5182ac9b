// SPDX-License-Identifier: Apache-2.0
#include "import/pt2/in_place.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"

namespace graft::pt2 {
namespace {

using frontend::Argument;
using frontend::Arguments;
using frontend::ForeignGraph;
using frontend::ForeignNode;
using frontend::ForeignValue;
using frontend::Reference;

/// `aten::relu_`, `aten::add_.Tensor`; not `aten::__and__.Tensor`.
size_t place_of_mark(const std::string& op) {
  if (!op.starts_with("aten::")) return std::string::npos;
  const size_t end = std::min(op.find('.'), op.size());
  const bool marked = op[end - 1] == '_' && !op.substr(0, end).ends_with("__");
  return marked ? end - 1 : std::string::npos;
}

/// What may give its operand's memory on.
bool may_share(const std::string& op) {
  static const std::set<std::string, std::less<>> kViews = {
      "alias", "alpha_dropout", "as_strided", "broadcast_to", "chunk", "contiguous", "detach", "diagonal", "dropout",
      "expand", "expand_as", "feature_alpha_dropout", "feature_dropout", "flatten", "lift_fresh", "mT", "movedim",
      "narrow", "numpy_T", "permute",
      "reshape", "reshape_as", "select", "slice", "split", "split_with_sizes", "squeeze", "swapaxes", "swapdims", "t",
      "to", "transpose", "type_as", "unbind", "unflatten", "unfold", "unsqueeze", "view", "view_as", "_unsafe_view",
      "_reshape_alias", "tensor_split", "real", "positive", "_to_copy"};
  if (!op.starts_with("aten::")) return true;
  const std::string name = op.substr(6, op.find('.') - 6);
  return kViews.contains(name) || name.ends_with("_");
}

/// The operator that puts back what another cut out, or nothing.
std::string_view scattering(std::string_view op) {
  if (op == "aten::slice.Tensor") return "aten::slice_scatter";
  return op == "aten::select.int" ? "aten::select_scatter" : "";
}

class Renaming {
 public:
  Renaming(ForeignGraph& graph, const std::string& where)
      : graph_(graph), where_(where), now_(graph.values.size()), memory_(graph.values.size()),
        last_use_(graph.values.size(), -1) {
    std::iota(now_.begin(), now_.end(), 0);
    std::iota(memory_.begin(), memory_.end(), 0);
    for (int value = 0; value < static_cast<int>(memory_.size()); ++value) shown_by_[value] = {value};
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      visit_references(graph.nodes[n], [&](int value) { last_use_[value] = static_cast<int>(n); });
    }
    for (const int output : graph.outputs) last_use_[output] = static_cast<int>(graph.nodes.size());
  }

  void run() {
    std::vector<ForeignNode> nodes = std::exchange(graph_.nodes, {});
    std::vector<int> places(nodes.size());
    for (size_t n = 0; n < nodes.size(); ++n) {
      ForeignNode& node = nodes[n];
      for (Argument& argument : node.arguments) rename(argument);
      for (auto& [name, argument] : node.attributes) rename(argument);
      for (int& before : node.after) before = places[static_cast<size_t>(before)];
      const size_t mark = place_of_mark(node.op);
      std::vector<ForeignNode> more;
      if (mark != std::string::npos) more = write(node, static_cast<int>(n), mark);
      if (mark == std::string::npos && may_share(node.op)) share(node);
      if (!scattering(node.op).empty() && node.outputs.size() == 1) parts_.emplace(node.outputs[0], node);
      places[n] = static_cast<int>(graph_.nodes.size());
      graph_.nodes.push_back(std::move(node));
      std::move(more.begin(), more.end(), std::back_inserter(graph_.nodes));
    }
    for (int& output : graph_.outputs) output = current(output);
  }

 private:
  /// What has a value's elements now.
  int current(int value) {
    int last = value;
    while (now_[last] != last) last = now_[last];
    while (now_[value] != last) value = std::exchange(now_[value], last);
    return last;
  }

  void rename(Argument& argument) {
    if (auto* reference = std::get_if<Reference>(&argument.is)) reference->value = current(reference->value);
    if (auto* list = std::get_if<Arguments>(&argument.is)) {
      for (Argument& each : *list) rename(each);
    }
  }

  /// The tensor that is written to: the first argument.
  int operand(const ForeignNode& node) const {
    const auto self = node.attributes.find("self");
    const auto input = self == node.attributes.end() ? node.attributes.find("input") : self;
    const Argument* first = input != node.attributes.end() ? &input->second
                            : node.arguments.empty()       ? nullptr
                                                           : &node.arguments[0];
    const auto* reference = first ? std::get_if<Reference>(&first->is) : nullptr;
    GRAFT_USER_CHECK(reference && node.outputs.size() == 1, kUnsupported,
                     fmt::format("{} does not say what it writes to", node.op), where_ + ": " + node.name);
    return reference->value;
  }

  /// Makes of an operator that writes the one that does not. Of these the dropouts call `input` what is `self` else.
  static void unmark(ForeignNode& node, size_t mark) {
    node.op.erase(mark, 1);
    const auto self = node.attributes.find("self");
    if (self == node.attributes.end() || !node.op.ends_with("dropout")) return;
    node.attributes.emplace("input", std::move(self->second));
    node.attributes.erase("self");
  }

  /// The tensors that a value was cut out of by operators that can be turned round: its own first.
  std::vector<int> wholes_of(int value) const {
    std::vector<int> wholes;
    for (auto part = parts_.find(value); part != parts_.end() && wholes.size() < parts_.size();
         part = parts_.find(wholes.back())) {
      wholes.push_back(operand(part->second));
    }
    return wholes;
  }

  /// A new value in place of another, of the same kind.
  int new_value(int like, const std::string& name) {
    const int made = static_cast<int>(graph_.values.size());
    const ForeignValue& known = graph_.values[like];
    ForeignValue value{.name = name, .type = known.type, .shape = known.shape};
    graph_.values.push_back(std::move(value));
    now_.push_back(made);
    memory_.push_back(memory_[like]);
    last_use_.push_back(last_use_[like]);
    return made;
  }

  /// The nodes that put a part's new elements into what it was cut out of, and that into what it was cut out of.
  std::vector<ForeignNode> put_back(const ForeignNode& node, int written, int elements,
                                    const std::vector<int>& wholes) {
    std::vector<ForeignNode> made;
    int part = written;
    for (const int whole : wholes) {
      ForeignNode cut = parts_.at(part), put = cut;
      put.op = scattering(put.op);
      put.name = fmt::format("{}_{}", node.name, put.name);
      put.source = node.source;
      if (put.arguments.empty()) {
        put.attributes.emplace("src", Argument{Reference{elements}});
      } else {
        put.arguments.insert(put.arguments.begin() + 1, Argument{Reference{elements}});
      }
      const int filled = new_value(whole, put.name);
      put.outputs = {filled};
      now_[whole] = filled;
      shown_by_[memory_[whole]].insert(filled);
      (cut.arguments.empty() ? cut.attributes["self"] : cut.arguments[0]) = Argument{Reference{filled}};
      parts_.insert_or_assign(std::exchange(elements, filled), std::move(cut));
      made.push_back(std::move(put));
      part = whole;
    }
    return made;
  }

  /// Gives the nodes that have to run behind it.
  std::vector<ForeignNode> write(ForeignNode& node, int position, size_t mark) {
    const int written = operand(node), memory = memory_[written];
    const auto refuse_if = [&](bool shared, const std::string& what) {
      GRAFT_USER_CHECK(!shared, kUnsupported,
                       fmt::format("{} writes into {}: run_decompositions() before saving makes a program without "
                                   "such writes", node.op, what),
                       where_ + ": " + node.name);
    };
    const bool given = std::find(graph_.inputs.begin(), graph_.inputs.end(), memory) != graph_.inputs.end();
    refuse_if(given, "what the model is given");
    refuse_if(static_cast<bool>(graph_.values[memory].constant) && !node.op.starts_with("aten::detach_"),
              "a parameter or constant");
    std::set<int>& shown_by = shown_by_[memory];
    const std::vector<int> wholes = wholes_of(written);
    for (const int other : shown_by) {
      const bool read = other != written && last_use_[other] > position;
      const bool whole = std::find(wholes.begin(), wholes.end(), other) != wholes.end();
      refuse_if(read && !whole, fmt::format("memory that '{}' shows", graph_.values[other].name));
    }
    const int result = node.outputs[0];
    shown_by = {result};
    now_[written] = result;
    memory_[result] = memory;
    last_use_[result] = std::max(last_use_[result], last_use_[written]);
    unmark(node, mark);
    return put_back(node, written, result, wholes);
  }

  /// Its results may show the memory of whatever it reads.
  void share(const ForeignNode& node) {
    int memory = -1;
    visit_references(node, [&](int value) {
      if (memory < 0) memory = memory_[value];
    });
    for (const int output : node.outputs) {
      if (memory < 0) continue;
      memory_[output] = memory;
      shown_by_[memory].insert(output);
    }
  }

  ForeignGraph& graph_;
  const std::string& where_;
  std::vector<int> now_;       ///< by value: what has its elements now, or had them before the next write
  std::map<int, std::set<int>> shown_by_;  ///< by memory: what shows it and may still be read
  std::vector<int> memory_;    ///< by value: whose memory it may show
  std::vector<int> last_use_;  ///< by value: the last node that reads it
  std::map<int, ForeignNode> parts_;  ///< by value: what cut it out of another
};

}  // namespace

void rename_in_place(ForeignGraph& graph, const std::string& where) {
  for (const ForeignNode& node : graph.nodes) {
    if (place_of_mark(node.op) != std::string::npos) return Renaming(graph, where).run();
  }
}

}  // namespace graft::pt2
