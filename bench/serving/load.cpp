// SPDX-License-Identifier: Apache-2.0
// Sends one HTTP request over and over on so many connections, each of which waits for its answer, and prints JSON:
// how many, all and behind the warm-up, and their latencies in microseconds. A thread for each connection, without a
// library, so that the load costs little beside the server.
//
//   load PORT CONNECTIONS WARMUP_SECONDS SECONDS REQUEST_FILE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

/// A connection and what it measured.
struct Connection {
  int socket = -1;
  std::string buffer = {};
  std::vector<float> latencies = {};
  size_t sent = 0, failures = 0;
};

bool connect_to(int port, Connection& connection) {
  connection.socket = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  setsockopt(connection.socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return connect(connection.socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

bool send_all(int socket, const std::string& data) {
  for (size_t sent = 0; sent < data.size();) {
    const ssize_t count = send(socket, data.data() + sent, data.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return false;
    sent += static_cast<size_t>(count);
  }
  return true;
}

/// Reads one answer; whether it is of status 200.
bool read_answer(Connection& connection) {
  connection.buffer.clear();
  size_t wanted = std::string::npos;
  char part[65536];
  while (connection.buffer.size() < wanted) {
    const ssize_t count = recv(connection.socket, part, sizeof part, 0);
    if (count <= 0) return false;
    connection.buffer.append(part, static_cast<size_t>(count));
    const size_t end = connection.buffer.find("\r\n\r\n");
    if (wanted != std::string::npos || end == std::string::npos) continue;
    const size_t length = connection.buffer.find("Content-Length: ");
    if (length == std::string::npos || length > end) return false;
    wanted = end + 4 + std::strtoull(connection.buffer.c_str() + length + 16, nullptr, 10);
  }
  return connection.buffer.compare(0, 12, "HTTP/1.1 200") == 0;
}

void ask(Connection& connection, const std::string& request, Clock::time_point begin, Clock::time_point end) {
  for (auto sent = Clock::now(); sent < end; sent = Clock::now()) {
    ++connection.sent;
    const bool good = send_all(connection.socket, request) && read_answer(connection);
    const std::chrono::duration<float, std::micro> latency = Clock::now() - sent;
    if (!good) {
      ++connection.failures;
      return;
    }
    if (sent >= begin) connection.latencies.push_back(latency.count());
  }
}

float percentile(const std::vector<float>& sorted, double share) {
  return sorted.empty() ? 0 : sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

}  // namespace

int main(int count, char** words) {
  if (count != 6) return 2;
  const double warmup = std::atof(words[3]), seconds = std::atof(words[4]);
  std::ifstream file(words[5], std::ios::binary);
  const std::string request{std::istreambuf_iterator<char>(file), {}};
  std::vector<Connection> connections(static_cast<size_t>(std::atoi(words[2])));
  for (Connection& each : connections) {
    if (!connect_to(std::atoi(words[1]), each)) return 1;
  }
  const auto after = [start = Clock::now()](double span) {
    return start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(span));
  };
  std::vector<std::thread> threads;
  for (Connection& each : connections) {
    threads.emplace_back(ask, std::ref(each), std::cref(request), after(warmup), after(warmup + seconds));
  }
  for (std::thread& each : threads) each.join();
  std::vector<float> all;
  size_t failures = 0, sent = 0;
  for (Connection& each : connections) {
    close(each.socket);
    all.insert(all.end(), each.latencies.begin(), each.latencies.end());
    failures += each.failures;
    sent += each.sent;
  }
  std::sort(all.begin(), all.end());
  const double per_second = static_cast<double>(all.size()) / seconds;
  std::printf("{\"sent\": %zu, \"requests\": %zu, \"per_second\": %.1f, \"p50\": %.1f, \"p99\": %.1f, "
              "\"failures\": %zu}\n",
              sent, all.size(), per_second, percentile(all, 0.5), percentile(all, 0.99), failures);
  return failures == 0 ? 0 : 1;
}
