// SPDX-License-Identifier: Apache-2.0
// A symbol of MXNet as a symbol of mixed precision: amp_cast and amp_multicast where amp/mixed_precision.h decides.
#pragma once

#include <map>
#include <string>

#include "amp/request.h"
#include "base/tensor_data.h"
#include "import/mxnet/params_file.h"
#include "import/mxnet/symbol_file.h"

namespace graft::mxnet {

struct MixedSymbol {
  Symbol symbol;                                ///< nodes in the order in which MXNet writes them
  std::map<std::string, DType> parameter_types; ///< of every variable that is a parameter, as `__dtype__` says now
  int casts = 0, multicasts = 0;                ///< that were inserted
};

/// Converts a symbol. With `parameters`, their variables are the parameters, of the arrays' types, and one whose
/// contents do not fit the low type stays f32; without, those are which stand where operators have weights and
/// statistics.
/// Throws invalid_argument for a request that does not fit the symbol, invalid_model for parameters that are missing.
MixedSymbol convert_symbol(const Symbol& symbol, const amp::Request& request, const Parameters* parameters = nullptr);

/// Rounds the arrays to the types that the symbol has now.
void convert_parameters(ParamsFile& file, const std::map<std::string, DType>& types);

}  // namespace graft::mxnet
