// SPDX-License-Identifier: Apache-2.0
// `_graft.TensorStates`: in what state parameters of torch are, read in one call. A compiled graph asks before each
// run, of hundreds of them, which takes longer from Python than a small engine runs.
#pragma once

#include <cstddef>
#include <vector>

#include <Python.h>

#include <nanobind/nanobind.h>

#include "dlpack_abi.h"

namespace graft_python {

/// Reads the states of the tensors at some places of a call's arguments. Used with the GIL held.
class TensorStates {
 public:
  /// `exchange`: torch.Tensor's table of DLPack functions, a capsule. `version`: the descriptor of a tensor's
  /// `_version`. `places`: of the tensors among the arguments. `samples`: for each how much of its elements counts: so
  /// many blocks of 64 bytes, evenly spread; kAll: all of them; 0: none.
  TensorStates(const nanobind::object& exchange, nanobind::object version, std::vector<size_t> places,
               std::vector<int64_t> samples);

  /// For each tensor its address, how often it was written to as far as torch counts, and a fingerprint of its elements
  /// (writes through `.data`, numpy and running statistics are not counted), 8 bytes each, one behind the other. Raises
  /// what torch raises where it does not tell one of them, and IndexError where there are fewer arguments.
  nanobind::bytes read(const nanobind::tuple& arguments) const;

  static constexpr int64_t kAll = -1;
  static constexpr size_t kNumbers = 3;  ///< of a tensor's state

 private:
  nanobind::object version_;
  std::vector<size_t> places_;
  std::vector<int64_t> samples_;
  descrgetfunc get_version_;
  int (*tensor_of_)(void* object, DlTensor* tensor);
};

}  // namespace graft_python
