// SPDX-License-Identifier: Apache-2.0
// What mixed precision has to know of MXNet's operators, from the table precision_lists.inc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "amp/rules.h"

namespace graft::mxnet {

/// The type of what an operator gives.
enum class ResultType : uint8_t {
  kOperands,   ///< that of its operands
  kFirstOnly,  ///< that of its operands for the first result, f32 for the others
  kAttribute,  ///< what the attribute `dtype` says, f32 without one
  kInteger,    ///< no float
  kFloat,      ///< f32
};

/// How an operator uses its inputs; bit i is input i.
struct OperandRow {
  uint64_t kept = 0;        ///< not cast: indices, conditions, statistics
  uint64_t parameters = 0;  ///< where weights stand
  uint64_t auxiliary = 0;   ///< where statistics stand, which the operator changes
  ResultType result = ResultType::kOperands;
};

/// The lists for f16 or bf16. The spellings `_sparse_OP` count as OP.
amp::DefaultLists default_lists(DType low);

/// The operator's name in the tables: `elemwise_add` for `_Plus`.
std::string canonical_operator(std::string_view op);

OperandRow operand_row(std::string_view op);

}  // namespace graft::mxnet
