// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/read_attribute.h"

#include "import/tensorflow/element_types.h"
#include "import/tensorflow/graph.pb.h"

namespace graft::tensorflow {
namespace {

using frontend::Argument;
using frontend::Arguments;
using graft_tensorflow::AttrValue;

Argument type_argument(int number) {
  const auto type = element_type(number);
  return type ? Argument(*type) : Argument();
}

Argument shape_argument(const graft_tensorflow::TensorShapeProto& shape) {
  if (shape.unknown_rank()) return {};
  Arguments sizes;
  for (const auto& dim : shape.dim()) sizes.push_back(int64_t{dim.size()});
  return sizes;
}

Argument list_argument(const AttrValue::ListValue& list) {
  Arguments made;
  for (const std::string& each : list.s()) made.push_back(each);
  for (const int64_t each : list.i()) made.push_back(each);
  for (const float each : list.f()) made.push_back(double{each});
  for (const bool each : list.b()) made.push_back(each);
  for (const int each : list.type()) made.push_back(type_argument(each));
  for (const auto& each : list.shape()) made.push_back(shape_argument(each));
  for (const auto& each : list.func()) made.push_back(each.name());
  return made;
}

}  // namespace

Argument read_attribute(const AttrValue& value) {
  switch (value.value_case()) {
    case AttrValue::kList: return list_argument(value.list());
    case AttrValue::kS: return value.s();
    case AttrValue::kI: return int64_t{value.i()};
    case AttrValue::kF: return double{value.f()};
    case AttrValue::kB: return value.b();
    case AttrValue::kType: return type_argument(value.type());
    case AttrValue::kShape: return shape_argument(value.shape());
    case AttrValue::kFunc: return value.func().name();
    default: return {};
  }
}

size_t bytes_as_argument(const AttrValue& value) {
  const AttrValue::ListValue& list = value.list();
  size_t elements = static_cast<size_t>(list.s_size()) + static_cast<size_t>(list.i_size()) +
                    static_cast<size_t>(list.f_size()) + static_cast<size_t>(list.b_size()) +
                    static_cast<size_t>(list.type_size()) + static_cast<size_t>(list.func_size());
  for (const auto& shape : list.shape()) elements += 1 + static_cast<size_t>(shape.dim_size());
  elements += static_cast<size_t>(value.shape().dim_size());
  return value.ByteSizeLong() + elements * sizeof(Argument);
}

}  // namespace graft::tensorflow
