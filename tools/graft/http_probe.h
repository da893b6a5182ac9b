// SPDX-License-Identifier: Apache-2.0
// Whether a server answers.
#pragma once

#include <string>

namespace graft {

/// Whether any program listens at a port of this machine.
bool is_listening(const std::string& address, int port);
/// Whether an HTTP server at a port of this machine answers a GET of the path with status 200. `address`: what it
/// listens at; one of all networks is asked at the loopback.
bool answers_http(const std::string& address, int port, const std::string& path);

}  // namespace graft
