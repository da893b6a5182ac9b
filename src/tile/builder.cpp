// SPDX-License-Identifier: Apache-2.0
#include "tile/builder.h"

#include <set>

#include "base/error.h"

namespace graft::tile {

Shape row_major(const Shape& shape) {
  Shape strides(shape.size());
  Size stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride = stride * shape[d];
  }
  return strides;
}

Axis make_axis(const Size& extent) { return {make_variable(), make_size(extent), extent.as_constant().value_or(0)}; }

Axis make_axis(const Expr& extent, int64_t bound) { return {make_variable(), extent, bound}; }

std::vector<Expr> variables(const std::vector<Axis>& axes) {
  std::vector<Expr> result;
  for (const Axis& axis : axes) result.push_back(axis.variable);
  return result;
}

bool rounds_to_tf32(const Contract& contract, const Region& region, const Target& target) {
  const bool is_f32 = contract.a->type == DType::kFloat32 && contract.b->type == DType::kFloat32;
  return region.tf32 && is_f32 && multiplies_tf32(target);
}

ProgramBuilder::ProgramBuilder(const Region& region, const Layouts& layouts)
    : region_(region), buffer_of_(region.tensors.size(), -1), dropped_(region.tensors.size()) {
  const auto add_global = [&](int tensor, bool written) {
    const TensorDecl& decl = region.tensors[tensor];
    Buffer buffer{.name = decl.name,
                  .type = decl.type,
                  .scope = Scope::kGlobal,
                  .shape = decl.shape,
                  .strides = {},
                  .written = written};
    const bool packed = tensor < static_cast<int>(layouts.size()) && layouts[tensor].has_value();
    // What lies in panels was packed when the engine was made.
    buffer.constant = packed && !written;
    if (packed) buffer.shape = physical_shape(*layouts[tensor], decl.shape);
    buffer.strides = row_major(buffer.shape);
    buffer_of_[tensor] = static_cast<int>(program.buffers.size());
    program.buffers.push_back(std::move(buffer));
  };
  for (const int tensor : region.inputs) add_global(tensor, false);
  for (const int tensor : region.outputs) add_global(tensor, true);
}

int ProgramBuilder::add_scratch(const std::string& name, DType type, const Shape& shape, Scope scope) {
  program.buffers.push_back({.name = name, .type = type, .scope = scope, .shape = shape, .strides = row_major(shape)});
  return static_cast<int>(program.buffers.size()) - 1;
}

void ProgramBuilder::bind(int tensor, int buffer, std::vector<bool> dropped) {
  buffer_of_[tensor] = buffer;
  dropped_[tensor] = std::move(dropped);
}

std::vector<Expr> ProgramBuilder::kept(int tensor, const std::vector<Expr>& indices) const {
  std::vector<Expr> result;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (d >= dropped_[tensor].size() || !dropped_[tensor][d]) result.push_back(indices[d]);
  }
  return result;
}

Expr ProgramBuilder::to_buffers(const Expr& e) const {
  return transform(e, [&](const Expr& node) -> Expr {
    if (node->kind != ExprKind::kLoad) return {};
    GRAFT_CHECK(buffer_of_[node->tensor] >= 0, "tensor " + region_.tensors[node->tensor].name + " has no buffer");
    return make_load(buffer_of_[node->tensor], node->type, kept(node->tensor, node->args));
  });
}

Store ProgramBuilder::store(int tensor, const std::vector<Expr>& indices, const Expr& value) const {
  return {.buffer = buffer_of_[tensor], .indices = kept(tensor, indices), .value = value, .mode = ScatterMode::kSet};
}

Expr ProgramBuilder::add_grid(const Size& extent) {
  program.grid.push_back({make_variable(), extent});
  return program.grid.back().variable;
}

Program ProgramBuilder::finish(const std::string& name) {
  program.name = identifier(name);
  program.sizes = collect_sizes(program);
  // Scratch comes after the arguments already; names must be unique for the text form.
  std::set<std::string> taken;
  for (Buffer& buffer : program.buffers) {
    std::string unique = identifier(buffer.name);
    for (int i = 1; !taken.insert(unique).second; ++i) unique = identifier(buffer.name) + "_" + std::to_string(i);
    buffer.name = unique;
  }
  return std::move(program);
}

namespace {

using Symbols = std::set<std::string, std::less<>>;

void collect(const Expr& e, Symbols& into) {
  for_each(e, [&](const Expr& node) {
    if (node->kind == ExprKind::kSize) node->size.collect_symbols(into);
  });
}

void collect(const std::vector<Expr>& exprs, Symbols& into) {
  for (const Expr& e : exprs) collect(e, into);
}

void collect(const std::vector<Axis>& axes, Symbols& into) {
  for (const Axis& axis : axes) collect(axis.extent, into);
}

void collect(const std::vector<Store>& stores, Symbols& into) {
  for (const Store& store : stores) collect(store.indices, into), collect(store.value, into);
}

void collect(const Body& body, Symbols& into);

struct CollectStatement {
  Symbols& into;
  void operator()(const For& s) const { collect(s.axis.extent, into), collect(s.body, into); }
  void operator()(const If& s) const { collect(s.condition, into), collect(s.body, into); }
  void operator()(const Map& s) const { collect(s.axes, into), collect(s.condition, into), collect(s.stores, into); }
  void operator()(const Reduce& s) const {
    collect(s.axes, into), collect(s.reduced, into), collect(s.lift, into), collect(s.outputs, into);
  }
  void operator()(const Contract& s) const {
    collect(s.m, into), collect(s.n, into), collect(s.k, into);
    collect(s.a, into), collect(s.b, into), collect(s.c_indices, into);
  }
  void operator()(const Scan& s) const {
    collect(s.axes, into), collect(s.axis.extent, into), collect(s.initial, into), collect(s.step, into);
    collect(s.stores, into);
  }
  void operator()(const Select& s) const {
    collect(s.axes, into), collect(s.axis.extent, into), collect(s.key, into);
    collect(s.keys.indices, into), collect(s.positions.indices, into);
  }
  void operator()(const SortRow& s) const {
    collect(s.key_indices, into), collect(s.position_indices, into), collect(s.length, into);
    if (s.count) collect(s.count, into);
  }
};

void collect(const Body& body, Symbols& into) {
  for (const Statement& statement : body) std::visit(CollectStatement{into}, statement.node);
}

}  // namespace

std::vector<std::string> collect_sizes(const Program& program) {
  Symbols symbols;
  for (const Buffer& buffer : program.buffers) {
    for (const Size& size : buffer.shape) size.collect_symbols(symbols);
    for (const Size& size : buffer.strides) size.collect_symbols(symbols);
  }
  for (const graft::Axis& axis : program.grid) axis.extent.collect_symbols(symbols);
  collect(program.body, symbols);
  return {symbols.begin(), symbols.end()};
}

std::string identifier(const std::string& name) {
  std::string result;
  for (const char c : name) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    result += good ? c : '_';
  }
  return result.empty() || (result[0] >= '0' && result[0] <= '9') ? "_" + result : result;
}

}  // namespace graft::tile
