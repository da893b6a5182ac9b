// SPDX-License-Identifier: Apache-2.0
// Messages to MXNet. It asks for all that there are whenever something fails: those that it has had are left out.
#include <mutex>
#include <utility>
#include <vector>

#include "failure.h"

namespace graft::extension {
namespace {

/// Ours, and those of lib_api itself, which it never forgets.
struct Messages {
  std::mutex mutex;
  std::vector<std::string> pending;     ///< told, and not asked for
  std::vector<std::string> handed_out;  ///< that MXNet may still be reading
  int of_lib_api = 0;                   ///< how many of those are in `pending` or were

  /// Takes over what is new there.
  void collect() {
    auto* const all = mxnet::ext::MXerrorMsgs::get();
    for (; of_lib_api < all->size(); ++of_lib_api) pending.push_back(*all->get(of_lib_api));
  }
};

Messages& messages() {
  static auto* const all = new Messages;  // libmxnet may ask while the process ends
  return *all;
}

}  // namespace

void tell(const std::string& message) {
  const std::lock_guard lock(messages().mutex);
  messages().pending.push_back(message);
}

}  // namespace graft::extension

extern "C" {

GRAFT_API int _msgSize() {
  auto& all = graft::extension::messages();
  const std::lock_guard lock(all.mutex);
  all.collect();
  return static_cast<int>(all.pending.size());
}

GRAFT_API void _msgGet(int index, const char** message) {
  auto& all = graft::extension::messages();
  const std::lock_guard lock(all.mutex);
  const auto place = static_cast<size_t>(index);
  const bool last = place + 1 >= all.pending.size();
  if (last) all.handed_out = std::exchange(all.pending, {});
  const std::vector<std::string>& from = last ? all.handed_out : all.pending;
  *message = place < from.size() ? from[place].c_str() : "";
}

}  // extern "C"
