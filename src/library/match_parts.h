// SPDX-License-Identifier: Apache-2.0
// The two halves of matching: the product, and what follows it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fuse/contraction.h"
#include "library/call.h"
#include "library/match.h"

namespace graft {

/// A load as a sum of strides times variables, and its indices one by one.
struct TensorAccess {
  int tensor = -1;
  std::vector<Affine> indices;  ///< by dimension
  std::map<int, Size> strides;  ///< by variable, in elements of the row-major tensor
  Size offset = 0;
  Expr guard;  ///< null: always inside
  Size stride(int variable) const {
    const auto it = strides.find(variable);
    return it == strides.end() ? Size(0) : it->second;
  }
};

/// `e` as an access: a load with affine indices, perhaps widened to f32, perhaps guarded by select(inside, load, 0).
/// Nothing for anything else.
std::optional<TensorAccess> read_access(const Region& region, const Expr& e);
/// Where element `point` (affine indices) of a tensor is stored.
TensorAccess store_access(const Region& region, int tensor, const std::vector<Expr>& point);

/// What a region computes: its one reduction, and the value that is stored over the load of its result.
struct StoredValue {
  const Reduce* reduce = nullptr;
  Expr product;  ///< the load of the reduction's result at its own point
  Expr value;    ///< in terms of `product` and inputs, over the reduction's variables
  TensorAccess result;
};

/// Writes out the maps of a region between its reduction and its output. Returns the reason when there are other forms,
/// or when a map does not take each point of the reduction once.
std::string match_value(const Region& region, StoredValue& stored);

/// A post operation before the dimensions of the call are known.
struct MatchedPost {
  PostOperation post;
  std::optional<TensorAccess> operand;
  Expr before;  ///< the part of the value that it is applied to; null where that is none
};

/// A value that is stored as `type` without the roundings to that type between its operations and at its end: a library
/// keeps what follows a product in f32.
Expr without_roundings(const Expr& value, DType type);

/// Takes `value` apart from the outside in until only `product` (a load) is left; the posts come in the order in which
/// they happen. Returns the reason when something is no post operation, else an empty text.
/// Operands must be of `type`.
std::string match_posts(const Region& region, DType type, const Expr& value, const Expr& product,
                        std::vector<MatchedPost>& posts);

/// The accesses that the dimensions of a call are made for.
struct MatchedAccesses {
  TensorAccess source, weights, result;
  std::vector<TensorAccess*> posts;
};

/// The variables behind the dimensions of a call; -1 where a dimension has extent 1 and no variable.
struct MatchedProduct {
  struct Dimension {
    int variable = -1;
    Size extent = 1;
  };
  struct Window {
    CallWindow window;
    int output = -1, kernel = -1;  ///< variables
    int dimension = -1;            ///< of the source tensor
  };
  std::vector<Dimension> batch;
  Dimension rows, columns, depth;
  std::vector<Window> windows;
};

/// The dimensions of a product or convolution over the contraction's axes, or why there are none. `accesses` holds
/// operand a as source and operand b as weights; they are exchanged where a convolution has them the other way round.
std::string match_product(const Region& region, const Contraction& contraction, MatchedAccesses& accesses,
                          MatchedProduct& product);

/// Nothing when the region is not attention; an empty text when it is a call, else why it is none. Only attention of
/// narrow floats is: a library rounds the weights of the sum to the type of its operands.
std::optional<std::string> match_attention(const Region& region, LibraryMatch& match);

}  // namespace graft
