// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "llvm/amx_emulator.h"

#include "target/cpus.h"

#if defined(__x86_64__) && defined(__linux__)
#include <immintrin.h>
#include <signal.h>
#include <ucontext.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace graft::codegen {
namespace {

constexpr size_t kTiles = 8, kMostRows = 16, kRowBytes = 64;

struct Tile {
  size_t rows = 0, row_bytes = 0;
  std::array<std::array<uint8_t, kRowBytes>, kMostRows> data{};
};

thread_local std::array<Tile, kTiles> tiles;

template <class T>
T read(const Tile& tile, size_t row, size_t element) {
  T value;
  std::memcpy(&value, tile.data[row].data() + element * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void write(Tile& tile, size_t row, size_t element, T value) {
  std::memcpy(tile.data[row].data() + element * sizeof(T), &value, sizeof(T));
}

/// Each row's sums of even and of odd products, then both onto the tile's; denormals are zeros, as operands and as
/// results.
[[gnu::target("avx512f")]] void multiply_bf16(Tile& c, const Tile& a, const Tile& b) {
  constexpr unsigned kFlushes = 0x8040;
  const unsigned state = _mm_getcsr();
  _mm_setcsr(state | kFlushes);
  const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  const auto columns = static_cast<__mmask16>((1U << c.row_bytes / 4) - 1);
  for (size_t m = 0; m < c.rows; ++m) {
    __m512 even = _mm512_setzero_ps(), odd = even;
    for (size_t k = 0; k < a.row_bytes / 4; ++k) {
      const __m512i pair = _mm512_set1_epi32(read<int32_t>(a, m, k));
      const __m512i row = _mm512_loadu_si512(b.data[k].data());
      even = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(pair, 16)),
                             _mm512_castsi512_ps(_mm512_slli_epi32(row, 16)), even);
      odd = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(pair, high)),
                            _mm512_castsi512_ps(_mm512_and_si512(row, high)), odd);
    }
    const __m512 old = _mm512_loadu_ps(c.data[m].data());
    _mm512_mask_storeu_ps(c.data[m].data(), columns, _mm512_add_ps(old, _mm512_add_ps(even, odd)));
  }
  _mm_setcsr(state);
}

template <class A, class B>
void multiply_bytes(Tile& c, const Tile& a, const Tile& b) {
  for (size_t m = 0; m < c.rows; ++m) {
    for (size_t n = 0; n < c.row_bytes / 4; ++n) {
      auto sum = read<uint32_t>(c, m, n);
      for (size_t k = 0; k < a.row_bytes; ++k) {
        sum += static_cast<uint32_t>(int32_t{read<A>(a, m, k)} * int32_t{read<B>(b, k / 4, 4 * n + k % 4)});
      }
      write(c, m, n, sum);
    }
  }
}

/// An instruction of three-byte VEX prefix, as far as AMX has it.
struct Instruction {
  const uint8_t* end;
  uint8_t prefix, opcode, mode, reg, rm, second;  ///< prefix: none, 66, F3, F2; second: the register of vvvv
  uint8_t* address;                               ///< of memory, without the stride
  int64_t stride;
};

int64_t register_of(const ucontext_t& context, int number) {
  constexpr int kNumbers[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                              REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return context.uc_mcontext.gregs[kNumbers[number]];
}

std::optional<Instruction> decode(const ucontext_t& context) {
  const auto* at = reinterpret_cast<const uint8_t*>(context.uc_mcontext.gregs[REG_RIP]);
  constexpr uint8_t kVex = 0xc4, kMap = 2;
  if (at[0] != kVex || (at[1] & 31) != kMap) return std::nullopt;
  const int x = at[1] & 0x40 ? 0 : 8, b = at[1] & 0x20 ? 0 : 8;
  Instruction made{};
  made.prefix = at[2] & 3;
  made.second = static_cast<uint8_t>(~(at[2] >> 3) & 7);
  made.opcode = at[3];
  const uint8_t modrm = at[4];
  made.mode = modrm >> 6, made.reg = (modrm >> 3) & 7, made.rm = modrm & 7;
  at += 5;
  if (made.mode != 3) {
    int64_t address = 0;
    bool has_base = true;
    if (made.rm == 4) {
      const uint8_t sib = *at++;
      const int index = ((sib >> 3) & 7) + x, base = (sib & 7) + b;
      if (index != 4) made.stride = register_of(context, index) << (sib >> 6);
      has_base = made.mode != 0 || (sib & 7) != 5;
      if (has_base) address = register_of(context, base);
    } else if (made.mode == 0 && made.rm == 5) {
      return std::nullopt;  // beside the code: no kernel has tiles there
    } else {
      address = register_of(context, made.rm + b);
    }
    int32_t offset = 0;
    if (made.mode == 1) {
      offset = static_cast<int8_t>(*at++);
    } else if (made.mode == 2 || !has_base) {
      std::memcpy(&offset, at, sizeof(offset));
      at += sizeof(offset);
    }
    made.address = reinterpret_cast<uint8_t*>(address + offset);
  }
  made.end = at;
  return made;
}

void configure(const uint8_t* memory) {
  constexpr size_t kWidths = 16, kHeights = 48;
  for (size_t t = 0; t < kTiles; ++t) {
    tiles[t] = {};
    tiles[t].rows = memory[kHeights + t];
    uint16_t width = 0;
    std::memcpy(&width, memory + kWidths + 2 * t, sizeof(width));
    tiles[t].row_bytes = width;
  }
}

bool run(const Instruction& i) {
  enum Prefix { kNone, k66, kF3, kF2 };
  Tile& tile = tiles[i.reg];
  const Tile &a = tiles[i.rm], &b = tiles[i.second];
  switch (i.opcode) {
    case 0x49:
      if (i.mode != 3 && i.prefix == kNone) return configure(i.address), true;
      if (i.mode == 3 && i.prefix == kNone) return tiles = {}, true;
      if (i.mode == 3 && i.prefix == kF2) return tile.data = {}, true;
      return false;
    case 0x4b:
      for (size_t r = 0; r < tile.rows; ++r) {
        uint8_t* row = i.address + static_cast<int64_t>(r) * i.stride;
        if (i.prefix == kF3) std::memcpy(row, tile.data[r].data(), tile.row_bytes);
        if (i.prefix != kF3) std::memcpy(tile.data[r].data(), row, tile.row_bytes);
      }
      return true;
    case 0x5c:
      return multiply_bf16(tile, a, b), true;
    case 0x5e:
      if (i.prefix == kNone) multiply_bytes<uint8_t, uint8_t>(tile, a, b);
      if (i.prefix == k66) multiply_bytes<uint8_t, int8_t>(tile, a, b);
      if (i.prefix == kF3) multiply_bytes<int8_t, uint8_t>(tile, a, b);
      if (i.prefix == kF2) multiply_bytes<int8_t, int8_t>(tile, a, b);
      return true;
    default:
      return false;
  }
}

void handle(int, siginfo_t*, void* state) {
  auto& context = *static_cast<ucontext_t*>(state);
  const auto instruction = decode(context);
  if (instruction && run(*instruction)) {
    context.uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(instruction->end);
    return;
  }
  signal(SIGILL, SIG_DFL);  // it happens again, and ends the process
}

}  // namespace

std::optional<Target> target_with_amx() {
  Target target = host_cpu(1);
  if (has_feature(target, "amx-tile")) return target;
  if (target.vector_bits < 512) return std::nullopt;
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, nullptr);
  target.features += ",+amx-tile,+amx-int8,+amx-bf16";
  target.name = "with_amx";
  return target;
}

}  // namespace graft::codegen
#else
namespace graft::codegen {
std::optional<Target> target_with_amx() { return std::nullopt; }
}  // namespace graft::codegen
#endif
