// SPDX-License-Identifier: Apache-2.0
#include "base/import_budget.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/run_limits.h"
#include "base/stop_if_cancelled.h"

namespace graft {
namespace {

constexpr int64_t kFree = int64_t{768} << 20;
constexpr int64_t kPerFileByte = 16;
constexpr int64_t kMostFileBytes = int64_t{1} << 56;  // so that the product fits

struct Import {
  std::shared_ptr<MemoryBudget> budget = std::make_shared<MemoryBudget>();
  const std::function<bool()>* cancelled = nullptr;
  int64_t file_bytes = 0, taken = 0;

  int64_t limit() const { return kFree + kPerFileByte * file_bytes; }
};

Import*& current() {
  static thread_local Import* import = nullptr;
  return import;
}

/// While it lives, this thread works for an import.
class Scope {
 public:
  explicit Scope(Import& import) : outer_(std::exchange(current(), &import)), limits_(import.budget, nullptr) {}
  ~Scope() { current() = outer_; }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Import* outer_;
  LimitScope limits_;
};

}  // namespace

void within_import_budget(const std::function<bool()>& cancelled, const std::string& where,
                          const std::function<void()>& import) {
  Import work{.cancelled = cancelled ? &cancelled : nullptr};
  work.budget->set_limit(work.limit());
  try {
    const Scope scope(work);
    import();
  } catch (const Error& error) {
    const bool machine = error.message().find("this machine has") != std::string::npos;  // what no budget helps with
    if (error.kind() != ErrorKind::kOutOfMemory || machine) throw;
    throw Error(ErrorKind::kOutOfMemory,
                fmt::format("its constants, texts and nodes take more than {} MB beside its files of {} bytes: make "
                            "large constants inputs, or keep them in the file",
                            work.limit() >> 20, work.file_bytes), where);
  }
  work.budget->give(work.taken);
  work.budget->set_limit(0);  // tensors that stay are the compiler's
}

void allow_import(size_t bytes) {
  Import* import = current();
  if (!import) return;
  const auto more = static_cast<int64_t>(std::min<size_t>(bytes, kMostFileBytes));
  import->file_bytes = std::min(kMostFileBytes, import->file_bytes + more);
  import->budget->set_limit(import->limit());
}

void take_import(size_t bytes, std::string_view what) {
  Import* import = current();
  if (!import) return;
  if (import->cancelled) stop_if_cancelled(*import->cancelled, "import");
  const auto wanted = static_cast<int64_t>(std::min<size_t>(bytes, kMostFileBytes));
  import->budget->take(wanted, what);
  import->taken += wanted;
}

}  // namespace graft
