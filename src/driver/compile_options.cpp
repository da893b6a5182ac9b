// SPDX-License-Identifier: Apache-2.0
#include "driver/compile_options.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/spelling.h"
#include "base/stop_if_cancelled.h"
#include "driver/quantize_options.h"
#include "fuse/rewrite_region.h"
#include "graph/optima.h"
#include "library/libraries.h"
#include "passes/pass.h"
#include "quantize/format.h"

namespace graft {
namespace {

constexpr std::string_view kPrecisions[] = {"fp32", "tf32", "fp16", "bf16"};

/// The largest size of an axis that a choice may name: beyond it no tensor fits in memory.
constexpr int64_t kMaxSize = int64_t{1} << 40;

[[noreturn]] void reject(const OptionText& choice, const std::string& expected) {
  throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is not {}", choice.value, expected),
              std::string(choice.key));
}

int64_t parse_number(const OptionText& choice, std::string_view text, int64_t low, int64_t high,
                     const std::string& expected) {
  int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size() || number < low || number > high) {
    reject(choice, expected);
  }
  return number;
}

/// Seconds, perhaps a part of one.
double parse_seconds(const OptionText& choice) {
  const std::string expected = "a number of seconds from 0 to 1000000, 0 for as long as it takes";
  double seconds = 0;
  const auto [end, fault] = std::from_chars(choice.value.data(), choice.value.data() + choice.value.size(), seconds);
  const bool whole = fault == std::errc() && end == choice.value.data() + choice.value.size();
  if (!whole || !(seconds >= 0 && seconds <= 1e6)) reject(choice, expected);
  return seconds;
}

/// Each optimum lies in the range, and is there once.
void check_optima(const Graph::Range& range, const OptionText& choice, const std::string& expected) {
  const std::vector<int64_t> optima = optima_of(range);
  if (optima.front() < range.min || optima.back() > range.max) reject(choice, expected);
  const auto twice = std::adjacent_find(optima.begin(), optima.end());
  GRAFT_USER_CHECK(twice == optima.end(), kInvalidArgument,
                   fmt::format("the optimum {} is there twice in '{}'", twice == optima.end() ? 0 : *twice,
                               choice.value), std::string(choice.key));
  GRAFT_USER_CHECK(optima.size() <= kMostOptima, kInvalidArgument,
                   fmt::format("{} optima in '{}'; each is compiled, and there may be {}", optima.size(), choice.value,
                               kMostOptima), std::string(choice.key));
}

/// The optima of a range: `8`, or `8,1,32`, of which the first is the main one.
void take_optima(Graph::Range& range, const OptionText& choice, std::string_view text, const std::string& expected) {
  bool first = true;
  for (const std::string_view word : split(text, ',')) {
    const int64_t size = parse_number(choice, word, 0, kMaxSize, expected);
    if (first) {
      range.opt = size;
    } else {
      range.others.push_back(size);
    }
    first = false;
  }
}

/// `batch=8` fixes a symbol, `batch=1:64` bounds it, `batch=1:8:64` also says what to optimise for, and
/// `batch=1:8,1,32:64` several sizes.
void set_dim(CompileOptions& options, const OptionText& choice) {
  const std::string expected =
      "NAME=SIZE, NAME=MIN:MAX, NAME=MIN:OPT:MAX or NAME=MIN:OPT,OPT...:MAX with whole sizes, MIN <= OPT <= MAX";
  const size_t equals = choice.value.find('=');
  if (equals == 0 || equals == choice.value.npos) reject(choice, expected);
  const std::vector<std::string_view> words = split(choice.value.substr(equals + 1), ':');
  if (words.size() > 3) reject(choice, expected);
  Graph::Range range;
  range.min = parse_number(choice, words.front(), 0, kMaxSize, expected);
  range.max = parse_number(choice, words.back(), 0, kMaxSize, expected);
  range.opt = range.max;
  if (words.size() == 3) take_optima(range, choice, words[1], expected);
  check_optima(range, choice, expected);
  const std::string name(choice.value.substr(0, equals));
  GRAFT_USER_CHECK(options.dims.emplace(name, range).second, kInvalidArgument,
                   fmt::format("'{}' was chosen twice; give one size or one range", name), std::string(choice.key));
}

/// `x:1x3x224x224`; a name may hold colons, so the last one separates. `x:` is the shape of a scalar.
void set_shape(InputShapes& shapes, const OptionText& choice) {
  const std::string expected = "INPUT:SIZExSIZEx... with whole sizes";
  const size_t colon = choice.value.rfind(':');
  if (colon == 0 || colon == choice.value.npos) reject(choice, expected);
  std::vector<int64_t> axes;
  const std::string_view sizes = choice.value.substr(colon + 1);
  if (!sizes.empty()) {
    for (const std::string_view word : split(sizes, 'x')) {
      axes.push_back(parse_number(choice, word, 0, kMaxSize, expected));
    }
  }
  const std::string input(choice.value.substr(0, colon));
  GRAFT_USER_CHECK(shapes.emplace(input, std::move(axes)).second, kInvalidArgument,
                   fmt::format("the shape of '{}' was chosen twice; give it once", input), std::string(choice.key));
}

/// `a:2x4,b:2x4` as other tools take it: the parts, where each is a name, a colon and nothing but sizes; else the
/// whole, as a name may have commas.
std::vector<std::string_view> listed(std::string_view value, std::string_view sizes) {
  const std::vector<std::string_view> parts = split(value, ',');
  const auto is_whole = [&](std::string_view part) {
    const size_t at = part.rfind(':');
    return at != 0 && at != part.npos && part.find_first_not_of(sizes, at + 1) == part.npos;
  };
  if (std::all_of(parts.begin(), parts.end(), is_whole)) return parts;
  return {value};
}

void set_shapes(InputShapes& shapes, const OptionText& choice) {
  for (const std::string_view part : listed(choice.value, "0123456789x")) set_shape(shapes, {choice.key, part});
}

/// A part between commas that is all of sizes goes on with the optima of the one before it.
void set_dims(CompileOptions& options, const OptionText& choice) {
  constexpr std::string_view kSizes = "0123456789:,";
  std::vector<std::string_view> parts;
  for (const std::string_view part : split(choice.value, ',')) {
    const bool goes_on = !parts.empty() && part.find_first_not_of(kSizes) == part.npos;
    if (!goes_on) {
      parts.push_back(part);
      continue;
    }
    std::string_view& before = parts.back();
    before = {before.data(), static_cast<size_t>(part.data() + part.size() - before.data())};
  }
  const bool each_is_whole = std::all_of(parts.begin(), parts.end(), [&](std::string_view part) {
    const size_t at = part.rfind('=');
    return at != 0 && at != part.npos && part.find_first_not_of(kSizes, at + 1) == part.npos;
  });
  if (!each_is_whole) parts = {choice.value};  // a name may have commas
  for (const std::string_view part : parts) set_dim(options, {choice.key, part});
}

/// A choice among words; `allowed` is parallel to the values that they stand for.
size_t choose(const OptionText& choice, const std::vector<std::string_view>& allowed) {
  for (size_t i = 0; i < allowed.size(); ++i) {
    if (choice.value == allowed[i]) return i;
  }
  reject(choice, fmt::format("one of {}", fmt::join(allowed, ", ")));
}

}  // namespace

std::string_view name_of(Precision precision) { return kPrecisions[static_cast<int>(precision)]; }

DType low_type(Precision precision) {
  if (precision == Precision::kFp16) return DType::kFloat16;
  return precision == Precision::kBf16 ? DType::kBFloat16 : DType::kUndefined;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> words;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    words.push_back(text.substr(begin, end - begin));
    if (end == text.npos) return words;
    begin = end + 1;
  }
}

void set_option(CompileOptions& options, OptionText choice) {
  if (choice.key == "dim") {
    set_dims(options, choice);
  } else if (choice.key == "shape") {
    set_shapes(options.shapes, choice);
  } else if (choice.key == "min-shape") {
    set_shapes(options.min_shapes, choice);
  } else if (choice.key == "opt-shape") {
    set_shapes(options.opt_shapes, choice);
  } else if (choice.key == "max-shape") {
    set_shapes(options.max_shapes, choice);
  } else if (choice.key == "threads") {
    options.threads = static_cast<int>(parse_number(choice, choice.value, 0, 4096, "a number of threads, 0 for all"));
  } else if (choice.key == "tune") {
    options.tuning = static_cast<Tuning>(choose(choice, {"off", "fast", "full"}));
  } else if (choice.key == "precision") {
    if (quantize::parse_codes(choice.value)) {
      reject(choice, "one of fp32, tf32, fp16, bf16 here: `graft compile`, `graft convert MODEL --precision int8 "
                     "--calibrate SAMPLES -o Q.onnx`, graft_quantize in C and graft.quantize in Python quantise");
    }
    if (choice.value == kAutomatic) {
      reject(choice, "one of fp32, tf32, fp16, bf16 here: `graft compile MODEL --precision auto --max-error 0.01`, "
                     "graft_compile in C and graft.compile in Python choose among them by measuring");
    }
    options.precision =
        static_cast<Precision>(choose(choice, {std::begin(kPrecisions), std::end(kPrecisions)}));
  } else if (choice.key == "fp32-units") {
    options.splits_operands = choose(choice, {"any", "fma"}) == 0;
  } else if (choice.key == "target") {
    options.targets.emplace_back(choice.value);
  } else if (choice.key == "device") {
    gpu_of(choice.value);
    options.device = choice.value;
  } else if (choice.key == "ops") {
    options.operators.emplace_back(choice.value);
  } else if (choice.key == "overridable") {
    options.overridable.emplace_back(choice.value);
  } else if (choice.key == "converters") {
    options.converters.emplace_back(choice.value);
  } else if (choice.key == "signature") {
    options.signature = choice.value;
  } else if (choice.key == "tag") {
    options.tags.emplace_back(choice.value);
  } else if (choice.key == "outputs") {
    for (const std::string_view name : split(choice.value, ',')) options.outputs.emplace_back(name);
  } else if (choice.key == "params") {
    options.params = choice.value;
  } else if (choice.key == "record") {
    options.record = choice.value;
  } else if (choice.key == "mode") {
    options.interpret = choose(choice, {"generated", "interpret"}) == 1;
  } else if (choice.key == "disable") {
    std::vector<std::string> names;
    for (const std::string_view word : split(choice.value, ',')) {
      if (!word.empty()) names.emplace_back(word);
    }
    check_disabled(names, std::string(choice.key));
    options.disabled.insert(options.disabled.end(), names.begin(), names.end());
  } else if (choice.key == "metadata") {
    add_metadata(options.metadata, choice.value);
  } else if (choice.key == "deadline") {
    options.deadline = parse_seconds(choice);
  } else {
    throw Error(ErrorKind::kInvalidArgument,
                "there is no such choice; there are dim, shape, min-shape, opt-shape, max-shape, threads, tune, "
                "precision, fp32-units, ops, overridable, converters, signature, tag, outputs, params, record, target, "
                "device, mode, disable, metadata, deadline",
                std::string(choice.key));
  }
}

std::vector<std::string> names_to_disable() {
  std::vector<std::string> known;
  for (const Pass& pass : pipeline()) {
    if (std::find(known.begin(), known.end(), pass.name) == known.end()) known.emplace_back(pass.name);
  }
  for (const RegionRewrite& rewrite : region_rewrites()) known.emplace_back(rewrite.name);
  for (const LibraryInfo& library : all_libraries()) known.emplace_back(library.name);
  return known;
}

void check_disabled(const std::vector<std::string>& names, const std::string& where) {
  const std::vector<std::string> known = names_to_disable();
  for (const std::string& name : names) {
    GRAFT_USER_CHECK(std::find(known.begin(), known.end(), name) != known.end(), kInvalidArgument,
                     fmt::format("there is no '{}' to leave out; there are {}{}", name, fmt::join(known, ", "),
                                 did_you_mean(name, known)), where);
  }
}

int gpu_of(std::string_view device) {
  if (device == "cpu") return -1;
  const OptionText choice{"device", device};
  const bool named = device == "cuda" || device.starts_with("cuda:");
  if (!named) reject(choice, "cpu, cuda or cuda:NUMBER");
  if (device == "cuda") return 0;
  return static_cast<int>(parse_number(choice, device.substr(5), 0, 1024, "cpu, cuda or cuda:NUMBER"));
}

void report(const CompileOptions& options, std::string_view stage, std::string_view step, int done, int total) {
  if (options.progress) options.progress(stage, step, done, total);
  stop_if_cancelled(options.cancelled, std::string(stage));
}

void run_by_deadline(const CompileOptions& options, const std::function<void(const CompileOptions&)>& part) {
  if (options.deadline <= 0) return part(options);
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() +
                   std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.deadline));
  const auto asked = [&] { return options.cancelled && options.cancelled(); };
  std::string reached = "start";
  CompileOptions timed = options;
  timed.deadline = 0;
  timed.cancelled = [&] { return Clock::now() >= end || asked(); };
  timed.progress = [&](std::string_view stage, std::string_view step, int done, int total) {
    reached = stage;
    if (options.progress) options.progress(stage, step, done, total);
  };
  try {
    part(timed);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCancelled || Clock::now() < end || asked()) throw;
    throw Error(ErrorKind::kCancelled,
                fmt::format("the deadline of {} seconds passed in this stage; allow more, or 0 for as long as it takes",
                            options.deadline),
                reached);
  }
}

}  // namespace graft
