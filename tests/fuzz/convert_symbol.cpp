// SPDX-License-Identifier: Apache-2.0
// What is asked of a conversion to mixed precision, as JSON, and behind a line of `---` a symbol of MXNet to convert
// and to import: a symbol that can be read again and a graph, or an error.
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "export/mxnet/mixed_precision.h"
#include "import/mxnet/import.h"
#include "shared/mutate_text.h"
#include "shared/run_engine.h"

namespace {

using namespace graft;

constexpr std::string_view kBorder = "---\n";
constexpr size_t kLongestInput = 1 << 14;

constexpr std::string_view kRequests[] = {
    "{}\n",
    R"({"target_dtype": "bfloat16", "cast_optional_params": false, "data_names": ["data"],
"input_dtypes": {"data": "float16", "mask": "any", "x": "int32"}}
)",
    R"({"target_dtype_ops": ["FullyConnected"], "fp32_ops": ["exp"], "widest_dtype_ops": ["add_n"],
"conditional_fp32_ops": [["Activation", "act_type", ["softrelu", "tanh"]]], "excluded_sym_names": ["fc"]}
)"};

constexpr std::string_view kSymbols[] = {
    R"json({
"nodes": [
{"op": "null", "name": "data", "attrs": {"__dtype__": "0"}, "inputs": []},
{"op": "null", "name": "w", "inputs": []},
{"op": "Convolution", "name": "fc", "attrs": {"kernel": "(3, 3)", "no_bias": "True"}, "inputs": [[0, 0, 0], [1, 0, 0]]},
{"op": "Activation", "name": "act", "attrs": {"act_type": "softrelu"}, "inputs": [[2, 0, 0]]},
{"op": "null", "name": "mask", "inputs": []},
{"op": "broadcast_mul", "name": "masked", "inputs": [[3, 0, 0], [4, 0, 0]]},
{"op": "amp_cast", "name": "cast", "attrs": {"dtype": "float16"}, "inputs": [[5, 0, 0]]},
{"op": "amp_multicast", "name": "many", "attrs": {"num_outputs": "2"}, "inputs": [[5, 0, 0], [6, 0, 0]]},
{"op": "add_n", "name": "sum", "inputs": [[7, 0, 0], [7, 1, 0], [5, 0, 0]], "control_deps": [3]}
],
"arg_nodes": [0, 1, 4],
"node_row_ptr": [0, 1, 2, 3, 4, 5, 6, 7, 9, 10],
"heads": [[8, 0, 0], [6, 0, 0]],
"attrs": {"mxnet_version": ["int", 10901], "list": ["list", [1, "a"]]}
}
)json",
    R"json({
"nodes": [
{"op": "null", "name": "x", "inputs": []},
{"op": "null", "name": "f_weight", "param": {"num_hidden": "3"}, "inputs": []},
{"op": "BatchNorm", "name": "norm", "attr": {"fix_gamma": "False"}, "inputs": [[0, 0], [1, 0], [1, 0], [1, 0], [1, 0]]},
{"op": "_foreach", "name": "each", "attrs": {"num_outputs": "2", "num_args": "3"}, "inputs": [[2, 0], [0, 0], [2, 1]],
"subgraphs": [{
"nodes": [
{"op": "null", "name": "x-0", "inputs": []},
{"op": "exp", "name": "e", "inputs": [[0, 0, 0]]}
],
"arg_nodes": [0],
"heads": [[1, 0, 0]]
}]},
{"op": "Cast", "name": "to", "attrs": {"dtype": "int64"}, "inputs": [[3, 1, 0]]},
{"op": "Embedding", "name": "look", "attrs": {"dtype": "float32"}, "inputs": [[4, 0, 0], [1, 0, 0]]}
],
"arg_nodes": [0, 1],
"heads": [[5, 0, 0], [3, 0, 0]]
}
)json",
    R"json({
"nodes": [
{"op": "null", "name": "data", "inputs": []},
{"op": "null", "name": "state", "attrs": {"__shape__": "(3,)"}, "inputs": []},
{"op": "_foreach", "name": "each", "attrs": {"num_args": "3", "num_outputs": "2", "num_out_data": "1",
"in_data_locs": "(0,)", "in_state_locs": "(1,)", "remain_locs": "()"}, "inputs": [[0, 0, 0], [1, 0, 0]],
"subgraphs": [{
"nodes": [
{"op": "null", "name": "row", "inputs": []},
{"op": "null", "name": "total", "inputs": []},
{"op": "elemwise_add", "name": "sum", "inputs": [[0, 0, 0], [1, 0, 0]]},
{"op": "exp", "name": "e", "inputs": [[2, 0, 0]]}
],
"arg_nodes": [0, 1],
"heads": [[3, 0, 0], [2, 0, 0]]
}]},
{"op": "_while_loop", "name": "until", "attrs": {"num_args": "2", "num_outputs": "2", "num_out_data": "1",
"max_iterations": "4", "cond_input_locs": "(0,)", "func_input_locs": "(0,)", "func_var_locs": "(0,)"},
"inputs": [[2, 1, 0]],
"subgraphs": [{
"nodes": [{"op": "null", "name": "v", "inputs": []}, {"op": "sum", "name": "s", "inputs": [[0, 0, 0]]},
{"op": "_lesser_scalar", "name": "less", "attrs": {"scalar": "9"}, "inputs": [[1, 0, 0]]}],
"arg_nodes": [0],
"heads": [[2, 0, 0]]
}, {
"nodes": [{"op": "null", "name": "v", "inputs": []}, {"op": "exp", "name": "e", "inputs": [[0, 0, 0]]},
{"op": "_copy", "name": "c", "inputs": [[0, 0, 0]]}],
"arg_nodes": [0],
"heads": [[2, 0, 0], [1, 0, 0]]
}]},
{"op": "_cond", "name": "either", "attrs": {"num_args": "2", "num_outputs": "1", "cond_input_locs": "(0,)",
"then_input_locs": "(0,)", "else_input_locs": "(0, 1)"}, "inputs": [[3, 1, 0], [1, 0, 0]],
"subgraphs": [{
"nodes": [{"op": "null", "name": "v", "inputs": []}, {"op": "sum", "name": "s", "inputs": [[0, 0, 0]]}],
"arg_nodes": [0],
"heads": [[1, 0, 0]]
}, {
"nodes": [{"op": "null", "name": "v", "inputs": []}, {"op": "exp", "name": "e", "inputs": [[0, 0, 0]]}],
"arg_nodes": [0],
"heads": [[1, 0, 0]]
}, {
"nodes": [{"op": "null", "name": "v", "inputs": []}, {"op": "null", "name": "w", "inputs": []},
{"op": "elemwise_mul", "name": "m", "inputs": [[0, 0, 0], [1, 0, 0]]}],
"arg_nodes": [0, 1],
"heads": [[2, 0, 0]]
}]}
],
"arg_nodes": [0, 1],
"heads": [[4, 0, 0], [2, 0, 0], [3, 0, 0]]
}
)json"};

template <class Items>
std::string draw(const Items& items, Random& random) {
  return std::string(items[static_cast<size_t>(random.integer(0, std::ssize(items) - 1))]);
}

/// The request, and the symbol behind the border.
std::pair<std::string, std::string> parts_of(std::string_view text) {
  const size_t border = text.find(kBorder);
  if (border == text.npos) return {"{}", std::string(text)};
  return {std::string(text.substr(0, border)), std::string(text.substr(border + kBorder.size()))};
}

/// What a conversion gave can be read, and reads as what it was.
void check_text_of(const mxnet::Symbol& symbol, const char* what) {
  const std::string text = mxnet::symbol_text(symbol);
  try {
    if (mxnet::symbol_text(mxnet::parse_symbol(text, "fuzz")) == text) return;
  } catch (const Error& error) {
    fuzz::report_finding(std::string(what) + " cannot be read: " + error.what());
  }
  fuzz::report_finding(std::string(what) + " reads as another one");
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  fuzz::prepare(count, arguments, kLongestInput);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  Random random(seed);
  auto [request, symbol] = parts_of({reinterpret_cast<const char*>(data), size});
  if (size < 16 || random.chance(0.3)) request = draw(kRequests, random), symbol = draw(kSymbols, random);
  const int64_t changes = fuzz::draw_changes(random);
  for (int64_t change = 0; change < changes; ++change) {
    if (random.chance(0.25)) {
      request = fuzz::mutate_text(request, draw(kRequests, random), random);
    } else {
      symbol = fuzz::mutate_text(symbol, draw(kSymbols, random), random);
    }
  }
  const std::string text = request + std::string(kBorder) + symbol;
  if (text.size() > max_size) return size;
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::pair<std::string, std::string> parts = parts_of({reinterpret_cast<const char*>(data), size});
  const fuzz::Execution execution;
  fuzz::Execution::attempt([&] {
    const mxnet::Symbol read = mxnet::parse_symbol(parts.second, "symbol");
    check_text_of(read, "a symbol");
    const mxnet::Parameters parameters = {{"w", TensorData::zeros(DType::kFloat32, {2, 3})},
                                    {"f_weight", TensorData::zeros(DType::kFloat16, {3})}};
    fuzz::Execution::attempt([&] { mxnet::import_symbol(read, parameters, {.shapes = {{"data", {2, 3}}}}); });
    const mxnet::Parameters* const none = nullptr;
    for (const mxnet::Parameters* given : {none, &parameters}) {
      fuzz::Execution::attempt([&] {
        const amp::Request asked = amp::parse_request(parts.first, "request");
        check_text_of(mxnet::convert_symbol(read, asked, given).symbol, "a converted symbol");
      });
    }
  });
  return 0;
}
