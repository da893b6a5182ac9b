// SPDX-License-Identifier: Apache-2.0
#include "strategy/block_schedule.h"

#include <algorithm>

#include "fuse/rewrite_region.h"
#include "tile/block_rules.h"
#include "tile/enlarged_maps.h"
#include "tile/exact_indices.h"
#include "tile/program.h"

namespace graft {
namespace {

constexpr int64_t kMapBytes = 8192;          // of one tile of a map: two pieces of a thread
constexpr int64_t kRowsBytes = 16384;        // of one tile of rows that are looked up, short, or of maps of maps
constexpr int64_t kLongColumnBytes = 32768;  // of one tile whose rows share what takes long to compute
constexpr int64_t kFewTiles = 512;           // with fewer of them, a map's are smaller, and rows have more threads
constexpr int64_t kThreadBytes = 16;         // that a thread stores at least
constexpr int64_t kMostWindow = 64;          // elements of a window that one thread folds
constexpr int64_t kMostSlides = 8;           // points of a thread along an axis on which windows overlap
constexpr int64_t kWindowThreads = 1 << 16;  // with fewer of them a thread makes fewer points
constexpr int64_t kRegisters = 1 << 16;      // of a multiprocessor
constexpr int64_t kLeastRegisters = 64;      // of a thread that streams, which few warps need less of
constexpr int64_t kStreamRegisters = 3 << 22;  // of all threads that stream, half as many again as a large device has
constexpr int64_t kWidenedSlides = 16;         // points of a thread, where rows that are read again are widened again
constexpr int64_t kSegment = 1024;           // bytes that a tile should read in one place
constexpr int64_t kRowPart = 32;             // elements of a row in one thread
constexpr int64_t kLongRow = 16384;          // elements; of longer ones of halves a thread has twice as many
constexpr int64_t kColumnElements = 8192;
constexpr int64_t kColumnBytes = 512;         // of columns that one thread keeps
constexpr int64_t kLine = 128;                // bytes that a tile of columns should have side by side
constexpr int64_t kWarpsOfDevice = 8192;      // that keep the memory of a large one busy
constexpr int64_t kSquareBytes = 256;         // side of a tile that is transposed
constexpr int64_t kPieceBytes = 16;           // that one access moves at most
constexpr int64_t kLongRun = 4 * kLine;       // bytes that rows which begin inside of lines should have side by side
constexpr int64_t kFewElements = 16;          // folded by one thread
constexpr int64_t kSelectedBytes = 4096;      // of a row: longer ones fill the registers of a warp that selects
constexpr int64_t kSelectedKeys = 3072;       // of the longest row that a warp holds

int64_t at(const Size& size, const Bindings& typical) { return std::max<int64_t>(1, size.evaluate(typical)); }

int64_t ceil_quotient(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// A tile of at most about `most` elements, all tiles of an axis about equally long.
int64_t tile_of(int64_t extent, int64_t most) {
  if (extent <= most) return extent;
  const int64_t tiles = ceil_quotient(extent, most);
  return std::min(ceil_quotient(ceil_quotient(extent, tiles), 64) * 64, most);
}

class Chooser {
 public:
  Chooser(const Region& region, const Bindings& typical)
      : region_(region), typical_(typical), common_(common_axes(region)) {}

  std::optional<tile::BlockSchedule> run() const {
    if (common_.empty()) return std::nullopt;
    bool scans = false;
    const Sort* selects = nullptr;
    for (const Form& form : region_.forms) {
      scans |= std::holds_alternative<Scan>(form);
      if (const auto* sort = std::get_if<Sort>(&form)) {
        const auto count = sort->count.as_constant();
        if (!count || *count > tile::kMostSelected || bit_width(sort->key->type) > 32) return std::nullopt;
        selects = sort;
      }
      if (std::holds_alternative<Scatter>(form) || std::holds_alternative<Compact>(form)) return std::nullopt;
    }
    if (selects) return selection(*selects);
    if (scans) return scan();
    const int64_t work = work_of_a_point();
    if (const int along = sliding_axis(); along >= 0 && work <= kMostWindow) return windows(along);
    if (work <= kFewElements) {
      if (const int across = transposed_axis(); across >= 0 && work == 1) return square(across);
      if (const auto schedule = enlarged()) return schedule;
      return map();
    }
    if (only_maps()) return rows_of_maps(work);
    return runs_down_columns() ? columns(work) : rows(work);
  }

 private:
  /// The most elements that one form has at a point of the common axes.
  int64_t work_of_a_point() const {
    int64_t most = 1;
    for (const Form& form : region_.forms) {
      int64_t work = 1;
      for (const Axis& axis : axes_of(form)) {
        if (position(axis.variable->variable) < 0) work *= at(axis.extent, typical_);
      }
      for (const Axis& axis : inner_axes_of(form)) work *= at(axis.extent, typical_);
      most = std::max(most, work);
    }
    return most;
  }

  int position(int variable) const {
    for (size_t i = 0; i < common_.size(); ++i) {
      if (common_[i].variable->variable == variable) return static_cast<int>(i);
    }
    return -1;
  }

  int64_t extent(size_t i) const { return at(common_[i].extent, typical_); }

  int64_t element_bytes() const {
    int bytes = 1;
    for (const int tensor : region_.outputs) bytes = std::max(bytes, bit_width(region_.tensors[tensor].type) / 8);
    return bytes;
  }

  int64_t read_bytes() const {
    int bytes = 1;
    for (const int tensor : region_.inputs) bytes = std::max(bytes, bit_width(region_.tensors[tensor].type) / 8);
    return bytes;
  }

  int64_t points() const {
    int64_t points = 1;
    for (size_t i = 0; i < common_.size(); ++i) points *= extent(i);
    return points;
  }

  int64_t row_bytes() const { return extent(common_.size() - 1) * element_bytes(); }

  /// Whether rows of results begin at any element, and not at pieces that one access moves.
  bool begins_anywhere() const { return row_bytes() % kPieceBytes != 0; }

  /// Whether what is read decides where something else is.
  bool looks_up() const {
    bool found = false;
    for (const Form& form : region_.forms) {
      for_each_load(form, [&](const Expr& load) {
        for (const Expr& index : load->args) {
          for_each(index, [&](const Expr& inner) { found |= inner->kind == ExprKind::kLoad; });
        }
      });
    }
    return found;
  }

  /// Whether what is computed along a row of results, and not read, takes long: as places in f64 do. Many rows of a
  /// tile share that.
  bool has_long_columns() const {
    bool found = false;
    for (const Form& form : region_.forms) {
      if (!std::holds_alternative<Compute>(form) || axes_of(form).empty()) continue;
      const int last = axes_of(form).back().variable->variable;
      for_each_expr(form, [&](const Expr& e) {
        for_each(tile::exact_indices(e), [&](const Expr& node) {
          if (found || node->type != DType::kFloat64 || node->kind != ExprKind::kCall) return;
          bool reads = false;
          for_each(node, [&](const Expr& inner) { reads |= inner->kind == ExprKind::kLoad; });
          found = !reads && uses_variable(node, last);
        });
      });
    }
    return found;
  }

  /// The row-major address of a load, or nothing.
  std::optional<Affine> address(const Expr& load) const {
    Affine total;
    Size step = 1;
    const Shape& shape = region_.tensors[load->tensor].shape;
    for (size_t d = load->args.size(); d-- > 0;) {
      const auto index = affine(load->args[d]);
      if (!index) return std::nullopt;
      for (const auto& [variable, coefficient] : index->coefficients) {
        Size& sum = total.coefficients.try_emplace(variable, 0).first->second;
        sum = sum + coefficient * step;
      }
      step = step * shape[d];
    }
    return total;
  }

  void for_each_input_load(const Form& form, const std::function<void(const Affine&)>& visit) const {
    for_each_load(form, [&](const Expr& load) {
      if (!is_input(region_, load->tensor)) return;
      if (const auto found = address(load)) visit(*found);
    });
  }

  /// The common axis along which an input is contiguous that is not contiguous along the last one, or -1.
  int transposed_axis() const {
    int across = -1;
    const int last = common_.back().variable->variable;
    for (const Form& form : region_.forms) {
      for_each_input_load(form, [&](const Affine& address) {
        if (address.coefficient(last).is(1) || address.coefficient(last).is(0)) return;
        for (size_t i = 0; i + 1 < common_.size(); ++i) {
          if (address.coefficient(common_[i].variable->variable).is(1) && extent(i) > 1) across = static_cast<int>(i);
        }
      });
    }
    return across + 3 >= static_cast<int>(common_.size()) ? across : -1;
  }

  bool runs_down_columns() const {
    const int column = common_.back().variable->variable;
    bool columns = false, rows = false;
    for (const Form& form : region_.forms) {
      const auto inner = inner_axes_of(form);
      if (inner.empty()) continue;
      for_each_input_load(form, [&](const Affine& address) {
        columns |= address.coefficient(column).is(1);
        rows |= address.coefficient(inner.back().variable->variable).is(1);
      });
    }
    return columns && !rows;
  }

  void set(tile::BlockSchedule& schedule, size_t position, int64_t tile) const {
    int64_t* const tiles[] = {&schedule.x, &schedule.y, &schedule.z};
    const size_t from_last = common_.size() - 1 - position;
    if (from_last < 3) *tiles[from_last] = tile;
  }

  /// The axis along which what is read lies closest together after the last one, or -1 when that is the next one.
  int reading_axis() const {
    int found = -1;
    int64_t closest = INT64_MAX;
    for (const Form& form : region_.forms) {
      for_each_input_load(form, [&](const Affine& address) {
        if (!address.coefficient(common_.back().variable->variable).is(1)) return;
        for (size_t i = 0; i + 1 < common_.size(); ++i) {
          const auto step = address.coefficient(common_[i].variable->variable).as_constant();
          if (step && *step > 1 && *step < closest) closest = *step, found = static_cast<int>(i);
        }
      });
    }
    const int next = static_cast<int>(common_.size()) - 2;
    return found == next || found + 3 < static_cast<int>(common_.size()) ? -1 : found;
  }

  tile::BlockSchedule map() const {
    tile::BlockSchedule schedule;
    const int64_t bytes = std::max<int64_t>(element_bytes(), 2), least = 256 * kThreadBytes / bytes;
    const bool large = looks_up() || (begins_anywhere() && row_bytes() < kLongRun);
    int64_t most = (has_long_columns() ? kLongColumnBytes : large ? kRowsBytes : kMapBytes) / bytes;
    most = std::max(std::min(most, least), std::min(most, points() / kFewTiles));
    const int64_t row = tile_of(extent(common_.size() - 1), most);
    const int reading = row * element_bytes() < kSegment ? reading_axis() : -1;
    if (reading >= 0) {
      const auto axis = static_cast<size_t>(reading);
      const int64_t tile = std::min(extent(axis), kSegment / (row * element_bytes()));
      set(schedule, axis, tile);
      most /= tile;
    }
    for (size_t i = common_.size(); i-- > 0 && common_.size() - i <= 3;) {
      if (static_cast<int>(i) == reading) continue;
      const int64_t tile = tile_of(extent(i), most);
      set(schedule, i, tile);
      most /= tile;
      if (most <= 1) break;
    }
    return schedule;
  }

  /// A map that enlarges along its last two axes: a thread makes the rows of a period in one piece, and each thread of
  /// a block one such group, as few threads idle as may be.
  std::optional<tile::BlockSchedule> enlarged() const {
    constexpr int64_t kLeast = 64, kMost = 256;  // threads
    constexpr double kEven = 1.05;               // for tiles that are all alike
    const auto* map = region_.forms.size() == 1 ? std::get_if<Compute>(&region_.forms[0]) : nullptr;
    if (!map || common_.size() < 2 || map->axes.size() != common_.size()) return std::nullopt;
    const Axis &row = common_[common_.size() - 2], &column = common_.back();
    const Expr value = tile::exact_indices(map->value);
    const int64_t rows = tile::period_of(value, row.variable->variable), piece = kThreadBytes / element_bytes();
    const int64_t columns = tile::period_of(value, column.variable->variable);
    if (rows < 2 || rows > tile::kMostPhases || columns < 2 || piece % columns != 0) return std::nullopt;
    if (!row.extent.is_multiple_of(rows) || !column.extent.is_multiple_of(piece)) return std::nullopt;
    const int64_t groups = extent(common_.size() - 2) / rows, across = extent(common_.size() - 1) / piece;
    const int64_t most = std::clamp(points() / (rows * piece) / kFewTiles, kLeast, kMost);
    if (across > most || groups * across < kLeast) return std::nullopt;
    tile::BlockSchedule schedule{.x = across * piece};
    double best = 0;
    for (int64_t count = 1; count * across <= most && count <= groups; ++count) {
      const int64_t tiles = ceil_quotient(groups, count), warps = ceil_quotient(count * across, 32);
      const double busy = static_cast<double>(groups * across) / static_cast<double>(tiles * warps * 32);
      const double rated = tiles * count == groups ? busy * kEven : busy;
      if (rated >= best) best = rated, schedule.y = count * rows, schedule.warps = warps;
    }
    return schedule;
  }

  /// The first common axis but the last one and `taken` along which the windows that are folded overlap, or -1.
  int sliding_axis(int taken = -1) const {
    int found = -1;
    for (const Form& form : region_.forms) {
      const auto inner = inner_axes_of(form);
      if (!std::holds_alternative<Reduce>(form)) continue;
      for_each_load(form, [&](const Expr& load) {
        for (const Expr& arg : load->args) {
          const auto index = affine(arg);
          if (!index) continue;
          int64_t reach = 0;
          for (const Axis& axis : inner) {
            const int64_t step = index->coefficient(axis.variable->variable).as_constant().value_or(0);
            reach += step * (at(axis.extent, typical_) - 1);
          }
          for (size_t i = 0; i + 1 < common_.size(); ++i) {
            if (static_cast<int>(i) == taken) continue;
            const int64_t step = index->coefficient(common_[i].variable->variable).as_constant().value_or(0);
            if (step > 0 && step <= reach && i + 3 >= common_.size() && (found < 0 || static_cast<int>(i) < found)) {
              found = static_cast<int>(i);
            }
          }
        }
      });
    }
    return found;
  }

  /// Adds what a load of a reduction reads for windows that go along two axes.
  void add_reads(tile::WindowReads& reads, const Expr& load, const std::vector<Axis>& inner, int slide,
                 int beside) const {
    tile::WindowReads own;
    bool slides = false;
    int64_t boxes = 1;
    for (const Expr& arg : load->args) {
      const auto index = affine(arg);
      if (!index) return;
      const auto step = [&](int axis) {
        if (axis < 0) return int64_t{0};
        const int variable = common_[static_cast<size_t>(axis)].variable->variable;
        return index->coefficient(variable).as_constant().value_or(0);
      };
      int64_t count = 1;
      for (const Axis& axis : inner) {
        const int64_t by = index->coefficient(axis.variable->variable).as_constant().value_or(0);
        count += by * (at(axis.extent, typical_) - 1);
      }
      if (const int64_t by = step(static_cast<int>(common_.size()) - 1); by > 0) {
        own.places = count, own.places_step = by;
      } else if (const int64_t down = step(slide); down > 0) {
        own.rows = count, own.rows_step = down, slides = true;
      } else if (const int64_t across = step(beside); across > 0) {
        own.columns = count, own.columns_step = across, slides = true;
      } else {
        boxes *= count;
      }
    }
    own.columns *= boxes;
    const int64_t all = own.rows * own.columns * own.places;
    if (!slides && all > 1) reads.kept += all;
    if (!slides || all < reads.rows * reads.columns * reads.places) return;
    own.kept = reads.kept, own.converts = bit_width(region_.tensors[load->tensor].type) < 32;
    own.streams = boxes == 1 && own.places == 1 && own.places_step == 1 && own.rows > own.rows_step;
    reads = own;
  }

  tile::WindowReads reads_of_windows(int slide, int beside) const {
    tile::WindowReads reads;
    for (const Form& form : region_.forms) {
      if (!std::holds_alternative<Reduce>(form)) continue;
      for_each_load(form, [&](const Expr& load) { add_reads(reads, load, inner_axes_of(form), slide, beside); });
    }
    return reads;
  }

  /// How many of `parts` groups of `threads` make up a block: as few threads idle as may be, those among them that do
  /// not fit a multiprocessor beside its other blocks. Threads have so many registers; 0: about 100.
  static int64_t parts_of_block(int64_t parts, int64_t threads, int64_t registers) {
    constexpr int64_t kMostThreads = 256;
    const int64_t resident = registers > 0 ? kRegisters / (ceil_quotient(registers, 8) * 8) : 640;
    int64_t best = 1;
    double most = 0;
    for (int64_t count = 1; count <= parts && (count == 1 || count * threads <= kMostThreads); ++count) {
      const int64_t block = ceil_quotient(count * threads, 32) * 32;
      const double used = static_cast<double>(parts) / static_cast<double>(ceil_quotient(parts, count) * count);
      const double busy = used * static_cast<double>(std::max<int64_t>(resident / block, 1) * count * threads);
      if (busy >= most) most = busy, best = count;
    }
    return best;
  }

  /// Threads side by side along the last axis, each with several points along the sliding one and the one beside it.
  tile::BlockSchedule windows(int along, bool may_stream = true) const {
    constexpr int64_t kMostAcross = 256;  // threads
    const size_t last = common_.size() - 1, slide = static_cast<size_t>(along);
    const int64_t row = extent(last);
    int64_t vector = 16 / std::clamp<int64_t>(element_bytes(), 1, 16);
    while (row % vector != 0) vector /= 2;
    const int beside = sliding_axis(along);
    const int64_t bound = beside >= 0 ? extent(static_cast<size_t>(beside)) : 1;
    tile::WindowReads reads = reads_of_windows(along, beside);
    reads.streams = reads.streams && may_stream;
    const tile::ThreadPoints points = points_of_thread(reads, bound, vector);
    const int64_t across = ceil_quotient(row, points.vector);
    int64_t besides = points.besides;
    int64_t slides = std::min(extent(slide), kMostSlides);
    const int64_t most = reads.converts && reads.rows_step == 1 ? kWidenedSlides : kMostSlides;
    if (reads.streams) slides = points_down(reads, points, extent(slide), most);
    const auto threads = [&] {
      int64_t threads = across * ceil_quotient(extent(slide), slides);
      for (size_t i = 0; i < last; ++i) {
        if (i != slide) threads *= static_cast<int>(i) == beside ? ceil_quotient(extent(i), besides) : extent(i);
      }
      return threads;
    };
    const auto are_few = [&] { return threads() < kWindowThreads; };
    const auto registers = [&] {
      if (!reads.streams) return int64_t{0};
      return std::max(registers_of_stream(reads, {besides, points.vector}, 1), kLeastRegisters);
    };
    // Where streams fill the device hardly once they are shorter, and narrower rather than quite short.
    const auto fill_little = [&] { return reads.streams && threads() * registers() < kStreamRegisters; };
    while (slides > kMostSlides && fill_little()) {
      slides = points_down(reads, points, extent(slide), std::max(slides * 3 / 4, kMostSlides));
    }
    while (besides > 1 && fill_little()) besides = (besides + 1) / 2;
    while (slides > 1 && are_few()) slides = (slides + 1) / 2;
    while (besides > 1 && are_few()) besides = (besides + 1) / 2;
    if (slides == 1 && reads.streams) return windows(along, false);
    tile::BlockSchedule schedule;
    set(schedule, slide, ceil_quotient(extent(slide), ceil_quotient(extent(slide), slides)));
    const int64_t part = ceil_quotient(across, ceil_quotient(across, kMostAcross));
    set(schedule, last, part * points.vector);
    int64_t parts = 1;
    for (size_t i = last; i-- > 0 && i + 3 > last;) {
      if (i == slide || (beside >= 0 && static_cast<int>(i) != beside)) continue;
      const int64_t each = static_cast<int>(i) == beside ? besides : 1;
      // A thread that does not stream makes fewer points than it could where a block has no more of them.
      const bool fewer = besides < points.besides && !reads.streams;
      parts = fewer ? 1 : parts_of_block(ceil_quotient(extent(i), each), part, registers());
      set(schedule, i, parts * each);
      break;
    }
    schedule.warps = ceil_quotient(part * parts, 32);
    return schedule;
  }

  tile::BlockSchedule square(int across) const {
    tile::BlockSchedule schedule;
    const size_t last = common_.size() - 1, other = static_cast<size_t>(across);
    const int64_t bytes = std::clamp<int64_t>(element_bytes(), 2, 8), side = kSquareBytes / bytes, area = side * side;
    if (begins_anywhere() && row_bytes() >= 2 * kLongRun && extent(other) >= side) {
      set(schedule, last, kLongRun / bytes), set(schedule, other, 64);
      return schedule;
    }
    const int64_t columns = std::min(extent(last), side), rows = std::min(extent(other), side);
    set(schedule, last, tile_of(extent(last), rows < side ? area / rows : side));
    set(schedule, other, tile_of(extent(other), columns < side ? area / columns : side));
    return schedule;
  }

  /// Warps of one of so many blocks, each of which folds so many elements: enough that all blocks together keep the
  /// memory of a large device busy, and no more, so that several blocks of a multiprocessor overlap.
  static int64_t warps_for(int64_t blocks, int64_t elements) {
    int64_t warps = elements < 32768 ? 8 : 16;
    while (warps < 32 && warps * 1024 < elements && blocks * warps < kWarpsOfDevice) warps *= 2;
    return warps;
  }

  /// Whether something is computed for each element that several forms use, as softmax does.
  bool keeps_rows() const {
    return std::any_of(region_.forms.begin(), region_.forms.end(), [&](const Form& form) {
      const auto* compute = std::get_if<Compute>(&form);
      const bool is_output = compute && std::find(region_.outputs.begin(), region_.outputs.end(), compute->output) !=
                                            region_.outputs.end();
      return compute && !is_output && compute->axes.size() > common_.size();
    });
  }

  /// Whether the elements of a row are folded by one form and used by no other.
  bool folds_once() const {
    return std::count_if(region_.forms.begin(), region_.forms.end(), [&](const Form& form) {
             return !inner_axes_of(form).empty() || axes_of(form).size() > common_.size();
           }) == 1;
  }

  tile::BlockSchedule rows(int64_t work) const {
    tile::BlockSchedule schedule;
    // Threads enough that each holds its part of a row in registers.
    int64_t threads = 8;
    const bool halves = element_bytes() <= 2 && work > kLongRow && !keeps_rows();
    const int64_t part = halves ? 2 * kRowPart : kRowPart;
    while (threads < 1024 && threads * part < work) threads *= 2;
    schedule.warps = std::max<int64_t>(threads / 32, 8);
    // Few rows leave most multiprocessors idle: then each has more threads, in blocks of their own.
    const int64_t least = kThreadBytes / std::max<int64_t>(element_bytes(), 2);
    while (threads < 128 && threads * least < work && points() * threads < kFewTiles * 32) threads *= 2;
    if (points() * threads < kFewTiles * 256) schedule.warps = std::max<int64_t>(threads / 32, 4);
    const int64_t rows = std::max<int64_t>(1, extent(common_.size() - 1));
    schedule.x = std::clamp<int64_t>(32 * schedule.warps / threads, 1, rows);
    return schedule;
  }

  bool only_maps() const {
    return std::all_of(region_.forms.begin(), region_.forms.end(), [](const Form& form) {
      return std::holds_alternative<Compute>(form) && inner_axes_of(form).empty();
    });
  }

  /// Rows of maps that one reads of another, in tiles of equally many.
  tile::BlockSchedule rows_of_maps(int64_t work) const {
    const int64_t bytes = has_long_columns() ? kLongColumnBytes : kRowsBytes;
    const int64_t rows = extent(common_.size() - 1), most = std::max<int64_t>(bytes / (work * element_bytes()), 1);
    return {.x = ceil_quotient(rows, ceil_quotient(rows, most))};
  }

  /// Neighbouring columns that one thread holds in registers, what is read and what is computed from it; 0 when they
  /// are too long.
  int64_t columns_of_thread(int64_t work) const {
    int64_t columns = 16 / read_bytes();
    const int64_t bytes = work * (read_bytes() + 4);
    while (columns > 1 && (columns * bytes > kColumnBytes || extent(common_.size() - 1) % columns != 0)) columns /= 2;
    return columns * bytes > kColumnBytes ? 0 : columns;
  }

  tile::BlockSchedule columns(int64_t work) const {
    tile::BlockSchedule schedule;
    const int64_t together = folds_once() ? 0 : columns_of_thread(work);
    if (together > 0 && extent(common_.size() - 1) >= 128 * together) return {.x = 128 * together, .warps = 4};
    const int64_t least = kLine / std::min<int64_t>(read_bytes(), 4);
    int64_t lanes = least;
    while (lanes < 256 && lanes * 2 * work <= kColumnElements) lanes *= 2;
    const int64_t last = extent(common_.size() - 1);
    schedule.x = std::min(lanes, last);
    schedule.warps = warps_for(points() / last * ceil_quotient(last, schedule.x), schedule.x * work);
    return schedule;
  }

  /// A warp for each row; where that fills its registers, two of them in a block, so that the next comes sooner.
  tile::BlockSchedule selection(const Sort& sort) const {
    const int64_t keys = at(sort.axis.extent, typical_), bytes = std::max(bit_width(sort.key->type) / 8, 1);
    tile::BlockSchedule schedule;
    const bool fills = keys * bytes > kSelectedBytes && keys <= kSelectedKeys;
    schedule.warps = fills ? 2 : 8;
    schedule.x = std::min<int64_t>(extent(common_.size() - 1), schedule.warps);
    return schedule;
  }

  /// A warp for each row, a block where there are few; columns side by side.
  tile::BlockSchedule scan() const {
    tile::BlockSchedule schedule;
    const int64_t last = extent(common_.size() - 1);
    if (runs_down_columns()) {
      schedule.x = std::min<int64_t>(kLine / std::min<int64_t>(element_bytes(), 4), last);
      schedule.warps = 16;
    } else if (last >= 1024) {
      schedule.x = 8;
    }
    return schedule;
  }

  const Region& region_;
  const Bindings& typical_;
  std::vector<Axis> common_;
};

}  // namespace

std::optional<tile::BlockSchedule> block_schedule(const Region& region, const Bindings& typical) {
  const Region inlined = tile::inline_enlarged(region);
  return Chooser(inlined, typical).run();
}

}  // namespace graft
