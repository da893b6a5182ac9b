// SPDX-License-Identifier: Apache-2.0
// The engines that a node has built of its operators for the shapes that came: is_dynamic_op of TF-TRT.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "loaded_engine.h"

namespace graft::tensorflow_host {

using Shapes = std::vector<std::vector<int64_t>>;

/// Shapes of inputs: from `least` to `most` in each axis, `usual` being those that came last.
struct ShapeRanges {
  Shapes least, usual, most;

  static ShapeRanges exactly(const Shapes& shapes) { return {shapes, shapes, shapes}; }
  bool hold(const Shapes& shapes) const;
  bool is_exact() const { return least == most; }
  /// Whether the shapes differ in sizes alone.
  bool is_like(const Shapes& shapes) const;
  /// With shapes that are like these.
  ShapeRanges with(const Shapes& shapes) const;
};

/// Usable from any number of threads: one builds, and the others wait. Holds so many engines. When there is no room for
/// another, the one that was used longest ago is replaced by one that takes its shapes and the new ones, so that
/// batches that come in turns are not built for again and again; where such an engine does not work out, by one for the
/// new ones alone. What could not be built is tried again on request only, see retry_failed().
class BuiltEngines {
 public:
  /// Compiles for shapes; throws Error.
  using Build = std::function<std::shared_ptr<LoadedEngine>(const ShapeRanges&)>;
  explicit BuiltEngines(size_t most) : most_(most) {}

  /// The engine for these shapes. Throws Error where it cannot be built.
  std::shared_ptr<LoadedEngine> find(const Shapes& shapes, const Build& build);
  /// An engine has refused shapes. Whether it was for more than these, so that another may take them: it is dropped,
  /// and from now on there are engines for single shapes alone.
  bool refused(const LoadedEngine& engine);

 private:
  struct Entry {
    ShapeRanges ranges;
    std::shared_ptr<LoadedEngine> engine = {};
    uint64_t used = 0;
  };
  Entry make(const Shapes& shapes, const Build& build);
  void check_request();

  std::mutex mutex_;
  std::list<Entry> entries_;
  size_t most_;
  bool widens_ = true;
  uint64_t calls_ = 0;
  std::unique_ptr<Error> failure_;
  int request_ = 0;  ///< at which it failed
};

/// From now on plans that could not be loaded, and engines that could not be built, are tried again, once.
void retry_failed();
/// How often that was asked for.
int retries();
/// How many engines this process has built at run time.
uint64_t build_count();

}  // namespace graft::tensorflow_host
