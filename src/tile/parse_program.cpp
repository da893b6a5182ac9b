// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/error.h"
#include "expr/text.h"
#include "tile/program.h"

namespace graft::tile {
namespace {

constexpr int kMaxNesting = 64;

/// Recursive descent over what print_program.cpp writes, one method per production.
class Parser {
 public:
  explicit Parser(Lexer& lexer) : lexer_(lexer) {}

  Program parse() {
    lexer_.expect("program");
    program_.name = std::string(lexer_.name("the program's name"));
    lexer_.expect("{");
    if (lexer_.accept("threads")) {
      program_.threads = small_number("the number of threads", 1024);
      Roles& roles = program_.roles;
      if (lexer_.accept("producers")) roles.producers = small_number("the number of producers", 128);
      if (lexer_.accept("teams")) roles.teams = small_number("the number of teams", 8);
      if (lexer_.accept("group")) roles.group = small_number("the points of a group", 1 << 10);
      if (lexer_.accept("split")) roles.split = small_number("the parts of a loop", 8);
    }
    if (lexer_.accept("sizes")) program_.sizes = symbols();
    if (lexer_.accept("stored")) program_.stored = symbols();
    while (buffer()) {
    }
    ExprScope scope([this](std::string_view name) { return find(name); });
    if (lexer_.accept("grid")) grid(scope);
    lexer_.expect("body");
    program_.body = body(scope, 0);
    lexer_.expect("}");
    return std::move(program_);
  }

 private:
  int small_number(std::string_view what, int64_t limit) {
    const int64_t value = lexer_.integer(what);
    if (value < 0 || value > limit) lexer_.fail(fmt::format("{} must be between 0 and {}", what, limit));
    return static_cast<int>(value);
  }

  std::vector<std::string> symbols() {
    std::vector<std::string> names;
    do {
      const auto symbol = lexer_.size().as_symbol();
      if (!symbol) lexer_.fail("expected the name of a size");
      names.push_back(*symbol);
    } while (lexer_.accept(","));
    return names;
  }

  bool buffer() {
    Buffer buffer;
    if (lexer_.accept("shared")) {
      buffer.scope = Scope::kShared;
    } else if (lexer_.accept("fragment")) {
      buffer.scope = Scope::kFragment;
    } else if (!lexer_.accept("global")) {
      return false;
    }
    buffer.name = std::string(lexer_.name("a buffer's name"));
    lexer_.expect(":");
    buffer.type = lexer_.dtype();
    buffer.shape = lexer_.shape();
    lexer_.expect("strides");
    buffer.strides = lexer_.shape();
    buffer.written = lexer_.accept("written");
    buffer.constant = lexer_.accept("constant");
    if (!by_name_.emplace(buffer.name, static_cast<int>(program_.buffers.size())).second) {
      lexer_.fail(fmt::format("buffer '{}' is declared twice", buffer.name));
    }
    program_.buffers.push_back(std::move(buffer));
    return true;
  }

  std::optional<ExprScope::Tensor> find(std::string_view name) const {
    const auto it = by_name_.find(name);
    if (it == by_name_.end()) return std::nullopt;
    const Buffer& buffer = program_.buffers[it->second];
    return ExprScope::Tensor{it->second, buffer.type, static_cast<int>(buffer.shape.size())};
  }

  void grid(ExprScope& scope) {
    lexer_.expect("[");
    do {
      graft::Axis axis;
      const std::string name(lexer_.name("a grid axis"));
      lexer_.expect("<");
      axis.extent = lexer_.size();
      axis.variable = make_variable();
      scope.declare(lexer_, name, axis.variable);
      program_.grid.push_back(std::move(axis));
    } while (lexer_.accept(","));
    lexer_.expect("]");
  }

  Body body(const ExprScope& scope, int depth) {
    if (depth > kMaxNesting) lexer_.fail(fmt::format("statements nest deeper than {}", kMaxNesting));
    lexer_.expect("{");
    Body statements;
    while (!lexer_.accept("}")) statements.push_back({statement(scope, depth)});
    return statements;
  }

  decltype(Statement::node) statement(const ExprScope& scope, int depth) {
    // Shared expressions in front of a statement belong to its head; its body shares anew.
    ExprScope head = scope;
    parse_lets(lexer_, head);
    if (lexer_.accept("for")) return loop(scope, head, depth);
    if (lexer_.accept("if")) {
      If branch;
      branch.condition = parse_expr(lexer_, head);
      branch.body = body(scope, depth + 1);
      return branch;
    }
    if (lexer_.accept("map")) return map(scope, head);
    if (lexer_.accept("reduce")) return reduce(scope, head);
    if (lexer_.accept("contract")) return contract(scope, head);
    if (lexer_.accept("sort")) return sort(head);
    if (lexer_.accept("scan")) return scan(scope, head);
    if (lexer_.accept("select")) return select(scope, head);
    lexer_.fail("expected for, if, map, reduce, contract, sort, scan or select");
  }

  /// `i0 < extent bound 64`; the variable joins `inner`.
  Axis axis(const ExprScope& head, ExprScope& inner) {
    Axis axis;
    const std::string name(lexer_.name("an axis"));
    lexer_.expect("<");
    axis.extent = parse_expr(lexer_, head);
    if (lexer_.accept("bound")) {
      axis.bound = lexer_.integer("a bound");
      if (axis.bound <= 0) lexer_.fail("a bound is positive");
    }
    axis.variable = make_variable();
    inner.declare(lexer_, name, axis.variable);
    return axis;
  }

  std::vector<Axis> axes(const ExprScope& head, ExprScope& inner) {
    std::vector<Axis> list;
    lexer_.expect("[");
    if (lexer_.accept("]")) return list;
    do list.push_back(axis(head, inner));
    while (lexer_.accept(","));
    lexer_.expect("]");
    return list;
  }

  For loop(const ExprScope& scope, const ExprScope& head, int depth) {
    For loop;
    ExprScope inner = scope;
    loop.axis = axis(head, inner);
    if (lexer_.accept("stages")) loop.stages = small_number("the number of stages", 16);
    loop.early = lexer_.accept("early");
    loop.body = body(inner, depth + 1);
    return loop;
  }

  /// `name[indices]` as the target of a store.
  Store element(const ExprScope& scope) {
    Store store;
    const std::string name(lexer_.name("a buffer"));
    const auto tensor = find(name);
    if (!tensor) lexer_.fail(fmt::format("there is no buffer '{}'", name));
    store.buffer = tensor->index;
    lexer_.expect("[");
    if (!lexer_.is("]")) store.indices = parse_exprs(lexer_, scope);
    lexer_.expect("]");
    return store;
  }

  ScatterMode assignment() {
    ScatterMode mode = ScatterMode::kSet;
    if (lexer_.accept("+"))
      mode = ScatterMode::kAdd;
    else if (lexer_.accept("*"))
      mode = ScatterMode::kMul;
    else if (lexer_.accept("min"))
      mode = ScatterMode::kMin;
    else if (lexer_.accept("max"))
      mode = ScatterMode::kMax;
    lexer_.expect("=");
    return mode;
  }

  Map map(const ExprScope& scope, const ExprScope& head) {
    Map map;
    ExprScope inner = scope;
    map.axes = axes(head, inner);
    map.ordered = lexer_.accept("ordered");
    lexer_.expect("{");
    parse_lets(lexer_, inner);
    if (lexer_.accept("where")) map.condition = parse_expr(lexer_, inner);
    while (!lexer_.accept("}")) {
      Store store = element(inner);
      store.mode = assignment();
      store.value = parse_expr(lexer_, inner);
      map.stores.push_back(std::move(store));
    }
    return map;
  }

  std::vector<Expr> states(ExprScope& scope) {
    std::vector<Expr> variables;
    lexer_.expect("(");
    do {
      const std::string name(lexer_.name("a state variable"));
      lexer_.expect(":");
      variables.push_back(make_variable(lexer_.dtype()));
      scope.declare(lexer_, name, variables.back());
    } while (lexer_.accept(","));
    lexer_.expect(")");
    return variables;
  }

  Reduce reduce(const ExprScope& scope, const ExprScope& head) {
    Reduce reduce;
    ExprScope inner = scope;
    reduce.axes = axes(head, inner);
    lexer_.expect("over");
    reduce.reduced = axes(head, inner);
    reduce.accumulate = lexer_.accept("accumulate");
    reduce.monoid.associative = !lexer_.accept("sequential");
    if (lexer_.accept("points")) reduce.points = lexer_.integer("a number of points");
    lexer_.expect("{");
    lexer_.expect("state");
    reduce.monoid.left = states(inner);
    reduce.monoid.right = states(inner);
    parse_lets(lexer_, inner);
    lexer_.expect("lift");
    reduce.lift = parse_exprs(lexer_, inner);
    lexer_.expect("identity");
    reduce.monoid.identity = parse_exprs(lexer_, inner);
    lexer_.expect("combine");
    reduce.monoid.combine = parse_exprs(lexer_, inner);
    lexer_.expect("into");
    do reduce.outputs.push_back(element(inner));
    while (lexer_.accept(","));
    lexer_.expect("}");
    return reduce;
  }

  Scan scan(const ExprScope& scope, const ExprScope& head) {
    Scan scan;
    ExprScope inner = scope;
    scan.axes = axes(head, inner);
    lexer_.expect("along");
    scan.axis = axis(head, inner);
    scan.exclusive = lexer_.accept("exclusive");
    scan.reverse = lexer_.accept("reverse");
    lexer_.expect("{");
    lexer_.expect("state");
    scan.state = states(inner);
    parse_lets(lexer_, inner);
    lexer_.expect("initial");
    scan.initial = parse_exprs(lexer_, inner);
    lexer_.expect("step");
    scan.step = parse_exprs(lexer_, inner);
    while (!lexer_.accept("}")) {
      Store store = element(inner);
      lexer_.expect("=");
      store.value = parse_expr(lexer_, inner);
      scan.stores.push_back(std::move(store));
    }
    return scan;
  }

  Select select(const ExprScope& scope, const ExprScope& head) {
    Select select;
    ExprScope inner = scope;
    select.axes = axes(head, inner);
    lexer_.expect("along");
    select.axis = axis(head, inner);
    lexer_.expect("first");
    select.count = lexer_.integer("a count");
    select.descending = lexer_.accept("descending");
    lexer_.expect("{");
    lexer_.expect("rank");
    const std::string name(lexer_.name("a rank variable"));
    select.rank = make_variable();
    inner.declare(lexer_, name, select.rank);
    parse_lets(lexer_, inner);
    lexer_.expect("key");
    select.key = parse_expr(lexer_, inner);
    lexer_.expect("into");
    select.keys = element(inner);
    lexer_.expect(",");
    select.positions = element(inner);
    lexer_.expect("}");
    return select;
  }

  Contract contract(const ExprScope& scope, const ExprScope& head) {
    Contract contract;
    ExprScope inner = scope;
    lexer_.expect("m");
    contract.m = axes(head, inner);
    lexer_.expect("n");
    contract.n = axes(head, inner);
    lexer_.expect("k");
    contract.k = axes(head, inner);
    contract.tf32 = lexer_.accept("tf32");
    if (lexer_.accept("unit")) {
      const std::string name(lexer_.name("a unit"));
      contract.unit = find_unit(name);
      if (!contract.unit) lexer_.fail("there is no unit '" + name + "'");
    }
    lexer_.expect("{");
    parse_lets(lexer_, inner);
    Store result = element(inner);
    contract.c = result.buffer;
    contract.c_indices = std::move(result.indices);
    contract.accumulate = lexer_.accept("+");
    lexer_.expect("=");
    contract.a = parse_expr(lexer_, inner);
    lexer_.expect("*");
    contract.b = parse_expr(lexer_, inner);
    lexer_.expect("}");
    return contract;
  }

  SortRow sort(const ExprScope& head) {
    SortRow sort;
    Store keys = element(head);
    lexer_.expect("positions");
    Store positions = element(head);
    lexer_.expect("length");
    sort.length = parse_expr(lexer_, head);
    if (lexer_.accept("first")) sort.count = parse_expr(lexer_, head);
    sort.descending = lexer_.accept("descending");
    sort.keys = keys.buffer, sort.key_indices = std::move(keys.indices);
    sort.positions = positions.buffer, sort.position_indices = std::move(positions.indices);
    return sort;
  }

  Lexer& lexer_;
  Program program_;
  std::map<std::string, int, std::less<>> by_name_;
};

Program parse_next(Lexer& lexer) {
  Program program = Parser(lexer).parse();
  if (const auto reason = broken_rule(program)) lexer.fail(*reason);
  return program;
}

}  // namespace

Program parse_program(std::string_view text) {
  Lexer lexer(text, "tile program");
  Program program = parse_next(lexer);
  if (!lexer.at_end()) lexer.fail("expected nothing after the program");
  return program;
}

std::vector<Program> parse_programs(std::string_view text) {
  Lexer lexer(text, "tile programs");
  std::vector<Program> programs;
  while (!lexer.at_end()) programs.push_back(parse_next(lexer));
  return programs;
}

}  // namespace graft::tile
