// SPDX-License-Identifier: Apache-2.0
// Arguments of nodes between Python and graft_host.h.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>

#include "graft/graft_host.h"

namespace graft_python {

namespace nb = nanobind;

/// Arguments that Python has no type of its own for: a value of the graph, an element type.
struct ValueArgument {
  int32_t index;
};
struct TypeArgument {
  int32_t number;
};

/// Python's arguments of a node as graft_host.h has them, and what they refer to.
class HostArguments {
 public:
  graft_host_argument of(nb::handle given) {
    if (given.is_none()) return {};
    if (nb::isinstance<nb::bool_>(given)) return with_integer(GRAFT_ARGUMENT_BOOL, nb::cast<bool>(given));
    if (nb::isinstance<nb::int_>(given)) return with_integer(GRAFT_ARGUMENT_INTEGER, nb::cast<int64_t>(given));
    if (nb::isinstance<nb::float_>(given)) {
      graft_host_argument real = with_integer(GRAFT_ARGUMENT_REAL, 0);
      real.real = nb::cast<double>(given);
      return real;
    }
    if (nb::isinstance<ValueArgument>(given)) {
      return with_integer(GRAFT_ARGUMENT_VALUE, nb::cast<ValueArgument>(given).index);
    }
    if (nb::isinstance<TypeArgument>(given)) {
      return with_integer(GRAFT_ARGUMENT_TYPE, nb::cast<TypeArgument>(given).number);
    }
    if (nb::isinstance<nb::list>(given) || nb::isinstance<nb::tuple>(given)) return list_of(given);
    graft_host_argument text = with_integer(GRAFT_ARGUMENT_TEXT, 0);
    texts_.push_back(nb::str(given).c_str());
    text.text = texts_.back().c_str();
    return text;
  }

 private:
  static graft_host_argument with_integer(int32_t kind, int64_t integer) {
    return {.kind = kind, .integer = integer, .real = 0, .text = nullptr, .list = nullptr, .count = 0};
  }
  graft_host_argument list_of(nb::handle given) {
    std::vector<graft_host_argument> list;
    for (const nb::handle each : nb::borrow<nb::object>(given)) list.push_back(of(each));
    lists_.push_back(std::move(list));
    graft_host_argument argument = with_integer(GRAFT_ARGUMENT_LIST, 0);
    argument.list = lists_.back().data(), argument.count = lists_.back().size();
    return argument;
  }

  std::deque<std::string> texts_;
  std::deque<std::vector<graft_host_argument>> lists_;
};

}  // namespace graft_python
