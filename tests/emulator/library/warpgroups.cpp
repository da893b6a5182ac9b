// SPDX-License-Identifier: Apache-2.0
// Products of warpgroups (wgmma): operands in shared memory that a descriptor of 64 bits names. A warp computes its 16
// rows when it waits for them, so that what reads sums or overwrites operands before that shows.
#include <algorithm>
#include <cstring>
#include <string>

#include "cluster.h"
#include "device/interface.h"
#include "elements.h"

namespace graft::emulator {

struct PendingProduct {
  graft_warpgroup_product of[32];  ///< by lane
  int warp;                        ///< in its warpgroup
};

namespace {

constexpr int kMostColumns = 256, kMostDepth = 32;

/// A matrix in shared memory as a descriptor names it: lines of 128, 64 or 32 bytes, eight of which make a unit.
class Operand {
 public:
  Operand(graft_element type, unsigned long long descriptor, bool transposed)
      : type_(type), transposed_(transposed), bytes_(static_cast<unsigned>(element_bits(type)) / 8) {
    if (transposed && bytes_ != 2) fail("a transposed operand of elements of other than 16 bits");
    const auto field = [&](int at) { return static_cast<unsigned>(descriptor >> at & 0x3fff) << 4; };
    first_ = field(0) | cluster().current()->block->rank << 24;
    leading_ = field(16), stride_ = field(32);
    const auto mode = static_cast<unsigned>(descriptor >> 62);
    line_ = mode == 1 ? 128 : mode == 2 ? 64 : mode == 3 ? 32 : 0;
    if (line_ == 0) fail("an operand whose lines are not swizzled: not emulated");
  }

  /// The element of a row (of A, a column of B) and a depth.
  float at(int outer, int depth) const {
    const int along = transposed_ ? outer : depth, across = transposed_ ? depth : outer;
    const unsigned elements = line_ / bytes_, position = static_cast<unsigned>(along);
    const unsigned offset = position / elements * leading_ + static_cast<unsigned>(across / 8) * stride_ +
                            static_cast<unsigned>(across % 8) * line_ + position % elements * bytes_;
    const unsigned address = swizzled(first_ + offset, static_cast<int>(line_));
    unsigned bits = 0;
    std::memcpy(&bits, graft_shared_pointer(address, bytes_), bytes_);
    return element_value(type_, bits);
  }

 private:
  graft_element type_;
  bool transposed_;
  unsigned bytes_, first_, leading_, stride_, line_;
};

/// The 16 rows of A that belong to the warp.
void gather_a(const PendingProduct& product, float (&a)[16][kMostDepth]) {
  const graft_warpgroup_product& any = product.of[0];
  if (!any.a_in_registers) {
    const Operand operand(any.a_type, any.a_descriptor, any.a_transposed);
    for (int row = 0; row < 16; ++row) {
      for (int k = 0; k < any.depth; ++k) a[row][k] = operand.at(product.warp * 16 + row, k);
    }
    return;
  }
  if (element_bits(any.a_type) == 32) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 4; ++i) {
        a[lane / 4 + i % 2 * 8][i / 2 * 4 + lane % 4] = element_value(any.a_type, product.of[lane].a[i]);
      }
    }
    return;
  }
  if (element_bits(any.a_type) != 16) fail("bytes in registers of a warpgroup: not emulated");
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 8; ++i) {
      const unsigned bits = product.of[lane].a[i / 2] >> 16 * (i % 2);
      a[lane / 4 + i / 2 % 2 * 8][i / 4 * 8 + lane % 4 * 2 + i % 2] = element_value(any.a_type, bits);
    }
  }
}

void compute(const PendingProduct& product) {
  const graft_warpgroup_product& any = product.of[0];
  float a[16][kMostDepth];
  static float b[kMostDepth][kMostColumns], sums[16][kMostColumns];
  gather_a(product, a);
  const Operand operand(any.b_type, any.b_descriptor, any.b_transposed);
  for (int column = 0; column < any.columns; ++column) {
    for (int k = 0; k < any.depth; ++k) b[k][column] = operand.at(column, k);
  }
  std::memset(sums, 0, sizeof sums);
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < any.depth; ++k) {
      for (int column = 0; column < any.columns; ++column) sums[row][column] += a[row][k] * b[k][column];
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    const graft_warpgroup_product& own = product.of[lane];
    for (int i = 0; i < any.columns / 2; ++i) {
      const int row = lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
      float* own_sum = static_cast<float*>(own.d) + i;
      if (const int bits = kept_bits(any.a_type)) {
        *own_sum = truncated_sum(bits, own.accumulates ? *own_sum : 0, a[row], &b[0][column], kMostColumns, any.depth);
      } else {
        add_product(any.a_type, own_sum, sums[row][column], own.accumulates);
      }
    }
  }
}

void start(Warp& warp) {
  auto product = std::make_shared<PendingProduct>();
  for (int lane = 0; lane < 32; ++lane) {
    product->of[lane] = *static_cast<const graft_warpgroup_product*>(warp.own[lane]);
    if (product->of[lane].a_descriptor != product->of[0].a_descriptor ||
        product->of[lane].b_descriptor != product->of[0].b_descriptor) {
      fail("lanes of a warpgroup name different operands");
    }
  }
  product->warp = warp.lanes[0]->number / 32 % 4;
  ++warp.started;
  warp.open_products.push_back(std::move(product));
}

/// The current thread waits until all four warps have started as many products as its own.
void wait_for_warpgroup() {
  const Thread& thread = *cluster().current();
  const size_t first = static_cast<size_t>(thread.number) / 128 * 4;
  const std::vector<Warp>& warps = thread.block->warps;
  if (first + 4 > warps.size()) fail("a product of less than a warpgroup");
  const unsigned own = thread.warp->started;
  const auto is_behind = [&](const Warp& warp) { return warp.started < own; };
  while (std::any_of(&warps[first], &warps[first] + 4, is_behind)) cluster().poll();
}

void commit(Warp& warp) {
  warp.products.push_back(std::move(warp.open_products));
  warp.open_products.clear();
}

void finish(Warp& warp) {
  const auto pending = static_cast<size_t>(*static_cast<int*>(warp.own[0]));
  while (warp.products.size() > pending) {
    for (const auto& product : warp.products.front()) compute(*product);
    warp.products.pop_front();
  }
}

}  // namespace
}  // namespace graft::emulator

using namespace graft::emulator;

void graft_warpgroup_start(const graft_warpgroup_product* product) {
  if (product->columns > kMostColumns || product->columns % 8 != 0) fail("a product of a warpgroup of odd width");
  graft_warpgroup_product own = *product;
  meet("a product of a warpgroup", &own, &start);
  if (!cluster().warpgroups_meet()) return;
  cluster().notify();
  wait_for_warpgroup();
}

void graft_warpgroup_commit() { meet("the end of a group of products", nullptr, &commit); }

void graft_warpgroup_wait(int pending) { meet("the wait for products", &pending, &finish); }
