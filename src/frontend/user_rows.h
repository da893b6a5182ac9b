// SPDX-License-Identifier: Apache-2.0
// Rows of users beside those of a front end: registered with the process, or of shared libraries that one compilation
// names.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/conversion.h"
#include "graft/graft_converter.h"

namespace graft::frontend {

/// A row that calls a converter of the C interface, which `converter` keeps. Throws invalid_argument, in `origin`, for
/// one that cannot be called or whose signature is none.
Row row_of(std::shared_ptr<const graft_converter> converter, const std::string& origin);

/// Makes converters known to the process; gives what remove_user_rows takes. Throws as row_of does, and then none is.
uint64_t add_user_rows(std::span<const graft_converter> converters, const std::string& origin);
/// The same for those of a shared library, which stays open. Throws invalid_argument naming it and what it lacks.
uint64_t load_user_rows(const std::string& path);
void remove_user_rows(uint64_t id);

/// The rows of a front end with those of the process, and of shared libraries.
std::shared_ptr<const Converters> with_user_rows(std::string_view frontend, const Converters& own,
                                                 const std::vector<std::string>& libraries = {});

}  // namespace graft::frontend
