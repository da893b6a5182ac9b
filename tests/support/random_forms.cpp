// SPDX-License-Identifier: Apache-2.0
#include "support/random_forms.h"

#include <map>

#include "support/random_builder.h"

namespace graft {
namespace {

using Builder = RandomBuilder;

std::string any_float(Builder& b) { return b.any({"f32", "f32", "f16", "bf16", "f64"}); }

/// The letters in a random order.
std::string shuffled(Builder& b, std::string letters) {
  for (size_t i = letters.size(); i > 1; --i) {
    std::swap(letters[i - 1], letters[static_cast<size_t>(b.random.integer(0, static_cast<int64_t>(i) - 1))]);
  }
  return letters;
}

/// The first so many of these letters.
std::string some(Builder& b, const std::string& letters) {
  return letters.substr(0, static_cast<size_t>(b.random.integer(1, static_cast<int64_t>(letters.size()))));
}

}  // namespace

Graph random_einsum(uint64_t seed) {
  Builder b(seed);
  const std::string type = any_float(b);
  const std::string rows = some(b, "abc"), columns = some(b, "ijk"), inner = some(b, "xy");
  const std::string batch = b.random.chance(0.3) ? "n" : "";
  std::map<char, std::string> sizes;
  for (const char letter : rows + columns + inner + batch) {
    sizes[letter] = b.number(1, b.random.chance(0.5) ? 6 : b.random.chance(0.7) ? 24 : 70);
  }
  const auto shape = [&](const std::string& letters) {
    Sizes result;
    for (const char letter : letters) result.push_back(sizes.at(letter));
    return result;
  };
  const bool kept = b.random.chance(0.5);  // the axes of each kind stay in order
  const auto order = [&](const std::string& letters) { return kept ? letters : shuffled(b, letters); };
  const std::string left = order(batch + rows + inner), right = order(batch + inner + columns);
  const std::string result = order(batch + rows + columns);
  const std::string a = b.mapped(b.input(type, shape(left)), type);
  const std::string inputs = a + ", " + b.input(type, shape(right));
  const std::string product =
      b.node("Einsum", inputs, fmt::format("equation = \"{},{}->{}\"", left, right, result));
  return b.finish(b.mapped(product, type));
}

Graph random_window(uint64_t seed) {
  Builder b(seed);
  const std::string type = b.any({"f32", "f32", "f16", "bf16"});
  const auto rank = static_cast<size_t>(b.random.chance(0.7) ? 2 : b.random.integer(1, 3));
  const int64_t window = b.random.integer(2, 5), stride = b.random.integer(1, 2), pad = b.random.integer(0, window / 2);
  const std::string channels = b.number(1, 40);
  Sizes image{b.size(1, 8), channels};
  for (size_t axis = 0; axis < rank; ++axis) image.push_back(b.number(8, rank == 3 ? 16 : rank == 1 ? 300 : 80));
  const std::vector<int64_t> windows(rank, window), strides(rank, stride), pads(2 * rank, pad);
  std::string attributes = fmt::format("kernel_shape = {}, strides = {}, pads = {}", windows, strides, pads);
  const std::string x = b.mapped(b.input(type, image), type);
  if (b.random.chance(0.5)) {
    Sizes weights{channels, "1"};
    for (size_t axis = 0; axis < rank; ++axis) weights.push_back(std::to_string(window));
    std::string inputs = x + ", " + b.input(type, weights);
    if (b.random.chance(0.5)) inputs += ", " + b.input(type, {channels});
    return b.finish(b.mapped(b.node("Conv", inputs, attributes + ", group = " + channels), type));
  }
  const std::string op = b.any({"MaxPool", "AveragePool", "LpPool"});
  if (op == "AveragePool") attributes += fmt::format(", count_include_pad = {}", b.random.integer(0, 1));
  return b.finish(b.mapped(b.node(op, x, attributes), type));
}

Graph random_masked_attention(uint64_t seed) {
  Builder b(seed);
  const std::string type = b.any({"f32", "f16", "bf16"});
  const int64_t batch = b.random.integer(1, 2), kept = b.random.integer(1, 3), group = b.random.integer(1, 3);
  const int64_t heads = kept * group;
  const int64_t queries = b.random.integer(1, b.random.chance(0.5) ? 20 : 300);
  const int64_t keys = b.random.chance(0.5) ? queries : b.random.integer(1, 300);
  const int64_t depth = 8 * b.random.integer(1, 9), width = b.random.chance(0.5) ? depth : 8 * b.random.integer(1, 5);
  const bool cached = b.random.chance(0.25), flat = b.random.chance(0.25);
  const int64_t before = cached ? b.random.integer(1, 40) : 0;
  const auto tensor = [&](int64_t count, int64_t length, int64_t size) {
    const std::string first = std::to_string(batch), rows = std::to_string(length);
    if (flat) return b.input(type, {first, rows, std::to_string(count * size)});
    return b.input(type, {first, std::to_string(count), rows, std::to_string(size)});
  };
  std::string inputs = tensor(heads, queries, depth);
  inputs += ", " + tensor(kept, keys, depth);
  inputs += ", " + tensor(kept, keys, width);
  std::string attributes = fmt::format("is_causal = {}", int{b.random.chance(0.5)});
  if (flat) attributes += fmt::format(", q_num_heads = {}, kv_num_heads = {}", heads, kept);
  if (b.random.chance(0.3)) attributes += fmt::format(", left_window_size = {}", b.random.integer(0, 80));
  if (b.random.chance(0.3)) attributes += fmt::format(", right_window_size = {}", b.random.integer(0, 80));
  if (b.random.chance(0.3)) attributes += ", softcap = 4.0";
  if (b.random.chance(0.5)) attributes += ", scale = 0.25";
  std::string mask = "_";
  if (b.random.chance(0.4)) {
    const std::string kind = b.random.chance(0.5) ? "bool" : type;
    const auto either = [&](int64_t extent) { return std::to_string(b.random.chance(0.5) ? extent : int64_t{1}); };
    mask = b.input(kind, {either(batch), either(heads), either(queries), std::to_string(before + keys)});
  }
  inputs += ", " + mask;
  if (cached) {
    for (const int64_t size : {depth, width}) {
      inputs += ", " + b.input(type, {std::to_string(batch), std::to_string(kept), std::to_string(before),
                                      std::to_string(size)});
    }
  } else if (b.random.chance(0.25)) {
    inputs += ", _, _, " + b.input("i64", {std::to_string(batch)});
  }
  return b.finish(b.node("Attention", inputs, attributes));
}

namespace {

/// max(a, b) plus what the combination of two states says, for rows of n.
Graph fold_graph(const std::string& type, const std::string& combine, const std::string& n) {
  return parse_graph(fmt::format(R"(graph "fold" {{
  opset "" 28
  opset "own" 1
  input %x: {0}[5, {2}]
  %y: ? = own::Fold "fold" (%x) {{ definition = "operator own::Fold {{
    input x: {0}[m, n]
    output y: {0}[m]
    reduce y over [i < m] fold [k < n] {{
      left a: {0}
      right b: {0}
      lift x[i, k]
      identity 0
      combine {1}
    }}
  }}" }}
  output %y
}}
)", type, combine, n));
}

}  // namespace

std::vector<Graph> graphs_of_folds() {
  std::vector<std::string> of_floats, of_integers;
  // Each operation with the states as they are, and with one of them changed.
  for (const char* operation : {"add", "sub", "mul", "min", "max", "div"}) {
    for (const char* operands : {"a, b", "b, a", "a, b*b", "a*a, b*b"}) {
      of_floats.push_back(fmt::format("{}({})", operation, operands));
    }
  }
  for (const char* operation : {"and", "or", "xor", "shl"}) {
    for (const char* operands : {"a, b", "b, a", "a, b*b"}) {
      of_integers.push_back(fmt::format("{}({})", operation, operands));
    }
  }
  // Two comparisons commute together when the second is the first from the other side.
  const char* comparisons[] = {"lt", "le", "gt", "ge", "eq", "ne"};
  for (const char* first : comparisons) {
    of_floats.push_back(fmt::format("select({}(a, b), a, b)", first));
    of_floats.push_back(fmt::format("select({}(a, b), b, a)", first));
    for (const char* second : comparisons) {
      for (const char* operands : {"a, b", "b, a"}) {
        of_floats.push_back(fmt::format("select(or({}(a, b), {}({})), a + b, a * b)", first, second, operands));
      }
    }
  }
  std::vector<Graph> graphs;
  for (const char* n : {"40", "n"}) {
    for (const std::string& combine : of_floats) graphs.push_back(fold_graph("f32", combine, n));
    for (const std::string& combine : of_integers) graphs.push_back(fold_graph("i32", combine, n));
  }
  return graphs;
}

}  // namespace graft
