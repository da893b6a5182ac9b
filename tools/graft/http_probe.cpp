// SPDX-License-Identifier: Apache-2.0
#include "http_probe.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <memory>
#include <string_view>

#include <fmt/format.h>

namespace graft {
namespace {

/// A socket that is closed behind its use.
struct Socket {
  explicit Socket(const addrinfo& at) : descriptor(socket(at.ai_family, at.ai_socktype | SOCK_CLOEXEC, 0)) {}
  ~Socket() {
    if (descriptor >= 0) close(descriptor);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  const int descriptor;
};

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// Null where there is no such address.
Addresses find(const std::string& address, int port) {
  const char* const host = address == "0.0.0.0" ? "127.0.0.1" : address.c_str();
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(host, fmt::format("{}", port).c_str(), &wanted, &list) != 0) list = nullptr;
  return {list, freeaddrinfo};
}

bool connects(const Socket& connection, const addrinfo& at) {
  const timeval second{1, 0};
  setsockopt(connection.descriptor, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
  return connect(connection.descriptor, at.ai_addr, at.ai_addrlen) == 0;
}

std::string ask(const addrinfo& at, const std::string& request) {
  const Socket connection(at);
  if (!connects(connection, at)) return "";
  if (send(connection.descriptor, request.data(), request.size(), MSG_NOSIGNAL) < 0) return "";
  char answer[64];
  const ssize_t count = recv(connection.descriptor, answer, sizeof answer, 0);
  return std::string(answer, count > 0 ? static_cast<size_t>(count) : 0);
}

}  // namespace

bool is_listening(const std::string& address, int port) {
  const Addresses found = find(address, port);
  return found && connects(Socket(*found), *found);
}

bool answers_http(const std::string& address, int port, const std::string& path) {
  const Addresses found = find(address, port);
  if (!found) return false;
  const std::string answer = ask(*found, fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", path, address));
  return std::string_view(answer).starts_with("HTTP/1.1 200");
}

}  // namespace graft
