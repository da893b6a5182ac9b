// SPDX-License-Identifier: Apache-2.0
// The text of wgmma instructions: their many operands are spelt out for each number of columns that a kernel uses.
#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

/// `%first,...,%(first + count - 1)` in braces.
std::string operands(int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("{}%{}", i ? "," : "", first + i);
  return "{" + text + "}";
}

/// Integers have no scales of their operands; of other than 16 bits there is no other order than k innermost.
std::string function(const WarpgroupProduct& product, bool from_registers) {
  const bool floats = is_float(product.a), one_order = bit_width(product.a) != 16;
  const int columns = product.columns, count = columns / 2;
  std::string outputs;
  for (int i = 0; i < count; ++i) {
    outputs += fmt::format("{}\"+{}\"(d[{}][{}])", i ? ", " : "", floats ? "f" : "r", i / 4, i % 4);
  }
  const std::string a = from_registers ? operands(count, 4) : fmt::format("%{}", count);
  const int b = count + (from_registers ? 4 : 1);
  const std::string layouts = !floats          ? ""
                              : one_order      ? ", 1, 1"
                              : from_registers ? fmt::format(", 1, 1, %{}", b + 2)
                                               : fmt::format(", 1, 1, %{}, %{}", b + 2, b + 3);
  const std::string own_order = from_registers ? "" : ", \"n\"((int)ATransposed)";
  const auto name = [](DType type) {
    return type == DType::kInt8 ? "s8" : type == DType::kFloat32 ? "tf32" : type_name(type);
  };
  const bool is_only = product.a == DType::kFloat32;  // its callers ask for no order
  const char* orders = is_only          ? ""
                       : from_registers ? "template <bool BTransposed> "
                                        : "template <bool ATransposed, bool BTransposed> ";
  return fmt::format(
      "  {}static __device__ __forceinline__ void apply({} (&d)[{}][4], {}, u64 b, "
      "int add) {{\n"
      "    asm volatile(\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{}, 0;\\n\"\n"
      "                 \"wgmma.mma_async.sync.aligned.m64n{}k{}.{}.{}.{} {}, {}, %{}, p{};\\n}}\"\n"
      "                 : {}\n                 : {}, \"l\"(b), \"r\"(add){});\n  }}\n",
      orders, floats ? "f32" : "i32", columns / 8,
      from_registers ? "const u32 (&a)[4]" : "u64 a", b + 1, columns, 256 / bit_width(product.a),
      floats ? "f32" : "s32", name(product.a), name(product.b), operands(0, count), a, b, layouts, outputs,
      from_registers ? "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])" : "\"l\"(a)",
      one_order ? "" : own_order + ", \"n\"((int)BTransposed)");
}

}  // namespace

std::string warpgroup_product(const WarpgroupProduct& product) {
  // Halves alone come in registers: what leaves a product is as wide as its sums, or rounded to halves.
  const std::string from_registers = bit_width(product.a) > 8 ? function(product, true) : "";
  // Parts of f32 are made on the way to registers.
  const std::string from_memory = product.a == DType::kFloat32 ? "" : function(product, false);
  return fmt::format("template <> struct WarpgroupProduct<{}, {}, {}> {{\n{}{}}};\n", product.columns,
                     type_name(product.a), type_name(product.b), from_memory, from_registers);
}

}  // namespace graft::cuda
