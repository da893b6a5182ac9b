// SPDX-License-Identifier: Apache-2.0
#include "support/golden_file.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/test_root.h"

namespace graft::golden {
namespace {

constexpr std::string_view kCase = "// case: ";
constexpr std::string_view kExpect = "// expect";

/// Without empty lines at both ends, and with one newline at the end.
std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of('\n');
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of("\n ") - first + 1) + "\n";
}

}  // namespace

File read(const std::filesystem::path& path) {
  File file{path, "", {}};
  std::ifstream stream(path);
  if (!stream) throw std::runtime_error("cannot read " + path.string());
  std::string line;
  bool expecting = false;
  for (int number = 1; std::getline(stream, line); ++number) {
    if (line.starts_with(kCase)) {
      if (!file.cases.empty() && !expecting)
        throw std::runtime_error(fmt::format("{}:{}: no `// expect` before it", path.string(), number));
      file.cases.push_back({line.substr(kCase.size()), "", ""});
      expecting = false;
    } else if (file.cases.empty()) {
      file.heading += line + "\n";
    } else if (line.starts_with(kExpect)) {
      expecting = true;
    } else {
      (expecting ? file.cases.back().expectation : file.cases.back().input) += line + "\n";
    }
  }
  for (Case& c : file.cases) {
    c.input = trimmed(c.input);
    c.expectation = trimmed(c.expectation);
  }
  file.heading = trimmed(file.heading);
  return file;
}

void write(const File& file) {
  std::ofstream stream(file.path);
  stream << file.heading;
  for (const Case& c : file.cases) {
    stream << "\n" << kCase << c.name << "\n" << c.input << kExpect << "\n" << c.expectation;
  }
  if (!stream.flush()) throw std::runtime_error("cannot write " + file.path.string());
}

std::vector<File> read_folder(const std::string& folder) {
  std::vector<File> files;
  for (const auto& entry : std::filesystem::directory_iterator(test_root() + "/tests/golden/" + folder)) {
    if (entry.path().extension() == ".graft") files.push_back(read(entry.path()));
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.path < b.path; });
  return files;
}

bool updating() { return std::getenv("GRAFT_UPDATE_GOLDEN") != nullptr; }

bool has_case(const std::filesystem::path& path, const std::string& name, const std::string& input) {
  File file = read(path);
  for (const Case& c : file.cases) {
    if (c.name == name) return true;
  }
  if (!updating()) return false;
  const auto follows = [&](const Case& c) { return c.name > name; };
  file.cases.insert(std::find_if(file.cases.begin(), file.cases.end(), follows), {name, input, ""});
  write(file);
  return true;
}

void check(const std::filesystem::path& path, const std::string& name, const Transform& transform) {
  File file = read(path);
  for (Case& c : file.cases) {
    if (c.name != name) continue;
    const std::string actual = transform(file, c);
    if (!updating()) {
      EXPECT_EQ(c.expectation, actual) << "case " << name << " of " << path;
    } else if (c.expectation != actual) {
      c.expectation = actual;
      write(file);
    }
  }
}

namespace {

class GoldenCase : public testing::Test {
 public:
  GoldenCase(std::filesystem::path path, std::string name, Transform transform)
      : path_(std::move(path)), name_(std::move(name)), transform_(std::move(transform)) {}
  void TestBody() override { check(path_, name_, transform_); }

 private:
  std::filesystem::path path_;
  std::string name_;
  Transform transform_;
};

}  // namespace

void register_tests(const std::string& folder, const Transform& transform) {
  for (const File& file : read_folder(folder)) {
    for (const Case& c : file.cases) {
      const auto make = [path = file.path, name = c.name, transform]() -> testing::Test* {
        return new GoldenCase(path, name, transform);
      };
      testing::RegisterTest(file.path.stem().string().c_str(), c.name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            make);
    }
  }
}

}  // namespace graft::golden
