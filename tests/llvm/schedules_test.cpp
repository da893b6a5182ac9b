// SPDX-License-Identifier: Apache-2.0
// Every schedule of a region computes the same: the region in the interpreter against its kernels, with tiles that do
// and do not divide the sizes.
#include "base/random.h"
#include "expr/interpreter.h"
#include "fuse/fused_program.h"
#include "fuse/rewrite_region.h"
#include "graph/evaluate_graph.h"
#include "graph/infer.h"
#include "llvm/kernel_runner.h"
#include "plan/choose_schedule.h"
#include "tile/lower.h"

namespace graft::codegen {
namespace {

/// A region with what it reads and what the interpreter makes of that.
struct Sample {
  Region region;
  std::vector<TensorData> inputs, expected;
  Bindings sizes;
};

/// The one region that a graph of the given lines becomes, normalised.
Sample make_sample(const std::string& lines) {
  Graph graph = parse_graph("graph \"g\" {\n  opset \"\" 28\n" + lines + "}\n");
  infer_types(graph);
  const NamedTensors named = random_inputs(graph, 3);
  FusedProgram program = fuse(graph);
  if (program.steps.size() != 1) throw std::runtime_error("not one step:\n" + print(program));
  Sample sample{std::move(program.steps[0].region), {}, {}, {}};
  normalise(sample.region);
  for (size_t i = 0; i < program.steps[0].inputs.size(); ++i) {
    const FusedTensor& tensor = program.tensors[program.steps[0].inputs[i]];
    const TensorData data = tensor.constant ? *tensor.constant : named.at(tensor.name);
    bind_shape({tensor.name, tensor.type, tensor.shape}, data.type(), data.shape(), sample.sizes);
    std::vector<int64_t> shape;
    const TensorDecl& decl = sample.region.tensors[sample.region.inputs[i]];
    for (const Size& size : decl.shape) shape.push_back(size.evaluate(sample.sizes));
    sample.inputs.push_back(data.reshaped(shape));
  }
  Bindings sizes = sample.sizes;
  sample.expected = interpret(sample.region, sample.inputs, sizes);
  return sample;
}

/// The input in the layout that a schedule wants it in.
TensorData packed(const tile::PanelLayout& layout, const TensorData& data) {
  const Shape shape(data.shape().begin(), data.shape().end());
  Bindings none;
  return interpret(tile::packing_region(layout, data.type(), shape), std::span(&data, 1), none)[0];
}

/// Lowers, compiles, runs and compares.
void check(const Sample& sample, const tile::Schedule& schedule, const Target& target,
           const tile::Layouts& layouts = {}) {
  SCOPED_TRACE(target.name + ": " + tile::print(schedule));
  const tile::Lowered lowered = tile::lower(sample.region, layouts, schedule, target);
  ASSERT_TRUE(std::holds_alternative<tile::Program>(lowered)) << std::get<std::string>(lowered);
  const auto& program = std::get<tile::Program>(lowered);
  std::vector<TensorData> tensors = sample.inputs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto tensor = static_cast<size_t>(sample.region.inputs[i]);
    if (tensor < layouts.size() && layouts[tensor]) tensors[i] = packed(*layouts[tensor], tensors[i]);
  }
  for (const TensorData& output : sample.expected) {
    tensors.push_back(TensorData::zeros(output.type(), output.shape()));
  }
  std::vector<void*> buffers;
  for (TensorData& tensor : tensors) buffers.push_back(tensor.mutable_bytes().data());
  Kernel kernel(program, target);
  EXPECT_EQ(kernel.run(buffers, sample.sizes), 0);
  for (size_t i = 0; i < sample.expected.size(); ++i) {
    const auto difference = first_difference(sample.expected[i], tensors[sample.inputs.size() + i], 1e-5);
    EXPECT_FALSE(difference) << "output " << i << ": " << *difference << "\n" << tile::print(program);
  }
}

/// Tiles larger and smaller than the sizes, with the sum whole and in pieces, and rows in chunks.
const tile::ContractSchedule kContracts[] = {
    {.m = 56, .n = 64},
    {.m = 5, .n = 16, .columns_outer = false},
    {.m = 4, .n = 32, .k = 5},
    {.m = 6, .n = 16, .k = 4, .m_chunk = 9},
    {.m = 3, .n = 64, .m_chunk = 12, .columns_outer = false},
};

void check_contracts(const std::string& lines) {
  const Sample sample = make_sample(lines);
  for (const Target& target : runnable_targets()) {
    for (const tile::ContractSchedule& schedule : kContracts) check(sample, schedule, target);
    check(sample, tile::NestSchedule{}, target);
  }
}

TEST(Schedules, of_a_product_with_maps_after_it) {
  check_contracts(R"(
    range m 1 13 64
    input %a: f32[m, 17]
    input %b: f32[17, 37]
    input %c: f32[37]
    %p: ? = MatMul "product" (%a, %b)
    %s: ? = Add "bias" (%p, %c)
    %y: ? = Relu "relu" (%s)
    output %y
)");
}

TEST(Schedules, of_products_of_batches_with_an_operand_turned) {
  check_contracts(R"(
    input %a: f32[2, 3, 11, 9]
    input %b: f32[3, 21, 9]
    %t: ? = Transpose "turn" (%b) {perm = [0, 2, 1]}
    %y: ? = MatMul "product" (%a, %t)
    output %y
)");
}

TEST(Schedules, of_a_product_of_converted_operands) {
  check_contracts(R"(
    input %a: f16[7, 12]
    input %b: f16[12, 19]
    %y: ? = MatMul "product" (%a, %b)
    output %y
)");
}

TEST(Schedules, of_a_convolution_with_padding) {
  check_contracts(R"(
    range n 1 2 4
    input %x: f32[n, 3, 7, 6]
    input %w: f32[10, 3, 3, 3]
    %c: ? = Conv "conv" (%x, %w) {pads = [1, 1, 1, 1]}
    %y: ? = Relu "relu" (%c)
    output %y
)");
}

TEST(Schedules, of_a_convolution_with_strides_and_dilations) {
  check_contracts(R"(
    input %x: f32[1, 4, 11, 13]
    input %w: f32[6, 4, 3, 2]
    %y: ? = Conv "conv" (%x, %w) {strides = [2, 1], dilations = [1, 3], pads = [0, 2, 1, 0]}
    output %y
)");
}

TEST(Schedules, of_a_product_with_packed_weights) {
  const Sample sample = make_sample(R"(
    range m 1 13 64
    input %a: f32[m, 17]
    input %b: f32[17, 37]
    %y: ? = MatMul "product" (%a, %b)
    output %y
)");
  for (const Target& target : runnable_targets()) {
    for (const int64_t lanes : {8, 32}) {
      for (tile::ContractSchedule schedule : kContracts) {
        if (schedule.k > 0 || schedule.n < lanes) continue;
        schedule.panel = lanes;
        tile::Layouts layouts(sample.region.tensors.size());
        layouts[static_cast<size_t>(sample.region.inputs[1])] = tile::PanelLayout{1, lanes, 0, {0}};
        check(sample, schedule, target, layouts);
      }
    }
  }
}

TEST(Schedules, of_batches_with_packed_weights) {
  const Sample sample = make_sample(R"(
    input %a: f32[3, 10, 9]
    input %b: f32[3, 9, 20]
    %y: ? = MatMul "product" (%a, %b)
    output %y
)");
  for (const Target& target : runnable_targets()) {
    tile::Layouts layouts(sample.region.tensors.size());
    layouts[static_cast<size_t>(sample.region.inputs[1])] = tile::PanelLayout{2, 16, 1, {1}};
    check(sample, tile::ContractSchedule{.m = 4, .n = 32, .panel = 16}, target, layouts);
  }
}

/// Integer products with more and fewer rows, columns and products than an instruction has, where A and B stand for
/// types.
constexpr const char* kIntegerProducts[] = {
    R"(
    range m 1 13 128
    input %a: A[m, 192]
    input %b: B[192, 96]
    %y: ? = MatMulInteger "product" (%a, %b)
    output %y
)",
    R"(
    input %a: A[45, 147]
    input %b: B[147, 65]
    %p: ? = MatMulInteger "product" (%a, %b)
    %f: ? = Cast "cast" (%p) {to = 1}
    %y: ? = Relu "relu" (%f)
    output %y
)",
    R"(
    input %a: A[3, 20, 3]
    input %b: B[3, 7]
    %y: ? = MatMulInteger "product" (%a, %b)
    output %y
)"};

std::string with_types(std::string lines, DType a, DType b) {
  const std::pair<std::string, DType> letters[] = {{" A[", a}, {" B[", b}};
  for (const auto& [letter, type] : letters) {
    lines.replace(lines.find(letter), letter.size(), " " + std::string(name_of(type)) + "[");
  }
  return lines;
}

TEST(Schedules, of_integer_products_by_each_unit_of_this_machine) {
  const Target host = host_cpu(1);
  bool has_any = false;
  for (const ContractUnit& unit : contract_units()) {
    if (!has_unit(host, unit)) continue;
    has_any = true;
    Target target = host;  // with no faster unit
    for (const ContractUnit& other : contract_units()) {
      const size_t at = target.features.find(",+" + std::string(other.feature));
      if (other.feature != unit.feature && at != std::string::npos) target.features.erase(at, other.feature.size() + 2);
    }
    for (const char* lines : kIntegerProducts) {
      const Sample sample = make_sample(with_types(lines, unit.a, unit.b));
      std::vector<bool> constant(sample.region.tensors.size());
      constant[static_cast<size_t>(sample.region.inputs[1])] = true;
      int tried = 0;
      for (const Choice& choice : schedule_candidates(sample.region, constant, sample.sizes, target)) {
        const auto* contract = std::get_if<tile::ContractSchedule>(&choice.schedule);
        if (!contract || !contract->unit) continue;
        EXPECT_EQ(contract->unit->name, unit.name);
        check(sample, choice.schedule, target, choice.layouts);
        ++tried;
      }
      EXPECT_GT(tried, 0) << unit.name << " takes no part of:" << lines;
    }
  }
  if (!has_any) GTEST_SKIP() << "this processor has none of the units of units.inc";
}

TEST(Schedules, of_attention) {
  const Sample sample = make_sample(R"(
    range queries 1 11 64
    range keys 1 13 64
    input %q: f32[2, 3, queries, 8]
    input %k: f32[2, 3, keys, 8]
    input %v: f32[2, 3, keys, 10]
    input %mask: f32[2, 1, queries, keys]
    %y: ? = Attention "attention" (%q, %k, %v, %mask)
    output %y
)");
  for (const Target& target : runnable_targets()) {
    for (const tile::AttentionSchedule schedule : {tile::AttentionSchedule{32, 64}, {4, 5}}) {
      check(sample, schedule, target);
    }
  }
}

/// One region a row: its lines, for loops in pieces of any length.
constexpr const char* kNests[] = {
    // a map whose last axis is cut
    R"(
    range n 1 3 9
    input %x: f32[n, 45]
    input %z: f32[45]
    %e: ? = Exp "exp" (%x)
    %y: ? = Add "add" (%e, %z)
    output %y
)",
    // rows
    R"(
    input %x: f32[4, 3, 37]
    %y: ? = Softmax "softmax" (%x) {axis = -1}
    output %y
)",
    // down columns
    R"(
    input %x: f32[5, 7, 23]
    %y: ? = Softmax "softmax" (%x) {axis = 1}
    output %y
)",
    // to one element
    R"(
    input %x: f32[5, 7]
    %y: ? = ReduceMean "mean" (%x)
    output %y
)",
    // a pair of results
    R"(
    input %x: f32[6, 19]
    %y: ? = ArgMax "best" (%x) {axis = 0}
    output %y
)",
    // a recurrence
    R"(
    input %x: f32[3, 8, 5]
    constant %axis: i64[] = {1}
    %y: ? = CumSum "sums" (%x, %axis) {reverse = 1, exclusive = 1}
    output %y
)",
    // sorting
    R"(
    input %x: f32[4, 17]
    constant %k: i64[1] = {5}
    %y: ?, %i: ? = TopK "best" (%x, %k) {axis = 1, largest = 0}
    output %y
    output %i
)",
};

TEST(Schedules, of_nests) {
  for (const char* lines : kNests) {
    const Sample sample = make_sample(lines);
    for (const Target& target : runnable_targets()) {
      for (const tile::NestSchedule schedule : {tile::NestSchedule{4096, 64}, {7, 5}, {16, 1}, {1, 16}}) {
        check(sample, schedule, target);
      }
    }
  }
}

}  // namespace
}  // namespace graft::codegen
