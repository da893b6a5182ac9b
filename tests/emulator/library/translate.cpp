// SPDX-License-Identifier: Apache-2.0
#include "translate.h"

#include <cctype>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "ptx_text.h"

namespace graft::emulator {
namespace {

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// A walk over C++ text that knows strings, comments and brackets.
class Walk {
 public:
  explicit Walk(std::string_view text, size_t at = 0) : text_(text), at_(at) {}

  size_t at() const { return at_; }
  bool at_end() const { return at_ >= text_.size(); }
  char now() const { return at_end() ? '\0' : text_[at_]; }
  std::string_view rest() const { return text_.substr(at_); }

  void skip_space() {
    while (!at_end() && std::isspace(static_cast<unsigned char>(now()))) ++at_;
  }
  /// Over a name, string, comment, or one other character.
  std::string_view step() {
    const size_t begin = at_;
    if (is_name(now())) {
      while (is_name(now())) ++at_;
    } else if (now() == '"' || now() == '\'') {
      const char end = text_[at_++];
      while (!at_end() && now() != end) at_ += now() == '\\' ? 2 : 1;
      ++at_;
    } else if (rest().starts_with("//")) {
      while (!at_end() && now() != '\n') ++at_;
    } else {
      ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }
  /// Over a bracket and all up to its partner; gives what lies between.
  std::string_view group() {
    const size_t begin = at_ + 1;
    int depth = 0;
    do {
      const std::string_view token = step();
      if (token == "(" || token == "[" || token == "{") ++depth;
      if (token == ")" || token == "]" || token == "}") --depth;
      if (at_end() && depth > 0) throw std::runtime_error("a bracket is not closed");
    } while (depth > 0);
    return text_.substr(begin, at_ - 1 - begin);
  }

 private:
  std::string_view text_;
  size_t at_;
};

/// The parts between separators that stand outside of brackets and strings.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  Walk walk(text);
  while (!walk.at_end()) {
    if (walk.now() == separator) {
      parts.push_back(text.substr(begin, walk.at() - begin));
      walk.step();
      begin = walk.at();
    } else if (walk.now() == '(' || walk.now() == '[' || walk.now() == '{') {
      walk.group();
    } else {
      walk.step();
    }
  }
  parts.push_back(text.substr(begin));
  return parts;
}

/// The characters of neighbouring string literals.
std::string unquoted(std::string_view text) {
  std::string result;
  bool inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      inside = !inside;
    } else if (inside && text[i] == '\\') {
      ++i;
      result += text[i] == 'n' ? '\n' : text[i] == 't' ? '\t' : text[i];
    } else if (inside) {
      result += text[i];
    }
  }
  return result;
}

/// The variable of one operand, `"=f"(d[0])`.
std::string variable(std::string_view operand, int number) {
  const size_t open = operand.find('(');
  if (open == operand.npos) throw std::runtime_error("not an operand of inline PTX: " + std::string(operand));
  const std::string constraint = unquoted(operand.substr(0, open));
  Walk walk(operand, open);
  const std::string value = "(" + std::string(walk.group()) + ")";
  const std::string name = " o" + std::to_string(number) + " = ";
  if (constraint[0] == '=' || constraint[0] == '+') return "auto&" + name + value + "; ";
  switch (constraint[0]) {
    case 'h':
      return "const unsigned short" + name + "(unsigned short)" + value + "; ";
    case 'r':
      return "const unsigned" + name + "(unsigned)" + value + "; ";
    case 'l':
      return "const unsigned long long" + name + "(unsigned long long)" + value + "; ";
    case 'f':
      return "const float" + name + value + "; ";
    case 'd':
      return "const double" + name + value + "; ";
    case 'n':
      return "constexpr int" + name + value + "; ";
    default:
      throw std::runtime_error("a constraint of inline PTX is not understood: " + constraint);
  }
}

/// What stands in an asm statement's brackets -> a block of C++.
std::string block_of(std::string_view statement) {
  const std::vector<std::string_view> sections = split(statement, ':');
  std::string text = "{ ";
  int number = 0;
  for (size_t i = 1; i < sections.size() && i <= 2; ++i) {
    for (const std::string_view operand : split(sections[i], ',')) {
      if (operand.find('"') != operand.npos) text += variable(operand, number++);
    }
  }
  return text + calls_of(unquoted(sections[0])) + "}";
}

/// `extern __shared__ __align__(1024) u8 name[];`, from behind __shared__.
std::string shared_declaration(Walk& walk) {
  std::vector<std::string> names;
  while (walk.now() != ';') {
    if (walk.now() == '(' || walk.now() == '[') {
      walk.group();
    } else if (const std::string token(walk.step()); is_name(token[0]) && token != "__align__") {
      names.push_back(token);
    }
  }
  if (names.size() != 2) throw std::runtime_error("a declaration of shared memory is not understood");
  return names[0] + "* const " + names[1] + " = (" + names[0] + "*)graft_dynamic_shared()";
}

struct Kernel {
  std::string name, most_threads = "1024", least_blocks = "1", cluster = "1";
};

/// Reads on from behind `__global__`, and leaves the walk where it was.
Kernel kernel_at(Walk walk) {
  Kernel kernel;
  for (;;) {
    walk.skip_space();
    const std::string token(walk.step());
    if (token == "void") continue;
    walk.skip_space();
    if (walk.now() != '(') throw std::runtime_error("the head of a kernel is not understood");
    kernel.name = token;
    if (token != "__launch_bounds__" && token != "__cluster_dims__") return kernel;
    const std::vector<std::string_view> values = split(walk.group(), ',');
    (token == "__cluster_dims__" ? kernel.cluster : kernel.most_threads) = values[0];
    if (token == "__launch_bounds__" && values.size() > 1) kernel.least_blocks = values[1];
  }
}

constexpr const char* kEntries = R"(
template <int... I> struct GraftIndices {};
template <int N, int... I> struct GraftCount : GraftCount<N - 1, N - 1, I...> {};
template <int... I> struct GraftCount<0, I...> { typedef GraftIndices<I...> type; };
template <class... A, int... I>
__attribute__((no_sanitize("kernel-address"))) void graft_call(void (*kernel)(A...), void** a, GraftIndices<I...>) {
  kernel(*(A*)a[I]...);
}
template <class... A> void graft_call(void (*kernel)(A...), void** a) {
  graft_call(kernel, a, typename GraftCount<sizeof...(A)>::type());
}
template <class... A> constexpr graft_parameters graft_parameters_of(void (*)(A...)) {
  return {sizeof...(A), {sizeof(A)...}};
}
#define GRAFT_ENTRY(name, threads, blocks, cluster) \
  static void graft_enter_##name(void** a) { graft_call(&name, a); } \
  extern "C" const graft_kernel graft_kernel_##name; \
  const graft_kernel graft_kernel_##name = {&graft_enter_##name, threads, blocks, cluster, graft_parameters_of(&name)};
)";

}  // namespace

std::string translate(const std::string& source) {
  std::string text = "#include \"cuda.h\"\n", entries;
  Walk walk(source);
  while (!walk.at_end()) {
    const std::string_view token = walk.step();
    if (token == "asm") {
      while (walk.now() != '(') walk.step();  // volatile
      text += block_of(walk.group());
      while (walk.step() != ";") continue;
    } else if (token == "__shared__") {
      text.resize(text.rfind("extern"));
      text += shared_declaration(walk);
    } else {
      text += token;
    }
    if (token == "__global__") {
      const Kernel kernel = kernel_at(walk);
      entries += "GRAFT_ENTRY(" + kernel.name + ", " + kernel.most_threads + ", " + kernel.least_blocks + ", " +
                 kernel.cluster + ")\n";
    }
  }
  return text + kEntries + entries;
}

}  // namespace graft::emulator
