// SPDX-License-Identifier: Apache-2.0
// What the parser of a TensorRT that is installed says of models.
#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace graft::plugin {

struct ParserAnswer {
  std::string parser;                     ///< "TensorRT 11.1.0", "TensorRT-RTX 1.7.1"; empty: there is none
  std::map<size_t, std::string> refused;  ///< why, by the number of the node in the file
  std::map<size_t, bool> parsed;          ///< of the parts that were asked for: whether the parser takes them
};

/// Asks the parser of the libraries in a folder (libnvonnxparser.so.11 or .10, libtensorrt_onnxparser_rtx.so.1) or,
/// with an empty one, of those that the loader finds. It looks at the whole model, whose nodes it may let pass unseen,
/// and parses `parts`: files of models that hold one node each, by its number. A process of its own asks, with which a
/// parser that crashes ends. Throws device errors: a folder that has no such libraries, a parser that does not answer.
ParserAnswer ask_tensorrt_parser(const std::string& folder, const std::string& model,
                                 const std::map<size_t, std::string>& parts);

}  // namespace graft::plugin
