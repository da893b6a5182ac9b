// SPDX-License-Identifier: Apache-2.0
#include "fuse/merge_attention.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/log.h"
#include "expr/build.h"
#include "fuse/attention.h"
#include "fuse/clusters.h"
#include "fuse/contraction.h"
#include "fuse/rewrite_region.h"

namespace graft {
namespace {

/// Steps between the scores and the softmax at most.
constexpr int kMostMaps = 3;

const Reduce* only_reduction(const Region& region) {
  const Reduce* found = nullptr;
  for (const Form& form : region.forms) {
    const auto* reduce = std::get_if<Reduce>(&form);
    if (!reduce && !std::holds_alternative<Compute>(form)) return nullptr;
    if (reduce && found) return nullptr;
    if (reduce) found = reduce;
  }
  return found;
}

bool is_map(const Region& region) {
  return !region.forms.empty() && std::all_of(region.forms.begin(), region.forms.end(), [](const Form& form) {
    return std::holds_alternative<Compute>(form);
  });
}

/// The load that a factor of a product is, or widens; null for anything else.
Expr loaded(const Expr& factor) {
  const Expr& load = is_call(factor, Intrinsic::kCast) ? factor->args[0] : factor;
  return load->kind == ExprKind::kLoad ? load : Expr();
}

/// An expression over axes first..next-1 as one over the axis that joins them. An index that walks them as one walks
/// that; others divide it.
Expr on_axis(const Expr& value, const std::vector<Axis>& axes, size_t first, size_t next, const Axis& joined) {
  if (next - first == 1) return substitute(value, {{axes[first].variable->variable, joined.variable}});
  std::vector<std::pair<int, Expr>> parts, none;
  std::vector<Size> strides;  // of the axes within the joined one
  Size stride = 1;
  for (size_t d = next; d-- > first;) {
    const Expr whole = floor_div(joined.variable, make_size(stride));
    parts.emplace_back(axes[d].variable->variable, d == first ? whole : mod(whole, make_size(axes[d].extent)));
    none.emplace_back(axes[d].variable->variable, make_index(0));
    strides.push_back(stride);
    stride = stride * axes[d].extent;
  }
  const auto walks = [&](const Expr& index) {
    const auto sum = affine(index);
    if (!sum) return false;
    const Size step = sum->coefficient(parts[0].first);
    for (size_t p = 0; p < parts.size(); ++p) {
      if (!(sum->coefficient(parts[p].first) == step * strides[p])) return false;
    }
    return !step.is(0);
  };
  const Expr made = transform(value, [&](const Expr& node) -> Expr {
    if (node->kind != ExprKind::kLoad) return {};
    std::vector<Expr> indices = node->args;
    for (Expr& index : indices) {
      if (!walks(index)) continue;
      const Size step = affine(index)->coefficient(parts[0].first);
      index = substitute(index, none) + joined.variable * make_size(step);
    }
    return make_load(node->tensor, node->type, std::move(indices));
  });
  return substitute(made, parts);
}

bool is_load_of(const Expr& e, int tensor) { return e->kind == ExprKind::kLoad && e->tensor == tensor; }

template <class T>
T* definer(Region& region, int tensor) {
  for (Form& form : region.forms) {
    const auto defined = defined_tensors(form);
    if (std::find(defined.begin(), defined.end(), tensor) != defined.end()) return std::get_if<T>(&form);
  }
  return nullptr;
}

/// The only load of an expression; null where there are none or several.
Expr only_load(const Expr& e) {
  Expr found;
  bool one = true;
  for_each(e, [&](const Expr& node) {
    if (node->kind != ExprKind::kLoad) return;
    one = one && !found;
    found = node;
  });
  return one ? found : Expr();
}

/// weights = exponentials / sum, weighted = sum of weights * values -> sum of exponentials * values, divided by the
/// sum; and exponentials of rows that are minus infinity throughout are 0, as those of a part of a row must be. Such a
/// row gives NaN still, unless the divisor is something else for a sum of 0. False when the tensor `weights` is no
/// softmax, or is multiplied in another way.
bool divide_last(Region& region, int weights, int product) {
  auto* quotient = definer<Compute>(region, weights);
  auto* weighted = definer<Reduce>(region, product);
  if (!quotient || !weighted || weighted->reduced.size() != 1 || !is_call(weighted->lift[0], Intrinsic::kMul)) {
    return false;
  }
  const Expr& value = is_call(quotient->value, Intrinsic::kCast) ? quotient->value->args[0] : quotient->value;
  if (!is_call(value, Intrinsic::kDiv) || value->args[0]->kind != ExprKind::kLoad) return false;
  const Expr exponential = value->args[0], sum = value->args[1];
  if (!only_load(sum)) return false;
  auto* exponentials = definer<Compute>(region, exponential->tensor);
  if (!exponentials || !is_call(exponentials->value, Intrinsic::kExp)) return false;
  const Expr shifted = exponentials->value->args[0];
  if (!is_call(shifted, Intrinsic::kSub)) return false;
  const Expr shift = shifted->args[1], largest = only_load(shift);
  if (!largest || (shift->kind != ExprKind::kLoad && !equal(shift, softmax_shift(largest)))) return false;

  const std::vector<Expr> factors = weighted->lift[0]->args;
  const int side = loaded(factors[0]) && is_load_of(loaded(factors[0]), weights) ? 0 : 1;
  const Expr weight = loaded(factors[static_cast<size_t>(side)]);
  if (!weight || !is_load_of(weight, weights) || exponential->type != factors[0]->type) return false;
  std::vector<std::pair<int, Expr>> point;
  for (size_t d = 0; d < quotient->axes.size(); ++d) {
    point.emplace_back(quotient->axes[d].variable->variable, weight->args[d]);
  }
  const Expr divisor = substitute(sum, point);
  if (uses_variable(divisor, weighted->reduced[0].variable->variable)) return false;

  exponentials->value = exp(shifted->args[0] - softmax_shift(largest));
  std::vector<Expr> lift = factors;
  lift[static_cast<size_t>(side)] = substitute(exponential, point);
  weighted->lift[0] = lift[0] * lift[1];
  // What the reduction defined is its quotient from now on.
  const int undivided = static_cast<int>(region.tensors.size());
  region.tensors.push_back(region.tensors[product]);
  region.tensors.back().name += ".weighted";
  region.tensors.back().type = weighted->lift[0]->type;
  weighted->outputs[0] = undivided;
  std::vector<Expr> at;
  for (const Axis& axis : weighted->axes) at.push_back(axis.variable);
  Compute divide{weighted->axes, make_load(undivided, weighted->lift[0]->type, at) / divisor, product};
  const auto place = std::find_if(region.forms.begin(), region.forms.end(), [&](const Form& form) {
    return defined_tensors(form)[0] == undivided;
  });
  // Its own axes: those of the reduction are bound there.
  std::vector<std::pair<int, Expr>> fresh;
  for (Axis& axis : divide.axes) {
    const Expr variable = make_variable();
    fresh.emplace_back(axis.variable->variable, variable);
    axis.variable = variable;
  }
  divide.value = substitute(divide.value, fresh);
  region.forms.insert(place + 1, divide);
  return true;
}

class AttentionMerging {
 public:
  explicit AttentionMerging(FusedProgram& program)
      : program_(program), maker_(program.tensors.size(), -1), readers_(program.tensors.size()) {
    for (size_t s = 0; s < program.steps.size(); ++s) {
      for (const int tensor : program.steps[s].outputs) maker_[tensor] = static_cast<int>(s);
      std::set<int> read(program.steps[s].inputs.begin(), program.steps[s].inputs.end());
      for (const SymbolSource& source : program.steps[s].sources) read.insert(source.tensor);
      for (const int tensor : read) readers_[tensor].push_back(static_cast<int>(s));
    }
    std::vector<int> aliases(program.tensors.size());
    for (const FusedTensor& tensor : program.tensors) {
      if (tensor.alias_of >= 0) ++aliases[tensor.alias_of];
    }
    // What is read under one other shape alone is made in that; what is read under several stays, and what others see.
    for (size_t t = 0; t < program.tensors.size(); ++t) {
      const int root = program.tensors[t].alias_of;
      if (root >= 0 && aliases[root] == 1 && readers_[root].empty() && aliases[t] == 0) maker_[t] = maker_[root];
    }
    for (size_t t = 0; t < program.tensors.size(); ++t) {
      if (aliases[t] > 0 && !readers_[t].empty()) maker_[t] = -1;
      if (aliases[t] > 1) maker_[t] = -1;
    }
    for (int tensor : program.outputs) {
      for (; tensor >= 0; tensor = program.tensors[tensor].alias_of) maker_[tensor] = -1;
    }
  }

  void run() {
    gone_.assign(program_.steps.size(), false);
    for (size_t s = 0; s < program_.steps.size(); ++s) merge_at(static_cast<int>(s));
    std::vector<FusedStep> kept;
    for (size_t s = 0; s < program_.steps.size(); ++s) {
      if (!gone_[s]) kept.push_back(std::move(program_.steps[s]));
    }
    program_.steps = std::move(kept);
    if (!forgotten_.empty()) std::erase_if(program_.notes, [&](const std::string& n) { return is_forgotten(n); });
  }

 private:
  /// The step that makes the tensor for this reader alone, and nothing else; -1 when there is none.
  int only_maker(int tensor, int reader) const {
    const int maker = maker_[tensor];
    if (maker < 0 || gone_[maker] || readers_[tensor].size() != 1 || readers_[tensor][0] != reader) return -1;
    return program_.steps[maker].outputs.size() == 1 ? maker : -1;
  }

  /// The steps from the product of queries and keys to `reader`, which is not among them; empty when there are none.
  std::vector<int> scores_before(int reader, int maps) const {
    for (const int tensor : program_.steps[reader].inputs) {
      const int maker = only_maker(tensor, reader);
      if (maker < 0) continue;
      const Region& region = program_.steps[maker].region;
      const Reduce* reduce = only_reduction(region);
      const auto product = reduce ? find_contraction(*reduce) : std::nullopt;
      const bool plain = program_.tensors[tensor].alias_of < 0;
      if (product && !product->m.empty() && plain) return {maker};
      if (maps == kMostMaps || !is_map(region)) continue;
      if (program_.tensors[tensor].alias_of >= 0 && !reshaped(program_.steps[maker], tensor)) continue;
      std::vector<int> steps = scores_before(maker, maps + 1);
      if (steps.empty()) continue;
      steps.push_back(maker);
      return steps;
    }
    return {};
  }

  void merge_at(int last) {
    const FusedStep& step = program_.steps[last];
    const Reduce* product = only_reduction(step.region);
    if (!product || !find_contraction(*product)) return;
    for (const int tensor : read_tensors(Form(*product))) {
      const auto input = std::find(step.region.inputs.begin(), step.region.inputs.end(), tensor);
      if (input == step.region.inputs.end()) continue;
      const int weights = step.inputs[static_cast<size_t>(input - step.region.inputs.begin())];
      const int softmax = program_.tensors[weights].alias_of < 0 ? only_maker(weights, last) : -1;
      if (softmax < 0) continue;
      const Region& rows = program_.steps[softmax].region;
      if (rows.forms.empty() || only_reduction(rows) || is_map(rows)) continue;
      std::vector<int> steps = scores_before(softmax, 0);
      if (steps.empty()) continue;
      steps.push_back(softmax);
      steps.push_back(last);
      if (merge(steps, weights, product->outputs[0])) return;
    }
  }

  /// Puts one step in the place of the last one, if that is an attention.
  bool merge(std::vector<int> steps, int weights, int product) {
    Joined joined = join(steps);
    const int region_product = joined.maps.back()[product];
    if (!divide_last(joined.step.region, joined.tensor_of.at(weights), region_product)) return false;
    if (!is_attention(joined)) return false;
    const int last = steps.back();
    if (const int turn = turn_behind(last); turn >= 0) {
      Joined turned = joined;
      add(turned, program_.steps[turn]);
      finish(turned, turn);
      if (is_attention(turned)) {
        joined = std::move(turned);
        steps.push_back(turn);
      }
    }
    forget_notes(steps);
    for (const int step : steps) gone_[step] = true;
    gone_[last] = false;
    for (const int tensor : joined.step.outputs) maker_[tensor] = last;
    program_.steps[last] = std::move(joined.step);
    return true;
  }

  /// The other shape under which `reader` reads the result of `step`; -1 where it reads that itself.
  int alias_between(const FusedStep& step, const FusedStep& reader) const {
    for (const int tensor : reader.inputs) {
      if (program_.tensors[tensor].alias_of == step.outputs[0]) return tensor;
    }
    return -1;
  }

  /// The map as one that makes `alias`, whose axes join axes of its own: [a, b] -> [a * b]. Nothing where they do not.
  std::optional<FusedStep> reshaped(const FusedStep& step, int alias) const {
    FusedStep made = step;
    Region& region = made.region;
    inline_computes(region);
    remove_dead_forms(region);
    auto* map = region.forms.size() == 1 ? std::get_if<Compute>(&region.forms[0]) : nullptr;
    if (!map || step.outputs.size() != 1) return std::nullopt;
    const Shape& shape = program_.tensors[alias].shape;
    std::vector<Axis> axes;
    size_t next = 0;
    for (const Size& extent : shape) {
      Axis joined{make_variable(), 1};
      const size_t first = next;
      while (next < map->axes.size() && (next == first || !(joined.extent == extent))) {
        joined.extent = joined.extent * map->axes[next++].extent;
      }
      if (!(joined.extent == extent)) return std::nullopt;
      map->value = on_axis(map->value, map->axes, first, next, joined);
      axes.push_back(joined);
    }
    if (next != map->axes.size()) return std::nullopt;
    map->axes = axes;
    region.tensors[map->output].shape = shape;
    made.outputs = {alias};
    return made;
  }

  /// Several steps as one region.
  struct Joined {
    FusedStep step;
    std::map<int, int> tensor_of;        ///< of the program -> of the region
    std::vector<std::vector<int>> maps;  ///< of each step: its region's tensors -> the region's
  };

  Joined join(const std::vector<int>& steps) const {
    Joined joined;
    joined.step.name = program_.steps[steps[0]].name;
    joined.step.region.name = program_.steps[steps[0]].region.name;
    for (size_t s = 0; s < steps.size(); ++s) {
      const FusedStep& step = program_.steps[steps[s]];
      const int seen = s + 1 < steps.size() ? alias_between(step, program_.steps[steps[s + 1]]) : -1;
      add(joined, seen < 0 ? step : reshaped(step, seen).value());
    }
    finish(joined, steps.back());
    return joined;
  }

  static void add(Joined& joined, const FusedStep& step) {
    FusedStep& all = joined.step;
    std::vector<int> mapped(step.region.tensors.size(), -1);
    const auto place = [&](int tensor, int memory, bool input) {
      const auto known = joined.tensor_of.find(memory);
      if (known != joined.tensor_of.end()) {
        mapped[tensor] = known->second;
        return;
      }
      mapped[tensor] = joined.tensor_of[memory] = static_cast<int>(all.region.tensors.size());
      all.region.tensors.push_back(step.region.tensors[tensor]);
      if (!input) return;
      all.region.inputs.push_back(mapped[tensor]);
      all.inputs.push_back(memory);
    };
    for (size_t i = 0; i < step.inputs.size(); ++i) place(step.region.inputs[i], step.inputs[i], true);
    for (size_t i = 0; i < step.outputs.size(); ++i) place(step.region.outputs[i], step.outputs[i], false);
    for (size_t t = 0; t < mapped.size(); ++t) {
      if (mapped[t] >= 0) continue;
      mapped[t] = static_cast<int>(all.region.tensors.size());
      all.region.tensors.push_back(step.region.tensors[t]);
    }
    for (const Form& form : step.region.forms) all.region.forms.push_back(renumber_tensors(form, mapped));
    all.nodes.insert(all.nodes.end(), step.nodes.begin(), step.nodes.end());
    all.operators.insert(all.operators.end(), step.operators.begin(), step.operators.end());
    all.sources.insert(all.sources.end(), step.sources.begin(), step.sources.end());
    all.checks.insert(all.checks.end(), step.checks.begin(), step.checks.end());
    joined.maps.push_back(std::move(mapped));
  }

  /// The results are those of the last step.
  void finish(Joined& joined, int last) const {
    joined.step.outputs = program_.steps[last].outputs;
    joined.step.region.outputs.clear();
    for (const int tensor : joined.step.outputs) joined.step.region.outputs.push_back(joined.tensor_of.at(tensor));
  }

  /// Whether the region is one attention whose keys and values are computed; constant ones are the packed weights of
  /// products.
  bool is_attention(const Joined& joined) const {
    Region region = joined.step.region;
    normalise(region);
    std::string reason;
    const auto forms = find_attention(region, reason);
    if (!forms) log(LogLevel::kReason, "{}: products and a softmax are no attention: {}", joined.step.name, reason);
    if (!forms) return false;
    const auto is_constant = [&](const Expr& operand) {
      const auto input = std::find(region.inputs.begin(), region.inputs.end(), operand->tensor) - region.inputs.begin();
      return program_.tensors[joined.step.inputs[static_cast<size_t>(input)]].constant.has_value();
    };
    return !is_constant(forms->keys) && !is_constant(forms->values);
  }

  /// The step that does nothing but move whole rows of what `last` makes; -1 when there is none.
  int turn_behind(int last) const {
    const FusedStep& step = program_.steps[last];
    if (step.outputs.size() != 1 || maker_[step.outputs[0]] != last) return -1;
    const std::vector<int>& readers = readers_[step.outputs[0]];
    if (readers.size() != 1 || gone_[readers[0]]) return -1;
    const FusedStep& turn = program_.steps[readers[0]];
    const bool alone = turn.inputs.size() == 1 && turn.outputs.size() == 1 && turn.sources.empty();
    return alone && reorders_rows(turn.region) ? readers[0] : -1;
  }

  /// These steps do not run apart, whatever was noted.
  void forget_notes(const std::vector<int>& steps) {
    std::vector<std::pair<std::string, std::string>> nodes;
    for (const int step : steps) {
      const FusedStep& merged = program_.steps[step];
      for (size_t n = 0; n < merged.nodes.size(); ++n) nodes.emplace_back(merged.nodes[n], merged.operators[n]);
    }
    for (const auto& producer : nodes) {
      for (const auto& consumer : nodes) {
        forgotten_.insert(apart_note(producer.first, producer.second, consumer.first, consumer.second, ""));
      }
    }
  }

  bool is_forgotten(const std::string& note) const {
    const std::string end = apart_note("", "", "", "", "");
    const std::string_view says = std::string_view(end).substr(end.rfind(')') + 1);
    const size_t at = note.rfind(says);
    return at != std::string::npos && forgotten_.contains(note.substr(0, at + says.size()));
  }

  FusedProgram& program_;
  std::vector<int> maker_;  ///< by tensor: the step that makes it, -1 where it has to stay
  std::vector<std::vector<int>> readers_;
  std::vector<bool> gone_;
  std::set<std::string> forgotten_;  ///< beginnings of notes
};

}  // namespace

void merge_attention(FusedProgram& program) { AttentionMerging(program).run(); }

}  // namespace graft
