// SPDX-License-Identifier: Apache-2.0
#include "kernels/compiler.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "modules/open_module.h"

namespace graft::kernels {
namespace {

// A unit of this much text compiles in seconds; what every unit compiles again, the prelude, takes a fraction of one.
constexpr size_t kUnitBytes = 48 << 10;

int receive(void* context, const char* kind, const void* data, size_t bytes) {
  (*static_cast<Sent*>(context))[kind] = std::string(static_cast<const char*>(data), bytes);
  return 0;
}

/// What the assembler says of a kernel.
struct Use {
  Spill spill;
  int registers = 0;  ///< of each thread at its start
};

/// By kernel, from lines `Compiling entry function 'NAME'`, `N bytes spill stores, M bytes ...`, `Used N registers`.
std::map<std::string, Use> uses_of(const std::string& report) {
  static const std::regex entry("Compiling entry function '([^']*)'");
  static const std::regex spills("([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads");
  static const std::regex registers("Used ([0-9]+) registers");
  std::map<std::string, Use> uses;
  std::istringstream lines(report);
  std::string kernel;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_search(line, match, entry)) kernel = match[1];
    if (std::regex_search(line, match, spills)) uses[kernel].spill = {kernel, std::stoi(match[1]), std::stoi(match[2])};
    if (std::regex_search(line, match, registers)) uses[kernel].registers = std::stoi(match[1]);
  }
  return uses;
}

/// The kernels of a source in which a warpgroup gives up registers and all others take some, but not so many.
std::vector<Starved> starved_in(const std::string& source, const std::map<std::string, Use>& uses) {
  constexpr int kWarpgroup = 128;
  static const std::regex head("__launch_bounds__\\(([0-9]+), [0-9]+\\) (\\w+)\\(");
  static const std::regex given("setmaxnreg_dec<([0-9]+)>"), taken("setmaxnreg_inc<([0-9]+)>");
  std::vector<Starved> found;
  const std::sregex_iterator end;
  for (std::sregex_iterator at(source.begin(), source.end(), head); at != end; ++at) {
    const auto next = std::next(at);
    const std::string body(at->suffix().first, next == end ? source.end() : (*next)[0].first);
    std::smatch few, many;
    if (!std::regex_search(body, few, given) || !std::regex_search(body, many, taken)) continue;
    const int threads = std::stoi((*at)[1]);
    const int has = threads * uses.at((*at)[2]).registers;
    const int wants = (threads - kWarpgroup) * std::stoi(many[1]) + kWarpgroup * std::stoi(few[1]);
    if (wants > has) found.push_back({(*at)[2], has, wants});
  }
  return found;
}

}  // namespace

struct Compiler::Unit {
  std::string text;
  std::vector<std::pair<std::string, Programs::Program>> programs;
};

Compiler::Compiler(const std::string& nvrtc_folder) {
  namespace fs = std::filesystem;
  std::string path = find_module("cuda");
  if (!nvrtc_folder.empty()) {
    char name[] = "/tmp/graft-kernels-XXXXXX";
    copy_ = mkdtemp(name);
    fs::create_directories(copy_ + "/lib");
    fs::create_directories(copy_ + "/nvidia/cuda_nvrtc");
    fs::create_directory_symlink(nvrtc_folder, copy_ + "/nvidia/cuda_nvrtc/lib");
    fs::copy_file(path, copy_ + "/lib/libgraft_cuda.so");
    path = copy_ + "/lib/libgraft_cuda.so";
  }
  void* module = open_module("cuda", path);
  compile_ = reinterpret_cast<graft_codegen_compile_fn>(module_function(module, "graft_codegen_compile"));
  version_ = reinterpret_cast<graft_codegen_version_fn>(module_function(module, "graft_codegen_version"));
  if (!compile_ || !version_) throw std::runtime_error(path + " is no code generator");
}

Compiler::~Compiler() {
  if (!copy_.empty()) std::filesystem::remove_all(copy_);
}

bool Compiler::run(const std::string& text, const std::string& target, const char* options, Sent& sent) const {
  return compile_(text.data(), text.size(), target.c_str(), options, &receive, &sent) == graft_codegen_done;
}

void Compiler::compile_unit(const Unit& unit, const std::string& target, bool quick, Outcome& outcome) const {
  Sent sent;
  if (run(unit.text, target, quick ? "quick" : "report source", sent)) {
    if (quick) return;
    const std::map<std::string, Use> uses = uses_of(sent["report"]);
    for (const auto& [kernel, use] : uses) {
      if (use.spill.stored_bytes > 0) outcome.spills.push_back(use.spill);
    }
    for (Starved& kernel : starved_in(sent["source"], uses)) outcome.starved.push_back(std::move(kernel));
    return;
  }
  if (unit.programs.size() == 1) {
    Sent source;
    const bool written = run(unit.text, target, "source no-cubin", source);
    outcome.rejected.push_back({unit.programs.front().first, sent["error"], !written});
    return;
  }
  // The writer of CUDA C++ refuses a kernel at once; those left compile together again.
  Unit rest;
  for (const auto& program : unit.programs) {
    Sent source;
    if (run(program.second.text, target, "source no-cubin", source)) {
      rest.text += program.second.text + "\n";
      rest.programs.push_back(program);
    } else {
      outcome.rejected.push_back({program.first, source["error"], true});
    }
  }
  if (rest.programs.size() < unit.programs.size()) return compile_unit(rest, target, quick, outcome);
  for (const auto& program : unit.programs) {
    compile_unit({.text = program.second.text, .programs = {program}}, target, quick, outcome);
  }
}

Outcome Compiler::compile(const Programs& programs, const std::string& target, bool quick) const {
  const auto start = std::chrono::steady_clock::now();
  std::vector<Unit> units;
  for (const auto& [name, program] : programs.by_name) {
    if (units.empty() || units.back().text.size() >= kUnitBytes) units.emplace_back();
    units.back().text += program.text + "\n";
    units.back().programs.emplace_back(name, program);
  }
  Outcome whole;
  std::atomic<size_t> next{0};
  std::mutex mutex;
  const auto work = [&] {
    Outcome part;
    for (size_t u = next++; u < units.size(); u = next++) compile_unit(units[u], target, quick, part);
    const std::lock_guard lock(mutex);
    whole.spills.insert(whole.spills.end(), part.spills.begin(), part.spills.end());
    whole.starved.insert(whole.starved.end(), part.starved.begin(), part.starved.end());
    whole.rejected.insert(whole.rejected.end(), part.rejected.begin(), part.rejected.end());
  };
  std::vector<std::thread> workers(std::max(1u, std::thread::hardware_concurrency()));
  for (std::thread& worker : workers) worker = std::thread(work);
  for (std::thread& worker : workers) worker.join();
  whole.kernels = static_cast<int>(programs.by_name.size());
  whole.units = static_cast<int>(units.size());
  whole.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return whole;
}

}  // namespace graft::kernels
