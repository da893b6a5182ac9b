// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/host_functions.h"

#include <cmath>
#include <cstring>

namespace graft {
namespace {

struct HostFunction {
  std::string_view name;
  void* address;
};

template <class Function>
void* address_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

#define GRAFT_HOST_MATH1(name)                                         \
  {#name "f", address_of(static_cast<float (*)(float)>(::name##f))}, { \
#name, address_of(static_cast <double (*)(double)>(::name))        \
  }
#define GRAFT_HOST_MATH2(name)                                                \
  {#name "f", address_of(static_cast<float (*)(float, float)>(::name##f))}, { \
#name, address_of(static_cast <double (*)(double, double)>(::name))       \
  }

/// Every row is something that LLVM or our own emission calls; names are those of the C library.
const HostFunction kFunctions[] = {
    {"memcpy", address_of(::memcpy)},
    {"memmove", address_of(::memmove)},
    {"memset", address_of(::memset)},
    {"fmaf", address_of(static_cast<float (*)(float, float, float)>(::fmaf))},
    {"fma", address_of(static_cast<double (*)(double, double, double)>(::fma))},
    {"graft_host_select", address_of(graft_host_select)},
    {"graft_host_sort", address_of(graft_host_sort)},
    GRAFT_HOST_MATH1(sqrt),
    GRAFT_HOST_MATH1(exp),
    GRAFT_HOST_MATH1(exp2),
    GRAFT_HOST_MATH1(log),
    GRAFT_HOST_MATH1(log1p),
    GRAFT_HOST_MATH1(expm1),
    GRAFT_HOST_MATH1(erf),
    GRAFT_HOST_MATH1(sin),
    GRAFT_HOST_MATH1(cos),
    GRAFT_HOST_MATH1(tan),
    GRAFT_HOST_MATH1(asin),
    GRAFT_HOST_MATH1(acos),
    GRAFT_HOST_MATH1(atan),
    GRAFT_HOST_MATH1(sinh),
    GRAFT_HOST_MATH1(cosh),
    GRAFT_HOST_MATH1(tanh),
    GRAFT_HOST_MATH1(asinh),
    GRAFT_HOST_MATH1(acosh),
    GRAFT_HOST_MATH1(atanh),
    GRAFT_HOST_MATH1(floor),
    GRAFT_HOST_MATH1(ceil),
    GRAFT_HOST_MATH1(trunc),
    GRAFT_HOST_MATH1(rint),
    GRAFT_HOST_MATH1(roundeven),
    GRAFT_HOST_MATH2(fmin),  // what LLVM makes of a choice between an f16 that is not NaN and a constant
    GRAFT_HOST_MATH2(fmax),
    GRAFT_HOST_MATH2(pow),
    GRAFT_HOST_MATH2(fmod),
};

#undef GRAFT_HOST_MATH1
#undef GRAFT_HOST_MATH2

}  // namespace

void* find_host_function(std::string_view name) {
  for (const HostFunction& function : kFunctions) {
    if (function.name == name) return function.address;
  }
  return nullptr;
}

}  // namespace graft
