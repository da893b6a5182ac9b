// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstdio>
#include <fstream>
#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "codegen/codegen.h"
#include "codegen/cuda/kernel_writer.h"
#include "codegen/cuda/nvrtc.h"
#include "proof_programs.h"
#include "tile/program.h"

extern "C" int graft_codegen_compile(const char*, size_t, const char*, const char*, graft_codegen_sink, void*);
extern "C" const char* graft_codegen_version();

namespace graft::cuda {
namespace {

using Results = std::map<std::string, std::string>;

/// What a compilation sends, by kind.
Results compile(const std::string& programs, const char* target, const char* options) {
  Results results;
  const auto sink = [](void* context, const char* kind, const void* data, size_t bytes) {
    (*static_cast<Results*>(context))[kind] = std::string(static_cast<const char*>(data), bytes);
    return 0;
  };
  const int outcome = graft_codegen_compile(programs.data(), programs.size(), target, options, sink, &results);
  EXPECT_EQ(outcome != 0, results.contains("error")) << results["error"];
  return results;
}

std::string all_programs() {
  std::string text;
  for (const std::string_view program : kProofPrograms) text += program;
  return text;
}

int occurrences(const std::string& text, std::string_view part) {
  int count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

/// The kernel of one program, without NVRTC.
std::string kernel_of(std::string_view program, const char* target = "sm_90a") {
  return write_kernel(tile::parse_program(program), find_target(target)).text;
}

bool compiler_is_missing() {
  if (nvrtc_problem().empty()) return false;
  std::printf("skipped: %s\n", nvrtc_problem().c_str());
  return true;
}

/// Writes the cubins and what a launch needs for tests/device/cuda_proof.py, when a folder is named.
void write_proof(const std::string& target, const Results& results) {
  const char* folder = std::getenv("GRAFT_CUDA_PROOF_DIR");
  if (!folder) return;
  const std::string stem = std::string(folder) + "/" + target;
  std::ofstream(stem + ".cubin", std::ios::binary) << results.at("cubin");
  std::ofstream(stem + ".cu") << results.at("source");
  nlohmann::json manifest = nlohmann::json::array();
  for (const std::string_view text : kProofPrograms) {
    const tile::Program program = tile::parse_program(text);
    const Kernel kernel = write_kernel(program, find_target(target));
    nlohmann::json buffers = nlohmann::json::array(), grid = nlohmann::json::array();
    for (const tile::Buffer& buffer : program.buffers) {
      if (buffer.scope == tile::Scope::kGlobal) {
        buffers.push_back({{"name", buffer.name}, {"type", name_of(buffer.type)}, {"written", buffer.written}});
      }
    }
    for (const graft::Axis& axis : program.grid) grid.push_back(axis.extent.to_string());
    manifest.push_back({{"name", program.name}, {"threads", kernel.threads}, {"shared", kernel.shared_bytes},
                        {"sizes", program.sizes}, {"grid", grid}, {"buffers", buffers}});
  }
  std::ofstream(stem + ".json") << manifest.dump(2);
}

TEST(CodegenCuda, compiles_the_proof_programs_for_every_architecture) {
  if (compiler_is_missing()) GTEST_SKIP();
  for (const char* target : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"}) {
    // PTX shows the instructions: those of warps on the oldest, those of warpgroups on Hopper.
    const std::string_view name = target;
    const bool shown = name == "sm_80" || name == "sm_90a", hopper = name == "sm_90a";
    Results results = compile(all_programs(), target, shown ? "source ptx" : "source");
    ASSERT_TRUE(results.contains("cubin")) << target << ": " << results["error"];
    EXPECT_EQ(results.at("cubin").substr(0, 4), "\x7f" "ELF") << target;
    EXPECT_EQ(results.contains("ptx"), shown);
    const std::string ptx = results["ptx"];
    std::vector<std::string_view> parts;
    if (shown) parts = {"cp.async.cg.shared.global", "fma.rn.f32", "cvt.rna.tf32.f32",
                        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", ".entry attention_f16", ".entry mixed"};
    if (hopper) {
      parts.insert(parts.end(), {"wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16",
                                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", "fence.proxy.async"});
    } else if (shown) {
      parts.insert(parts.end(), {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
                                 "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
                                 "ldmatrix.sync.aligned.m8n8.x4.trans"});
    }
    for (const std::string_view part : parts) EXPECT_NE(ptx.find(part), ptx.npos) << target << ": " << part;
    EXPECT_EQ(occurrences(results.at("launch"), "threads"), static_cast<int>(std::size(kProofPrograms)));
    write_proof(target, results);
  }
}

TEST(CodegenCuda, version_names_generator_and_compiler) {
  EXPECT_NE(std::string(graft_codegen_version()).find("graft-cuda"), std::string::npos);
}

TEST(CodegenCuda, errors_come_as_text) {
  EXPECT_NE(compile("program x {", "sm_90a", "")["error"].find("line 1"), std::string::npos);
  EXPECT_NE(compile(std::string(kSoftmax), "x86-64-v3", "")["error"].find("no CUDA device"), std::string::npos);
  std::string serial(kSoftmax);
  serial.replace(serial.find("threads 256"), 11, "");
  EXPECT_NE(compile(serial, "sm_90a", "")["error"].find("kernel 'softmax_f32' for sm_90a: it states no threads"),
            std::string::npos);
}

/// Compiles the proof programs and says stop at question number `stop_at`, from 1; gives outcome and questions.
std::pair<int, int> compile_until(int stop_at, const char* options) {
  struct Questions {
    int stop_at, asked;
  } questions{stop_at, 0};
  const auto sink = [](void* context, const char* kind, const void*, size_t) {
    auto& self = *static_cast<Questions*>(context);
    if (std::string_view(kind) == "cubin") ADD_FAILURE() << "code was sent";
    return static_cast<int>(std::string_view(kind) == "progress" && ++self.asked >= self.stop_at);
  };
  const std::string programs = all_programs();
  const int outcome = graft_codegen_compile(programs.data(), programs.size(), "sm_90a", options, sink, &questions);
  return {outcome, questions.asked};
}

TEST(CodegenCuda, stops_between_kernels) {
  EXPECT_EQ(compile_until(3, "source no-cubin"), std::pair(static_cast<int>(graft_codegen_stopped), 3));
}

TEST(CodegenCuda, stops_inside_nvrtc) {
  if (compiler_is_missing()) GTEST_SKIP();
  const int after_all_kernels = static_cast<int>(std::size(kProofPrograms)) + 1;
  EXPECT_EQ(compile_until(after_all_kernels, ""),
            std::pair(static_cast<int>(graft_codegen_stopped), after_all_kernels));
}

TEST(CodegenCuda, long_contractions_are_split_and_copied_ahead) {
  const std::string text = kernel_of(kMatmulF16, "sm_80");
  EXPECT_NE(text.find("copy_wait<2>();"), text.npos) << text;
  EXPECT_NE(text.find("multiply_tiles<f16, 32, false, false, 136"), text.npos) << text;
  // One barrier before the copies start and one per iteration.
  EXPECT_EQ(occurrences(text, "__syncthreads();"), 2) << text;
}

TEST(CodegenCuda, products_of_warpgroups_overlap_with_the_next) {
  const std::string text = kernel_of(kMatmulF16);
  EXPECT_NE(text.find("multiply_groups<f16, f16, 32, false, true>("), text.npos) << text;
  EXPECT_NE(text.find("SwizzledOperand<f16, false, 64, 128, 128>"), text.npos) << "a's lines of 32 run along k";
  EXPECT_NE(text.find("SwizzledOperand<f16, true, 128, 32, 128>"), text.npos) << "b's lines of 64 elements run along n";
  // Of four slots one is being read and one may still be.
  EXPECT_NE(text.find("copy_wait<1>();"), text.npos) << text;
  EXPECT_NE(text.find("wait_for_warpgroups<1>();"), text.npos) << text;
  EXPECT_EQ(occurrences(text, "wait_for_warpgroups<0>();"), 1) << text;
  EXPECT_EQ(text.substr(text.find("for (int round")).find("show_to_warpgroups();\n    __sync"), text.npos)
      << "only elements that threads stored need it";
}

TEST(CodegenCuda, invariant_operands_are_staged_once) {
  const std::string text = kernel_of(kAttention);
  const size_t ahead = text.find("for (int round");
  ASSERT_NE(ahead, text.npos);
  EXPECT_NE(text.substr(0, ahead).find("b0 + ("), text.npos) << "queries are staged before the loop";
  const std::string loop = text.substr(ahead);
  EXPECT_EQ(loop.find("b0["), text.npos) << "and not in it";
  EXPECT_NE(text.find("FragmentOperand<f16, 1, 8>"), text.npos) << "probabilities stay in registers";
}

TEST(CodegenCuda, products_of_warpgroups_are_awaited_where_their_results_are_used) {
  const std::string_view two = R"(program two {
    threads 128
    global a: f16[64, 64] strides [64, 1]
    global b: f16[64, 64] strides [64, 1]
    global bias: f32[50] strides [1]
    global y: f32[64, 64] strides [64, 1] written
    fragment p: f32[64, 64] strides [64, 1]
    fragment q: f32[64, 64] strides [64, 1]
    body {
      contract m [i0 < 64 bound 64] n [i1 < 64 bound 64] k [i2 < 64 bound 64] { p[i0, i1] = a[i0, i2] * b[i2, i1] }
      contract m [i0 < 64 bound 64] n [i1 < 64 bound 64] k [i2 < 64 bound 64] { q[i0, i1] = b[i0, i2] * a[i2, i1] }
      map [i0 < 64 bound 64, i1 < 64 bound 64] { p[i0, i1] = select(lt(i1, 50), add(p[i0, i1], bias[i1]), 0:f32) }
      map [i0 < 64 bound 64, i1 < 64 bound 64] { y[i0, i1] = add(p[i0, i1], q[i0, i1]) }
    }
  })";
  const std::string text = kernel_of(two);
  // Before the tiles of the second product go where those of the first were, and before its own result is used.
  EXPECT_EQ(occurrences(text, "wait_for_warpgroups<0>();"), 2) << text;
  EXPECT_EQ(occurrences(text, "hold("), 2) << text;
  const size_t load = text.find("x0[p / 2][p % 2] = t"), use = text.find("+ x0[n][e % 2]");
  EXPECT_LT(load, use) << "what the rows of a column share is loaded once\n" << text;
  if (compiler_is_missing()) GTEST_SKIP();
  EXPECT_TRUE(compile(std::string(two), "sm_90a", "").contains("cubin"));
}

TEST(CodegenCuda, borders_are_zeros_that_copies_fill_in) {
  const std::string_view convolution = R"(program same_convolution {
    threads 128
    global x: f16[2, 9, 11, 64] strides [6336, 704, 64, 1]
    global w: f16[3, 3, 64, 64] strides [12288, 4096, 64, 1]
    global y: f32[198, 64] strides [64, 1] written
    fragment c: f32[64, 64] strides [64, 1]
    grid [g0 < 4]
    body {
      map [i0 < 64 bound 64, i1 < 64 bound 64] { c[i0, i1] = 0:f32 }
      for i7 < 3 bound 3 {
        for i8 < 3 bound 3 {
          for i9 < 1 bound 1 stages 3 {
            contract m [i0 < min(64, sub(198, mul(64, g0))) bound 64] n [i1 < 64 bound 64] k [i2 < 64 bound 64] {
              let t0 = add(mul(64, g0), i0)
              let t1 = sub(add(mod(floor_div(t0, 11), 9), i7), 1)
              let t2 = sub(add(mod(t0, 11), i8), 1)
              let t3 = and(and(ge(t1, 0), lt(t1, 9)), and(ge(t2, 0), lt(t2, 11)))
              let t4 = add(mul(64, i9), i2)
              c[i0, i1] += select(t3, x[floor_div(t0, 99), t1, t2, t4], 0:f16) * w[i7, i8, t4, i1]
            }
          }
        }
      }
      map [i0 < min(64, sub(198, mul(64, g0))) bound 64, i1 < 64 bound 64] { y[add(mul(64, g0), i0), i1] = c[i0, i1] }
    }
  })";
  const std::string text = kernel_of(convolution);
  const size_t loop = text.find("for (int round");
  ASSERT_NE(loop, text.npos) << "three loops are one";
  EXPECT_NE(text.substr(0, loop).find("floor_divide"), text.npos) << "rows are taken apart before it";
  EXPECT_NE(text.find("< (int)9)"), text.npos) << "the borders are tested in 32 bits";
  EXPECT_NE(text.find("copy_piece<16>"), text.npos);
  if (compiler_is_missing()) GTEST_SKIP();
  EXPECT_TRUE(compile(std::string(convolution), "sm_90a", "").contains("cubin"));
}

TEST(CodegenCuda, fragments_that_do_not_line_up_go_through_shared_memory) {
  const std::string text = kernel_of(kChainF32);
  EXPECT_NE(text.find("column < valid ? b6["), text.npos) << text;
  EXPECT_NE(text.find("multiply_plain<"), text.npos);
  EXPECT_EQ(text.find("FragmentOperand"), text.npos);
}

TEST(CodegenCuda, columns_of_a_fragment_may_be_panels_of_lanes) {
  const std::string_view panels = R"(program panels {
    threads 64
    global a: f16[32, 64] strides [64, 1]
    global b: f16[3, 64, 16] strides [1024, 16, 1]
    global y: f32[32, 48] strides [48, 1] written
    fragment c: f32[32, 48] strides [48, 1]
    body {
      contract m [i0 < 32 bound 32] n [i1 < 3 bound 3, i2 < 16 bound 16] k [i3 < 64 bound 64] {
        c[i0, add(mul(16, i1), i2)] = a[i0, i3] * b[i1, i3, i2]
      }
      map [i0 < 32 bound 32, i1 < 3 bound 3, i2 < 16 bound 16] {
        y[i0, add(mul(16, i1), i2)] = c[i0, add(mul(16, i1), i2)]
      }
    }
  })";
  const std::string text = kernel_of(panels);
  EXPECT_NE(text.find("(i64)((column) % 16)"), text.npos) << text;
  EXPECT_NE(text.find("copy_piece<16>"), text.npos) << text;
  if (compiler_is_missing()) GTEST_SKIP();
  EXPECT_TRUE(compile(std::string(panels), "sm_90a", "").contains("cubin"));
}

TEST(CodegenCuda, barriers_stand_only_between_statements_that_share_memory) {
  const std::string_view independent = R"(program independent {
    threads 64
    global x: f32[64] strides [1]
    global y: f32[64] strides [1] written
    shared a: f32[64] strides [1]
    shared b: f32[64] strides [1]
    body {
      map [i0 < 64] { a[i0] = x[i0] }
      map [i0 < 64] { b[i0] = x[i0] }
      map [i0 < 64] { y[i0] = add(a[sub(63, i0)], b[i0]) }
      map [i0 < 64] { a[i0] = 0:f32 }
    }
  })";
  EXPECT_EQ(occurrences(kernel_of(independent), "__syncthreads();"), 2);
}

TEST(CodegenCuda, barriers_cover_the_way_back_of_a_loop) {
  const std::string_view loop = R"(program loop {
    threads 64
    global x: f32[64] strides [1]
    global y: f32[64] strides [1] written
    shared a: f32[64] strides [1]
    body {
      for i9 < 4 {
        map [i0 < 64] { a[i0] = x[i0] }
        map [i0 < 64] { y[i0] = a[sub(63, i0)] }
      }
    }
  })";
  EXPECT_EQ(occurrences(kernel_of(loop), "__syncthreads();"), 2);
}

TEST(CodegenCuda, contiguous_maps_use_wide_accesses) {
  const std::string text = kernel_of(kElementwise);
  EXPECT_NE(text.find("Pack<f16, 8>"), text.npos) << text;
  EXPECT_NE(text.find("Pack<i64, "), text.npos) << text;
  EXPECT_EQ(text.find("Pack<f32, 8> x2"), text.npos) << "the gather stays scalar";
}

/// y = `value` of x, an element of a type that is read as f32.
std::string map_kernel(std::string_view type, const std::string& value) {
  std::string text = "program k {\n  threads 256\n  global b0: T[4096] strides [1]\n"
                     "  global b1: T[4096] strides [1] written\n  grid [g0 < 2]\n  body {\n"
                     "    map [i0 < 2048 bound 2048] {\n      let x = cast<f32>(b0[add(mul(g0, 2048), i0)])\n"
                     "      b1[add(mul(g0, 2048), i0)] = cast<T>(" + value + ")\n    }\n  }\n}\n";
  for (size_t at = text.find('T'); at != text.npos; at = text.find('T', at)) text.replace(at, 1, type);
  return kernel_of(text);
}

TEST(CodegenCuda, results_of_16_bits_do_without_the_full_accuracy_of_f32) {
  const std::string gelu = "mul(mul(x, 0.5:f32), add(1:f32, erf(mul(x, 0.70710677:f32))))";
  EXPECT_NE(map_kernel("f16", gelu).find("raised_erf("), std::string::npos);
  EXPECT_NE(map_kernel("bf16", "div(1:f32, add(1:f32, exp(neg(x))))").find("near_exp("), std::string::npos);
  EXPECT_NE(map_kernel("f32", gelu).find("erff("), std::string::npos);
}

TEST(CodegenCuda, what_jumps_wants_exact_values_whatever_the_result_is) {
  EXPECT_NE(map_kernel("f16", "div(x, 3:f32)").find("near_quotient("), std::string::npos);
  EXPECT_EQ(map_kernel("f16", "floor(div(x, 3:f32))").find("near_quotient("), std::string::npos);
  EXPECT_EQ(map_kernel("f16", "select(lt(exp(x), 1:f32), x, 0:f32)").find("near_exp("), std::string::npos);
  EXPECT_NE(map_kernel("f16", "select(lt(x, 0:f32), exp(x), 0:f32)").find("near_exp("), std::string::npos);
}

TEST(CodegenCuda, refuses_tiles_beyond_shared_memory_with_a_reason) {
  const std::string_view large = R"(program large {
    threads 64
    global y: f32[1] strides [1] written
    shared a: f32[100000] strides [1]
    body {
      map [] { y[0] = a[5] }
    }
  })";
  try {
    kernel_of(large);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("shared memory"), std::string::npos);
  }
}

}  // namespace
}  // namespace graft::cuda
