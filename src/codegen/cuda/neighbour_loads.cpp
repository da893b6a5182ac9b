// SPDX-License-Identifier: Apache-2.0
// Loads of single elements that lie side by side in memory, whatever the point: one wide load does for all of them.
#include <algorithm>
#include <map>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

constexpr int kWidest = 16;  // bytes

/// Loads whose places differ in constants only.
struct Group {
  int buffer = -1;
  RowAddress address;
  std::map<int64_t, Expr> loads;  ///< by how far they are from the address

  bool has(int other, const RowAddress& place) const {
    const auto same = [](const auto& a, const auto& b) { return equal(a.first, b.first) && a.second == b.second; };
    return buffer == other && address.affine.coefficients == place.affine.coefficients &&
           std::equal(address.rows.begin(), address.rows.end(), place.rows.begin(), place.rows.end(), same);
  }
};

/// The most elements, up to `limit`, of which aligned groups stay aligned wherever a place with this address is.
int64_t aligned_elements(const RowAddress& address, int64_t limit) {
  const auto fit = [&](const Size& size) {
    while (!size.is_multiple_of(limit)) limit /= 2;
  };
  for (const auto& [variable, coefficient] : address.affine.coefficients) fit(coefficient);
  for (const auto& [row, step] : address.rows) fit(step);
  return limit;
}

}  // namespace

/// Groups of loads that happen at every point and lie where one aligned load reads them, and nothing else.
std::vector<PiecePhases::Neighbours> KernelWriter::neighbours_among(
    const std::vector<std::vector<Expr>>& elements) const {
  std::vector<Expr> loads;
  std::unordered_set<const ExprNode*> seen;
  for (const std::vector<Expr>& each : elements) {
    for (const Expr& e : each) unconditional_loads(e, seen, loads);
  }
  std::vector<Group> groups;
  for (const Expr& load : loads) {
    const bool apart = names_.is_fragment(load->tensor) || names_.padded.contains(load->tensor);
    if (apart || bit_width(load->type) < 8) continue;
    auto address = *names_.row_address(load->tensor, load->args, -1);
    const auto offset = address.affine.offset.as_constant();
    if (!offset) continue;
    address.affine.offset = 0;
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.has(load->tensor, address); });
    if (group == groups.end()) group = groups.insert(group, Group{load->tensor, std::move(address), {}});
    group->loads.emplace(*offset, load);
  }
  std::vector<PiecePhases::Neighbours> neighbours;
  for (Group& group : groups) {
    int64_t width = aligned_elements(group.address, kWidest / bytes_of(names_.buffer(group.buffer).type));
    for (; width > 1; width /= 2) {
      for (auto at = group.loads.begin(); at != group.loads.end();) {
        const int64_t first = at->first;
        const auto end = std::next(at, std::min<int64_t>(width, std::distance(at, group.loads.end())));
        const bool whole =
            first % width == 0 && std::distance(at, end) == width && std::prev(end)->first == first + width - 1;
        if (!whole) {
          ++at;
          continue;
        }
        PiecePhases::Neighbours& found = neighbours.emplace_back();
        found.buffer = group.buffer, found.address = group.address, found.address.affine.offset = first;
        for (auto each = at; each != end; ++each) found.loads.push_back(each->second);
        at = group.loads.erase(at, end);
      }
    }
  }
  return neighbours;
}

/// What must hold, for the whole block, so that wide loads are aligned.
std::vector<std::string> KernelWriter::alignment_of(const std::vector<PiecePhases::Neighbours>& neighbours) const {
  std::vector<std::string> conditions;
  for (const PiecePhases::Neighbours& each : neighbours) {
    const tile::Buffer& buffer = names_.buffer(each.buffer);
    if (buffer.scope != tile::Scope::kGlobal) continue;
    const std::string condition =
        fmt::format("aligned<{}, {}>({})", type_name(buffer.type), each.loads.size(), names_.buffers[each.buffer]);
    if (std::find(conditions.begin(), conditions.end(), condition) == conditions.end()) conditions.push_back(condition);
  }
  return conditions;
}

void KernelWriter::load_neighbours(const std::vector<PiecePhases::Neighbours>& neighbours) {
  for (const PiecePhases::Neighbours& each : neighbours) {
    const std::string name = code_.fresh("w");
    const std::string place = pointer_text(each.buffer, each.address);
    code_.line("const Pack<{0}, {1}> {2} = *(const Pack<{0}, {1}>*)({3});", type_name(names_.buffer(each.buffer).type),
               each.loads.size(), name, place);
    for (size_t i = 0; i < each.loads.size(); ++i)
      expressions_.define(each.loads[i], fmt::format("{}.at[{}]", name, i));
  }
}

}  // namespace graft::cuda
