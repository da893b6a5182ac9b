// SPDX-License-Identifier: Apache-2.0
// If and Loop from a framework's own: what all front ends share. A framework hands over functions and what they take;
// lists of tensors that functions add to become runs, which a loop collects.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/conversion.h"

namespace graft::frontend {

/// How deep functions of a file may be nested: a loop is converted several times, until its sizes are known.
inline constexpr int kDeepestFunction = 5;

/// What a function takes: a tensor, or a list of tensors.
struct Operand {
  ValueId value = kNoValue;
  std::optional<List> list = {};
};
std::vector<Operand> operands_of(Conversion& c, const Arguments& arguments);
std::vector<Operand> operands_of(const std::vector<ValueId>& values);
std::vector<Given> given_to(Conversion& c, const std::vector<Operand>& operands);

/// Whether it is true, or not zero; refuses what has axes.
ValueId condition_of(Conversion& c, ValueId value);

/// If: gives what the function `then` gives, or `otherwise`, of the operands. `describes`: where it stays, what is
/// known of its results is told, for frameworks whose values are what an engine takes and that tell less themselves.
void convert_branch(Conversion& c, ValueId condition, std::string_view then, std::string_view otherwise,
                    const std::vector<Operand>& operands, bool describes = false);

/// What a loop repeats, by functions of the node.
struct LoopForm {
  std::string body;
  std::string condition = {};   ///< a function; empty: the body's first result says whether another round follows
  bool counted = false;         ///< nothing says that: the limit alone ends the loop
  ValueId limit = kNoValue;     ///< of rounds
  ValueId starts = kNoValue;    ///< without a condition: whether there is a first round
  bool numbered = false;        ///< the body takes the number of the round before the operands
  size_t carried = 0;           ///< the first operands, which a round gives anew; the others are the same in all rounds
  size_t sliced = 0;            ///< the next: a round takes a part of each, that of its number along the first axis
  size_t collected = 0;         ///< the function's last results, which are stacked
  bool collected_first = false; ///< these are the first ones, before the carried values
  bool one_element = false;     ///< a condition has one, on whatever axes
  std::vector<Operand> operands = {};
  /// By input of the body (behind the number) and of the condition: the operand; where not given all, in their order.
  std::optional<std::vector<size_t>> taken = {}, tested = {};
  bool describes = false;       ///< as of convert_branch
};

/// What a node reads, in order.
std::vector<int> taken_by(const ForeignNode& node);
/// The value that a function's value is another name of.
int behind_identities(const ForeignGraph& function, int value);

/// A loop on its way to the graph's.
class Loop {
 public:
  Loop(Conversion& c, LoopForm form);
  /// Of the carried operands, after the last round, and what was collected.
  struct Results {
    std::vector<ValueId> values;
    std::vector<std::optional<List>> lists;
  };
  Results convert();

  /// Called with each try of a round before axes become open; gives whether it changed what the operands are.
  using Adjust = std::function<bool(Loop&, const Body& round)>;
  void adjust_by(Adjust adjust) { adjust_ = std::move(adjust); }
  const LoopForm& form() const { return form_; }
  bool stays(size_t operand) const { return stays_[operand]; }
  const Given& known(size_t operand) const { return known_[operand]; }
  void replace(size_t operand, ValueId value);
  /// What a carried operand is after a round.
  const BodyResult& result(const Body& round, size_t operand) const;
  /// A size of a round as a tensor of one element outside of the loop: that of a value that the loop is given.
  ValueId size_outside(const Body& round, const Size& size);

 private:
  /// A list that rounds add to, and how: what a round adds of one size is collected, else a run grows.
  struct Added {
    size_t operand = 0;
    ValueId run = kNoValue;    ///< of the round's graph
    bool single = false;       ///< of one element, which is collected without its first axis
    ValueId start = kNoValue;  ///< what grows, before the first round
  };
  Body settled_round();
  bool widen(const Body& round);
  bool widen(size_t operand, const Value& made, const Value& taken);
  void describe_carried();
  std::vector<Given> given_of_round() const;
  std::vector<Given> given_to_condition() const;
  std::optional<size_t> place_of(size_t operand) const;
  size_t input_of(size_t operand) const;
  bool is_variable(size_t operand) const { return !known_[operand].constant && !known_[operand].list; }
  bool same_in_all_rounds(const Body& round, const Size& size) const;
  std::vector<Added> added_to(const Body& round);
  ValueId no_elements(const Body& round, const Value& run);
  std::vector<ValueId> add_loop(const Body& round, const std::vector<Added>& lists);
  Graph loop_body(const Body& round, const std::vector<Added>& lists);
  ValueId goes_on(Graph& body, const Body& round, const std::vector<ValueId>& copies);
  ValueId run_of(const Added& list, ValueId collected);
  size_t first_carried() const {
    return form_.collected_first ? form_.collected : form_.condition.empty() && !form_.counted ? 1 : 0;
  }
  size_t first_collected() const { return form_.collected_first ? 0 : first_carried() + form_.carried; }
  ValueId truth_in(Graph& body, ValueId value) const;
  bool is_sliced(size_t operand) const {
    return operand >= form_.carried && operand < form_.carried + form_.sliced;
  }

  Conversion& c_;
  LoopForm form_;
  std::vector<Given> known_;
  std::vector<bool> stays_;  ///< by operand: each round gives it as it is
  std::vector<size_t> taken_, tested_;  ///< as of the form
  std::vector<ValueId> inside_;         ///< by operand that stays: the value of the loop's body
  std::set<std::string, std::less<>> open_;  ///< symbols of axes that a round changes
  Adjust adjust_;
};

}  // namespace graft::frontend
