// SPDX-License-Identifier: Apache-2.0
#include "tensor_states.h"

#include <cstdint>
#include <utility>

#include "fingerprint.h"

namespace graft_python {

namespace nb = nanobind;

namespace {

constexpr uint32_t kDlpackMajor = 1;  // another one may have another table

constexpr int32_t kMostAxes = 64;

/// The tensor as DLPack describes it; without shape where DLPack has no such type, or torch no such tensor.
DlTensor described(nb::handle tensor, int (*tensor_of)(void*, DlTensor*)) {
  DlTensor found{};
  if (tensor_of(tensor.ptr(), &found) == 0) return found;
  PyErr_Clear();
  found = {};
  found.data = reinterpret_cast<void*>(nb::cast<uint64_t>(tensor.attr("data_ptr")()));
  found.rank = kMostAxes + 1;
  return found;
}

}  // namespace

TensorStates::TensorStates(const nb::object& exchange, nb::object version, std::vector<size_t> places,
                           std::vector<int64_t> samples)
    : version_(std::move(version)), places_(std::move(places)), samples_(std::move(samples)) {
  if (samples_.size() != places_.size()) throw nb::value_error("there are not as many samples as places");
  const auto* table = static_cast<const DlExchange*>(PyCapsule_GetPointer(exchange.ptr(), "dlpack_exchange_api"));
  if (!table) throw nb::python_error();
  while (table && table->major != kDlpackMajor) table = table->previous;
  get_version_ = reinterpret_cast<descrgetfunc>(PyType_GetSlot(Py_TYPE(version_.ptr()), Py_tp_descr_get));
  if (!table || !table->tensor_from_object || !get_version_) {
    throw nb::value_error("this torch has another table of DLPack functions, or another _version");
  }
  tensor_of_ = table->tensor_from_object;
}

nb::bytes TensorStates::read(const nb::tuple& arguments) const {
  const size_t count = nb::len(arguments);
  std::vector<uint64_t> states(places_.size() * kNumbers);
  for (size_t i = 0; i < places_.size(); ++i) {
    if (places_[i] >= count) throw nb::index_error("a call has fewer arguments than its graph has parameters");
    const nb::handle tensor = PyTuple_GetItem(arguments.ptr(), static_cast<Py_ssize_t>(places_[i]));
    const nb::object version = nb::steal(get_version_(version_.ptr(), tensor.ptr(), tensor.type().ptr()));
    if (!version.is_valid()) throw nb::python_error();  // so also where it is no tensor, which torch's table trusts
    const DlTensor found = described(tensor, tensor_of_);
    uint64_t* state = &states[kNumbers * i];
    state[0] = reinterpret_cast<uint64_t>(found.data) + found.byte_offset;
    state[1] = nb::cast<uint64_t>(version);
    state[2] = found.rank > kMostAxes ? 0 : fingerprint(found, samples_[i]);
  }
  return nb::bytes(states.data(), states.size() * sizeof(uint64_t));
}

}  // namespace graft_python
