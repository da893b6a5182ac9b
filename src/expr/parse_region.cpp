// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/error.h"
#include "expr/parse_forms.h"
#include "expr/region.h"
#include "expr/text.h"

namespace graft {
namespace {

/// Reads the text form described in print_region.cpp.
class RegionParser {
 public:
  explicit RegionParser(std::string_view text) : lexer_(text, "region") {}

  Region parse() {
    lexer_.expect("region");
    region_.name = lexer_.name("the region's name");
    region_.tf32 = lexer_.accept("tf32");
    region_.fma = lexer_.accept("fma");
    while (lexer_.accept("tensor")) tensor();
    while (lexer_.accept("input")) region_.inputs.push_back(tensor_name());
    while (lexer_.accept("output")) region_.outputs.push_back(tensor_name());
    const FormNames names{.find_tensor = [this](std::string_view name) { return find(name); },
                          .define = [this](std::string_view name) { return number_of(name); }};
    while (!lexer_.at_end()) region_.forms.push_back(parse_form(lexer_, names));
    return std::move(region_);
  }

 private:
  void tensor() {
    TensorDecl declared;
    declared.name = lexer_.name("a tensor's name");
    lexer_.expect(":");
    declared.type = lexer_.dtype();
    declared.shape = lexer_.shape();
    if (!tensors_.emplace(declared.name, static_cast<int>(region_.tensors.size())).second) {
      lexer_.fail(fmt::format("the tensor '{}' is declared twice", declared.name));
    }
    region_.tensors.push_back(std::move(declared));
  }

  int tensor_name() { return number_of(lexer_.name("a tensor's name")); }
  int number_of(std::string_view name) const {
    const auto it = tensors_.find(name);
    if (it == tensors_.end()) lexer_.fail(fmt::format("the tensor '{}' is not declared", name));
    return it->second;
  }
  std::optional<ExprScope::Tensor> find(std::string_view name) const {
    const auto it = tensors_.find(name);
    if (it == tensors_.end()) return std::nullopt;
    const TensorDecl& declared = region_.tensors[static_cast<size_t>(it->second)];
    return ExprScope::Tensor{it->second, declared.type, static_cast<int>(declared.shape.size())};
  }

  Lexer lexer_;
  Region region_;
  std::map<std::string, int, std::less<>> tensors_;
};

}  // namespace

Region parse_region(std::string_view text) { return RegionParser(text).parse(); }

}  // namespace graft
