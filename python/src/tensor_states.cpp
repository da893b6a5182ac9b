// SPDX-License-Identifier: Apache-2.0
#include "tensor_states.h"

#include <cstdint>
#include <utility>

namespace graft_python {

namespace nb = nanobind;

namespace {

constexpr uint32_t kDlpackMajor = 1;  // another one may have another table

uint64_t address_of(nb::handle tensor, int (*tensor_of)(void*, DlTensor*)) {
  DlTensor described{};
  if (tensor_of(tensor.ptr(), &described) != 0) {  // DLPack has no such type, or torch no such tensor
    PyErr_Clear();
    return nb::cast<uint64_t>(tensor.attr("data_ptr")());
  }
  return reinterpret_cast<uint64_t>(described.data) + described.byte_offset;
}

}  // namespace

TensorStates::TensorStates(const nb::object& exchange, nb::object version, std::vector<size_t> places)
    : version_(std::move(version)), places_(std::move(places)) {
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
  std::vector<uint64_t> states(places_.size() * 2);
  for (size_t i = 0; i < places_.size(); ++i) {
    if (places_[i] >= count) throw nb::index_error("a call has fewer arguments than its graph has parameters");
    const nb::handle tensor = PyTuple_GetItem(arguments.ptr(), static_cast<Py_ssize_t>(places_[i]));
    const nb::object version = nb::steal(get_version_(version_.ptr(), tensor.ptr(), tensor.type().ptr()));
    if (!version.is_valid()) throw nb::python_error();  // so also where it is no tensor, which torch's table trusts
    states[2 * i] = address_of(tensor, tensor_of_);
    states[2 * i + 1] = nb::cast<uint64_t>(version);
  }
  return nb::bytes(states.data(), states.size() * sizeof(uint64_t));
}

}  // namespace graft_python
