// SPDX-License-Identifier: Apache-2.0
// The structure of symbolic sizes, as a visitor sees it, and their text.
#include "base/size.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

const Size kBatch = Size::symbol("batch"), kLength = Size::symbol("length");

/// The size again, from what the visitor is shown.
Size rebuild(const Size& size) {
  Size sum = 0;
  size.for_each_term([&](int64_t coefficient, std::span<const SizeAtom> atoms) {
    Size product = coefficient;
    for (const SizeAtom& atom : atoms) {
      if (atom.function == SizeFunction::kSymbol) {
        product = product * Size::symbol(atom.name);
        continue;
      }
      const Size a = rebuild(atom.arguments->first), b = rebuild(atom.arguments->second);
      switch (atom.function) {
        case SizeFunction::kFloorDiv: product = product * floor_div(a, b); break;
        case SizeFunction::kMod: product = product * mod(a, b); break;
        case SizeFunction::kMin: product = product * min(a, b); break;
        default: product = product * max(a, b); break;
      }
    }
    sum = sum + product;
  });
  return sum;
}

TEST(Size, is_the_sum_of_the_terms_that_a_visitor_sees) {
  for (const Size& size : {Size(0), Size(-7), kBatch, kBatch * kLength * Size(8) + Size(3), Size(4) - kBatch,
                           floor_div(kLength + Size(1), Size(2)) * kBatch - mod(kLength, Size(5)),
                           min(kBatch, max(kLength - Size(9), Size(0))) * min(kBatch, kLength)}) {
    EXPECT_EQ(rebuild(size), size) << size.to_string();
    EXPECT_EQ(parse_size(size.to_string()), size);
  }
}

TEST(Size, shows_terms_in_the_order_of_its_text) {
  const Size size = Size(3) - kBatch * Size(2) + kBatch * kLength;
  std::vector<int64_t> coefficients;
  std::vector<size_t> atoms;
  size.for_each_term([&](int64_t coefficient, std::span<const SizeAtom> factors) {
    coefficients.push_back(coefficient);
    atoms.push_back(factors.size());
  });
  EXPECT_EQ(size.to_string(), "batch*length - 2*batch + 3");
  EXPECT_EQ(coefficients, (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(atoms, (std::vector<size_t>{2, 1, 0}));
}

TEST(Size, spells_functions_with_the_prefix_at_every_depth) {
  const Size size = max(floor_div(kLength + Size(1), Size(2)), kBatch);
  EXPECT_EQ(size.to_string("size_"), "size_max(batch, size_floor_div(length + 1, 2))");
  EXPECT_EQ(parse_size("max(batch, floor_div(length + 1, 2))"), size);
}

}  // namespace
}  // namespace graft
