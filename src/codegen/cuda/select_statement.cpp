// SPDX-License-Identifier: Apache-2.0
// The first ranks of rows: a warp goes over a row with the best words that it has seen in its registers.
#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {

void KernelWriter::statement(const tile::Select& select) {
  before(accesses_of(program_, {select}));
  code_.open("");
  expressions_.enter();
  constexpr int kAtOnce = 4;
  const std::vector<std::string> extents = extents_of(select.axes), length = extents_of({select.axis});
  const std::string points = fmt::format("1ll{}{}", extents.empty() ? "" : " * ", fmt::join(extents, " * "));
  const int64_t slots = (select.count + 31) / 32;
  const std::string type = type_name(select.key->type);
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for (i64 p = warp; p < {}; p += {})", points, program_.threads / 32));
  expressions_.enter();
  decompose(select.axes, extents, "p", "i64");
  code_.line("Best<{}> best;", slots);
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for (i64 first = lane; first - lane < {}; first += {})", length[0], 32 * kAtOnce));
  code_.line("u64 words[{}];", kAtOnce);
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int u = 0; u < {}; ++u)", kAtOnce));
  const std::string at = bind(select.axis.variable, "i");
  code_.line("const i64 {} = first + u * 32;", at);
  code_.line("words[u] = 0;");
  code_.open(fmt::format("if ({} < {})", at, length[0]));
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
  const std::string rank = bind(select.rank, "r");
  code_.line("const int {} = m * 32 + lane;", rank);
  code_.open(fmt::format("if ({} < {} && best.slots[m] != 0)", rank, select.count));
  expressions_.enter();
  code_.line("const i64 {} = (u32)~(u32)best.slots[m];", at);
  code_.line("{} = {};", expressions_.element(select.keys.buffer, select.keys.indices),
             expressions_.value(select.key));
  code_.line("{} = {};", expressions_.element(select.positions.buffer, select.positions.indices), at);
  expressions_.leave();
  code_.close();
  code_.close();
  expressions_.leave();
  code_.close();
  expressions_.leave();
  code_.close();
}

}  // namespace graft::cuda
