// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_kernel.h"

#include <map>

#include <fmt/format.h>

#include "base/error.h"

namespace graft {

#define GRAFT_HOST_KERNEL(domain, op, make) HostKernel make(const Node& node);
#define GRAFT_MODULE_KERNEL(domain, op, module)
#include "kernels/host_kernels.inc"
#undef GRAFT_HOST_KERNEL
#undef GRAFT_MODULE_KERNEL

namespace {

constexpr HostKernelInfo kKernels[] = {
#define GRAFT_HOST_KERNEL(domain, op, make) {domain, #op, make, {}},
#define GRAFT_MODULE_KERNEL(domain, op, module) {domain, #op, nullptr, #module},
#include "kernels/host_kernels.inc"
#undef GRAFT_HOST_KERNEL
#undef GRAFT_MODULE_KERNEL
};

}  // namespace

const HostKernelInfo* find_host_kernel(std::string_view domain, std::string_view op) {
  for (const HostKernelInfo& kernel : kKernels) {
    if (kernel.domain == domain && kernel.op == op) return &kernel;
  }
  return nullptr;
}

void TextMeter::take(size_t characters) {
  stop_if_requested();
  if (!budget_) return;
  const auto bytes = static_cast<int64_t>(sizeof(std::string) + characters);
  budget_->take(bytes, "strings that are being computed");
  taken_ += bytes;
}

DynamicValue kept(const DynamicValue& value) {
  if (value.kind() != DynamicValue::Kind::kTensor || value.tensor().type() == DType::kString) return value;
  const TensorData& tensor = value.tensor();
  return TensorData::from_bytes(tensor.type(), tensor.shape(), tensor.bytes());
}

template <class T>
const T* KernelAttributes::find(std::string_view name) const {
  const auto it = node_.attributes.find(name);
  if (it == node_.attributes.end()) return nullptr;
  const T* value = std::get_if<T>(&it->second);
  GRAFT_USER_CHECK(value, kInvalidModel, fmt::format("its attribute '{}' is of another type", name), "");
  return value;
}

int64_t KernelAttributes::integer(std::string_view name, int64_t otherwise) const {
  const auto* value = find<int64_t>(name);
  return value ? *value : otherwise;
}
double KernelAttributes::real(std::string_view name, double otherwise) const {
  const auto* value = find<double>(name);
  return value ? *value : otherwise;
}
std::string KernelAttributes::text(std::string_view name, std::string_view otherwise) const {
  const auto* value = find<std::string>(name);
  return value ? *value : std::string(otherwise);
}
std::vector<int64_t> KernelAttributes::integers(std::string_view name) const {
  const auto* value = find<std::vector<int64_t>>(name);
  return value ? *value : std::vector<int64_t>();
}
std::vector<double> KernelAttributes::reals(std::string_view name) const {
  const auto* value = find<std::vector<double>>(name);
  return value ? *value : std::vector<double>();
}
std::vector<std::string> KernelAttributes::texts(std::string_view name) const {
  const auto* value = find<std::vector<std::string>>(name);
  return value ? *value : std::vector<std::string>();
}
const TensorData* KernelAttributes::tensor(std::string_view name) const { return find<TensorData>(name); }

void refuse_input(const std::string& message) { throw Error(ErrorKind::kInvalidArgument, message, ""); }

const TensorData& tensor_input(std::span<const DynamicValue> inputs, size_t index, DType type) {
  const bool given = index < inputs.size() && inputs[index].kind() == DynamicValue::Kind::kTensor;
  if (!given) {
    refuse_input(fmt::format("its input {} is {}, not a tensor", index,
                             index < inputs.size() ? describe(inputs[index]) : "left out"));
  }
  const TensorData& tensor = inputs[index].tensor();
  if (type != DType::kUndefined && tensor.type() != type) {
    refuse_input(fmt::format("its input {} is {}, not of {}", index, describe(tensor), name_of(type)));
  }
  return tensor;
}

const DynamicValue& sequence_input(std::span<const DynamicValue> inputs, size_t index) {
  const bool given = index < inputs.size() && inputs[index].kind() == DynamicValue::Kind::kSequence;
  if (!given) {
    refuse_input(fmt::format("its input {} is {}, not a sequence", index,
                             index < inputs.size() ? describe(inputs[index]) : "left out"));
  }
  return inputs[index];
}

const DynamicValue& map_input(std::span<const DynamicValue> inputs, size_t index, DType keys) {
  const bool given = index < inputs.size() && inputs[index].kind() == DynamicValue::Kind::kMap;
  if (!given) {
    refuse_input(fmt::format("its input {} is {}, not a map", index,
                             index < inputs.size() ? describe(inputs[index]) : "left out"));
  }
  const DynamicValue& map = inputs[index];
  if (map.tensor().type() != keys) {
    refuse_input(fmt::format("the keys of its input {} are {}, not of {}", index, describe(map.tensor()),
                             name_of(keys)));
  }
  if (map.map_values().rank() != 1) {
    refuse_input(fmt::format("the values of its input {} are {}, not one for each key", index,
                             describe(map.map_values())));
  }
  return map;
}

}  // namespace graft
