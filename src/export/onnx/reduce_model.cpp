// SPDX-License-Identifier: Apache-2.0
#include "export/onnx/reduce_model.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"

namespace graft {
namespace {

/// Tries smaller and smaller models.
class Reducer {
 public:
  Reducer(ModelFile model, const StillFails& still_fails, const ReduceProgress& progress)
      : model_(std::move(model)), still_fails_(still_fails), progress_(progress) {}

  ModelFile reduce() {
    for (bool changed = true; changed;) {
      changed = remove_nodes();
      changed |= hand_in_weights();
      changed |= clear_weights();
      changed |= shrink_sizes();
    }
    return model_;
  }

 private:
  using Make = std::function<ModelFile()>;

  /// Takes the model that is made when it still fails. A part that cannot be cut out is none.
  bool take_if_fails(const std::string& what, const Make& make) {
    if (progress_) progress_(what, model_.nodes().size());
    std::optional<ModelFile> smaller;
    try {
      smaller = make();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInvalidModel && error.kind() != ErrorKind::kInvalidArgument) throw;
      return false;
    }
    if (!still_fails_(*smaller)) return false;
    model_ = std::move(*smaller);
    return true;
  }

  /// Drops elements of a list in runs of half of them, a quarter, ... one: `without(first, last)` tries to.
  template <class Without>
  static bool drop_in_runs(const std::function<size_t()>& size, const Without& without) {
    bool changed = false;
    for (size_t run = std::max<size_t>(size() / 2, 1);; run /= 2) {
      // From the end: what computes less is also what less depends on.
      for (size_t last = size(); last > 0;) {
        const size_t first = last > run ? last - run : 0;
        changed |= without(first, last);
        last = std::min(first, size());
      }
      if (run == 1) return changed;
    }
  }

  bool remove_nodes() {
    const auto without = [&](size_t first, size_t last) {
      const size_t count = model_.nodes().size();
      if (last - first >= count) return false;
      return take_if_fails(fmt::format("without {} of {} nodes", last - first, count), [&] {
        std::vector<bool> kept(count, true);
        std::fill(kept.begin() + static_cast<std::ptrdiff_t>(first), kept.begin() + static_cast<std::ptrdiff_t>(last),
                  false);
        return model_.cut(model_.around(kept));
      });
    };
    return drop_in_runs([&] { return model_.nodes().size(); }, without);
  }

  /// Names of floating-point weights: integers are shapes, axes and indices, which mean something.
  std::vector<std::string> weight_names() const {
    std::vector<std::string> names;
    for (const auto& [name, weight] : model_.weights()) {
      if (is_float(weight.type())) names.push_back(name);
    }
    return names;
  }

  bool hand_in_weights() {
    std::vector<std::string> names = weight_names();
    const auto without = [&](size_t first, size_t last) {
      const bool taken = take_if_fails(fmt::format("{} weights as inputs", last - first), [&] {
        ModelCut part = model_.around(std::vector<bool>(model_.nodes().size(), true));
        part.outputs = model_.outputs();
        part.inputs.assign(names.begin() + static_cast<std::ptrdiff_t>(first),
                           names.begin() + static_cast<std::ptrdiff_t>(last));
        return model_.cut(part);
      });
      if (taken) {
        names.erase(names.begin() + static_cast<std::ptrdiff_t>(first),
                    names.begin() + static_cast<std::ptrdiff_t>(last));
      }
      return taken;
    };
    return !names.empty() && drop_in_runs([&] { return names.size(); }, without);
  }

  bool clear_weights() {
    bool changed = false;
    for (const std::string& name : weight_names()) {
      const TensorData& weight = model_.weights().find(name)->second;
      const TensorData zeros = TensorData::zeros(weight.type(), weight.shape());
      if (weight == zeros) continue;
      changed |= take_if_fails(fmt::format("zeros for '{}'", name), [&] { return model_.with_weight(name, zeros); });
    }
    return changed;
  }

  /// The sizes of the inputs: names, and numbers that can be smaller.
  std::set<std::string> sizes() const {
    std::set<std::string> sizes;
    for (const ModelInput& input : model_.inputs()) {
      if (!input.shape) continue;
      for (const std::string& size : *input.shape) {
        if (!size.empty() && size != "0" && size != "1") sizes.insert(size);
      }
    }
    return sizes;
  }

  bool shrink_sizes() {
    bool changed = false;
    for (const std::string& size : sizes()) {
      for (const int64_t value : {1, 2, 3, 4, 8, 16}) {
        const bool is_number = size.find_first_not_of("0123456789") == size.npos;
        if (is_number && (size.size() > 18 || std::stoll(size) <= value)) break;
        if (!take_if_fails(fmt::format("{} for the size {}", value, size),
                           [&] { return model_.with_size(size, value); })) {
          continue;
        }
        changed = true;
        break;
      }
    }
    return changed;
  }

  ModelFile model_;
  const StillFails& still_fails_;
  const ReduceProgress& progress_;
};

}  // namespace

ModelFile reduce_model(ModelFile model, const StillFails& still_fails, const ReduceProgress& progress) {
  return Reducer(std::move(model), still_fails, progress).reduce();
}

}  // namespace graft
