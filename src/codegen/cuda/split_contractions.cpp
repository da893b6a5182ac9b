// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

constexpr int64_t kWholeTile = 128;    // k up to this is one tile
constexpr int64_t kDecodedTile = 1024;  // where b is computed of codes, which are smaller
constexpr int kStages = 4;

/// The k of one tile: 64 bytes of each row.
int64_t tile_of(DType type) { return bit_width(type) >= 64 ? 8 : 512 / std::max(bit_width(type), 16); }

/// contract k [long] -> for k0 { contract k [tile] }, and further k axes become plain loops outside.
class Splitter {
 public:
  explicit Splitter(tile::Program program) : program_(std::move(program)) {}

  tile::Program run() {
    program_.body = body(program_.body);
    return std::move(program_);
  }

 private:
  tile::Body body(const tile::Body& statements) {
    tile::Body result;
    for (const tile::Statement& each : statements) {
      if (const auto* loop = std::get_if<tile::For>(&each.node)) {
        tile::For copy = *loop;
        copy.body = body(loop->body);
        result.push_back({std::move(copy)});
      } else if (const auto* branch = std::get_if<tile::If>(&each.node)) {
        result.push_back({tile::If{branch->condition, body(branch->body)}});
      } else if (const auto* contract = std::get_if<tile::Contract>(&each.node); contract && splits(*contract)) {
        split(*contract, result);
      } else {
        result.push_back(each);
      }
    }
    return result;
  }

  bool splits(const tile::Contract& contract) const {
    if (program_.buffers[contract.c].scope != tile::Scope::kFragment) return false;
    const bool in_registers =
        contract.a->kind == ExprKind::kLoad && program_.buffers[contract.a->tensor].scope == tile::Scope::kFragment;
    if (in_registers) return false;
    const int64_t bound = contract.k[0].bound;
    const bool decodes = is_call(contract.b, Intrinsic::kCast) && bit_width(contract.b->type) == 16;
    return contract.k.size() > 1 || bound == 0 || bound > (decodes ? kDecodedTile : kWholeTile);
  }

  void split(const tile::Contract& contract, tile::Body& result) const {
    if (!contract.accumulate) result.push_back({zero(contract)});
    tile::Contract inner = contract;
    const tile::Axis last = contract.k.back();
    const int64_t tile = tile_of(contract.a->type);
    const Expr outer = make_variable(), within = make_variable();
    const Expr start = outer * make_index(tile);
    const auto whole = affine(last.extent);
    const bool divides = whole && whole->coefficients.empty() && whole->offset.is_multiple_of(tile);
    const Expr rest = divides ? make_index(tile) : min(make_index(tile), last.extent - start);
    inner.k = {{within, rest, tile}};
    inner.a = substitute(inner.a, {{last.variable->variable, start + within}});
    inner.b = substitute(inner.b, {{last.variable->variable, start + within}});
    inner.accumulate = true;
    const Expr count = floor_div(last.extent + make_index(tile - 1), make_index(tile));
    tile::Statement statement{tile::For{.axis = {outer, count, 0}, .stages = kStages, .body = {{std::move(inner)}}}};
    for (size_t i = contract.k.size() - 1; i-- > 0;) {
      statement = {tile::For{.axis = contract.k[i], .body = {std::move(statement)}}};
    }
    result.push_back(std::move(statement));
  }

  tile::Map zero(const tile::Contract& contract) const {
    const tile::Buffer& c = program_.buffers[contract.c];
    tile::Map map;
    std::vector<Expr> indices;
    for (const Size& size : c.shape) {
      map.axes.push_back({make_variable(), make_size(size), size.constant()});
      indices.push_back(map.axes.back().variable);
    }
    map.stores.push_back({contract.c, std::move(indices), make_constant(c.type, 0)});
    return map;
  }

  tile::Program program_;
};

}  // namespace

tile::Program split_contractions(const tile::Program& program) { return Splitter(program).run(); }

}  // namespace graft::cuda
