// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/kernel_text.h"

#include <cstdlib>
#include <tuple>

namespace graft::cuda {

std::string type_name(DType type) {
  switch (type) {
    case DType::kBool:
      return "bool";
    case DType::kUint4:
    case DType::kUint2:
      return "u8";
    case DType::kInt4:
    case DType::kInt2:
      return "i8";
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return std::string(name_of(type));
    case DType::kFloat8E4M3FN:
      return "e4m3";
    case DType::kFloat8E5M2:
      return "e5m2";
    case DType::kString:
      return "u64";
    default:
      break;
  }
  if (is_integer(type)) return std::string(name_of(type));
  throw Unsupported{fmt::format("elements of type {} are not supported in CUDA kernels yet", name_of(type))};
}

void CodeText::line(std::string_view content) {
  constexpr size_t kMaxText = 8 << 20;
  if (text_.size() > kMaxText) throw Unsupported{"the kernel's code grows beyond 8 MiB"};
  text_.append(2 * static_cast<size_t>(indent_), ' ').append(content).append("\n");
}

void CodeText::open(std::string_view content) {
  line("{} {{", content);
  ++indent_;
}

void CodeText::close(std::string_view after) {
  --indent_;
  line("}}{}", after);
}

std::string FragmentLayout::first_row() const { return fmt::format("warp % {} * 16 + lane / 4", warps_m); }

std::string FragmentLayout::column_of_warp() const {
  const std::string all = fmt::format("warp / {}", warps_m);
  return fmt::format("{} * {}", slices > 1 ? fmt::format("{} % {}", all, warps_n) : all, tile_columns());
}

std::string FragmentLayout::first_column() const { return column_of_warp() + " + lane % 4 * 2"; }

namespace {

/// Instructions of all warps for 64 places of k, roughly: rows are loaded by each warp that has columns, columns are
/// decoded by each that has rows. Sums that are shared are added up once, behind many times 64 places.
int64_t decoding_work(const FragmentLayout& layout) {
  constexpr int64_t kLoads = 20, kDecodes = 45, kProducts = 8, kSums = 5, kSteps = 64;
  const int64_t m = layout.m_tiles, n = layout.n_tiles, warps = int64_t{layout.warps_m} * layout.warps_n;
  return warps * (m * kLoads + n * (kDecodes + m * kProducts)) +
         warps * layout.slices * m * n * layout.slices * kSums / kSteps;
}

}  // namespace

FragmentLayout choose_layout(int64_t rows, int64_t columns, int warps, LayoutFor purpose, int most_slices) {
  FragmentLayout best;
  std::tuple<int64_t, int64_t, int64_t> best_cost{INT64_MAX, 0, 0};
  const auto tiles = [](int64_t extent, int64_t size) { return (extent + size - 1) / size; };
  const bool single = purpose == LayoutFor::kSingleTiles, shares = single || purpose == LayoutFor::kFewRows;
  const auto consider = [&](int across, int slices) {
    FragmentLayout layout;
    layout.rows = static_cast<int>(rows);
    layout.columns = static_cast<int>(columns);
    layout.slices = slices;
    layout.warps_n = across;
    layout.warps_m = warps / slices / across;
    layout.m_tiles = static_cast<int>(tiles(rows, 16 * layout.warps_m));
    // B is loaded for two tiles at once, or decoded for one.
    layout.n_tiles =
        single ? static_cast<int>(tiles(columns, 8 * across)) : static_cast<int>(tiles(columns, 16 * across)) * 2;
    const int64_t area = int64_t{layout.padded_rows()} * layout.padded_columns();
    const int64_t edge = layout.m_tiles * 16 + layout.tile_columns();
    constexpr int kWidest = 256;  // of one wgmma
    const bool grouped = layout.warps_m % 4 == 0 && layout.tile_columns() <= kWidest;
    std::tuple<int64_t, int64_t, int64_t> cost{0, area, edge};
    if (purpose == LayoutFor::kRows) cost = {across, area, edge};
    if (purpose == LayoutFor::kWarpgroups) cost = {area, grouped ? 0 : 1, grouped ? across : edge};
    if (shares) cost = {area, decoding_work(layout), slices};
    // Whole rows in a warp are not worth idle warps.
    const bool idle =
        purpose == LayoutFor::kRows && layout.padded_rows() >= 2 * ((rows + 15) / 16 * 16) && across < warps;
    if (idle || cost >= best_cost) return;
    best_cost = cost;
    best = layout;
  };
  for (int slices = 1; slices <= (shares ? most_slices : 1) && warps % slices == 0; slices *= 2) {
    for (int across = 1; across <= warps / slices; ++across) {
      if (warps / slices % across == 0) consider(across, slices);
    }
  }
  return best;
}

std::string KernelNames::size(const Size& size) const {
  if (const auto value = size.as_constant()) return fmt::format("{}ll", *value);
  return "(" + size.substitute(sizes).to_string("size_") + ")";
}

std::string KernelNames::affine_text(const Affine& address) const {
  std::string wide = address.offset.is(0) ? "" : size(address.offset), narrow;
  int64_t reach = 0;  // of the part that is summed in an int
  const auto append = [](std::string& text, const std::string& term) { text += (text.empty() ? "" : " + ") + term; };
  for (const auto& [variable, coefficient] : address.coefficients) {
    const std::string& name = variables.at(variable);
    const auto range = ranges.find(variable);
    const auto step = coefficient.as_constant();
    constexpr int64_t kMost = INT32_MAX;
    if (range != ranges.end() && step && !uniform.contains(variable) && std::abs(*step) <= kMost) {
      const int64_t most = std::max(std::abs(range->second.low), std::abs(range->second.high)) * std::abs(*step);
      if (most <= kMost - reach) {
        reach += most;
        append(narrow, *step == 1 ? name : fmt::format("{} * {}", name, *step));
        continue;
      }
    }
    append(wide, "(i64)" + name + (coefficient.is(1) ? "" : " * " + size(coefficient)));
  }
  if (narrow.empty()) return wide.empty() ? "0ll" : wide;
  if (wide.empty()) return narrow;
  return fmt::format("{} + ({})", wide, narrow);
}

Size KernelNames::stride(int buffer, size_t axis) const {
  const tile::Buffer& target = program->buffers[buffer];
  return target.scope == tile::Scope::kShared ? Size(strides[buffer][axis]) : target.strides[axis];
}

std::optional<RowAddress> KernelNames::row_address(int buffer, const std::vector<Expr>& indices, int variable) const {
  RowAddress total;
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    const auto index = affine(indices[axis]);
    const Size step = stride(buffer, axis);
    if (!index) {
      if (uses_variable(indices[axis], variable)) return std::nullopt;
      total.rows.emplace_back(indices[axis], step);
      continue;
    }
    total.affine.offset = total.affine.offset + index->offset * step;
    for (const auto& [each, coefficient] : index->coefficients) {
      Size& sum = total.affine.coefficients.try_emplace(each, 0).first->second;
      sum = sum + coefficient * step;
    }
  }
  std::erase_if(total.affine.coefficients, [](const auto& entry) { return entry.second.is(0); });
  if (padded.contains(buffer)) {
    if (uses_variable(indices.back(), variable)) return std::nullopt;
    const int64_t piece = 128 / bit_width(this->buffer(buffer).type);
    total.rows.emplace_back(floor_div(indices.back(), make_index(piece)), Size(piece));
  }
  return total;
}

std::optional<Affine> KernelNames::address(int buffer, const std::vector<Expr>& indices) const {
  auto found = row_address(buffer, indices, -1);
  if (!found || !found->rows.empty()) return std::nullopt;
  return std::move(found->affine);
}

}  // namespace graft::cuda
