// SPDX-License-Identifier: Apache-2.0
// Maps: over memory, points are dealt to threads in 16-byte pieces; over fragments, each thread takes its own elements.
#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {

std::vector<Expr> expressions_of(const tile::Map& map) {
  std::vector<Expr> all;
  if (map.condition) all.push_back(map.condition);
  for (const tile::Store& store : map.stores) {
    all.push_back(store.value);
    all.insert(all.end(), store.indices.begin(), store.indices.end());
  }
  return all;
}

void unconditional_loads(const Expr& e, std::unordered_set<const ExprNode*>& seen, std::vector<Expr>& loads) {
  if (!seen.insert(e.get()).second) return;
  const size_t arguments = is_call(e, Intrinsic::kSelect) ? 1 : e->args.size();
  for (size_t i = 0; i < arguments; ++i) unconditional_loads(e->args[i], seen, loads);
  if (e->kind == ExprKind::kLoad) loads.push_back(e);
}

bool reads_own_stores(const tile::Map& map) {
  bool found = false;
  for (const Expr& e : expressions_of(map)) {
    for_each(e, [&](const Expr& node) {
      for (const tile::Store& store : map.stores) {
        found |= node->kind == ExprKind::kLoad && node->tensor == store.buffer;
      }
    });
  }
  return found;
}

bool only_sets(const tile::Map& map) {
  return std::all_of(map.stores.begin(), map.stores.end(),
                     [](const tile::Store& store) { return store.mode == ScatterMode::kSet; });
}

void KernelWriter::statement(const tile::Map& map) {
  before(accesses_of(program_, {map}));
  code_.open("");
  expressions_.enter();
  if (const int fragment = fragment_of(map); fragment >= 0) {
    fragment_map(map, fragment);
  } else if (map.ordered || map.axes.empty()) {
    if (!compaction(map) && !ordered_updates(map)) ordered_map(map);
  } else {
    flat_map(map);
  }
  expressions_.leave();
  code_.close();
}

std::vector<std::string> KernelWriter::extents_of(const std::vector<tile::Axis>& axes) {
  std::vector<std::string> extents;
  for (const tile::Axis& axis : axes) {
    if (const auto constant = as_integer(axis.extent)) {
      extents.push_back(std::to_string(*constant));
      continue;
    }
    const std::string name = code_.fresh("n");
    const std::string value = expressions_.value(axis.extent);
    code_.line("const {} {} = {};", axis.bound ? "int" : "i64", name, axis.bound ? "(int)(" + value + ")" : value);
    extents.push_back(name);
  }
  return extents;
}

void KernelWriter::store(const tile::Store& store, const std::string& value, bool ordered) {
  update(store, expressions_.element(store.buffer, store.indices), value, ordered);
}

/// `to`, an element of the store's buffer, takes the value as the store says.
void KernelWriter::update(const tile::Store& store, const std::string& to, const std::string& value, bool ordered) {
  const tile::Buffer& buffer = names_.buffer(store.buffer);
  if (store.mode == ScatterMode::kSet) return code_.line("{} = {};", to, value);
  const DType type = buffer.type;
  static constexpr Intrinsic kUpdates[] = {Intrinsic::kAdd, Intrinsic::kAdd, Intrinsic::kMul, Intrinsic::kMin,
                                           Intrinsic::kMax};
  const Intrinsic update = kUpdates[static_cast<int>(store.mode)];
  const DType compute = compute_type(type);
  const std::string operand = compute == type ? value : fmt::format("convert<{}>({})", type_name(compute), value);
  const auto updated = [&](const std::string& old) {
    const std::string a = compute == type ? old : fmt::format("convert<{}>({})", type_name(compute), old);
    const std::string result = intrinsic_text(update, compute, {a, operand});
    return compute == type ? result : fmt::format("convert<{}>({})", type_name(type), result);
  };
  // Points of one block are independent; other blocks may update the same element of global memory.
  if (buffer.scope != tile::Scope::kGlobal) return code_.line("{} = {};", to, updated(to));
  const bool native = store.mode == ScatterMode::kAdd && (type == DType::kFloat32 || type == DType::kFloat64 ||
      type == DType::kInt32 || type == DType::kUint32 || type == DType::kInt64);
  if (ordered) return code_.line("{} = {};", to, updated(to));
  if (native) return code_.line("atomic_add(&{}, {});", to, value);
  const bool native_max = store.mode == ScatterMode::kMax && (type == DType::kInt32 || type == DType::kInt64);
  if (native_max) return code_.line("atomicMax(&{}, {});", to, value);
  code_.line("atomic_update(&{}, [&](const {} old) {{ return ({})({}); }});", to, type_name(type), type_name(type),
             updated("old"));
}

void KernelWriter::stores_at_point(const tile::Map& map) {
  if (map.condition) {
    code_.open(fmt::format("if ({})", expressions_.value(map.condition)));
    expressions_.enter();
  }
  // A later store may load what an earlier one wrote: nothing loaded survives a store.
  const bool forget = map.stores.size() > 1 && reads_own_stores(map);
  for (const tile::Store& each : map.stores) {
    if (forget) expressions_.enter();
    store(each, expressions_.value(each.value), map.ordered);
    if (forget) expressions_.leave();
  }
  if (map.condition) {
    expressions_.leave();
    code_.close();
  }
}

void KernelWriter::ordered_map(const tile::Map& map) {
  code_.open("if (threadIdx.x == 0)");
  const std::vector<std::string> extents = extents_of(map.axes);
  for (size_t i = 0; i < map.axes.size(); ++i) {
    const std::string name = bind(map.axes[i].variable, "i");
    code_.open(fmt::format("for (i64 {0} = 0; {0} < {1}; ++{0})", name, extents[i]));
  }
  expressions_.enter();
  stores_at_point(map);
  expressions_.leave();
  for (size_t i = 0; i < map.axes.size(); ++i) code_.close();
  code_.close();
}

void KernelWriter::decompose(const std::vector<tile::Axis>& axes, const std::vector<std::string>& extents,
                             const std::string& point, const std::string& type) {
  std::string rest = point;
  for (size_t i = axes.size(); i-- > 0;) {
    const std::string name = bind(axes[i].variable, "i");
    if (i == 0) {
      code_.line("const {} {} = {};", type, name, rest);
    } else {
      code_.line("const {} {} = {} % {};", type, name, rest, extents[i]);
      const std::string next = code_.fresh("q");
      code_.line("const {} {} = {} / {};", type, next, rest, extents[i]);
      rest = next;
    }
  }
}

void KernelWriter::flat_map(const tile::Map& map) {
  const std::vector<std::string> extents = extents_of(map.axes);
  if (names_.padded.contains(map.stores[0].buffer)) return transposed_fill(map, extents);
  if (!reads_own_stores(map) && dealt_map(map, extents)) return;
  if (!vector_points(map, extents)) scalar_points(map, extents);
}

namespace {

/// int where all points of the axes are known to fit it.
std::string point_type(const std::vector<tile::Axis>& axes) {
  int64_t points = 1;
  for (const tile::Axis& axis : axes) {
    const int64_t bound = as_integer(axis.extent).value_or(axis.bound);
    if (bound <= 0 || bound > (int64_t{1} << 30)) return "i64";
    points *= bound;
    if (points > int64_t{1} << 30) return "i64";
  }
  return "int";
}

}  // namespace

void KernelWriter::scalar_points(const tile::Map& map, const std::vector<std::string>& extents) {
  const std::string type = point_type(map.axes);
  code_.open(fmt::format("for ({0} p = threadIdx.x; p < ({0}){1}; p += {2})", type, fmt::join(extents, " * "),
                         program_.threads));
  expressions_.enter();
  decompose(map.axes, extents, "p", type);
  stores_at_point(map);
  expressions_.leave();
  code_.close();
}

/// map -> pieces of V points along the last axis with 16-byte loads and stores, where addresses allow it.
bool KernelWriter::vector_points(const tile::Map& map, const std::vector<std::string>& extents) {
  const int last = map.axes.back().variable->variable;
  if (map.condition || !only_sets(map) || reads_own_stores(map)) return false;
  int width = 8;  // of the narrowest element, whose accesses are to be 16 bytes
  for (const tile::Store& each : map.stores) {
    const auto address = names_.address(each.buffer, each.indices);
    if (!address || !address->coefficient(last).is(1) || bit_width(names_.buffer(each.buffer).type) < 8) return false;
    width = std::min(width, bit_width(names_.buffer(each.buffer).type) / 8);
  }
  std::vector<Expr> loads, vector_loads;
  std::unordered_set<const ExprNode*> seen;
  for (const tile::Store& each : map.stores) unconditional_loads(each.value, seen, loads);
  for (const Expr& load : loads) {
    const auto address = names_.address(load->tensor, load->args);
    const int bits = bit_width(load->type);
    if (!address || !address->coefficient(last).is(1) || bits < 8) continue;
    vector_loads.push_back(load);
    width = std::min(width, bits / 8);
  }
  const int vector = 16 / width;
  if (vector < 2) return false;

  std::vector<std::string> pieces = extents;
  const std::string count = code_.fresh("n"), type = point_type(map.axes);
  code_.line("const {0} {1} = (({0}){2} + {3}) / {4};", type, count, extents.back(), vector - 1, vector);
  pieces.back() = count;
  code_.open(fmt::format("for ({0} p = threadIdx.x; p < ({0}){1}; p += {2})", type, fmt::join(pieces, " * "),
                         program_.threads));
  decompose(map.axes, pieces, "p", type);
  const std::string first = code_.fresh("f");
  code_.line("const {} {} = {} * {};", type, first, names_.variables.at(last), vector);
  names_.variables[last] = first;
  std::string aligned = fmt::format("{} + {} <= {}", first, vector, extents.back());
  std::vector<std::string> sources, targets;
  const auto pointer = [&](int buffer, const std::vector<Expr>& indices, bool constant) {
    const std::string name = code_.fresh("p"), element = type_name(names_.buffer(buffer).type);
    code_.line("{}{}* const {} = {} + ({});", constant ? "const " : "", element, name, names_.buffers[buffer],
               names_.affine_text(*names_.address(buffer, indices)));
    aligned += fmt::format(" && aligned<{}, {}>({})", element, vector, name);
    return name;
  };
  for (const Expr& load : vector_loads) sources.push_back(pointer(load->tensor, load->args, true));
  for (const tile::Store& each : map.stores) targets.push_back(pointer(each.buffer, each.indices, false));
  code_.open(fmt::format("if ({})", aligned));
  expressions_.enter();
  const std::string point = code_.fresh("i");
  for (size_t i = 0; i < vector_loads.size(); ++i) {
    const std::string pack = fmt::format("Pack<{}, {}>", type_name(vector_loads[i]->type), vector);
    code_.line("const {0} x{1} = *(const {0}*){2};", pack, i, sources[i]);
  }
  for (size_t i = 0; i < map.stores.size(); ++i) {
    code_.line("Pack<{}, {}> y{};", type_name(names_.buffer(map.stores[i].buffer).type), vector, i);
  }
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int j = 0; j < {}; ++j)", vector));
  code_.line("const {} {} = {} + j;", type, point, first);
  names_.variables[last] = point;
  for (size_t i = 0; i < vector_loads.size(); ++i) expressions_.define(vector_loads[i], fmt::format("x{}.at[j]", i));
  for (size_t i = 0; i < map.stores.size(); ++i) {
    code_.line("y{}.at[j] = {};", i, expressions_.value(map.stores[i].value));
  }
  code_.close();
  for (size_t i = 0; i < map.stores.size(); ++i) {
    code_.line("{};", whole_store(map.stores[i].buffer, vector, targets[i], fmt::format("y{}", i)));
  }
  expressions_.leave();
  code_.close();
  code_.open("else");
  code_.open(fmt::format("for ({0} {1} = {2}; {1} < {2} + {3} && {1} < {4}; ++{1})", type, point, first, vector,
                         extents.back()));
  expressions_.enter();
  stores_at_point(map);
  expressions_.leave();
  code_.close();
  code_.close();
  code_.close();
  return true;
}

}  // namespace graft::cuda
