// SPDX-License-Identifier: Apache-2.0
// Small graphs around one product or convolution.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

namespace graft {

/// `inputs` are lines such as "%x: f32[4, 8]"; `nodes` the lines of the graph's body, the last of which makes %y.
inline std::string graph_text(std::initializer_list<std::string> inputs, std::initializer_list<std::string> nodes) {
  std::string text = "graph \"main\" {\n  opset \"\" 28\n";
  for (const std::string& input : inputs) text += "  input " + input + "\n";
  for (const std::string& node : nodes) text += "  " + node + "\n";
  return text + "  output %y\n}\n";
}

/// A product named "product" of matrices [m, k] and [k, n], then `after` (lines that make %y of %p).
inline std::string product_graph(const std::string& m, int n, int k, const std::vector<std::string>& inputs,
                                 const std::vector<std::string>& after, const char* type = "f32") {
  std::string text = "graph \"main\" {\n  opset \"\" 28\n";
  text += fmt::format("  input %x: {}[{}, {}]\n  input %w: {}[{}, {}]\n", type, m, k, type, k, n);
  for (const std::string& input : inputs) text += "  input " + input + "\n";
  text += fmt::format("  %{}: ? = MatMul \"product\" (%x, %w)\n", after.size() == 0 ? "y" : "p");
  for (const std::string& node : after) text += "  " + node + "\n";
  return text + "  output %y\n}\n";
}

/// A convolution named "conv" between two pointwise ones, so that its input and output have their channels last.
/// `sizes`: of the input, such as "2, 8, 14, 14"; `weights`: such as "16, 8, 3, 3"; `last`: channels after it.
struct ConvolutionGraph {
  std::string sizes, weights, attributes;
  int channels_in = 8, channels_out = 16;
  int rank = 2;                         ///< spatial axes
  std::string inputs = "", after = "";  ///< more inputs; lines that make %z of %c
  std::string type = "f32";

  std::string text() const {
    std::string ones;
    for (int i = 0; i < rank; ++i) ones += ", 1";
    std::string text = "graph \"main\" {\n  opset \"\" 28\n  input %image: " + type + "[" + sizes + "]\n";
    text += fmt::format("  input %first: {}[{}, {}{}]\n", type, channels_in, channels_in, ones);
    text += fmt::format("  input %w: {0}[{1}]\n  input %last: {0}[4, {2}{3}]\n", type, weights, channels_out, ones);
    text += inputs + "  %x: ? = Conv \"before\" (%image, %first)\n";
    text += fmt::format("  %{}: ? = Conv \"conv\" (%x, %w) {{{}}}\n", after.empty() ? "z" : "c", attributes);
    return text + after + "  %y: ? = Conv \"behind\" (%z, %last)\n  output %y\n}\n";
  }
};

}  // namespace graft
