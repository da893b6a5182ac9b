// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/decisions.h"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <fmt/format.h>

#include "base/log.h"
#include "device/device.h"

namespace graft::cuda {
namespace {

constexpr int kFirstVersion = 12040;  // whose conditional nodes nest

static_assert(offsetof(RoundCount, round) == 0 && offsetof(RoundCount, limit) == 8 &&
              offsetof(RoundCount, first) == 16 && offsetof(RoundCount, going) == 24 &&
              offsetof(RoundCount, odd) == 25);

// PTX, which every driver translates for its GPU: plans may be older than what is here, and have no such kernels.
// cudaGraphSetConditional is the driver's own.
constexpr const char* kHead = R"(.version 8.4
.target sm_80
.address_size 64

.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);

// The node's part runs if (*flag != 0) == wanted.
.visible .entry decide(.param .u64 handle_, .param .u64 flag_, .param .u32 wanted_)
{
  .reg .b64 %handle, %flag;
  .reg .b32 %byte, %wanted, %value;
  .reg .pred %is;
  ld.param.u64 %handle, [handle_];
  ld.param.u64 %flag, [flag_];
  ld.param.u32 %wanted, [wanted_];
  ld.u8 %byte, [%flag];
  setp.ne.u32 %is, %byte, 0;
  selp.u32 %value, 1, 0, %is;
  setp.eq.u32 %is, %value, %wanted;
  selp.u32 %value, 1, 0, %is;
  {
    .param .b64 to;
    .param .b32 given;
    st.param.b64 [to], %handle;
    st.param.b32 [given], %value;
    call.uni cudaGraphSetConditional, (to, given);
  }
  ret;
}

// *count = {round, limit, round, round < limit && *condition != 0, 0}
.visible .entry set_count(.param .u64 count_, .param .s64 round_, .param .s64 limit_, .param .u64 condition_)
{
  .reg .b64 %count, %round, %limit, %condition;
  .reg .b32 %byte, %zero;
  .reg .pred %below, %going;
  ld.param.u64 %count, [count_];
  ld.param.s64 %round, [round_];
  ld.param.s64 %limit, [limit_];
  ld.param.u64 %condition, [condition_];
  ld.u8 %byte, [%condition];
  setp.lt.s64 %below, %round, %limit;
  setp.ne.and.u32 %going, %byte, 0, %below;
  selp.u32 %byte, 1, 0, %going;
  mov.u32 %zero, 0;
  st.s64 [%count], %round;
  st.s64 [%count+8], %limit;
  st.s64 [%count+16], %round;
  st.u8 [%count+24], %byte;
  st.u8 [%count+25], %zero;
  ret;
}

// ++count->round; count->going = count->round < count->limit && *condition != 0; count->odd ^= 1
.visible .entry count_round(.param .u64 count_, .param .u64 condition_)
{
  .reg .b64 %count, %round, %limit, %condition;
  .reg .b32 %byte, %odd;
  .reg .pred %below, %going;
  ld.param.u64 %count, [count_];
  ld.param.u64 %condition, [condition_];
  ld.s64 %round, [%count];
  ld.s64 %limit, [%count+8];
  ld.u8 %odd, [%count+25];
  ld.u8 %byte, [%condition];
  add.s64 %round, %round, 1;
  xor.b32 %odd, %odd, 1;
  setp.lt.s64 %below, %round, %limit;
  setp.ne.and.u32 %going, %byte, 0, %below;
  selp.u32 %byte, 1, 0, %going;
  st.s64 [%count], %round;
  st.u8 [%count+24], %byte;
  st.u8 [%count+25], %odd;
  ret;
}

// Copies from[0, bytes) to to + (count->round - count->first) * bytes, in words as wide as all addresses allow.
.visible .entry copy_of_round(.param .u64 to_, .param .u64 from_, .param .s64 bytes_, .param .u64 count_)
{
  .reg .b64 %to, %from, %bytes, %count, %round, %first, %at, %step, %other;
  .reg .b32 %block, %width, %thread, %word<4>;
  .reg .pred %is;
  ld.param.u64 %to, [to_];
  ld.param.u64 %from, [from_];
  ld.param.s64 %bytes, [bytes_];
  ld.param.u64 %count, [count_];
  ld.s64 %round, [%count];
  ld.s64 %first, [%count+16];
  sub.s64 %round, %round, %first;
  mad.lo.s64 %to, %round, %bytes, %to;
  mov.u32 %block, %ctaid.x;
  mov.u32 %width, %ntid.x;
  mov.u32 %thread, %tid.x;
  mul.wide.u32 %at, %block, %width;
  cvt.u64.u32 %other, %thread;
  add.s64 %at, %at, %other;
  mov.u32 %block, %nctaid.x;
  mul.wide.u32 %step, %block, %width;
  or.b64 %first, %to, %from;
  or.b64 %first, %first, %bytes;
)";

/// A loop over words of that many bytes, where the last bits of all addresses allow it.
std::string words(int bytes, const char* type, const char* registers) {
  return fmt::format(R"(  and.b64 %other, %first, {0};
  setp.ne.s64 %is, %other, 0;
  @%is bra not_by_{1};
  mul.lo.s64 %at, %at, {1};
  mul.lo.s64 %step, %step, {1};
by_{1}:
  setp.ge.s64 %is, %at, %bytes;
  @%is bra end;
  add.s64 %other, %from, %at;
  ld.{2} {3}, [%other];
  add.s64 %other, %to, %at;
  st.{2} [%other], {3};
  add.s64 %at, %at, %step;
  bra by_{1};
not_by_{1}:
)",
                     bytes - 1, bytes, type, registers);
}

std::string text() {
  return kHead + words(16, "v4.u32", "{%word0, %word1, %word2, %word3}") + words(4, "u32", "%word0") +
         words(1, "u8", "%word0") + "end:\n  ret;\n}\n";
}

std::unique_ptr<const Decisions> load() {
  const Driver& d = driver();
  int version = 0;
  if (d.version(&version) != 0 || version < kFirstVersion) return nullptr;
  if (!d.begin_capture_to_graph || !d.capture_info || !d.graph_add_node || !d.conditional_handle) return nullptr;
  Handle module = nullptr;
  if (const Result result = d.module_load(&module, text().c_str()); result != 0) {
    log(LogLevel::kReason, "the host decides about loops and branches, as the driver translates no PTX (error {})",
        result);
    return nullptr;
  }
  auto found = std::make_unique<Decisions>();
  check(d.module_function(&found->decide, module, "decide"), "kernel decide");
  check(d.module_function(&found->set_count, module, "set_count"), "kernel set_count");
  check(d.module_function(&found->count_round, module, "count_round"), "kernel count_round");
  check(d.module_function(&found->copy_of_round, module, "copy_of_round"), "kernel copy_of_round");
  return found;
}

}  // namespace

const Decisions* decisions_in(Handle context) {
  static std::mutex mutex;
  static std::map<Handle, std::unique_ptr<const Decisions>> known;
  const std::lock_guard lock(mutex);
  const auto [at, fresh] = known.try_emplace(context);
  if (fresh) at->second = load();
  return at->second.get();
}

}  // namespace graft::cuda
