// SPDX-License-Identifier: Apache-2.0
#include "engine_set.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace graft::tensorflow_host {
namespace {

constexpr double kUnbounded = 1e18;  // sizes, where there is no largest one

}  // namespace

SizeRanges::SizeRanges(const graft_engine* engine) {
  for (size_t i = 0; i < graft_engine_input_count(engine); ++i) {
    const graft_value_info& input = *graft_engine_input(engine, i);
    auto& axes = inputs_.emplace_back();
    for (int32_t a = 0; a < input.rank; ++a) {
      const graft_axis& axis = input.axes[a];
      const std::string text = axis.text ? axis.text : "";
      const bool is_symbol = text.find_first_of("+*-/() ") == std::string::npos;
      if (axis.size >= 0) {
        axes.push_back({"", axis.size, axis.size});
      } else if (is_symbol) {
        axes.push_back({text, axis.min, axis.max});
      } else {
        axes.push_back({"", -1, 0});  // follows from others, which a run checks
      }
    }
  }
}

bool SizeRanges::hold(const Shapes& shapes) const {
  std::map<std::string, int64_t> sizes;
  if (shapes.size() != inputs_.size()) return false;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i].size() != inputs_[i].size()) return false;
    for (size_t a = 0; a < shapes[i].size(); ++a) {
      const Axis& axis = inputs_[i][a];
      const int64_t size = shapes[i][a];
      if (axis.symbol.empty() && axis.min < 0) continue;
      if (size < axis.min || (axis.max > 0 && size > axis.max)) return false;
      if (axis.symbol.empty() && size != axis.min) return false;
      if (!axis.symbol.empty() && sizes.emplace(axis.symbol, size).first->second != size) return false;
    }
  }
  return true;
}

double SizeRanges::width() const {
  std::map<std::string, double> sizes;
  for (const std::vector<Axis>& axes : inputs_) {
    for (const Axis& axis : axes) {
      if (!axis.symbol.empty()) {
        sizes[axis.symbol] = axis.max == 0 ? kUnbounded : static_cast<double>(axis.max - axis.min + 1);
      }
    }
  }
  double width = 0;
  for (const auto& [symbol, size] : sizes) width += std::log(size);
  return width;
}

absl::StatusOr<std::shared_ptr<LoadedEngine>> EngineSet::load(size_t plan) {
  const std::lock_guard lock(mutex_);
  return load(plans_[plan]);
}

absl::StatusOr<std::shared_ptr<LoadedEngine>> EngineSet::load(Entry& entry) {
  const int request = retries();
  entry.used = ++calls_;
  if (entry.engine) return entry.engine;
  if (entry.request == request) return entry.failure;
  const bool asked_again = entry.request >= 0 && !entry.plan.path.empty();
  if (asked_again) entry.plan = PlanSource::in_file(entry.plan.path);  // the file may have been mended
  auto engine = caught([&] { return LoadedEngine::of(entry.plan, device_); });
  if (!engine.ok()) {
    entry.failure = engine.status(), entry.request = request;
    return engine.status();
  }
  entry.engine = *engine;
  entry.ranges.emplace(entry.engine->handle());
  unload();
  return entry.engine;
}

void EngineSet::unload() {
  while (true) {
    Entry* oldest = nullptr;
    size_t loaded = 0;
    for (Entry& entry : plans_) {
      if (!entry.engine) continue;
      ++loaded;
      if (!oldest || entry.used < oldest->used) oldest = &entry;
    }
    if (loaded <= most_) return;
    oldest->engine.reset();
  }
}

absl::StatusOr<std::shared_ptr<LoadedEngine>> EngineSet::find(const Shapes& shapes) {
  const std::lock_guard lock(mutex_);
  Entry* tightest = nullptr;
  absl::Status failure;
  for (Entry& entry : plans_) {
    if (!entry.ranges) {
      const auto loaded = load(entry);
      if (!loaded.ok()) {
        failure = loaded.status();
        continue;
      }
    }
    if (!entry.ranges->hold(shapes)) continue;
    if (!tightest || entry.ranges->width() < tightest->ranges->width()) tightest = &entry;
  }
  if (tightest) return load(*tightest);
  if (!failure.ok()) return failure;
  return std::shared_ptr<LoadedEngine>();
}

}  // namespace graft::tensorflow_host
