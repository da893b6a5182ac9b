// SPDX-License-Identifier: Apache-2.0
// What a run takes from Python, and what it makes for it.
#pragma once

#include <cstdlib>
#include <memory>
#include <vector>

#include <nanobind/nanobind.h>

#include "array_view.h"
#include "graft/graft_c.h"

namespace graft_python {

/// Memory that an output was given during the run, before it becomes an array.
struct NewOutput {
  std::unique_ptr<void, void (*)(void*)> data{nullptr, std::free};
  int32_t dtype = 0;
  std::vector<size_t> shape;
  size_t bytes = 0;
  nanobind::object array;  ///< of the caller's `allocate`, instead
};

/// A run's tensors, and all that they refer to. Made and destroyed with the GIL held; stays where it is while the run
/// goes on.
struct RunArguments {
  nanobind::list inputs, outputs;  ///< as Python gave them
  nanobind::object allocate;       ///< None, or Python's
  std::vector<ArrayView> views;
  std::vector<graft_tensor> given, wanted;
  std::vector<NewOutput> made;     ///< by output
  nanobind::object raised;         ///< what `allocate` raised, if it did

  /// For graft_session_run: refers to this.
  graft_allocator allocator();
  /// The list of arrays and HeldValues of the outputs, after the run.
  nanobind::list results(const graft_engine* engine);
};

}  // namespace graft_python
