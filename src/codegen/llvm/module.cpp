// SPDX-License-Identifier: Apache-2.0
// The C interface of the module: text in, bytes out, no exception across the border.
#include <llvm/Config/llvm-config.h>

#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/source_identity.h"
#include "codegen/codegen.h"
#include "codegen/llvm/emit_object.h"

namespace {

bool has_word(std::string_view options, std::string_view word) {
  const std::string padded = " " + std::string(options) + " ";
  return padded.find(" " + std::string(word) + " ") != std::string::npos;
}

void compile(std::string_view text, const char* target, const char* options, graft_codegen_sink sink, void* context) {
  graft::codegen::Progress progress(sink, context);
  const std::vector<graft::tile::Program> programs = graft::tile::parse_programs(text);
  for (const graft::tile::Program& program : programs) graft::tile::verify(program);
  GRAFT_USER_CHECK(!programs.empty(), kInvalidArgument, "no tile program in the text", "code generator");
  const std::string_view words = options ? options : "";
  const graft::codegen::ObjectParts parts{
      .elf = !has_word(words, "no-object"), .source = has_word(words, "source"), .emitted = has_word(words, "emitted")};
  const graft::codegen::ObjectCode code =
      graft::codegen::emit_object(programs, graft::parse_target(target), progress, parts);
  if (parts.source) sink(context, "source", code.source.data(), code.source.size());
  if (parts.elf) sink(context, "object", code.elf.data(), code.elf.size());
}

}  // namespace

extern "C" int graft_codegen_compile(const char* programs, size_t program_bytes, const char* target,
                                     const char* options, graft_codegen_sink sink, void* context) {
  std::string failure;
  try {
    compile(std::string_view(programs, program_bytes), target, options, sink, context);
    return graft_codegen_done;
  } catch (const graft::Error& e) {
    if (e.kind() == graft::ErrorKind::kCancelled) return graft_codegen_stopped;
    failure = e.what();
  } catch (const std::exception& e) {
    failure = e.what();
  } catch (...) {
    failure = "an unknown exception";
  }
  sink(context, "error", failure.data(), failure.size());
  return graft_codegen_failed;
}

extern "C" const char* graft_codegen_version(void) { return "graft-llvm " GRAFT_SOURCES ", LLVM " LLVM_VERSION_STRING; }
