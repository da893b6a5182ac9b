// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/element_types.h"

namespace graft::tensorflow {
namespace {

struct Row {
  int number;
  std::string_view name;
  DType type;
};

constexpr Row kRows[] = {
#define GRAFT_TENSORFLOW_TYPE(number, name, type) {number, name, type},
#include "import/tensorflow/element_types.inc"
#undef GRAFT_TENSORFLOW_TYPE
};

}  // namespace

std::optional<DType> element_type(int number) {
  for (const Row& row : kRows) {
    if (row.number == number) return row.type;
  }
  return std::nullopt;
}

std::optional<DType> element_type_named(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

int number_of(DType type) {
  for (const Row& row : kRows) {
    if (row.type == type) return row.number;
  }
  return 0;
}

}  // namespace graft::tensorflow
