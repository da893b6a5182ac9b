// SPDX-License-Identifier: Apache-2.0
// The first ranks of rows, a warp for each row. One that fits the registers of a warp is read once, and only the few
// elements that may be among the best are ranked; over longer ones, and over rows of nearly equal keys, the warp goes
// with the best that it has seen.
#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

constexpr int64_t kMostElements = 96;  // of a row, in one lane

}  // namespace

void KernelWriter::statement(const tile::Select& select) {
  before(accesses_of(program_, {select}));
  code_.open("");
  expressions_.enter();
  const std::vector<std::string> extents = extents_of(select.axes), length = extents_of({select.axis});
  const std::string points = fmt::format("1ll{}{}", extents.empty() ? "" : " * ", fmt::join(extents, " * "));
  const auto exact = as_integer(select.axis.extent);
  const bool in_registers = exact && *exact > 0 && *exact <= 32 * kMostElements;
  const int64_t parts = (5 * select.count / 2 + 31) / 32;
  if (in_registers) {
    code_.line("u64* const words = (u64*)(shared + {}) + warp * {};",
               reserve_shared(8 * 32 * parts * (program_.threads / 32)), 32 * parts);
  }
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for (i64 p = warp; p < {}; p += {})", points, program_.threads / 32));
  expressions_.enter();
  decompose(select.axes, extents, "p", "i64");
  if (in_registers) select_in_registers(select, *exact);
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

/// Reads the row into registers and goes on with the next one when its best were found there.
void KernelWriter::select_in_registers(const tile::Select& select, int64_t length) {
  const std::string type = type_name(select.key->type), at = code_.fresh("i"), rank = code_.fresh("r");
  tile::Map keys{.axes = {select.axis}, .condition = {}, .stores = {{-1, {}, select.key, ScatterMode::kSet}}};
  std::vector<PointAccess> loads;
  for (const PointAccess& access : accesses_of_points(keys)) {
    if (access.load) loads.push_back(access);
  }
  const int vector = widest_fold(select.axis, loads);
  const int64_t turns = (length + 32 * vector - 1) / (32 * vector);
  const std::string condition = vector > 1 ? wide_condition(select.axis, loads, vector) : "";
  code_.open(condition.empty() ? "" : fmt::format("if ({})", condition));
  const std::string seek = fmt::format("Seek<{}, {}>", type, select.descending);
  code_.line("{}::Held held[{}];", seek, turns * vector);
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int u = 0; u < {}; ++u)", turns));
  code_.line("const int {} = (u * 32 + lane) * {};", at, vector);
  bind_index(select.axis.variable, at, turns * 32 * vector);
  code_.line("#pragma unroll");
  code_.line("for (int j = 0; j < {0}; ++j) held[u * {0} + j] = {1}::none();", vector, seek);
  code_.open(fmt::format("if ((u + 1) * {} <= {} || {} < {})", 32 * vector, length, at, length));
  expressions_.enter();
  for (size_t i = 0; i < loads.size(); ++i) {
    if (!loads[i].wide) continue;
    const std::string pack = fmt::format("Pack<{}, {}>", type_name(loads[i].load->type), vector);
    code_.line("const {0} v{1} = *(const {0}*)({2});", pack, i, pointer_to(loads[i]));
  }
  const std::string point = code_.fresh("i");
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int j = 0; j < {}; ++j)", vector));
  code_.line("const int {} = {} + j;", point, at);
  names_.variables[select.axis.variable->variable] = point;
  expressions_.enter();
  for (size_t i = 0; i < loads.size(); ++i) {
    if (loads[i].wide) expressions_.define(loads[i].load, fmt::format("v{}.at[j]", i));
  }
  code_.line("held[u * {} + j] = {}::hold({});", vector, seek, expressions_.value(select.key));
  for (int i = 0; i < 2; ++i) {
    expressions_.leave();
    code_.close();
  }
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
  code_.line("if (select_best<{}, {}, {}, {}, {}>(held, words, key_at, give)) continue;", type, select.descending,
             select.count, length, vector);
  code_.close();
  names_.ranges.erase(select.axis.variable->variable);
  names_.ranges.erase(select.rank->variable);
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
