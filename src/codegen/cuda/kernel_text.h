// SPDX-License-Identifier: Apache-2.0
// What the parts of the CUDA generator share: the lines of a kernel and the names that expressions use in it.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "codegen/cuda/index_range.h"
#include "tile/program.h"

namespace graft::cuda {

/// Thrown inside the generator when a program needs what CUDA cannot do yet; becomes an unsupported Error that names
/// the program.
struct Unsupported {
  std::string reason;
};

/// The C++ type an element has in memory and in registers.
std::string type_name(DType type);

/// Lines of code with indentation and fresh names.
class CodeText {
 public:
  void line(std::string_view content);
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    line(std::string_view(fmt::format(format, std::forward<Args>(args)...)));
  }
  /// `content {`, and everything until close() indented.
  void open(std::string_view content);
  void close(std::string_view after = "");
  /// A name that is not in use, nor that of a type (i32, f16, ...).
  std::string fresh(std::string_view stem) {
    while (next_ == 8 || next_ == 16 || next_ == 32 || next_ == 64) ++next_;
    return fmt::format("{}{}", stem, next_++);
  }
  /// Fresh names have at least this number from here on.
  void leave_numbers_below(size_t number) { next_ = std::max(next_, static_cast<int>(number)); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int indent_ = 0;
  int next_ = 0;
};

/// How a fragment is spread over the warps of a block: `warps_m` x `warps_n` warps, those of a column one after the
/// other, each with `m_tiles` x `n_tiles` tiles of 16x8 in the accumulator layout of mma.sync. The tiles of a column
/// take turns: tile m of all warps, then tile m + 1; so four neighbouring warps have 64 rows together, as wgmma wants.
struct FragmentLayout {
  int warps_m = 1, warps_n = 1, m_tiles = 1, n_tiles = 2;
  int slices = 1;  ///< groups of warps that each hold a part of the sums, until these are added up
  int rows = 0, columns = 0;                     ///< of the fragment itself; the warps' tiles may reach beyond
  int row_step() const { return warps_m * 16; }  ///< from tile m to tile m + 1 of a warp
  int tile_columns() const { return n_tiles * 8; }
  int padded_rows() const { return m_tiles * row_step(); }
  int padded_columns() const { return warps_n * tile_columns(); }
  /// C++ for a thread's first row and column: element (m, n, e) is m * row_step() + e / 2 * 8 rows and n * 8 + e % 2
  /// columns further.
  std::string first_row() const;
  std::string first_column() const;
  std::string column_of_warp() const;  ///< the first one of the warp's tiles
  bool same_rows(const FragmentLayout& other) const {
    return warps_m == other.warps_m && m_tiles == other.m_tiles && rows == other.rows;
  }
  bool operator==(const FragmentLayout&) const = default;
};

/// Whether matrix units multiply elements of the type as halves.
inline bool is_half(DType type) { return type == DType::kFloat16 || type == DType::kBFloat16; }

/// What the layout of a fragment should favour.
enum class LayoutFor {
  kAnything,
  kRows,         ///< one warp holds whole rows, for reductions along them
  kSingleTiles,  ///< columns of the right operand come by eights, and groups of warps may share sums
  kFewRows,      ///< the same for at most 8 rows: columns come by sixteens
  kWarpgroups    ///< four warps hold 64 rows and many columns, for wgmma; falls back to kAnything
};
/// The layout for a fragment of this shape.
/// `most_slices`: of kSingleTiles and kFewRows, a power of two.
FragmentLayout choose_layout(int64_t rows, int64_t columns, int warps, LayoutFor purpose, int most_slices = 1);

/// An element's address in a row that is found by computing.
struct RowAddress {
  Affine affine;
  std::vector<std::pair<Expr, Size>> rows;
};

/// What all that a kernel leaves in memory is rounded to.
enum class NarrowResults {
  kNone,   ///< also wider values, or what nearly right values would make wrong
  kBytes,  ///< 8 bits by a quantizer, some of it perhaps 16: exact but where functions are approximated anyhow
  kHalves  ///< 16 bits
};

/// Names and physical layouts of one kernel.
struct KernelNames {
  const tile::Program* program = nullptr;
  std::vector<std::string> buffers;                ///< C++ names
  std::vector<std::vector<int64_t>> strides;       ///< kShared: in shared memory, padded against bank conflicts
  std::map<std::string, Size, std::less<>> sizes;  ///< symbol -> parameter name
  std::unordered_map<int, std::string> variables;
  std::set<int> crossed;                              ///< kShared buffers that are walked down their columns
  std::set<int> padded;                               ///< kShared: columns contiguous, 16 bytes free after 16 of a row
  std::unordered_map<int, Range> ranges;              ///< of the variables that are held in an int
  std::set<int> uniform;                              ///< variables with one value for all threads of a block
  std::unordered_map<int, FragmentLayout> fragments;  ///< by buffer
  NarrowResults narrow_results = NarrowResults::kNone;

  std::string size(const Size& size) const;
  /// `base + offset` of an affine element address whose variables have names; elements, i64, but for what fits an int.
  std::string affine_text(const Affine& address) const;
  /// The linear element address of indices into a global buffer, or nothing when an index is not affine.
  std::optional<Affine> address(int buffer, const std::vector<Expr>& indices) const;
  /// The same where indices that are not affine do not use `variable`: the rest of the address, and those with what a
  /// step of each moves.
  std::optional<RowAddress> row_address(int buffer, const std::vector<Expr>& indices, int variable) const;
  const tile::Buffer& buffer(int index) const { return program->buffers[index]; }
  Size stride(int buffer, size_t axis) const;
  bool is_fragment(int buffer) const { return program->buffers[buffer].scope == tile::Scope::kFragment; }
  /// A fragment with one value for each row: its layout is that of the fragments whose rows it goes with.
  bool is_row_fragment(int buffer) const { return is_fragment(buffer) && program->buffers[buffer].shape.size() == 1; }
};

}  // namespace graft::cuda
