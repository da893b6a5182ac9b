// SPDX-License-Identifier: Apache-2.0
// The C interface of libgraft_cuda.so: texts of tile programs in, one cubin with all their kernels out.
#include <exception>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/source_identity.h"
#include "codegen/codegen.h"
#include "codegen/cuda/kernel_writer.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/cuda/prelude.h"
#include "codegen/progress.h"
#include "target/target.h"
#include "tile/program.h"

namespace graft::cuda {
namespace {

constexpr const char* kGenerator = "graft-cuda " GRAFT_SOURCES;

bool has_word(std::string_view options, std::string_view word) {
  while (!options.empty()) {
    const size_t end = std::min(options.find(' '), options.size());
    if (options.substr(0, end) == word) return true;
    options.remove_prefix(std::min(end + 1, options.size()));
  }
  return false;
}

/// Sends "source", "ptx", "report" (each on request), "launch" and "cubin".
void compile(std::string_view programs, const Target& target, std::string_view options, const auto& send,
             codegen::Progress& progress) {
  GRAFT_USER_CHECK(target.kind == TargetKind::kCuda, kInvalidArgument, "the target is no CUDA device", target.name);
  std::string kernels, launches;
  std::set<WarpgroupProduct> products;
  const std::vector<tile::Program> parsed = tile::parse_programs(programs);
  for (const tile::Program& program : parsed) {
    const Kernel kernel = write_kernel(program, target);
    progress.check();
    kernels += "\n" + kernel.text;
    products.insert(kernel.warpgroup_products.begin(), kernel.warpgroup_products.end());
    launches += launch_line(program, kernel) + "\n";
  }
  std::string source = prelude();
  for (const WarpgroupProduct& product : products) source += warpgroup_product(product);
  source += kernels;
  if (has_word(options, "source")) send("source", source);
  if (has_word(options, "ptx")) send("ptx", compile_source(source, target.architecture, progress, {.ptx = true}));
  send("launch", launches);
  std::string report;
  if (!has_word(options, "no-cubin")) {
    const CompileMode mode{.quick = has_word(options, "quick"),
                           .report = has_word(options, "report") ? &report : nullptr};
    send("cubin", compile_source(source, target.architecture, progress, mode));
  }
  if (!report.empty()) send("report", report);
  // NVRTC compiles all of them at once.
  for (const tile::Program& program : parsed) progress.stop(program.name);
}

}  // namespace
}  // namespace graft::cuda

extern "C" __attribute__((visibility("default"))) int graft_codegen_compile(const char* programs, size_t program_bytes,
                                                                            const char* target, const char* options,
                                                                            graft_codegen_sink sink, void* context) {
  const auto send = [&](const char* kind, std::string_view data) { sink(context, kind, data.data(), data.size()); };
  try {
    graft::codegen::Progress progress(sink, context);
    graft::cuda::compile({programs, program_bytes}, graft::find_target(target ? target : ""), options ? options : "",
                         send, progress);
    return graft_codegen_done;
  } catch (const graft::Error& error) {
    if (error.kind() == graft::ErrorKind::kCancelled) return graft_codegen_stopped;
    send("error", error.what());
  } catch (const std::exception& error) {
    send("error", error.what());
  } catch (...) {
    send("error", "unknown failure");
  }
  return graft_codegen_failed;
}

extern "C" __attribute__((visibility("default"))) const char* graft_codegen_version() {
  static const std::string version = [] {
    const std::string compiler = graft::cuda::nvrtc_version();
    return fmt::format("{}, {}", graft::cuda::kGenerator, compiler.empty() ? "no NVRTC" : compiler);
  }();
  return version.c_str();
}
