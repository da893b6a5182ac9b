// SPDX-License-Identifier: Apache-2.0
// A model's file as one of mixed precision, in the format that it came in.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "amp/request.h"
#include "base/dtype.h"
#include "export/onnx/export.h"

namespace graft {

/// What is read and written.
struct ConversionFiles {
  std::string model;   ///< an ONNX file, a frozen graph (.pb), a program (.pt2), or a symbol of MXNet (.json)
  std::string params;  ///< a symbol's parameters; empty: the symbol alone is converted
  std::string output;  ///< of a symbol, what both files begin with, or the name that ends with -symbol.json
  std::vector<std::string> outputs;  ///< results of a graph of TensorFlow that keep their types
  OnnxWeights weights;
  std::function<void()> when_read = {};  ///< called when the model has been read and nothing was written; may throw
  std::function<bool()> cancelled = {};  ///< true stops with a `cancelled` error before anything is written
};

struct ConversionReport {
  std::string file, params;  ///< that were written
  std::string inserted;      ///< in words: `12 Cast`
  int casts = 0, multicasts = 0;
  std::map<std::string, DType> parameters;  ///< weights and constants that were f32, and their types now
};

/// The files that convert_model() writes. Throws invalid_argument for an output that is no name for them.
std::vector<std::string> converted_files(const ConversionFiles& files);

/// Converts within the budget of an import, and writes. Throws unsupported for formats that are rewritten elsewhere,
/// saying where, and as the formats' own functions do.
ConversionReport convert_model(const ConversionFiles& files, const amp::Request& request);

}  // namespace graft
