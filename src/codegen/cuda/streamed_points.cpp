// SPDX-License-Identifier: Apache-2.0
// Whole pieces at known places that are computed with: what a kernel reads once is loaded for several pieces of a
// thread before the first of them is computed. Operands take fewer registers than results that wait to be stored.
#include <algorithm>
#include <map>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

constexpr int64_t kBytes = 32;        // of a thread's operands that are on their way
constexpr int64_t kMostNodes = 2048;  // of the expressions that are written out for a thread's pieces

}  // namespace

/// Whether an access goes to another place at each point of the map and of the grid.
bool KernelWriter::is_read_once(const tile::Map& map, const PointAccess& access) const {
  if (!access.load || !access.wide || !access.guards.empty()) return false;
  const auto address = names_.address(access.buffer, *access.indices);
  const auto moves = [&](const Expr& variable, bool is_one) {
    return is_one || !address->coefficient(variable->variable).is(0);
  };
  return address &&
         std::all_of(map.axes.begin(), map.axes.end(),
                     [&](const tile::Axis& axis) { return moves(axis.variable, as_integer(axis.extent) == 1); }) &&
         std::all_of(program_.grid.begin(), program_.grid.end(),
                     [&](const Axis& axis) { return moves(axis.variable, axis.extent.is(1)); });
}

/// Names the pieces that are loaded ahead; the number of points for which that is done at a time.
int KernelWriter::stream_loads(const tile::Map& map, const PointDeal& deal, int vector, int64_t nodes,
                               std::vector<PointAccess>& accesses) const {
  int64_t bytes = 0;
  std::vector<std::pair<size_t, std::string>> streams;
  for (size_t i = 0; i < accesses.size(); ++i) {
    if (!is_read_once(map, accesses[i])) continue;
    const auto same = std::find_if(streams.begin(), streams.end(), [&](const auto& stream) {
      return equal(accesses[stream.first].load, accesses[i].load);
    });
    if (same == streams.end()) bytes += int64_t{vector} * bytes_of(accesses[i].load->type);
    streams.emplace_back(i, same == streams.end() ? fmt::format("v{}", i) : same->second);
  }
  const int64_t most = std::min({kBytes / std::max<int64_t>(bytes, 1), kMostNodes / (vector * nodes), deal.turns});
  if (streams.empty() || most <= 1) return 1;
  for (const auto& [i, name] : streams) accesses[i].name = name;
  return static_cast<int>(ceil_quotient(deal.turns, ceil_quotient(deal.turns, most)));
}

void KernelWriter::streamed_points(const tile::Map& map, const std::vector<std::string>& extents, int vector,
                                   const PointDeal& dealt, int at_once, std::vector<PointAccess> accesses) {
  const std::string first = code_.fresh("q");
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for (int {0} = 0; {0} < {1}; {0} += {2})", first, dealt.turns, at_once));
  std::map<std::string, const PointAccess*> streams;
  for (PointAccess& access : accesses) {
    if (access.name.empty()) continue;
    if (streams.emplace(access.name, &access).second) {
      code_.line("Pack<{}, {}> {}[{}];", type_name(access.load->type), vector, access.name, at_once);
    }
    access.name += "[u]";
  }
  const auto for_points = [&](const auto& write) {
    code_.line("#pragma unroll");
    code_.open(fmt::format("for (int u = 0; u < {}; ++u)", at_once));
    expressions_.enter();
    std::string inside = open_turn(dealt, map.axes, extents, fmt::format("({} + u)", first));
    if (dealt.turns % at_once != 0) inside = fmt::format("{} + u < {} && {}", first, dealt.turns, inside);
    code_.open(fmt::format("if ({})", inside));
    expressions_.enter();
    write();
    expressions_.leave();
    code_.close();
    expressions_.leave();
    code_.close();
  };
  for_points([&] {
    for (const auto& [name, access] : streams) {
      code_.line("{} = *(const Pack<{}, {}>*)({});", access->name, type_name(access->load->type), vector,
                 pointer_to(*access));
    }
  });
  for_points([&] {
    std::vector<std::string> places;
    for (size_t s = 0; s < map.stores.size(); ++s) {
      places.push_back(fmt::format("({})", pointer_to(accesses[s])));
      code_.line("Pack<{}, {}> y{}[{}];", type_name(names_.buffer(map.stores[s].buffer).type), vector, s, at_once);
    }
    compute_piece(map, vector, accesses);
    for (size_t s = 0; s < map.stores.size(); ++s) store_piece(map, s, vector, places[s], accesses[s]);
  });
  code_.close();
}

}  // namespace graft::cuda
