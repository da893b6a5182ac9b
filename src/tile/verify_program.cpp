// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "base/error.h"
#include "expr/form_fields.h"
#include "tile/program.h"
#include "tile/split_words.h"

namespace graft::tile {
namespace {

template <class... Ts>
struct overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
overloaded(Ts...) -> overloaded<Ts...>;

bool is_c_identifier(const std::string& name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

/// A broken rule, on its way from where it was found to who reports it.
struct Fault {
  std::string message;
};

/// Nodes of an expression when nothing is shared: what analyses without a memory walk.
int64_t expanded_nodes(const Expr& e) {
  constexpr int64_t kCeiling = int64_t{1} << 32;
  std::unordered_map<const ExprNode*, int64_t> nodes;
  for_each(e, [&](const Expr& node) {
    int64_t sum = 1;
    for (const Expr& arg : node->args) sum += nodes[arg.get()];
    nodes[node.get()] = std::min(sum, kCeiling);
  });
  return nodes[e.get()];
}

/// Whether what walks the expression as a tree comes to an end soon.
bool is_short(const Expr& e) {
  constexpr int64_t kMaxNodes = 4096;
  return expanded_nodes(e) <= kMaxNodes;
}

bool is_affine(const Expr& index) { return is_short(index) && affine(index).has_value(); }

bool is_index(const Expr& e) { return e && e->type == DType::kInt64; }

/// Walks a program with the variables in scope and the path of the statement it is at.
class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program) {}

  void run() {
    header();
    buffers();
    for (const graft::Axis& axis : program_.grid) {
      sizes_of(axis.extent);
      bind(axis.variable);
    }
    body(program_.body);
  }

 private:
  void check(bool good, const std::string& message) const {
    if (!good) throw Fault{fmt::format("tile program '{}', {}: {}", program_.name, where(), message)};
  }

  std::string where() const {
    if (path_.empty()) return "header";
    std::string text = "statement ";
    for (size_t i = 0; i < path_.size(); ++i) text += (i ? "." : "") + std::to_string(path_[i]);
    return text;
  }

  void header() const {
    check(is_c_identifier(program_.name), "the name is not a C identifier");
    check(std::is_sorted(program_.sizes.begin(), program_.sizes.end()) &&
              std::adjacent_find(program_.sizes.begin(), program_.sizes.end()) == program_.sizes.end(),
          "sizes are not sorted and unique");
    check(std::adjacent_find(program_.stored.begin(), program_.stored.end(), std::greater_equal<>()) ==
                  program_.stored.end() &&
              std::includes(program_.sizes.begin(), program_.sizes.end(), program_.stored.begin(),
                            program_.stored.end()),
          "stored sizes are not sorted and unique, or not among the sizes");
    check(program_.stored.empty() || program_.threads > 0, "only kernels of GPUs read sizes from memory");
    check(program_.threads >= 0 && program_.threads <= 1024 && program_.threads % 32 == 0,
          "threads is not a multiple of 32 up to 1024");
    const auto [producers, teams, group, split] = program_.roles;
    check(teams == 1 || (teams > 1 && producers > 0 && split == 1), "teams go with producers and without a split");
    check((producers == 0 || producers == 128) && teams * program_.threads + producers <= 1024,
          "producers are not one warpgroup that fits a block");
    check(group >= 1 && split >= 1 && split <= 8, "a group or a split is out of range");
  }

  void buffers() const {
    std::set<std::string> names;
    bool local_seen = false;
    for (const Buffer& buffer : program_.buffers) {
      check(!buffer.name.empty() && names.insert(buffer.name).second,
            "buffer name '" + buffer.name + "' is empty or used twice");
      check(buffer.type != DType::kUndefined, "buffer '" + buffer.name + "' has no type");
      check(buffer.shape.size() == buffer.strides.size(), "buffer '" + buffer.name + "' has not one stride per axis");
      const bool global = buffer.scope == Scope::kGlobal;
      check(!buffer.constant || (global && !buffer.written), "buffer '" + buffer.name + "' is no constant");
      check(!(global && local_seen), "global buffer '" + buffer.name + "' follows a local one");
      local_seen |= !global;
      for (const Shape* shape : {&buffer.shape, &buffer.strides}) {
        for (const Size& size : *shape) {
          sizes_of(size);
          check(global || program_.threads == 0 || size.is_constant(),
                "buffer '" + buffer.name + "' lies in a block's memory but its size varies");
        }
      }
      const size_t axes = buffer.shape.size();
      check(buffer.scope != Scope::kFragment || program_.threads == 0 || axes == 2 || axes == 1,
            "fragment '" + buffer.name + "' has neither two axes nor one");
    }
  }

  void sizes_of(const Size& size) const {
    std::set<std::string, std::less<>> symbols;
    size.collect_symbols(symbols);
    for (const std::string& symbol : symbols) {
      check(std::binary_search(program_.sizes.begin(), program_.sizes.end(), symbol),
            "size '" + symbol + "' is used but not listed");
    }
  }

  void bind(const Expr& variable) {
    check(variable && variable->kind == ExprKind::kVariable, "an axis or state is not a variable");
    check(scope_.insert(variable->variable).second, "a variable is bound twice");
  }
  void unbind(const Expr& variable) { scope_.erase(variable->variable); }

  void expression(const Expr& e, const char* what) const {
    check(static_cast<bool>(e), fmt::format("{} is missing", what));
    for_each(e, [&](const Expr& node) {
      if (node->kind == ExprKind::kVariable) {
        check(scope_.contains(node->variable), fmt::format("{} uses a variable out of scope", what));
      } else if (node->kind == ExprKind::kSize) {
        sizes_of(node->size);
      } else if (node->kind == ExprKind::kLoad) {
        element(node->tensor, node->args, what);
        check(node->type == program_.buffers[node->tensor].type,
              fmt::format("{} loads '{}' with another type", what, program_.buffers[node->tensor].name));
      }
    });
  }

  void element(int buffer, const std::vector<Expr>& indices, const char* what) const {
    check(buffer >= 0 && buffer < static_cast<int>(program_.buffers.size()), fmt::format("{} names no buffer", what));
    const Buffer& target = program_.buffers[buffer];
    check(indices.size() == target.shape.size(), fmt::format("{} has {} indices for '{}', which has {} axes", what,
                                                             indices.size(), target.name, target.shape.size()));
    for (const Expr& index : indices) {
      check(is_index(index), fmt::format("an index of '{}' in {} is not i64", target.name, what));
    }
  }

  void target(int buffer, const std::vector<Expr>& indices, const char* what) const {
    element(buffer, indices, what);
    for (const Expr& index : indices) expression(index, what);
    const Buffer& written = program_.buffers[buffer];
    check(written.scope != Scope::kGlobal || written.written,
          fmt::format("{} writes '{}', which is not marked written", what, written.name));
  }

  /// Extents may use outer variables only, so all are checked before any is bound.
  void bind_axes(const std::vector<Axis>& axes) {
    for (const Axis& axis : axes) extent(axis);
    for (const Axis& axis : axes) bind_index(axis.variable);
  }
  void extent(const Axis& axis) const {
    expression(axis.extent, "an extent");
    check(is_index(axis.extent), "an extent is not i64");
    check(axis.bound >= 0, "a bound is negative");
    if (const auto value = as_integer(axis.extent)) {
      check(axis.bound == 0 || *value <= axis.bound, "an extent exceeds its bound");
    }
  }
  void bind_index(const Expr& variable) {
    bind(variable);
    check(is_index(variable), "an axis variable is not i64");
  }
  void unbind_axes(const std::vector<Axis>& axes) {
    for (const Axis& axis : axes) unbind(axis.variable);
  }

  void body(const Body& statements) {
    path_.push_back(0);
    for (const Statement& statement : statements) {
      std::visit([&](const auto& node) { this->statement(node); }, statement.node);
      ++path_.back();
    }
    path_.pop_back();
  }

  void statement(const For& loop) {
    check(loop.stages >= 1 && loop.stages <= 16, "stages is not between 1 and 16");
    check(!loop.early || (loop.stages > 1 && program_.threads > 0), "a loop that copies nothing ahead copies early");
    bind_axes({loop.axis});
    body(loop.body);
    unbind(loop.axis.variable);
  }

  void statement(const If& branch) {
    expression(branch.condition, "a condition");
    check(branch.condition->type == DType::kBool, "a condition is not bool");
    body(branch.body);
  }

  void statement(const Map& map) {
    bind_axes(map.axes);
    if (map.condition) {
      expression(map.condition, "a condition");
      check(map.condition->type == DType::kBool, "a condition is not bool");
    }
    check(!map.stores.empty(), "a map stores nothing");
    for (const Store& store : map.stores) {
      target(store.buffer, store.indices, "a store");
      expression(store.value, "a stored value");
      check(store.value->type == program_.buffers[store.buffer].type,
            "a stored value has another type than '" + program_.buffers[store.buffer].name + "'");
    }
    unbind_axes(map.axes);
  }

  void statement(const Reduce& reduce) {
    check(reduce.points == 1 || (program_.threads == 0 && reduce.points > 1 && reduce.points <= 16 &&
                                 reduce.axes.size() > 1),
          "points side by side are for CPUs, from 2 to 16, along an axis beside the last");
    bind_axes(reduce.axes);
    for (const Store& output : reduce.outputs) target(output.buffer, output.indices, "an output");
    bind_axes(reduce.reduced);
    for (const Expr& lift : reduce.lift) expression(lift, "a lifted element");
    unbind_axes(reduce.reduced);
    unbind_axes(reduce.axes);
    monoid(reduce);
  }

  void statement(const Scan& scan) {
    const size_t count = scan.state.size();
    check(count > 0 && scan.initial.size() == count && scan.step.size() == count,
          "components of a scan do not agree in number");
    bind_axes(scan.axes);
    for (const Expr& initial : scan.initial) expression(initial, "an initial state");
    extent(scan.axis);
    bind_index(scan.axis.variable);
    for (const Expr& state : scan.state) bind(state);
    for (size_t i = 0; i < count; ++i) {
      expression(scan.step[i], "a step");
      check(scan.step[i]->type == scan.state[i]->type && scan.initial[i]->type == scan.state[i]->type,
            "component types of a scan differ");
    }
    check(!scan.stores.empty(), "a scan stores nothing");
    for (const Store& store : scan.stores) {
      target(store.buffer, store.indices, "a store");
      expression(store.value, "a stored value");
      check(store.mode == ScatterMode::kSet && store.value->type == program_.buffers[store.buffer].type,
            "a scan stores another type than '" + program_.buffers[store.buffer].name + "' has");
    }
    for (const Expr& state : scan.state) unbind(state);
    unbind(scan.axis.variable);
    unbind_axes(scan.axes);
  }

  void statement(const Select& select) {
    check(program_.threads > 0, "a selection is for GPUs");
    check(select.count > 0 && select.count <= kMostSelected, "a selection keeps too many or none");
    bind_axes(select.axes);
    extent(select.axis);
    bind_index(select.axis.variable);
    expression(select.key, "a key");
    check(bit_width(select.key->type) <= 32, "the key of a selection is wider than 32 bits");
    unbind(select.axis.variable);
    bind_index(select.rank);
    for (const Store* store : {&select.keys, &select.positions}) {
      target(store->buffer, store->indices, "a selection");
    }
    check(program_.buffers[select.keys.buffer].type == select.key->type, "selected keys have another type");
    check(is_integer(program_.buffers[select.positions.buffer].type), "selected positions are not integers");
    unbind(select.rank);
    unbind_axes(select.axes);
  }

  void monoid(const Reduce& reduce) {
    const Monoid& m = reduce.monoid;
    const size_t count = reduce.lift.size();
    check(count > 0 && m.identity.size() == count && m.left.size() == count && m.right.size() == count &&
              m.combine.size() == count && reduce.outputs.size() == count,
          "components of a reduction do not agree in number");
    for (const auto* variables : {&m.left, &m.right}) {
      for (const Expr& variable : *variables) bind(variable);
    }
    for (size_t i = 0; i < count; ++i) {
      const DType type = reduce.lift[i]->type;
      expression(m.combine[i], "a combination");
      check(!has_load(m.combine[i]), "a combination reads a buffer");
      check(m.identity[i] && m.identity[i]->kind == ExprKind::kConstant, "an identity is no constant");
      for (const Expr& e : {m.identity[i], m.left[i], m.right[i], m.combine[i]}) {
        check(e->type == type, "component types of a reduction differ");
      }
      check(program_.buffers[reduce.outputs[i].buffer].type == type,
            "an output of a reduction has another type than its component");
    }
    for (const auto* variables : {&m.left, &m.right}) {
      for (const Expr& variable : *variables) unbind(variable);
    }
  }

  void statement(const Contract& contract) {
    for (const auto* axes : {&contract.m, &contract.n, &contract.k}) bind_axes(*axes);
    for (const Expr& operand : {contract.a, contract.b}) {
      expression(operand, "an operand");
      check(program_.threads == 0 || is_short(operand), "an operand is written out at length");
      if (program_.threads > 0) continue;
      check(operand->kind == ExprKind::kLoad, "an operand of a contraction is not a load");
      for (const Expr& index : operand->args) {
        check(is_affine(index), "an operand's index is not affine");
      }
    }
    target(contract.c, contract.c_indices, "the result");
    for (const Expr& index : contract.c_indices) {
      check(is_affine(index), "an index of the result is not affine");
    }
    check(!contract.k.empty(), "a contraction has no k axis");
    const DType c = program_.buffers[static_cast<size_t>(contract.c)].type;
    const bool is_f32 = contract.a->type == DType::kFloat32 && contract.b->type == DType::kFloat32;
    check(!contract.tf32 || (is_f32 && c == DType::kFloat32), "tf32 is asked for where not all is f32");
    roles(contract);
    if (contract.unit) unit(contract, c);
    for (const auto* axes : {&contract.m, &contract.n, &contract.k}) unbind_axes(*axes);
  }

  void roles(const Contract& contract) const {
    const auto uses = [](const std::vector<Expr>& exprs, const std::vector<Axis>& axes) {
      return std::any_of(axes.begin(), axes.end(), [&](const Axis& axis) {
        return std::any_of(exprs.begin(), exprs.end(),
                           [&](const Expr& e) { return uses_variable(e, axis.variable->variable); });
      });
    };
    check(!uses({contract.a}, contract.n), "operand a uses an n axis");
    check(!uses({contract.b}, contract.m), "operand b uses an m axis");
    check(!uses(contract.c_indices, contract.k), "the result uses a k axis");
    if (contract.n.empty()) return;
    // Matrix units of a GPU read b in either order, vector units of a CPU only along n.
    const int last = contract.n.back().variable->variable;
    check(stride(contract.c, contract.c_indices, last).is(1), "the last n axis is not contiguous in c");
    const int64_t step = contract.unit && !contract.unit->splits() ? contract.unit->pack : 1;
    check(program_.threads > 0 || stride(contract.b->tensor, contract.b->args, last).is(step),
          "the last n axis is not contiguous in b");
  }

  /// What an instruction that multiplies several elements of k reads lies together, and there is no part of it.
  void unit(const Contract& contract, DType sum) const {
    const ContractUnit& unit = *contract.unit;
    check(contract.a->type == unit.a && contract.b->type == unit.b && sum == unit.sum,
          "an operand or the sum has another type than the unit");
    check(program_.threads == 0 || unit.splits(), "a unit of a CPU is asked for on a GPU");
    check(program_.threads == 0 || !contract.tf32, "a unit that splits operands rounds them");
    if (program_.threads > 0) return;
    if (unit.splits()) return split_unit(contract);
    check(contract.k.size() > 1 && !contract.n.empty() && !contract.m.empty(), "a unit lacks an axis");
    const Axis& pack = contract.k.back();
    const auto extent = affine(pack.extent);
    check(extent && extent->coefficients.empty() && extent->offset.is(unit.pack),
          "the last k axis is not the unit's pack");
    const int variable = pack.variable->variable;
    check(stride(contract.a->tensor, contract.a->args, variable).is(1), "the last k axis is not contiguous in a");
    check(stride(contract.b->tensor, contract.b->args, variable).is(1), "the last k axis is not contiguous in b");
    const auto steps = affine(contract.k[contract.k.size() - 2].extent);
    check(steps && steps->coefficients.empty() && steps->offset.is_multiple_of(unit.k / unit.pack),
          "the reduction is not whole instructions");
  }

  /// Whether the expression is a product of which a factor is such a multiple.
  static bool is_multiple(const Expr& e, int64_t of) {
    return is_call(e, Intrinsic::kMul) && std::any_of(e->args.begin(), e->args.end(), [&](const Expr& factor) {
             return factor->kind == ExprKind::kConstant && factor->integer % of == 0;
           });
  }

  /// A CPU's unit that splits its operands: words of all parts are there, in whole steps.
  void split_unit(const Contract& contract) const {
    constexpr int64_t kMostRows = 512;  // whose sums lie on a stack
    check(!contract.n.empty() && !contract.m.empty(), "a unit lacks an axis");
    check(contract.m.back().bound > 0 && contract.m.back().bound <= kMostRows, "a tile has too many rows");
    const Axis& words = contract.k.back();
    const auto extent = affine(words.extent);
    const bool is_known = extent && extent->coefficients.empty() && extent->offset.is_multiple_of(kSplitWords);
    check(is_known || is_multiple(words.extent, kSplitWords), "the reduction is not whole instructions");
    check(stride(contract.a->tensor, contract.a->args, words.variable->variable).is(1),
          "the last k axis is not contiguous in a");
    for (const Expr& operand : {contract.a, contract.b}) {
      const Buffer& buffer = program_.buffers[static_cast<size_t>(operand->tensor)];
      const size_t parts = operand->args.size() - 2;
      check(operand->args.size() > 1 && buffer.shape[parts].is(kParts), "an operand has not all parts");
      check(operand->args[parts]->kind == ExprKind::kConstant && operand->args[parts]->integer == 0,
            "an operand does not begin at its first part");
    }
  }

  /// Elements that one step of `variable` moves in a buffer.
  Size stride(int buffer, const std::vector<Expr>& indices, int variable) const {
    Size total = 0;
    for (size_t i = 0; i < indices.size(); ++i) {
      total = total + affine(indices[i])->coefficient(variable) * program_.buffers[buffer].strides[i];
    }
    return total;
  }

  void statement(const SortRow& sort) {
    target(sort.keys, sort.key_indices, "the sort keys");
    target(sort.positions, sort.position_indices, "the sort positions");
    expression(sort.length, "the sort length");
    check(is_index(sort.length), "the sort length is not i64");
    check(is_integer(program_.buffers[sort.positions].type), "sort positions are not integers");
    if (sort.count) {
      expression(sort.count, "the sort count");
      check(is_index(sort.count), "the sort count is not i64");
      check(program_.threads == 0, "a part of a row is sorted on CPUs alone");
      check(bit_width(program_.buffers[sort.keys].type) <= 32, "keys of which some are wanted have 32 bits at most");
    }
    for (const int buffer : {sort.keys, sort.positions}) {
      check(program_.buffers[buffer].scope != Scope::kFragment, "a fragment cannot be sorted");
      check(!program_.buffers[buffer].shape.empty(), "a sorted buffer has no axis");
    }
  }

  const Program& program_;
  std::unordered_set<int> scope_;
  std::vector<int> path_;
};

}  // namespace

std::optional<std::string> broken_rule(const Program& program) {
  try {
    Verifier(program).run();
  } catch (const Fault& fault) {
    return fault.message;
  }
  return std::nullopt;
}

void verify(const Program& program) {
  const auto reason = broken_rule(program);
  GRAFT_CHECK(!reason, *reason);
}

}  // namespace graft::tile
