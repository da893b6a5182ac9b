// SPDX-License-Identifier: Apache-2.0
// The conversion of one node as a converter of the C interface sees it.
#pragma once

#include <deque>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "frontend/conversion.h"
#include "graft/graft_converter.h"

namespace graft::frontend {

/// Hands a Conversion to a converter, and keeps what that is given until it returns. The first failure stays.
class ConverterCall : public graft_conversion {
 public:
  explicit ConverterCall(Conversion& conversion);
  ConverterCall(const ConverterCall&) = delete;
  ConverterCall& operator=(const ConverterCall&) = delete;

  /// Calls it. Throws Refusal for a refusal, and Error{invalid_argument} without a place for the converter's faults.
  void run(const graft_converter& converter);

 private:
  static ConverterCall& of(graft_conversion* c) { return *static_cast<ConverterCall*>(c); }
  /// Runs `body` unless something has failed; keeps its failure.
  template <class Body>
  graft_status guarded(const Body& body) noexcept;
  graft_status failed(graft_status with, std::string_view why) noexcept;

  void set_readers();
  void set_builders();
  std::string_view checked_name(const char* name) const;
  ValueId checked_value(int32_t value, bool may_miss) const;
  std::vector<ValueId> checked_values(const int32_t* values, size_t count, bool may_miss) const;
  graft_host_argument described(const Argument& argument, std::string_view name);
  graft_host_argument referred(Reference reference, std::string_view name);
  graft_host_argument listed(std::vector<graft_host_argument> elements);
  Attribute attribute_of(const graft_host_argument& given, const std::string& name) const;
  const graft_value_info* info_of(ValueId value);
  graft_tensor elements_of(ValueId value);
  TensorData data_of(const graft_tensor& given) const;
  void add_node(graft_added_node& given);
  void check_results() const;

  Conversion& conversion_;
  graft_status status_ = GRAFT_OK;
  std::string message_;
  bool gave_list_ = false;
  std::deque<std::string> texts_;
  std::deque<std::vector<graft_host_argument>> lists_;
  std::deque<std::vector<int64_t>> integers_;
  std::deque<std::vector<int32_t>> values_;
  std::deque<std::vector<graft_axis>> axes_;
  std::deque<graft_value_info> infos_;
  std::deque<TensorData> elements_;
};

/// Where a converter wants a result.
template <class T>
T& place_of(T* place) {
  GRAFT_USER_CHECK(place, kInvalidArgument, "it asks for a result and gives no place for it", "");
  return *place;
}

template <class Body>
graft_status ConverterCall::guarded(const Body& body) noexcept {
  if (status_ != GRAFT_OK) return status_;
  try {
    body();
    return GRAFT_OK;
  } catch (const Refusal& refusal) {
    return failed(GRAFT_UNSUPPORTED, refusal.reason);
  } catch (const Error& error) {
    return failed(GRAFT_INVALID_ARGUMENT, error.message());
  } catch (const std::bad_alloc&) {
    return failed(GRAFT_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return failed(GRAFT_INTERNAL, error.what());
  }
}

}  // namespace graft::frontend
