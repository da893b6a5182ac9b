// SPDX-License-Identifier: Apache-2.0
#include "frontend/foreign_graph.h"

#include <utility>

namespace graft::frontend {

// Here rather than in the header: g++ 12 warns of members of a variant that it sees being moved (GCC bug 105562).
Argument::Argument() = default;
Argument::Argument(Reference given) : is(given) {}
Argument::Argument(int64_t given) : is(given) {}
Argument::Argument(double given) : is(given) {}
Argument::Argument(bool given) : is(given) {}
Argument::Argument(std::string given) : is(std::move(given)) {}
Argument::Argument(DType given) : is(given) {}
Argument::Argument(TensorData given) : is(std::move(given)) {}
Argument::Argument(Arguments given) : is(std::move(given)) {}
Argument::Argument(const Argument&) = default;
Argument::Argument(Argument&&) noexcept = default;
Argument& Argument::operator=(const Argument&) = default;
Argument& Argument::operator=(Argument&&) noexcept = default;
Argument::~Argument() = default;

}  // namespace graft::frontend
