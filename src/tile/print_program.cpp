// SPDX-License-Identifier: Apache-2.0
#include <unordered_map>

#include <fmt/format.h>

#include "expr/text.h"
#include "tile/program.h"
#include "tile/text_words.h"

namespace graft::tile {
namespace {

std::string_view word_of(Scope scope) {
  switch (scope) {
    case Scope::kGlobal:
      return "global";
    case Scope::kShared:
      return "shared";
    case Scope::kFragment:
      return "fragment";
  }
  return "";
}

/// `=` with what is done to the old value before it.
std::string_view assignment(ScatterMode mode) {
  switch (mode) {
    case ScatterMode::kSet:
      return "=";
    case ScatterMode::kAdd:
      return "+=";
    case ScatterMode::kMul:
      return "*=";
    case ScatterMode::kMin:
      return "min=";
    case ScatterMode::kMax:
      return "max=";
  }
  return "";
}

/// Prints one program; names are given in order of appearance, so that equal programs have equal texts.
class Printer {
 public:
  explicit Printer(const Program& program) : program_(program) {
    for (const std::string_view word : kReservedWords) taken_.emplace(word, 1);
    for (const Buffer& buffer : program.buffers) {
      buffers_.push_back(unique_identifier(is_let_name(buffer.name) ? "buffer_" + buffer.name : buffer.name, taken_));
    }
  }

  std::string print() {
    line(fmt::format("program {} {{", program_.name));
    ++indent_;
    if (program_.threads) line(fmt::format("threads {}", program_.threads) + roles());
    if (!program_.sizes.empty()) line(fmt::format("sizes {}", fmt::join(program_.sizes, ", ")));
    if (!program_.stored.empty()) line(fmt::format("stored {}", fmt::join(program_.stored, ", ")));
    for (size_t i = 0; i < program_.buffers.size(); ++i) buffer(program_.buffers[i], buffers_[i]);
    if (!program_.grid.empty()) grid();
    line("body {");
    body(program_.body);
    line("}");
    --indent_;
    line("}");
    return std::move(text_);
  }

 private:
  std::string roles() const {
    std::string text;
    const auto [producers, teams, group, split] = program_.roles;
    if (producers > 0) text += fmt::format(" producers {}", producers);
    if (teams > 1) text += fmt::format(" teams {}", teams);
    if (group > 1) text += fmt::format(" group {}", group);
    if (split > 1) text += fmt::format(" split {}", split);
    return text;
  }

  void line(std::string_view content) {
    text_.append(2 * static_cast<size_t>(indent_), ' ').append(content).append("\n");
  }

  void buffer(const Buffer& buffer, const std::string& name) {
    line(fmt::format("{} {}: {}{} strides {}{}{}", word_of(buffer.scope), name, name_of(buffer.type),
                     to_string(buffer.shape), to_string(buffer.strides), buffer.written ? " written" : "",
                     buffer.constant ? " constant" : ""));
  }

  void grid() {
    std::string axes;
    for (const graft::Axis& axis : program_.grid) {
      axes += fmt::format("{}{} < {}", axes.empty() ? "" : ", ", name_variable(axis.variable, "g"),
                          axis.extent.to_string());
    }
    line(fmt::format("grid [{}]", axes));
  }

  std::string name_variable(const Expr& variable, std::string_view stem) {
    int& count = counts_[std::string(stem)];
    std::string name = unique_identifier(fmt::format("{}{}", stem, count++), taken_);
    variables_[variable->variable] = name;
    return name;
  }

  ExprPrinter printer() const {
    return ExprPrinter([this](int tensor) { return buffers_.at(tensor); },
                       [this](int variable) { return variables_.at(variable); });
  }

  /// Prints the shared parts of the next expressions and returns the printer that refers to them.
  ExprPrinter lets(const std::vector<Expr>& roots) {
    ExprPrinter result = printer();
    for (const std::string& let : result.lets(roots)) line(let);
    return result;
  }

  std::string axis(const Axis& axis, ExprPrinter& extents) {
    // The extent is printed first: it is outside the variable's scope.
    const std::string extent = extents.print(axis.extent);
    const std::string bound = axis.bound ? fmt::format(" bound {}", axis.bound) : "";
    return fmt::format("{} < {}{}", name_variable(axis.variable, "i"), extent, bound);
  }

  std::string axes(const std::vector<Axis>& list, ExprPrinter& extents) {
    std::string text;
    for (const Axis& each : list) text += (text.empty() ? "" : ", ") + axis(each, extents);
    return "[" + text + "]";
  }

  static void add_extents(std::vector<Expr>& roots, const std::vector<Axis>& axes) {
    for (const Axis& axis : axes) roots.push_back(axis.extent);
  }

  std::string element(int buffer, const std::vector<Expr>& indices, ExprPrinter& printer) const {
    return fmt::format("{}[{}]", buffers_.at(buffer), printer.print(indices));
  }

  void body(const Body& statements) {
    ++indent_;
    for (const Statement& statement : statements) {
      std::visit([&](const auto& node) { this->statement(node); }, statement.node);
    }
    --indent_;
  }

  void statement(const For& loop) {
    ExprPrinter outer = lets({loop.axis.extent});
    const std::string stages = loop.stages > 1 ? fmt::format(" stages {}", loop.stages) : "";
    line(fmt::format("for {}{}{} {{", axis(loop.axis, outer), stages, loop.early ? " early" : ""));
    body(loop.body);
    line("}");
  }

  void statement(const If& branch) {
    ExprPrinter outer = lets({branch.condition});
    line(fmt::format("if {} {{", outer.print(branch.condition)));
    body(branch.body);
    line("}");
  }

  void statement(const Map& map) {
    std::vector<Expr> roots;
    add_extents(roots, map.axes);
    ExprPrinter outer = lets(roots);
    line(fmt::format("map {}{} {{", axes(map.axes, outer), map.ordered ? " ordered" : ""));
    ++indent_;
    roots = {map.condition};
    for (const Store& store : map.stores) {
      roots.insert(roots.end(), store.indices.begin(), store.indices.end());
      roots.push_back(store.value);
    }
    ExprPrinter inner = lets(roots);
    if (map.condition) line(fmt::format("where {}", inner.print(map.condition)));
    for (const Store& store : map.stores) {
      line(fmt::format("{} {} {}", element(store.buffer, store.indices, inner), assignment(store.mode),
                       inner.print(store.value)));
    }
    --indent_;
    line("}");
  }

  std::string states(const std::vector<Expr>& variables, std::string_view stem) {
    std::string text;
    for (const Expr& variable : variables) {
      text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", name_variable(variable, stem), name_of(variable->type));
    }
    return "(" + text + ")";
  }

  void statement(const Reduce& reduce) {
    std::vector<Expr> roots;
    add_extents(roots, reduce.axes);
    add_extents(roots, reduce.reduced);
    ExprPrinter outer = lets(roots);
    const std::string kept = axes(reduce.axes, outer), reduced = axes(reduce.reduced, outer);
    const std::string points = reduce.points > 1 ? fmt::format(" points {}", reduce.points) : "";
    line(fmt::format("reduce {} over {}{}{}{} {{", kept, reduced, reduce.accumulate ? " accumulate" : "",
                     reduce.monoid.associative ? "" : " sequential", points));
    ++indent_;
    const std::string left = states(reduce.monoid.left, "a");
    line(fmt::format("state {} {}", left, states(reduce.monoid.right, "b")));
    roots = reduce.lift;
    roots.insert(roots.end(), reduce.monoid.combine.begin(), reduce.monoid.combine.end());
    for (const Store& output : reduce.outputs) {
      roots.insert(roots.end(), output.indices.begin(), output.indices.end());
    }
    ExprPrinter inner = lets(roots);
    line("lift " + inner.print(reduce.lift));
    line("identity " + inner.print(reduce.monoid.identity));
    line("combine " + inner.print(reduce.monoid.combine));
    std::string outputs;
    for (const Store& output : reduce.outputs) {
      outputs += (outputs.empty() ? "" : ", ") + element(output.buffer, output.indices, inner);
    }
    line("into " + outputs);
    --indent_;
    line("}");
  }

  void statement(const Contract& contract) {
    std::vector<Expr> roots;
    for (const auto* list : {&contract.m, &contract.n, &contract.k}) add_extents(roots, *list);
    ExprPrinter outer = lets(roots);
    const std::string m = axes(contract.m, outer), n = axes(contract.n, outer), k = axes(contract.k, outer);
    const std::string unit = contract.unit ? fmt::format(" unit {}", contract.unit->name) : "";
    line(fmt::format("contract m {} n {} k {}{}{} {{", m, n, k, contract.tf32 ? " tf32" : "", unit));
    ++indent_;
    roots = {contract.a, contract.b};
    roots.insert(roots.end(), contract.c_indices.begin(), contract.c_indices.end());
    ExprPrinter inner = lets(roots);
    const std::string c = element(contract.c, contract.c_indices, inner);
    line(fmt::format("{} {} {} * {}", c, contract.accumulate ? "+=" : "=", inner.print(contract.a),
                     inner.print(contract.b)));
    --indent_;
    line("}");
  }

  void statement(const Scan& scan) {
    std::vector<Expr> roots;
    add_extents(roots, scan.axes);
    add_extents(roots, {scan.axis});
    ExprPrinter outer = lets(roots);
    const std::string kept = axes(scan.axes, outer), along = axis(scan.axis, outer);
    line(fmt::format("scan {} along {}{}{} {{", kept, along, scan.exclusive ? " exclusive" : "",
                     scan.reverse ? " reverse" : ""));
    ++indent_;
    line("state " + states(scan.state, "a"));
    roots = scan.initial;
    roots.insert(roots.end(), scan.step.begin(), scan.step.end());
    for (const Store& store : scan.stores) {
      roots.insert(roots.end(), store.indices.begin(), store.indices.end());
      roots.push_back(store.value);
    }
    ExprPrinter inner = lets(roots);
    line("initial " + inner.print(scan.initial));
    line("step " + inner.print(scan.step));
    for (const Store& store : scan.stores) {
      line(fmt::format("{} = {}", element(store.buffer, store.indices, inner), inner.print(store.value)));
    }
    --indent_;
    line("}");
  }

  void statement(const Select& select) {
    std::vector<Expr> roots;
    add_extents(roots, select.axes);
    add_extents(roots, {select.axis});
    ExprPrinter outer = lets(roots);
    const std::string kept = axes(select.axes, outer), along = axis(select.axis, outer);
    line(fmt::format("select {} along {} first {}{} {{", kept, along, select.count,
                     select.descending ? " descending" : ""));
    ++indent_;
    line("rank " + name_variable(select.rank, "r"));
    roots = {select.key};
    for (const Store* store : {&select.keys, &select.positions}) {
      roots.insert(roots.end(), store->indices.begin(), store->indices.end());
    }
    ExprPrinter inner = lets(roots);
    line("key " + inner.print(select.key));
    line(fmt::format("into {}, {}", element(select.keys.buffer, select.keys.indices, inner),
                     element(select.positions.buffer, select.positions.indices, inner)));
    --indent_;
    line("}");
  }

  void statement(const SortRow& sort) {
    std::vector<Expr> roots = sort.key_indices;
    roots.insert(roots.end(), sort.position_indices.begin(), sort.position_indices.end());
    roots.push_back(sort.length);
    if (sort.count) roots.push_back(sort.count);
    ExprPrinter outer = lets(roots);
    const std::string keys = element(sort.keys, sort.key_indices, outer);
    const std::string positions = element(sort.positions, sort.position_indices, outer);
    const std::string first = sort.count ? " first " + outer.print(sort.count) : "";
    line(fmt::format("sort {} positions {} length {}{}{}", keys, positions, outer.print(sort.length), first,
                     sort.descending ? " descending" : ""));
  }

  const Program& program_;
  std::map<std::string, int, std::less<>> taken_;
  std::vector<std::string> buffers_;
  std::unordered_map<int, std::string> variables_;
  std::unordered_map<std::string, int> counts_;
  std::string text_;
  int indent_ = 0;
};

}  // namespace

std::string print(const Program& program) { return Printer(program).print(); }

}  // namespace graft::tile
