// SPDX-License-Identifier: Apache-2.0
// Which of the faults that are compiled into this copy of the sources is on: GRAFT_FAULT=N, 0 for none.
#pragma once

#include <concepts>

extern int graft_active_fault;
extern unsigned char* graft_reached_faults;  ///< one byte each, in the file GRAFT_FAULT_REACH; null when none is named

/// Whether fault `number` is on; also notes that its place was reached.
inline bool graft_fault(int number) {
  if (__builtin_expect(graft_reached_faults != nullptr, 0)) graft_reached_faults[number] = 1;
  return graft_active_fault == number;
}

/// What is left of `a && b` when a side is forgotten, as the whole was: a bool, or what an operator of its type gives.
template <class T>
auto graft_truth(const T& side) {
  if constexpr (requires { { side && side } -> std::same_as<bool>; }) {
    return static_cast<bool>(side);
  } else {
    return side;
  }
}
