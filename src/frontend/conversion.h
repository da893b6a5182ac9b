// SPDX-License-Identifier: Apache-2.0
// From a framework's operators to graph operators: converter rows, and what they build with.
//
//   void convert_conv2d(Conversion& c) {
//     c.give(c.add("Conv", {c.tensor("input"), c.tensor("weight"), c.tensor("bias")},
//                  {{"strides", c.integers("stride", 2)}, ...}));
//   }
//   {"aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1)", convert_conv2d}
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/foreign_graph.h"
#include "frontend/signature.h"
#include "graph/graph.h"

namespace graft::frontend {

/// Thrown by rows and caught by convert(): the node stays with the framework, for this reason.
struct Refusal {
  std::string reason;
};

/// A part of a list: an element, or a run of as many as its first axis has.
struct ListPart {
  ValueId value = kNoValue;
  bool run = false;
};

/// A list of tensors, as TorchScript has them.
struct List {
  int begun = -1;  ///< the function's input, by foreign value, that it goes on; -1: it has its parts alone
  std::vector<ListPart> parts = {};
};
using Lists = std::map<int, List>;  ///< by foreign value

/// A tensor of complex numbers, which an engine has as two of reals, of one type and shape.
struct Complex {
  ValueId real = kNoValue, imaginary = kNoValue;
};
using Complexes = std::map<int, Complex>;  ///< by foreign value

class Converters;

/// What is known of a value that a function is given.
struct Given {
  DType type = DType::kUndefined;
  std::optional<Shape> shape = {};
  TensorData constant = {};  ///< where it is one: a constant of the function, too, and none of its inputs
  std::optional<std::vector<Size>> content = {};  ///< the elements of a small tensor of integers
  bool list = false;  ///< of tensors: none of the function's inputs either, as what the function adds to it is a result
};

/// A result of a function: a tensor, or what the function adds to a list (a run; kNoValue where that is nothing).
struct BodyResult {
  ValueId value = kNoValue;
  bool list = false;
  int continues = -1;  ///< the given list that it goes on, by its number; -1: a list of the function's own
};

/// A function as a graph of the values that are neither constants nor lists.
struct Body {
  Graph graph;
  std::vector<BodyResult> results;
  std::string reason;  ///< why it cannot run in an engine, naming the function's node; then results are what is known
};

/// One node's conversion, as its row sees it. Types and shapes of what it has and adds are known at once, where they
/// follow from what is known.
class Conversion {
 public:
  Conversion(const ForeignGraph& foreign, const ForeignNode& node, const Signature& signature, Graph& graph,
             std::vector<ValueId>& converted, Lists& lists, Complexes& complexes, const Converters& converters)
      : foreign_(foreign), node_(node), signature_(signature), graph_(graph), converted_(converted), lists_(lists),
        complexes_(complexes), converters_(converters) {}

  const ForeignNode& node() const { return node_; }
  const ForeignGraph& foreign() const { return foreign_; }
  const Signature& signature() const { return signature_; }
  Graph& graph() { return graph_; }

  /// The argument of that name: as given by position or by name, else the signature's default. Refuses without either.
  const Argument& argument(std::string_view name) const;
  bool has(std::string_view name) const { return !argument(name).is_none(); }
  /// Whether it is a number of the host language, also one that is known only while running.
  bool is_number(std::string_view name) const;
  /// Whether it is a list of tensors, as give_list states them.
  bool is_list(std::string_view name) const;
  /// A tensor; numbers become constants of rank 0. kNoValue for None. Refuses a rank that the signature does not have.
  ValueId tensor(std::string_view name);
  std::vector<ValueId> tensors(std::string_view name);
  /// A list of tensors, with what an engine knows of it.
  List list(std::string_view name);
  /// What a value of the framework's graph has become, kNoValue where it stays there; and a list of tensors, or null.
  ValueId converted(Reference value) const { return converted_[static_cast<size_t>(value.value)]; }
  const List* list_of(Reference value) const;
  /// The elements of a list; refuses one whose length only a run knows.
  std::vector<ValueId> elements(const List& list) const;
  /// All parts of a list as one run; kNoValue for none.
  ValueId joined(const List& list);
  /// Whether it is a tensor of complex numbers, and its parts; refuses what is none, or stays in the framework.
  bool is_complex(std::string_view name) const;
  Complex complex(std::string_view name) const;
  /// What an argument is, of rank 0 where it is a number; kNoValue for None. Refuses complex numbers, but for by_parts.
  ValueId value_of(const Argument& argument, std::string_view name);
  /// All that is given by position, as tensors: of an operator that takes any number of them.
  std::vector<ValueId> inputs();
  /// Constants of the host language, or values whose contents are known. Refuse where they are not.
  int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  bool flag(std::string_view name) const;
  std::string text(std::string_view name) const;
  DType type(std::string_view name) const;
  /// A list of integers, or a value whose contents are known; one integer stands for `count` of them.
  std::vector<int64_t> integers(std::string_view name, size_t count = 0) const;
  /// A one-dimensional i64 tensor of a list, or of one integer, whose elements may be values.
  ValueId shape_tensor(std::string_view name);

  DType type_of(ValueId value) const { return graph_.value(value).type; }
  /// Refuses where the rank is unknown.
  const Shape& shape_of(ValueId value) const;
  int rank_of(ValueId value) const { return static_cast<int>(shape_of(value).size()); }
  /// The size of an axis; refuses one that the value does not have.
  const Size& size_of(ValueId value, int64_t axis) const;
  /// An axis in [-rank, rank), made non-negative; refuses others.
  int64_t axis(int64_t given, int rank) const;
  /// a + b and a * b of what a file states; refuse what overflows.
  int64_t sum(int64_t a, int64_t b) const;
  int64_t product(int64_t a, int64_t b) const;

  ValueId constant(TensorData data);
  ValueId integers_constant(const std::vector<int64_t>& elements);
  ValueId real_constant(double element, DType type);
  /// Adds operators, and infers their results. What the operator's definition rejects is a refusal.
  ValueId add(std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {},
              std::string_view domain = "");
  std::vector<ValueId> add_several(std::string_view op, std::vector<ValueId> inputs, Attributes attributes, int outputs,
                                   std::string_view domain = "");
  /// An operator without a definition, which a pass lowers: its result is stated.
  ValueId add_described(std::string_view op, std::vector<ValueId> inputs, DType type, Shape shape);
  ValueId cast(ValueId value, DType type);

  Given given(ValueId value) const;
  /// The function of an attribute as the framework has it; refuses without one.
  const ForeignGraph& function(std::string_view attribute) const;
  /// The same as a graph of the values that are no constants. Its sizes are constants and symbols alone: what a size is
  /// made of, the graph around it knows. Refuses, naming the function's node, what cannot be converted.
  Graph body(std::string_view attribute, const std::vector<Given>& given) const;
  /// The same with lists, and with a reason instead of a refusal. What it is given last is what the function's own
  /// parts get, if the node stays with the framework.
  Body try_body(std::string_view attribute, const std::vector<Given>& given);
  /// A function's nodes in this graph, of the arguments that it takes; gives the graph's value for each of its own.
  std::vector<ValueId> insert(const Graph& function, const std::vector<ValueId>& arguments);
  /// The function's nodes in place of the node; gives its results.
  std::vector<ValueId> call(std::string_view attribute, const std::vector<ValueId>& arguments);

  /// States the results, in the operator's order. A row may leave the last ones out, and give more than the graph
  /// names.
  void give(ValueId result) { results_ = {result}; }
  void give(std::vector<ValueId> results) { results_ = std::move(results); }
  /// States a list of tensors: one result where the framework's graph has lists, else a result each.
  void give_list(std::vector<ValueId> elements);
  /// The same of one result, by its number.
  void give_list(size_t result, List list);
  const std::vector<ValueId>& results() const { return results_; }
  /// The same of complex numbers.
  void give_complex(Complex result) { complex_results_ = {result}; }
  void give_complex(std::vector<Complex> results) { complex_results_ = std::move(results); }
  const std::vector<Complex>& complex_results() const { return complex_results_; }
  /// Gives what a row of real numbers makes of the real parts of its complex arguments, and of the imaginary ones: of
  /// operators that move elements or add them up. Its tensors are all complex, but for indices and masks.
  void by_parts(const std::function<void(Conversion&)>& build);
  /// Gives what it makes of the real parts alone: of what asks for sizes.
  void by_real_parts(const std::function<void(Conversion&)>& build);
  /// For rows that then refuse: what is known of a result that the framework computes, so that what follows can be
  /// converted. Its type and sizes are those of a value.
  void describe(size_t result, ValueId like) { describe(result, type_of(like), graph_.value(like).shape); }
  void describe(size_t result, DType type, std::optional<Shape> shape);
  struct Description {
    DType type = DType::kUndefined;
    std::optional<Shape> shape = {};
  };
  const std::map<size_t, Description>& descriptions() const { return descriptions_; }
  /// By attribute: what its functions are given.
  const std::map<std::string, std::vector<Given>, std::less<>>& given_to_bodies() const { return given_to_bodies_; }

  [[noreturn]] void refuse(const std::string& reason) const { throw Refusal{reason}; }

 private:
  void infer(int node);
  int64_t integer_of(const Argument& argument, std::string_view name) const;
  std::vector<int64_t> integers_of(int foreign_value, std::string_view name) const;

  const ForeignGraph& foreign_;
  const ForeignNode& node_;
  const Signature& signature_;
  Graph& graph_;
  std::vector<ValueId>& converted_;
  Lists& lists_;
  Complexes& complexes_;
  const Converters& converters_;
  std::optional<ValueId Complex::*> part_;  ///< what a complex argument stands for, inside of by_parts
  std::vector<ValueId> results_;
  std::vector<Complex> complex_results_;
  std::map<size_t, Description> descriptions_;
  std::map<std::string, std::vector<Given>, std::less<>> given_to_bodies_;
};

/// How one operator of a framework is converted. Several of one signature may share a row: `aten::relu relu_(Tensor
/// self)`, in the namespace of the first.
struct Row {
  std::string signature;
  std::function<void(Conversion&)> build;
  std::function<void(Conversion&)> of_complex = {};  ///< in place of `build` where an argument, or a type, is complex
};

/// The rows of a front end, by operator. A row of the front end's own replaces an earlier one of the same operator;
/// users' stand beside it, the later one of equal priority first, and where one refuses the next is asked.
class Converters {
 public:
  explicit Converters(const std::vector<Row>& rows) {
    for (const Row& row : rows) add(row);
  }
  /// `origin`: whose it is, `libmine.so`; empty: the front end's own. Rows of higher priority are asked first.
  void add(const Row& row, const std::string& origin = {}, int priority = 0);
  struct Entry {
    Signature signature;
    std::function<void(Conversion&)> build;
    std::string origin = {};
    int priority = 0;
    std::function<void(Conversion&)> of_complex = {};
  };
  /// From here on complex numbers are pairs of reals, which no border of an engine sees: rows take them by `of_complex`
  /// alone. Otherwise they are elements that operators can move.
  void pair_complex() { pairs_complex_ = true; }
  bool pairs_complex() const { return pairs_complex_; }
  /// Gives rows of the front end, by the operators' names, what they do with complex numbers: `of(build)`, of what they
  /// do with real ones.
  using Build = std::function<void(Conversion&)>;
  void extend(std::string_view names, const std::function<Build(const Build& build)>& of);
  /// Of an operator, in the order in which they are asked; empty where there is none.
  const std::vector<Entry>& rows_of(std::string_view op) const;
  /// The first of these, or null.
  const Entry* find(std::string_view op) const;
  std::vector<std::string> names() const;

 private:
  std::map<std::string, std::vector<Entry>, std::less<>> entries_;
  bool pairs_complex_ = false;
};

/// What became of a foreign graph, or of a part of it.
struct Converted {
  Graph graph;
  std::vector<std::string> reasons;  ///< by foreign node: why it was not converted; empty for those that were
  std::vector<ValueId> values;       ///< by foreign value: its value in `graph`, or kNoValue
  Complexes complexes = {};          ///< those whose parts are in `graph`, where complex numbers are pairs
  /// By foreign node and attribute: what its functions are given, as far as rows that refused could tell.
  std::map<std::pair<int, std::string>, std::vector<Given>> given_to_bodies = {};
  /// Sizes of the inputs that no run could tell, made of symbols that no input has as a size: by the symbols that now
  /// stand for them, equal ones for the same.
  std::map<std::string, Size> renamed = {};
};

/// A function with the types of what it is given.
ForeignGraph with_given(const ForeignGraph& function, const std::vector<Given>& given);

/// Converts what can be: results of nodes that are refused come in as inputs, with the types that the framework tells.
/// `nodes`: those to convert, in order; the graph's inputs and outputs are then what flows in and out of them, in the
/// order of `inputs` and `outputs`. This is also how it is found out what is supported: there is no second list.
Converted convert(const ForeignGraph& foreign, const std::vector<int>& nodes, const std::vector<int>& inputs,
                  const std::vector<int>& outputs, const Converters& converters);
/// The same for the whole graph.
Converted convert(const ForeignGraph& foreign, const Converters& converters);
/// The same for a function: lists that it gives are results, as Body has them.
Converted convert_function(const ForeignGraph& foreign, const Converters& converters, std::vector<BodyResult>& results);

}  // namespace graft::frontend
