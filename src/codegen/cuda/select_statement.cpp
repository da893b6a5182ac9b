// SPDX-License-Identifier: Apache-2.0
// The first ranks of rows, a warp for each row. One that fits the registers of a warp is read once, and only the few
// elements that may be among the best are ranked; over longer ones, and over rows of nearly equal keys, the warp goes
// with the best that it has seen.
#include "codegen/cuda/selection.h"

#include <algorithm>
#include <functional>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

constexpr int64_t kMostElements = 96;  // of a row, in one lane
constexpr int64_t kFewWords = 32;      // of a row, in one lane: with more the compiler needs a bound
constexpr int64_t kWorking = 32;       // registers of a lane beside those
constexpr int64_t kRegisters = 65536;  // of a multiprocessor

bool is_in_registers(const tile::Select& select) {
  const auto exact = as_integer(select.axis.extent);
  return exact && *exact > 0 && *exact <= 32 * kMostElements;
}

/// Keys that a lane holds in a register.
int64_t keys_of_word(const tile::Select& select) { return select.key->type == DType::kFloat16 ? 2 : 1; }

/// Whether a key is computed of one load and of nothing else that changes along the row.
bool is_of_one_load(const tile::Select& select) {
  int loads = 0;
  std::unordered_set<const ExprNode*> seen;  // of what was bad the answer is known
  const std::function<bool(const Expr&)> good = [&](const Expr& e) {
    if (e->kind == ExprKind::kLoad) return ++loads == 1;
    if (e->kind == ExprKind::kVariable) return e->variable != select.axis.variable->variable;
    if (!seen.insert(e.get()).second) return true;
    return std::all_of(e->args.begin(), e->args.end(), good);
  };
  return good(select.key) && loads == 1;
}

/// Elements of the aligned pieces that rows are read by which may begin anywhere; 1: they are not.
int width_of_pieces(const tile::Buffer& buffer, int64_t length) {
  if (buffer.scope != tile::Scope::kGlobal || bit_width(buffer.type) < 16) return 1;
  const int width = 16 / bytes_of(buffer.type);
  return length >= 32 * width ? width : 1;
}

}  // namespace

int64_t blocks_of_selections(const tile::Program& program) {
  int64_t words = 0;
  for (const tile::Statement& each : program.body) {
    const auto* select = std::get_if<tile::Select>(&each.node);
    if (!select || !is_in_registers(*select)) continue;
    words = std::max(words, ceil_quotient(*as_integer(select->axis.extent), 32 * keys_of_word(*select)));
  }
  if (words <= kFewWords) return 1;
  const int64_t registers = ceil_quotient(words + kWorking, 8) * 8;
  return std::clamp<int64_t>(kRegisters / (registers * program.threads), 1, 32);
}

void KernelWriter::statement(const tile::Select& select) {
  before(accesses_of(program_, {select}));
  code_.open("");
  expressions_.enter();
  const std::vector<std::string> extents = extents_of(select.axes), length = extents_of({select.axis});
  const std::string points = fmt::format("1ll{}{}", extents.empty() ? "" : " * ", fmt::join(extents, " * "));
  const bool in_registers = is_in_registers(select);
  const int64_t parts = (5 * select.count / 2 + 31) / 32;
  if (in_registers) {
    code_.line("u64* const words = (u64*)(shared + {}) + warp * {};",
               reserve_shared(8 * 32 * parts * (program_.threads / 32)), 32 * parts);
  }
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for (i64 p = warp; p < {}; p += {})", points, program_.threads / 32));
  expressions_.enter();
  decompose(select.axes, extents, "p", "i64");
  if (in_registers) select_in_registers(select, *as_integer(select.axis.extent));
  select_by_insertion(select, length[0]);
  expressions_.leave();
  code_.close();
  expressions_.leave();
  code_.close();
}

/// Stores the key at `at` and its place at rank `rank`, names of ints.
void KernelWriter::give_ranked(const tile::Select& select, const std::string& rank, const std::string& at) {
  names_.variables[select.rank->variable] = rank;
  names_.variables[select.axis.variable->variable] = at;
  expressions_.enter();
  code_.line("{} = {};", expressions_.element(select.keys.buffer, select.keys.indices),
             expressions_.value(select.key));
  code_.line("{} = {};", expressions_.element(select.positions.buffer, select.positions.indices), at);
  expressions_.leave();
}

/// Reads the row into registers and goes on with the next one when its best were found there. A row that may begin
/// anywhere is read by the aligned pieces that it lies in, each of which has an element of it.
void KernelWriter::select_in_registers(const tile::Select& select, int64_t length) {
  const std::string type = type_name(select.key->type), at = code_.fresh("i"), rank = code_.fresh("r");
  const int variable = select.axis.variable->variable;
  tile::Map keys{.axes = {select.axis}, .condition = {}, .stores = {{-1, {}, select.key, ScatterMode::kSet}}};
  std::vector<PointAccess> loads = accesses_of_points(keys);
  std::erase_if(loads, [](const PointAccess& access) { return !access.load; });
  int vector = widest_fold(select.axis, loads);
  const std::string condition = vector > 1 ? wide_condition(select.axis, loads, vector) : "";
  const int64_t together = keys_of_word(select);
  bool shifted = false;
  if (vector == 1 && loads.size() == 1 && is_of_one_load(select)) {
    const auto address = names_.address(loads[0].buffer, *loads[0].indices);
    if (address && address->coefficient(variable).is(1)) {
      vector = width_of_pieces(names_.buffer(loads[0].buffer), length);
    }
    shifted = loads[0].wide = vector > 1;
  }
  const bool single = vector < together;  // elements of a word are loaded one by one
  vector = std::max(vector, static_cast<int>(together));
  const int64_t turns = ceil_quotient(length + (shifted ? vector - 1 : 0), 32 * vector);
  code_.open(condition.empty() ? "" : fmt::format("if ({})", condition));
  const std::string seek = fmt::format("Seek<{}, {}>", type, select.descending);
  std::string skipped = "0", row;
  if (shifted) {
    skipped = code_.fresh("n"), row = code_.fresh("w");
    expressions_.enter();
    bind_constant(select.axis.variable, 0);
    code_.line("const {}* const {} = {};", type_name(loads[0].load->type), row, pointer_to(loads[0]));
    code_.line("const int {} = (int)((u64){} / {}u % {}u);", skipped, row, bytes_of(loads[0].load->type), vector);
    expressions_.leave();
  }
  code_.line("{}::Held held[{}];", seek, turns * vector / together);
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int u = 0; u < {}; ++u)", turns));
  code_.line("const int {} = (u * 32 + lane) * {}{};", at, vector, shifted ? " - " + skipped : "");
  bind_index(select.axis.variable, at, turns * 32 * vector);
  code_.line("{}::Part parts[{}];", seek, vector);
  code_.line("for (int j = 0; j < {}; ++j) parts[j] = {}::nothing();", vector, seek);
  code_.open(fmt::format("if ((u + 1) * {} <= {} || {} < {})", 32 * vector, length, at, length));
  expressions_.enter();
  for (size_t i = 0; i < loads.size(); ++i) {
    if (!loads[i].wide) continue;
    const std::string place = shifted ? fmt::format("{} + {}", row, at) : pointer_to(loads[i]);
    code_.line("const Pack<{0}, {1}> v{2} = *(const Pack<{0}, {1}>*)({3});", type_name(loads[i].load->type), vector, i,
               place);
  }
  const std::string point = code_.fresh("i");
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int j = 0; j < {}; ++j)", vector));
  code_.line("const int {} = {} + j;", point, at);
  if (shifted) {
    code_.line("if ((u == 0 || (u + 1) * {0} > {1}) && (u32){2} >= {1}u) continue;", 32 * vector, length, point);
  } else if (single && length % vector != 0) {
    code_.line("if ({} >= {}) continue;", point, length);
  }
  names_.variables[variable] = point;
  expressions_.enter();
  for (size_t i = 0; i < loads.size(); ++i) {
    if (loads[i].wide) expressions_.define(loads[i].load, fmt::format("v{}.at[j]", i));
  }
  code_.line("parts[j] = {}::part({});", seek, expressions_.value(select.key));
  for (int i = 0; i < 2; ++i) expressions_.leave(), code_.close();
  code_.line("for (int j = 0; j < {0}; ++j) held[u * {0} + j] = {1}::join(parts + j * {2});", vector / together, seek,
             together);
  code_.close();
  code_.open(fmt::format("const auto key_at = [&](const int {}) -> {}", at, type));
  bind_index(select.axis.variable, at, length);
  expressions_.enter();
  code_.line("return {};", expressions_.value(select.key));
  expressions_.leave();
  code_.close(";");
  code_.open(fmt::format("const auto give = [&](const int {}, const int {})", rank, at));
  names_.ranges[select.rank->variable] = {0, select.count - 1};
  give_ranked(select, rank, at);
  code_.close(";");
  code_.line("if (select_best<{}, {}, {}, {}, {}>(held, {}, words, key_at, give)) continue;", type,
             select.descending, select.count, length, vector, skipped);
  code_.close();
  for (const int each : {variable, select.rank->variable}) names_.ranges.erase(each);
}

/// Goes along the row with the best words so far.
void KernelWriter::select_by_insertion(const tile::Select& select, const std::string& length) {
  constexpr int kAtOnce = 4;
  const int64_t slots = (select.count + 31) / 32;
  const std::string type = type_name(select.key->type);
  code_.line("Best<{}> best;", slots);
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for (i64 first = lane; first - lane < {}; first += {})", length, 32 * kAtOnce));
  code_.line("u64 words[{}];", kAtOnce);
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int u = 0; u < {}; ++u)", kAtOnce));
  const std::string at = bind(select.axis.variable, "i");
  code_.line("const i64 {} = first + u * 32;", at);
  code_.line("words[u] = 0;");
  code_.open(fmt::format("if ({} < {})", at, length));
  expressions_.enter();
  code_.line("words[u] = rank_word<{}>({}, (u32){}, {});", type, expressions_.value(select.key), at,
             select.descending);
  expressions_.leave();
  code_.close();
  code_.close();
  code_.line("#pragma unroll 1");
  code_.line("for (int u = 0; u < {}; ++u) best.take(u == 0 ? words[0] : u == 1 ? words[1] : u == 2 ? words[2] : "
             "words[3], {});", kAtOnce, select.count);
  code_.close();
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int m = 0; m < {}; ++m)", slots));
  const std::string rank = code_.fresh("r");
  code_.line("const int {} = m * 32 + lane;", rank);
  code_.open(fmt::format("if ({} < {} && best.slots[m] != 0)", rank, select.count));
  code_.line("const i64 {} = (u32)~(u32)best.slots[m];", at);
  give_ranked(select, rank, at);
  code_.close();
  code_.close();
}

}  // namespace graft::cuda
