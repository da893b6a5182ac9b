// SPDX-License-Identifier: Apache-2.0
// Reads the environment before anything else runs. Every library that holds a copy of the core has a switch of its own;
// they note what they reach in one shared file.
#include "base/fault_switch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

int graft_active_fault = 0;
unsigned char* graft_reached_faults = nullptr;

namespace {

constexpr size_t kMostFaults = 1 << 16;

__attribute__((constructor(101))) void read_switch() {
  if (const char* number = std::getenv("GRAFT_FAULT")) graft_active_fault = std::atoi(number);
  const char* path = std::getenv("GRAFT_FAULT_REACH");
  const int file = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;
  if (file < 0) return;
  if (ftruncate(file, kMostFaults) != 0) std::abort();
  void* memory = mmap(nullptr, kMostFaults, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) std::abort();
  close(file);
  graft_reached_faults = static_cast<unsigned char*>(memory);
}

}  // namespace
