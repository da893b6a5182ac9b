// SPDX-License-Identifier: Apache-2.0
#include "library/call.h"

#include <algorithm>
#include <functional>

#include "base/error.h"

namespace graft {
namespace {

constexpr PostInfo kPosts[] = {
#define GRAFT_POST(enumerator, name, operand, parameters, exact, meaning) {name, operand, parameters, exact},
#include "library/posts.inc"
#undef GRAFT_POST
};

/// Calls `visit` on every size of the call that is a count or position.
void for_each_size(LibraryCall& call, const std::function<void(Size&)>& visit) {
  for (Size& size : call.batch) visit(size);
  for (Size* size : {&call.rows, &call.columns, &call.depth, &call.width}) visit(*size);
  for (CallWindow& window : call.windows) {
    for (Size* size : {&window.input, &window.output, &window.kernel, &window.before}) visit(*size);
  }
  for (auto& [role, operand] : call.operands()) {
    visit(operand->offset);
    for (Size& stride : operand->strides) visit(stride);
  }
}

int64_t product(const std::vector<Size>& sizes) { return element_count(sizes).constant(); }

/// Elements of weights in panels.
int64_t panel_elements(const LibraryCall& call) {
  const int64_t panel = call.weights.panel;
  const int64_t columns = product(call.batch) * call.columns.constant();
  int64_t rest = call.depth.constant();
  for (const CallWindow& window : call.windows) rest *= window.kernel.constant();
  return (columns + panel - 1) / panel * panel * rest;
}

}  // namespace

const PostInfo& info(PostKind kind) { return kPosts[static_cast<size_t>(kind)]; }

std::optional<PostKind> parse_post(std::string_view name) {
  for (size_t kind = 0; kind < std::size(kPosts); ++kind) {
    if (kPosts[kind].name == name) return static_cast<PostKind>(kind);
  }
  return std::nullopt;
}

std::vector<std::pair<CallRole, CallOperand*>> LibraryCall::operands() {
  std::vector<std::pair<CallRole, CallOperand*>> all = {
      {CallRole::kSource, &source}, {CallRole::kWeights, &weights}, {CallRole::kResult, &result}};
  for (PostOperation& post : posts) {
    if (info(post.kind).operand) all.emplace_back(CallRole::kPost, &post.operand);
  }
  if (values) all.emplace_back(CallRole::kValues, &*values);
  return all;
}

std::vector<std::pair<CallRole, const CallOperand*>> LibraryCall::operands() const {
  std::vector<std::pair<CallRole, const CallOperand*>> all;
  for (const auto& [role, operand] : const_cast<LibraryCall*>(this)->operands()) all.emplace_back(role, operand);
  return all;
}

bool LibraryCall::is_exact() const {
  return std::all_of(posts.begin(), posts.end(), [](const PostOperation& post) { return info(post.kind).exact; });
}

std::vector<Size> extents_of(const LibraryCall& call, CallRole role) {
  std::vector<Size> extents = call.batch;
  switch (role) {
    case CallRole::kSource:
      extents.insert(extents.end(), {call.rows, call.depth});
      for (const CallWindow& window : call.windows) extents.push_back(window.input);
      break;
    case CallRole::kWeights:
      extents.insert(extents.end(), {call.depth, call.columns});
      for (const CallWindow& window : call.windows) extents.push_back(window.kernel);
      break;
    case CallRole::kResult:
      if (call.is_attention()) {
        extents.insert(extents.end(), {call.rows, call.width});
        break;
      }
      [[fallthrough]];
    case CallRole::kPost:
      extents.insert(extents.end(), {call.rows, call.columns});
      for (const CallWindow& window : call.windows) extents.push_back(window.output);
      break;
    case CallRole::kValues:
      extents.insert(extents.end(), {call.columns, call.width});
      break;
  }
  return extents;
}

LibraryCall evaluate(const LibraryCall& call, const Bindings& bindings) {
  LibraryCall concrete = call;
  for_each_size(concrete, [&](Size& size) { size = size.evaluate(bindings); });
  for (const CallRole role : {CallRole::kSource, CallRole::kWeights, CallRole::kResult, CallRole::kValues}) {
    for (const Size& extent : extents_of(concrete, role)) {
      GRAFT_USER_CHECK(extent.constant() >= 0, kInvalidArgument, "a size is below zero", "library call");
    }
  }
  return concrete;
}

int64_t reach_of(const LibraryCall& call, const CallOperand& operand, CallRole role) {
  const std::vector<Size> extents = extents_of(call, role);
  int64_t last = operand.offset.constant();
  if (operand.panel > 0) return last + panel_elements(call);
  for (size_t d = 0; d < extents.size(); ++d) {
    if (extents[d].is(0)) return 0;
    last += (extents[d].constant() - 1) * operand.strides[d].constant();
  }
  return last + 1;
}

}  // namespace graft
