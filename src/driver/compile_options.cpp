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
#include "driver/quantize_options.h"
#include "fuse/rewrite_region.h"
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

/// `batch=8` fixes a symbol, `batch=1:64` bounds it, `batch=1:8:64` also says what to optimise for.
void set_dim(CompileOptions& options, const OptionText& choice) {
  const std::string expected = "NAME=SIZE, NAME=MIN:MAX or NAME=MIN:OPT:MAX with whole sizes, MIN <= OPT <= MAX";
  const size_t equals = choice.value.find('=');
  if (equals == 0 || equals == choice.value.npos) reject(choice, expected);
  std::vector<int64_t> sizes;
  for (const std::string_view word : split(choice.value.substr(equals + 1), ':')) {
    sizes.push_back(parse_number(choice, word, 0, kMaxSize, expected));
  }
  Graph::Range range;
  if (sizes.size() == 1) {
    range = {sizes[0], sizes[0], sizes[0]};
  } else if (sizes.size() == 2) {
    range = {sizes[0], sizes[1], sizes[1]};
  } else if (sizes.size() == 3) {
    range = {sizes[0], sizes[1], sizes[2]};
  } else {
    reject(choice, expected);
  }
  if (range.min > range.opt || range.opt > range.max) reject(choice, expected);
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

/// `a:2x4,b:2x4` as other tools take it: the parts, where each is a name, `mark` and nothing but sizes; else the whole,
/// as a name may have commas.
std::vector<std::string_view> listed(std::string_view value, char mark, std::string_view sizes) {
  const std::vector<std::string_view> parts = split(value, ',');
  const auto is_whole = [&](std::string_view part) {
    const size_t at = part.rfind(mark == '=' ? '=' : ':');
    return at != 0 && at != part.npos && part.find_first_not_of(sizes, at + 1) == part.npos;
  };
  if (std::all_of(parts.begin(), parts.end(), is_whole)) return parts;
  return {value};
}

void set_shapes(InputShapes& shapes, const OptionText& choice) {
  for (const std::string_view part : listed(choice.value, ':', "0123456789x")) set_shape(shapes, {choice.key, part});
}

void set_dims(CompileOptions& options, const OptionText& choice) {
  for (const std::string_view part : listed(choice.value, '=', "0123456789:")) set_dim(options, {choice.key, part});
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
    if (quantize::parse_weights(choice.value)) {
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
  } else if (choice.key == "deadline") {
    options.deadline = parse_seconds(choice);
  } else {
    throw Error(ErrorKind::kInvalidArgument,
                "there is no such choice; there are dim, shape, min-shape, opt-shape, max-shape, threads, tune, "
                "precision, fp32-units, ops, overridable, converters, signature, tag, outputs, params, record, target, "
                "device, mode, disable, deadline",
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
  if (options.cancelled && options.cancelled()) {
    throw Error(ErrorKind::kCancelled, "stopped as the caller asked", std::string(stage));
  }
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
