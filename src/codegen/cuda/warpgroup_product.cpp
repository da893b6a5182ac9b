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

std::string function(int columns, const std::string& type, bool from_registers) {
  const int count = columns / 2;
  std::string outputs;
  for (int i = 0; i < count; ++i) outputs += fmt::format("{}\"+f\"(d[{}][{}])", i ? ", " : "", i / 4, i % 4);
  const std::string a = from_registers ? operands(count, 4) : fmt::format("%{}", count);
  const int b = count + (from_registers ? 4 : 1);
  const std::string layouts = from_registers ? fmt::format("%{}", b + 2) : fmt::format("%{}, %{}", b + 2, b + 3);
  return fmt::format(
      "  template <{}bool BTransposed> static __device__ __forceinline__ void apply(f32 (&d)[{}][4], {}, u64 b, "
      "int add) {{\n"
      "    asm volatile(\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{}, 0;\\n\"\n"
      "                 \"wgmma.mma_async.sync.aligned.m64n{}k16.f32.{}.{} {}, {}, %{}, p, 1, 1, {};\\n}}\"\n"
      "                 : {}\n                 : {}, \"l\"(b), \"r\"(add), {}\"n\"((int)BTransposed));\n  }}\n",
      from_registers ? "" : "bool ATransposed, ", columns / 8, from_registers ? "const u32 (&a)[4]" : "u64 a", b + 1,
      columns, type, type, operands(0, count), a, b, layouts, outputs,
      from_registers ? "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])" : "\"l\"(a)",
      from_registers ? "" : "\"n\"((int)ATransposed), ");
}

}  // namespace

std::string warpgroup_product(const WarpgroupProduct& product) {
  const auto& [columns, type] = product;
  const std::string name = type_name(type);
  return fmt::format("template <> struct WarpgroupProduct<{}, {}> {{\n{}{}}};\n", columns, name,
                     function(columns, name, false), function(columns, name, true));
}

}  // namespace graft::cuda
