// SPDX-License-Identifier: Apache-2.0
#include "quantize/budget.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace graft::quantize {
namespace {

constexpr double kWorthTrying = 0.05;   // of the time: what layers that lose time have to lose together
constexpr double kLeastLost = 0.02;     // milliseconds: what single runs tell apart
constexpr double kSameTime = 0.02;      // of the time: what two measurements of one network may differ by
constexpr double kFineEnough = 0.01;    // of the time: what a search by halves still looks for
constexpr int kRefinements = 3;         // trials that quantise layers again

int64_t count_quantised(const Trial& trial) { return std::count(trial.kept.begin(), trial.kept.end(), false); }

class Search {
 public:
  Search(const Budget& budget, Trial all) : budget_(budget), order_(order_of_return(budget.layers)) {
    trials_.push_back(std::move(all));
  }

  std::vector<Trial> run() {
    if (trials_[0].is_met) {
      try_without_losers();
    } else if (order_.size() > 1) {
      return_layers();
      if (met_) quantise_again();
    }
    return std::move(trials_);
  }

 private:
  const Trial& measure(const std::vector<bool>& kept) {
    Trial made = budget_.measure(kept);
    made.kept = kept;
    trials_.push_back(std::move(made));
    return trials_.back();
  }

  /// The network in which the first layers of the order stay in floats.
  bool is_met_with(size_t count) {
    std::vector<bool> kept(order_.size(), false);
    for (size_t n = 0; n < count; ++n) kept[order_[n]] = true;
    const bool is_met = measure(kept).is_met;
    if (is_met) met_ = trials_.size() - 1;
    return is_met;
  }

  void try_without_losers() {
    std::vector<bool> kept(order_.size(), false);
    double lost = 0;
    for (size_t n = 0; n < kept.size(); ++n) {
      const LayerCost& layer = budget_.layers[n];
      if (layer.won < 0) kept[n] = true, lost -= layer.won;
    }
    const bool is_any_left = std::find(kept.begin(), kept.end(), false) != kept.end();
    const bool is_worth = lost > std::max(kWorthTrying * budget_.milliseconds, kLeastLost);
    if (is_any_left && is_worth && budget_.has_time()) measure(kept);
  }

  /// What measuring finds against what single errors predict, of the network with all layers.
  double factor() const {
    double power = 0;
    for (const LayerCost& layer : budget_.layers) power += layer.error * layer.error;
    const double found = trials_[0].error;
    return power > 0 && std::isfinite(found) ? found / std::sqrt(power) : 1;
  }

  size_t predicted() const {
    if (!budget_.most_error || !std::isfinite(trials_[0].error)) return 1;
    const double allowed = std::pow(*budget_.most_error / std::max(factor(), 1e-30), 2);
    double left = 0;
    size_t count = order_.size();
    while (count > 0 && left + power_of(count - 1) <= allowed) left += power_of(--count);
    return std::clamp<size_t>(count, 1, order_.size() - 1);
  }
  double power_of(size_t place) const { return std::pow(budget_.layers[order_[place]].error, 2); }

  /// Milliseconds that the layers between two numbers of returned ones win.
  double won_between(size_t few, size_t many) const {
    double won = 0;
    for (size_t n = few; n < many; ++n) won += std::max(budget_.layers[order_[n]].won, 0.0);
    return won;
  }

  void return_layers() {
    const size_t most = order_.size() - 1;
    size_t failed = 0, met_at = order_.size();
    size_t step = 1;
    for (size_t count = predicted(); met_at == order_.size() && failed < most; step *= 2) {
      if (is_met_with(count)) met_at = count;
      else failed = count;
      count = std::min(failed + step, most);
    }
    if (!met_) return try_least();
    step = 1;
    for (bool is_met = true; is_met && met_at - failed > 1 && failed == 0 && wants(failed, met_at); step *= 2) {
      const size_t count = met_at > step ? met_at - step : 1;
      is_met = is_met_with(count);
      (is_met ? met_at : failed) = count;
    }
    while (met_at - failed > 1 && wants(failed, met_at)) {
      const size_t middle = failed + (met_at - failed) / 2;
      (is_met_with(middle) ? met_at : failed) = middle;
    }
  }

  /// Whether a trial between the two numbers may still find something.
  bool wants(size_t few, size_t many) const {
    const bool has_times = won_between(0, order_.size()) > 0;
    if (has_times && won_between(few + 1, many) < kFineEnough * budget_.milliseconds) return false;
    return budget_.has_time();
  }

  /// The one layer with the smallest error: where it breaks the bound, all do.
  void try_least() {
    const auto least = std::min_element(budget_.layers.begin(), budget_.layers.end(),
                                        [](const LayerCost& a, const LayerCost& b) { return a.error < b.error; });
    std::vector<bool> kept(order_.size(), true);
    kept[static_cast<size_t>(least - budget_.layers.begin())] = false;
    const bool is_new = std::none_of(trials_.begin(), trials_.end(), [&](const Trial& t) { return t.kept == kept; });
    if (is_new && measure(kept).is_met) met_ = trials_.size() - 1;
  }

  /// Layers that win much and add little, although they stood early in the order, fit into what is left of the bound.
  void quantise_again() {
    if (!budget_.most_error) return;
    double share = 1;
    for (int n = 0; n < kRefinements && budget_.has_time(); ++n) {
      const Trial& from = trials_[*met_];
      double left = share * (std::pow(*budget_.most_error, 2) - std::pow(from.error, 2));
      std::vector<bool> kept = from.kept;
      std::vector<size_t> candidates;
      for (size_t layer = 0; layer < kept.size(); ++layer) {
        if (kept[layer] && budget_.layers[layer].won > 0) candidates.push_back(layer);
      }
      std::stable_sort(candidates.begin(), candidates.end(),
                       [&](size_t a, size_t b) { return budget_.layers[a].won > budget_.layers[b].won; });
      double won = 0;
      for (const size_t layer : candidates) {
        const double power = std::pow(factor() * budget_.layers[layer].error, 2);
        if (power > left) continue;
        left -= power, kept[layer] = false, won += budget_.layers[layer].won;
      }
      if (won < kFineEnough * budget_.milliseconds) return;
      if (measure(kept).is_met) met_ = trials_.size() - 1;
      else share /= 4;
    }
  }

  const Budget& budget_;
  const std::vector<size_t> order_;
  std::vector<Trial> trials_;
  std::optional<size_t> met_;  ///< the last trial that kept the bound
};

}  // namespace

std::vector<size_t> order_of_return(const std::vector<LayerCost>& layers) {
  std::vector<size_t> order(layers.size());
  std::iota(order.begin(), order.end(), 0);
  const bool has_times = std::any_of(layers.begin(), layers.end(), [](const LayerCost& each) { return each.won > 0; });
  const auto key = [&](size_t layer) {
    const double power = layers[layer].error * layers[layer].error;
    if (!has_times) return power;
    return layers[layer].won > 0 ? power / layers[layer].won : std::numeric_limits<double>::infinity();
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (key(a) != key(b)) return key(a) > key(b);
    return layers[a].error > layers[b].error;
  });
  return order;
}

std::vector<Trial> search(const Budget& budget, Trial all) { return Search(budget, std::move(all)).run(); }

std::optional<size_t> fastest(const std::vector<Trial>& trials) {
  std::optional<size_t> best;
  for (size_t n = 0; n < trials.size(); ++n) {
    if (!trials[n].is_met) continue;
    if (!best) {
      best = n;
      continue;
    }
    const double time = trials[n].milliseconds, of_best = trials[*best].milliseconds;
    const bool has_more = count_quantised(trials[n]) > count_quantised(trials[*best]);
    if (time < (has_more ? 1 + kSameTime : 1 - kSameTime) * of_best) best = n;
  }
  return best;
}

}  // namespace graft::quantize
