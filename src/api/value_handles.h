// SPDX-License-Identifier: Apache-2.0
// What is behind graft_value.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "base/dynamic_value.h"
#include "graft/graft_c.h"

/// A value with what callers ask for of it, made when they first do; counted by hand, since C has no destructors.
struct graft_value {
  explicit graft_value(graft::DynamicValue made) : value(std::move(made)) {}
  ~graft_value();

  graft_value* element(size_t index);
  void describe(graft_tensor& tensor);

  const graft::DynamicValue value;
  std::atomic<int64_t> references{1};

 private:
  std::mutex mutex_;
  std::vector<graft_value*> elements_;  ///< one reference of each; null for those that nobody asked for
  std::vector<graft_text> texts_;
};

namespace graft::api_detail {

/// A copy of a tensor of a call; throws Error naming `where`.
TensorData copied_tensor(const graft_tensor& tensor, const char* where);
/// The strings of a tensor, of which equal ones are kept once.
struct PooledTexts {
  std::vector<std::string> texts;
  std::vector<size_t> elements;  ///< which of them each is
};
/// A copy of the strings of a tensor of a call; throws Error naming `where`.
PooledTexts pooled_texts(const graft_tensor& tensor, const std::string& where);

}  // namespace graft::api_detail
