// SPDX-License-Identifier: Apache-2.0
#include "kernel_outline.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include <fmt/format.h>

#include "base/hash.h"

namespace graft::cuda {
namespace {

constexpr size_t kWidest = 118;  // of a line with its indent

/// Words that an opening parenthesis follows without a call.
const std::set<std::string, std::less<>> kNoCalls = {"if", "for", "while", "switch", "return", "sizeof", "i64", "int",
                                                     "u32", "void", "__launch_bounds__", "__align__"};

int count(const std::string& text, std::string_view part) {
  int found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

/// `name<arguments> times, ...`, broken into lines.
std::string listed(const std::map<std::string, int>& names) {
  std::string text, line = "//  ";
  for (const auto& [name, times] : names) {
    const std::string word = times == 1 ? " " + name : fmt::format(" {}x {}", times, name);
    if (line.size() + word.size() > kWidest) {
      text += line + "\n";
      line = "//  ";
    }
    line += word + ",";
  }
  line.pop_back();
  return text + line + "\n";
}

/// What the kernel calls, and the packs that it moves memory in.
std::map<std::string, int> calls_of(const std::string& body) {
  // A name, template arguments without parentheses in them, and an opening parenthesis; or a pack, called or declared.
  static const std::regex call(R"(\b([A-Za-z_]\w*)(<[^()<>;&|]*>)?\()"), pack(R"(\b(Pack<[^<>]*>) \w)");
  std::map<std::string, int> names;
  for (auto found = std::sregex_iterator(body.begin(), body.end(), call); found != std::sregex_iterator(); ++found) {
    if (!kNoCalls.contains((*found)[1].str())) ++names[(*found)[1].str() + (*found)[2].str()];
  }
  for (auto found = std::sregex_iterator(body.begin(), body.end(), pack); found != std::sregex_iterator(); ++found) {
    ++names[(*found)[1].str()];
  }
  return names;
}

/// For `diff` of what a digest stands for.
void keep(const std::string& name, const std::string& text) {
  const char* folder = std::getenv("GRAFT_KERNEL_TEXTS");
  if (!folder) return;
  std::filesystem::create_directories(folder);
  std::ofstream(std::filesystem::path(folder) / (name + ".cu")) << text;
}

}  // namespace

std::string kernel_outline(const std::string& name, const std::string& text, int most_lines) {
  keep(name, text);
  const auto lines = std::count(text.begin(), text.end(), '\n');
  if (lines <= most_lines) return text;
  const size_t begin = text.find('\n') + 1, end = text.rfind("\n}\n");
  const std::string body = text.substr(begin, end - begin), launch = text.substr(end + 3);
  std::string outline = text.substr(0, begin) + launch;
  const auto names = calls_of(body);
  if (!names.empty()) outline += "// calls\n" + listed(names);
  outline += fmt::format("// loops {}, branches {}, barriers {}\n", count(body, "for ("), count(body, "if ("),
                         count(body, "__syncthreads()"));
  return outline + fmt::format("// {} lines, digest {:08x}\n", lines, static_cast<uint32_t>(hash64(text)));
}

}  // namespace graft::cuda
