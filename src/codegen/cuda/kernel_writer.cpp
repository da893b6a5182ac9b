// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/kernel_writer.h"

#include <algorithm>

#include "base/error.h"
#include "codegen/cuda/selection.h"

namespace graft::cuda {
namespace {

constexpr int kMostThreads = 2048;  // of a multiprocessor

bool overlaps(const std::set<int>& a, const std::set<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int each) { return b.contains(each); });
}

/// Calls `visit` on each statement that is not a loop or branch.
template <class Visit>
void for_each_leaf(const tile::Body& body, const Visit& visit) {
  for (const tile::Statement& each : body) {
    if (const auto* loop = std::get_if<tile::For>(&each.node)) {
      for_each_leaf(loop->body, visit);
    } else if (const auto* branch = std::get_if<tile::If>(&each.node)) {
      for_each_leaf(branch->body, visit);
    } else {
      visit(each);
    }
  }
}

/// Whether a value takes little more than its operands' registers.
bool is_light(const Expr& value) {
  constexpr int kMostNodes = 28;
  bool light = count_nodes(value) <= kMostNodes;
  for_each(value, [&](const Expr& node) {
    const bool heavy = node->kind == ExprKind::kCall && is_float(node->type) &&
                       (node->intrinsic == Intrinsic::kPow || node->intrinsic == Intrinsic::kRem ||
                        node->intrinsic == Intrinsic::kMod || node->intrinsic == Intrinsic::kFloorDiv ||
                        (node->intrinsic >= Intrinsic::kSin && node->intrinsic <= Intrinsic::kAtanh));
    light = light && !heavy && (node->type == DType::kInt64 || bit_width(node->type) <= 32);
  });
  return light;
}

/// Whether the program computes elements of global memory one by one, and as many warps as a multiprocessor holds at
/// most, with the registers that this leaves each, hide the memory's latency best.
bool is_light_map(const tile::Program& program) {
  constexpr int kMostOfBlock = 256;
  if (program.threads > kMostOfBlock) return false;
  const bool global = std::all_of(program.buffers.begin(), program.buffers.end(), [](const tile::Buffer& buffer) {
    return buffer.scope == tile::Scope::kGlobal;
  });
  return global && std::all_of(program.body.begin(), program.body.end(), [](const tile::Statement& each) {
           const auto* map = std::get_if<tile::Map>(&each.node);
           return map && only_sets(*map) && std::all_of(map->stores.begin(), map->stores.end(),
                                                        [](const tile::Store& store) { return is_light(store.value); });
         });
}

}  // namespace

KernelWriter::KernelWriter(const tile::Program& program, const Target& target, int max_stages)
    : program_(program), target_(target), max_stages_(max_stages), expressions_(code_, names_) {
  names_.program = &program;
  copying_threads_ = program.threads;
}

Kernel KernelWriter::write() {
  if (program_.threads <= 0) throw Unsupported{"it states no threads per block"};
  declare_names();
  choose_layouts();
  std::string parameters;
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const tile::Buffer& buffer = program_.buffers[i];
    if (buffer.scope != tile::Scope::kGlobal) continue;
    const std::string type = type_name(buffer.type);
    parameters +=
        fmt::format("{} {}, ", buffer.written ? type + "*" : "const " + type + "* __restrict__", names_.buffers[i]);
  }
  for (size_t i = 0; i < program_.sizes.size(); ++i) {
    parameters += is_stored(i) ? fmt::format("const i64* __restrict__ at_s{}, ", i) : fmt::format("const i64 s{}, ", i);
  }
  if (program_.stored.empty() && plan_split_product()) return split_product_kernel(parameters);
  if (program_.stored.empty() && plan_warp_specialisation()) return warp_specialised_kernel(parameters);
  auto points = plan_points();
  auto columns = points ? std::nullopt : plan_columns();
  auto rows = points || columns ? std::nullopt : plan_rows();
  std::string bounds = std::to_string(program_.threads);
  if (rows && rows->blocks > 1) bounds += fmt::format(", {}", rows->blocks);
  if (const int64_t blocks = blocks_of_selections(program_); blocks > 1) bounds += fmt::format(", {}", blocks);
  if (points && points->blocks > 1) bounds += fmt::format(", {}", points->blocks);
  // Parts of a reduction are as many as a GPU holds blocks of them, in which no thread needs many registers.
  const bool reduces = std::all_of(program_.body.begin(), program_.body.end(), [](const tile::Statement& each) {
    return std::holds_alternative<tile::Reduce>(each.node);
  });
  if ((reduces && !rows && !columns && !points && program_.threads >= kMostThreads / 4) || is_light_map(program_)) {
    bounds += fmt::format(", {}", kMostThreads / program_.threads);
  }
  code_.open(fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}({}i64* status)", bounds, program_.name,
                         parameters));
  code_.line("extern __shared__ __align__(1024) u8 shared[];");
  code_.line("const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;");
  code_.line("(void)lane, (void)warp, (void)shared;");
  const bool brings_early = program_.stored.empty() && !points && !columns && !rows &&
                            std::any_of(program_.body.begin(), program_.body.end(), [](const tile::Statement& each) {
                              return std::holds_alternative<tile::For>(each.node);
                            });
  if (brings_early) {
    code_.line("let_later_kernels_begin();");
  } else {
    follow();
  }
  for (size_t i = 0; i < program_.sizes.size(); ++i) {
    if (is_stored(i)) code_.line("const i64 s{0} = *at_s{0};", i);
  }
  code_.line("Fault fault = {0, 0};");
  if (!rows || !rows->streams) grid();
  if (points) {
    write_points(*points);
  } else if (columns) {
    write_columns(*columns);
  } else if (rows) {
    write_rows(*rows);
  } else {
    declare_memory();
    body(program_.body);
    follow();
  }
  code_.line("if (fault.kind) status[0] = fault.kind, status[1] = fault.value;");
  code_.close();
  return {code_.text(), program_.threads, shared_end_, warpgroup_products_, 1, rows && rows->streams ? 1 : 0, {}};
}

bool KernelWriter::is_stored(size_t size) const {
  return std::binary_search(program_.stored.begin(), program_.stored.end(), program_.sizes[size]);
}

void KernelWriter::declare_names() {
  names_.narrow_results = narrow_results(program_);
  for (size_t i = 0; i < program_.sizes.size(); ++i) {
    names_.sizes.emplace(program_.sizes[i], Size::symbol(fmt::format("s{}", i)));
  }
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    names_.buffers.push_back(fmt::format("b{}", i));
    names_.strides.emplace_back();
  }
}

void KernelWriter::choose_layouts() {
  bool keep_rows = false;
  std::unordered_map<int, bool> by_groups;  // by fragment: warpgroups have a unit for all its products
  // Of fragments of products with codes, and of those that maps make of them.
  struct Decoded {
    Shape shape;
    int most_slices = 1;
    LayoutFor purpose = LayoutFor::kSingleTiles;
  };
  std::vector<Decoded> decoded;
  for_each_leaf(program_.body, [&](const tile::Statement& each) {
    const auto loads_fragment = [&](const Expr& e) {
      for_each(
          e, [&](const Expr& node) { keep_rows |= node->kind == ExprKind::kLoad && names_.is_fragment(node->tensor); });
    };
    if (const auto* reduce = std::get_if<tile::Reduce>(&each.node)) {
      for (const Expr& lift : reduce->lift) loads_fragment(lift);
    }
    const auto* contract = std::get_if<tile::Contract>(&each.node);
    if (!contract) return;
    loads_fragment(contract->a);
    const DType a = contract->a->type, b = contract->b->type, c = names_.buffer(contract->c).type;
    const bool of_groups = contract->unit ? contract->unit->scope == ContractUnit::Scope::kWarpgroup
                                          : best_unit(target_, a, b, c, ContractUnit::Scope::kWarpgroup) != nullptr;
    by_groups.try_emplace(contract->c, true).first->second &= of_groups;
    if (a == b && is_half(b) && contract->k.size() == 1 && coded_operand(contract->b, contract->k[0], names_)) {
      decoded.push_back({names_.buffer(contract->c).shape, most_slices(contract->k[0].bound),
                         few_rows(*contract) > 0 ? LayoutFor::kFewRows : LayoutFor::kSingleTiles});
    }
  });
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const tile::Buffer& buffer = program_.buffers[i];
    if (buffer.scope != tile::Scope::kFragment || buffer.shape.size() == 1) continue;
    const int64_t rows = buffer.shape[0].constant(), columns = buffer.shape[1].constant();
    const auto multiplied = by_groups.find(static_cast<int>(i));
    const bool grouped = program_.threads % 128 == 0 && rows % 64 == 0 && multiplied != by_groups.end() &&
                         multiplied->second;
    const auto of_codes = std::find_if(decoded.begin(), decoded.end(),
                                       [&](const Decoded& each) { return each.shape == buffer.shape; });
    const LayoutFor purpose = keep_rows                   ? LayoutFor::kRows
                              : of_codes != decoded.end() ? of_codes->purpose
                              : grouped                   ? LayoutFor::kWarpgroups
                                                          : LayoutFor::kAnything;
    const FragmentLayout layout = choose_layout(rows, columns, program_.threads / 32, purpose,
                                                of_codes != decoded.end() ? of_codes->most_slices : 1);
    if (layout.m_tiles * layout.n_tiles * 4 > 256) {
      throw Unsupported{fmt::format("fragment '{}' takes more than 256 registers of each thread", buffer.name)};
    }
    names_.fragments.emplace(static_cast<int>(i), layout);
  }
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const tile::Buffer& buffer = program_.buffers[i];
    if (!names_.is_row_fragment(static_cast<int>(i))) continue;
    const auto same = std::find_if(names_.fragments.begin(), names_.fragments.end(), [&](const auto& entry) {
      return names_.buffer(entry.first).shape.size() == 2 && entry.second.rows == buffer.shape[0].constant();
    });
    if (same == names_.fragments.end() || same->second.warps_n != 1) {
      throw Unsupported{fmt::format("fragment '{}' goes with no fragment whose rows lie in one warp", buffer.name)};
    }
    const FragmentLayout layout = same->second;
    names_.fragments.emplace(static_cast<int>(i), layout);
  }
  for_each_leaf(program_.body, [&](const tile::Statement& each) {
    const auto* map = std::get_if<tile::Map>(&each.node);
    if (map && !map->axes.empty()) find_crossed(*map);
  });
  find_padded();
}

int64_t KernelWriter::reserve_shared(int64_t bytes, int64_t alignment) {
  const int64_t offset = (shared_end_ + alignment - 1) / alignment * alignment;
  shared_end_ = offset + bytes;
  return offset;
}

void KernelWriter::declare_memory() {
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const tile::Buffer& buffer = program_.buffers[i];
    if (buffer.scope == tile::Scope::kFragment) {
      const FragmentLayout& layout = names_.fragments.at(static_cast<int>(i));
      const std::string type = type_name(buffer.type);
      if (buffer.shape.size() == 1) {
        code_.line("{} {}[{}];", type, names_.buffers[i], 2 * layout.m_tiles);
      } else {
        code_.line("{} {}[{}][{}][4];", type, names_.buffers[i], layout.m_tiles, layout.n_tiles);
      }
    }
    if (buffer.scope != tile::Scope::kShared) continue;
    // Row-major, with rows of a matrix an odd number of 16-byte pieces apart: no two of eight rows share banks. Of one
    // that is walked down its columns, an odd number of elements apart: no two of 32 rows do.
    const bool crossed = names_.crossed.contains(static_cast<int>(i));
    const int width = std::max(bit_width(buffer.type) / 8, 1);
    std::vector<int64_t> strides(buffer.shape.size(), 1);
    int64_t elements = 1;
    for (size_t axis = buffer.shape.size(); axis-- > 0;) {
      strides[axis] = elements;
      elements *= std::max<int64_t>(buffer.shape[axis].constant(), 1);
      const bool row = axis + 1 == buffer.shape.size() && axis > 0 && elements * width >= 32;
      if (row) elements = crossed ? elements | 1 : ((elements * width + 15) / 16 | 1) * 16 / width;
    }
    if (names_.padded.contains(static_cast<int>(i))) lay_padded(static_cast<int>(i), strides, elements);
    names_.strides[i] = std::move(strides);
    code_.line("{0}* const {1} = ({0}*)(shared + {2});", type_name(buffer.type), names_.buffers[i],
               reserve_shared(elements * width));
  }
}

void KernelWriter::grid() {
  std::string total = "1ll";
  for (const graft::Axis& axis : program_.grid) total += " * " + names_.size(axis.extent);
  if (followed_) {
    code_.line("if ((i64)blockIdx.x >= {}) return;", total);
  } else {
    code_.line("if ((i64)blockIdx.x >= {}) return follow_earlier_kernels();", total);
  }
  name_grid("blockIdx.x");
}

/// Waits for the kernels before this one, unless that has been done.
void KernelWriter::follow() {
  if (!followed_) code_.line("follow_earlier_kernels();");
  followed_ = true;
}

/// What the statement touches in global memory may be of earlier kernels; a loop brings constant tiles before it waits.
void KernelWriter::follow_before(const tile::Statement& statement) {
  if (followed_ || std::holds_alternative<tile::For>(statement.node)) return;
  const auto* map = std::get_if<tile::Map>(&statement.node);
  bool touches = !map || map->condition;
  const auto is_global = [&](int buffer) { return names_.buffer(buffer).scope == tile::Scope::kGlobal; };
  const auto reads = [&](const Expr& e) {
    for_each(e, [&](const Expr& node) { touches |= node->kind == ExprKind::kLoad && is_global(node->tensor); });
  };
  for (size_t i = 0; map && i < map->stores.size(); ++i) {
    touches |= is_global(map->stores[i].buffer);
    reads(map->stores[i].value);
    for (const Expr& index : map->stores[i].indices) reads(index);
  }
  for (size_t i = 0; map && i < map->axes.size(); ++i) reads(map->axes[i].extent);
  if (touches) follow();
}

/// Names the grid's axes at the point of that number. A launch has fewer than 2^31 points, so each axis fits an int.
void KernelWriter::name_grid(std::string point) {
  size_t axes = program_.grid.size();
  if (program_.roles.group > 1 && axes >= 2) {
    const std::string rows = names_.size(program_.grid[axes - 2].extent);
    const std::string columns = names_.size(program_.grid[axes - 1].extent);
    const std::string rest = code_.fresh("q"), row = code_.fresh("g"), column = code_.fresh("g");
    code_.line("int {}, {};", row, column);
    code_.line("const u32 {0} = in_groups<{1}>({2}, {3}, {4}, {5}, {6});", rest, program_.roles.group, point, rows,
               columns, row, column);
    for (const auto& [axis, name] : {std::pair{axes - 2, row}, std::pair{axes - 1, column}}) {
      const graft::Axis& each = program_.grid[axis];
      bind_index(each.variable, name, each.extent.as_constant().value_or(INT32_MAX));
      names_.uniform.insert(each.variable->variable);
    }
    point = rest;
    axes -= 2;
  }
  for (size_t i = axes; i-- > 0;) {
    const graft::Axis& axis = program_.grid[i];
    const std::string name = code_.fresh("g");
    if (i == 0) {
      code_.line("const int {} = {};", name, point);
    } else {
      const std::string next = code_.fresh("q");
      code_.line("const u32 {} = {} / (u32){};", next, point, names_.size(axis.extent));
      code_.line("const int {} = {} - {} * (u32){};", name, point, next, names_.size(axis.extent));
      point = next;
    }
    bind_index(axis.variable, name, axis.extent.as_constant().value_or(INT32_MAX));
    names_.uniform.insert(axis.variable->variable);
  }
}

std::string KernelWriter::bind(const Expr& variable, std::string_view stem) {
  std::string name = code_.fresh(stem);
  names_.variables[variable->variable] = name;
  return name;
}

void KernelWriter::barrier() {
  settle_all();
  if (specialised_) {
    code_.line("named_barrier_sync<{}>({});", program_.threads, specialised_->teams > 1 ? "1 + team" : "1");
  } else {
    code_.line("__syncthreads();");
  }
  pending_ = {};
}

void KernelWriter::before(const Accesses& accesses) {
  if (overlaps(accesses.reads, pending_.writes) || overlaps(accesses.writes, pending_.writes) ||
      overlaps(accesses.writes, pending_.reads)) {
    barrier();
  }
  merge(pending_, accesses);
}

void KernelWriter::body(const tile::Body& statements) {
  for (const tile::Statement& each : statements) {
    settle(each);
    follow_before(each);
    std::visit([&](const auto& node) { this->statement(node); }, each.node);
  }
}

std::string KernelWriter::uniform_value(const Expr& e) {
  Accesses accesses;
  for_each(e, [&](const Expr& node) {
    if (node->kind == ExprKind::kLoad && !names_.is_fragment(node->tensor)) accesses.reads.insert(node->tensor);
  });
  before(accesses);
  expressions_.enter();  // a later statement may see other values in memory
  std::string text = expressions_.value(e);
  expressions_.leave();
  return text;
}

void KernelWriter::statement(const tile::For& loop) {
  std::vector<ContractPlan> plans;
  if (specialised_ && specialised_->loop == &loop) return consume_rounds(loop);
  if (pipelined(loop, plans)) return stream_codes(loop, plans) ? void() : pipelined_loop(loop, plans);
  follow();
  const std::string extent = uniform_value(loop.axis.extent);
  const std::string name = bind(loop.axis.variable, "i");
  // What the end of the body leaves pending meets its beginning again.
  merge(pending_, accesses_of(program_, {loop}));
  settle_all();
  code_.open(fmt::format("for (i64 {0} = 0; {0} < {1}; ++{0})", name, extent));
  expressions_.enter();
  body(loop.body);
  settle_all();
  expressions_.leave();
  code_.close();
  merge(pending_, accesses_of(program_, {loop}));
}

void KernelWriter::statement(const tile::If& branch) {
  const std::string condition = uniform_value(branch.condition);
  const Accesses skipped = pending_;
  settle_all();
  code_.open(fmt::format("if ({})", condition));
  expressions_.enter();
  body(branch.body);
  settle_all();
  expressions_.leave();
  code_.close();
  merge(pending_, skipped);
}

void KernelWriter::statement(const tile::SortRow& sort) {
  before(accesses_of(program_, {sort}));
  code_.open("");
  expressions_.enter();
  const std::string length = expressions_.value(sort.length);
  const std::string keys = expressions_.element(sort.keys, sort.key_indices);
  const std::string positions = expressions_.element(sort.positions, sort.position_indices);
  const auto stride = [&](int buffer) {
    return names_.size(names_.stride(buffer, names_.buffer(buffer).shape.size() - 1));
  };
  const std::string row = fmt::format("&{}, {}, &{}, {}, {}, {}", keys, stride(sort.keys), positions,
                                      stride(sort.positions), length, sort.descending);
  const tile::Buffer &key_row = names_.buffer(sort.keys), &position_row = names_.buffer(sort.positions);
  if (key_row.scope == tile::Scope::kGlobal && position_row.scope == tile::Scope::kGlobal) {
    constexpr int kChunk = 2048;
    const int64_t bytes = kChunk * (bytes_of(key_row.type) + bytes_of(position_row.type));
    code_.line("sort_chunks<{}, {}>({}, shared + {});", program_.threads, kChunk, row, reserve_shared(bytes));
  } else {
    code_.line("sort_row<{}>({});", program_.threads, row);
  }
  expressions_.leave();
  code_.close();
}

Kernel write_kernel(const tile::Program& program, const Target& target) {
  const auto fail = [&](const std::string& reason) -> Kernel {
    throw Error(ErrorKind::kUnsupported, reason, fmt::format("kernel '{}' for {}", program.name, target.name));
  };
  constexpr int kMostStages = 16;
  try {
    const tile::Program split = split_contractions(program);
    const int64_t limit = target.shared_bytes > 0 ? target.shared_bytes : 48 << 10;
    for (int stages = kMostStages; stages >= 1; --stages) {
      Kernel kernel = KernelWriter(split, target, stages).write();
      if (kernel.shared_bytes <= limit) return kernel;
      if (stages == 1) {
        return fail(fmt::format("its tiles take {} bytes of shared memory, a block has {}: choose smaller tiles",
                                kernel.shared_bytes, limit));
      }
    }
  } catch (const Unsupported& unsupported) {
    return fail(unsupported.reason);
  }
  return {};
}

}  // namespace graft::cuda
