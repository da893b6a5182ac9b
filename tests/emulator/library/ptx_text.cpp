// SPDX-License-Identifier: Apache-2.0
#include "ptx_text.h"

#include <cctype>
#include <regex>
#include <stdexcept>
#include <vector>

namespace graft::emulator {
namespace {

/// Reads one asm statement's template from the left.
class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}

  std::string all() {
    std::string calls;
    for (skip_space(); at_ < text_.size(); skip_space()) calls += statement();
    return calls;
  }

 private:
  [[noreturn]] void fault() const {
    throw std::runtime_error("the inline PTX `" + text_ + "` is not understood from `" + text_.substr(at_) + "` on");
  }
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fault();
  }
  /// A name, a number or an opcode; empty at any other sign.
  std::string word() {
    skip_space();
    const size_t begin = at_;
    const auto belongs = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == ':';
    };
    while (at_ < text_.size() && belongs(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  std::string statement() {
    if (accept('{')) return "{ ";
    if (accept('}')) return "} ";
    if (accept('@')) {
      const std::string negated = accept('!') ? "!" : "";
      const std::string condition = word();
      return "if (" + negated + "r_" + condition + ") " + statement();
    }
    const std::string opcode = word();
    if (opcode.empty()) fault();
    return opcode == ".reg" ? registers() : instruction(opcode);
  }

  std::string registers() {
    const std::string type = word();
    if (type.size() < 2 || type[0] != '.') fault();
    std::string text = "graft_ptx::" + type.substr(1) + " r_" + word();
    while (accept(',')) text += ", r_" + word();
    expect(';');
    return text + "; ";
  }

  std::string instruction(const std::string& opcode) {
    static const std::regex shape("\\.m([0-9]+)n([0-9]+)k([0-9]+)"), between("\\.|::");
    std::string arguments;
    std::smatch match;
    std::string name = opcode;
    if (std::regex_search(opcode, match, shape)) {
      arguments = "graft_ptx::Shape<" + match.str(1) + ", " + match.str(2) + ", " + match.str(3) + ">()";
      name = match.prefix().str() + match.suffix().str();
    }
    for (bool more = !accept(';'); more; more = next_operand()) {
      arguments += (arguments.empty() ? "" : ", ") + operand();
    }
    return "graft_ptx::" + std::regex_replace(name, between, "_") + "(" + arguments + "); ";
  }

  bool next_operand() {
    if (accept(',')) return true;
    expect(';');
    return false;
  }

  std::string operands(char end) {
    std::string text = operand();
    while (accept(',')) text += ", " + operand();
    expect(end);
    return text;
  }

  std::string operand() {
    if (accept('[')) return "graft_ptx::address(" + operands(']') + ")";
    if (accept('{')) return "graft_ptx::list(" + operands('}') + ")";
    if (accept('%')) return "o" + word();
    const std::string text = word();
    if (text.empty()) fault();
    if (text == "_") return "graft_ptx::Nothing()";
    return std::isdigit(static_cast<unsigned char>(text[0])) ? text : "r_" + text;
  }

  const std::string& text_;
  size_t at_ = 0;
};

}  // namespace

std::string calls_of(const std::string& ptx) { return Reader(ptx).all(); }

}  // namespace graft::emulator
