// SPDX-License-Identifier: Apache-2.0
#include "support/text_network.h"

#include <stdexcept>

#include "api/handles.h"
#include "base/random.h"
#include "driver/compile.h"
#include "export/onnx/export.h"
#include "graph/text_form.h"

namespace graft_test {
namespace {

using namespace graft;

/// `all X` -> random values of that size, the same ones each time.
void fill_weights(Graph& graph) {
  Random random(1);
  for (Value& value : graph.values) {
    if (!value.constant || value.constant->element_count() <= kInlineElements || !is_float(value.type)) continue;
    TensorData& weights = *value.constant;
    const double size = weights.read_double(0);
    for (int64_t i = 0; i < weights.element_count(); ++i) weights.write_double(i, random.uniform(-size, size));
  }
}

}  // namespace

graft_engine* compile_text(std::string_view text, std::initializer_list<graft_option> options) {
  try {
    CompileOptions chosen;
    chosen.tuning = Tuning::kOff;
    for (const graft_option& option : options) set_option(chosen, {option.key, option.value});
    Graph graph = parse_graph(text);
    fill_weights(graph);
    return api_detail::engine_of(compile_from(std::move(graph), Stage::kImport, chosen), chosen).release();
  } catch (const Error& error) {
    throw std::runtime_error(error.what());
  }
}

std::string onnx_of_text(std::string_view text) {
  try {
    Graph graph = parse_graph(text);
    fill_weights(graph);
    return export_onnx_bytes(graph);
  } catch (const Error& error) {
    throw std::runtime_error(error.what());
  }
}

const char* const kMlp = R"(graph "mlp" {
  opset "" 28
  range batch 1 4 64
  input %x: f32[batch, 48]
  constant %w1: f32[48, 96] = all 0.25
  constant %b1: f32[96] = all 0.1
  constant %w2: f32[96, 10] = all 0.2
  %m1: ? = MatMul "hidden/multiply" (%x, %w1)
  %a1: ? = Add "hidden/add" (%m1, %b1)
  %r1: ? = Relu "hidden/clamp" (%a1)
  %m2: ? = MatMul "last/multiply" (%r1, %w2)
  %y: ? = Softmax "last/softmax" (%m2) {axis = -1}
  output %y
})";

const char* const kConvolutions = R"(graph "convolutions" {
  opset "" 28
  range batch 1 2 8
  input %x: f32[batch, 3, 12, 12]
  constant %w1: f32[16, 3, 3, 3] = all 0.4
  constant %b1: f32[16] = {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, -0.1, -0.2, -0.3, -0.4, -0.5, -0.6, -0.7, -0.8}
  constant %w2: f32[24, 16, 3, 3] = all 0.15
  constant %w3: f32[24, 5] = all 0.5
  constant %flat: i64[2] = {0, -1}
  %c1: ? = Conv "stem/conv" (%x, %w1, %b1) {pads = [1, 1, 1, 1]}
  %r1: ? = Relu "stem/clamp" (%c1)
  %p1: ? = MaxPool "stem/pool" (%r1) {kernel_shape = [2, 2], strides = [2, 2]}
  %c2: ? = Conv "body/conv" (%p1, %w2) {pads = [1, 1, 1, 1], strides = [2, 2]}
  %r2: ? = Relu "body/clamp" (%c2)
  %g: ? = GlobalAveragePool "head/average" (%r2)
  %f: ? = Reshape "head/flatten" (%g, %flat)
  %y: ? = MatMul "head/multiply" (%f, %w3)
  output %y
})";

const char* const kAttention = R"(graph "attention" {
  opset "" 28
  range batch 1 1 4
  range length 1 12 40
  input %x: f32[batch, length, 32]
  constant %wq: f32[32, 32] = all 0.4
  constant %wk: f32[32, 32] = all 0.4
  constant %wv: f32[32, 32] = all 0.4
  constant %wo: f32[32, 32] = all 0.4
  constant %scale: f32[32] = all 1.5
  constant %shift: f32[32] = all 0.5
  constant %heads: i64[4] = {0, 0, 4, 8}
  constant %merged: i64[3] = {0, 0, 32}
  constant %root: f32[] = {2.8284271}
  %q0: ? = MatMul "query" (%x, %wq)
  %k0: ? = MatMul "key" (%x, %wk)
  %v0: ? = MatMul "value" (%x, %wv)
  %q1: ? = Reshape "query/split" (%q0, %heads)
  %k1: ? = Reshape "key/split" (%k0, %heads)
  %v1: ? = Reshape "value/split" (%v0, %heads)
  %q: ? = Transpose "query/heads" (%q1) {perm = [0, 2, 1, 3]}
  %k: ? = Transpose "key/heads" (%k1) {perm = [0, 2, 3, 1]}
  %v: ? = Transpose "value/heads" (%v1) {perm = [0, 2, 1, 3]}
  %s: ? = MatMul "scores" (%q, %k)
  %t: ? = Div "scores/divide" (%s, %root)
  %p: ? = Softmax "scores/softmax" (%t) {axis = -1}
  %o: ? = MatMul "context" (%p, %v)
  %o1: ? = Transpose "context/heads" (%o) {perm = [0, 2, 1, 3]}
  %o2: ? = Reshape "context/merge" (%o1, %merged)
  %o3: ? = MatMul "output/multiply" (%o2, %wo)
  %sum: ? = Add "output/add" (%o3, %x)
  %y: ? = LayerNormalization "output/normalise" (%sum, %scale, %shift) {axis = -1}
  output %y
})";

const char* const kPositives = R"(graph "positives" {
  opset "" 28
  range count 0 16 4096
  input %x: f32[count]
  constant %first: i64[1] = {0}
  %r: ? = Relu "clamp" (%x)
  %where: ? = NonZero "kept" (%r)
  %index: ? = Squeeze "kept/index" (%where, %first)
  %taken: ? = Gather "take" (%x, %index) {axis = 0}
  %values: ? = Exp "exponential" (%taken)
  output %where
  output %values
})";

const char* const kCountdown = R"(graph "countdown" {
  opset "" 28
  input %turns: i64[]
  %left: ? = Loop "loop" (%turns, _, %turns) {body = graph "body" {
    input %i: i64[]
    input %c: bool[]
    input %n: i64[]
    constant %step: i64[] = {1}
    %next: ? = Sub "subtract" (%n, %step)
    output %c
    output %next
  }}
  output %left
})";

const std::vector<TextNetwork> kTextNetworks = {
    {kMlp, {{1, 48}, {7, 48}, {64, 48}}, {"y"}},
    {kConvolutions, {{1, 3, 12, 12}, {3, 3, 12, 12}, {8, 3, 12, 12}}, {"y"}},
    {kAttention, {{1, 1, 32}, {1, 12, 32}, {2, 33, 32}, {4, 40, 32}}, {"y"}},
    {kPositives, {{0}, {1}, {100}, {4096}}, {"where", "values"}},
};

}  // namespace graft_test
