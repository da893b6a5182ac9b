// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/error.h"
#include "expr/text.h"

namespace graft {
namespace {

/// Reads an expression over x: f32[2 axes], n: i64[0 axes], i: i64, f: f32.
Expr parse(std::string_view text) {
  ExprScope scope([](std::string_view name) -> std::optional<ExprScope::Tensor> {
    if (name == "x") return ExprScope::Tensor{0, DType::kFloat32, 2};
    if (name == "n") return ExprScope::Tensor{1, DType::kInt64, 0};
    return std::nullopt;
  });
  Lexer lexer(text, "expression");
  static const Expr i = make_variable(), f = make_variable(DType::kFloat32);
  scope.declare(lexer, "i", i);
  scope.declare(lexer, "f", f);
  parse_lets(lexer, scope);
  Expr e = parse_expr(lexer, scope);
  if (!lexer.at_end()) lexer.fail("expected the end");
  return e;
}

std::string print(const Expr& e) {
  static const int i = parse("i")->variable;
  return print_expr(
      e, [](int tensor) { return tensor == 0 ? "x" : "n"; }, [](int variable) { return variable == i ? "i" : "f"; });
}

std::string error_of(std::string_view text) {
  try {
    parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(ExprText, expressions_print_as_they_were_written) {
  for (const std::string_view text : {"add(x[i, 0], 1.5:f32)",
                                      "3",
                                      "-3",
                                      "7:u8",
                                      "18446744073709551615:u64",
                                      "-9223372036854775808",
                                      "true",
                                      "inf:f32",
                                      "-inf:f64",
                                      "nan:f32",
                                      "-nan:f32",
                                      "-0:f32",
                                      "1e-45:f32",
                                      "3.4028235e+38:f32",
                                      "0.1:f64",
                                      "size(8*batch + 1)",
                                      "size(floor_div(length + 1, 2))",
                                      "n[]",
                                      "cast<f16>(f)",
                                      "bitcast<i32>(f)",
                                      "select(lt(i, n[]), f, 0:f32)",
                                      "x[add(i, 1), size(batch)]",
                                      "check_index(n[], size(batch))",
                                      "cast<f32>(i)"}) {
    EXPECT_EQ(print(parse(text)), text);
  }
}

TEST(ExprText, float_constants_read_back_bit_for_bit) {
  for (const float value : {0.1f, 1.0f / 3, 16777216.0f, std::numeric_limits<float>::denorm_min(), 6.0221409e+23f}) {
    const Expr e = make_constant(DType::kFloat32, value);
    EXPECT_TRUE(equal(parse(print(e)), e)) << value;
  }
  const Expr wide = make_constant(DType::kFloat64, std::nextafter(0.1, 1.0));
  EXPECT_TRUE(equal(parse(print(wide)), wide));
}

TEST(ExprText, exponents_may_be_written_large_and_with_either_sign) {
  for (const std::string_view text : {"1e-5:f32", "1E-5:f32", "0.1E-4:f32"}) EXPECT_EQ(print(parse(text)), "1e-05:f32");
  for (const std::string_view text : {"1e+20:f32", "1E+20:f32", "1E20:f32"}) EXPECT_EQ(print(parse(text)), "1e+20:f32");
}

TEST(ExprText, shared_expressions_are_written_once) {
  Expr e = parse("x[i, 0]");
  for (int step = 0; step < 60; ++step) e = make_call(Intrinsic::kMul, {exp(e), exp(e) + e});
  const auto written = [](const Expr& root) {
    ExprPrinter printer([](int) { return "x"; }, [](int) { return "i"; });
    std::string text;
    for (const std::string& let : printer.lets({root})) text += let + "\n";
    return text + printer.print(root);
  };
  const std::string text = written(e);
  EXPECT_LT(text.size(), 10000u);  // without lets it would have 3^60 loads
  EXPECT_EQ(written(parse(text)), text);
}

TEST(ExprText, tall_expressions_are_cut_so_that_they_read_back) {
  Expr e = parse("f");
  for (int step = 0; step < 1500; ++step) e = exp(e);
  ExprPrinter printer([](int) { return "x"; }, [](int) { return "f"; });
  std::string text;
  for (const std::string& let : printer.lets({e})) text += let + "\n";
  EXPECT_TRUE(equal(parse(text + printer.print(e)), e));
}

TEST(ExprText, errors_name_line_column_and_cause) {
  EXPECT_EQ(error_of("add(i,\n  y[i])"), "expression, line 2, column 4: 'y' is not a tensor here; found '['");
  EXPECT_EQ(error_of("add(i, f)"),
            "expression, line 1, column 10: the operand types of add differ: i64 and f32; found the end of the text");
  EXPECT_NE(error_of("x[i]").find("'x' has 2 axes, but 1 indices are given"), std::string::npos);
  EXPECT_NE(error_of("x[i, f]").find("not an i64"), std::string::npos);
  EXPECT_NE(error_of("add(i)").find("add takes 2 arguments, not 1"), std::string::npos);
  EXPECT_NE(error_of("300:u8").find("'300' is not a constant of type u8"), std::string::npos);
  EXPECT_NE(error_of("sqrt(i)").find("sqrt does not take operands of type i64"), std::string::npos);
  EXPECT_NE(error_of("bitcast<i64>(f)").find("changes the width"), std::string::npos);
  EXPECT_NE(error_of("neg(true)").find("neg does not take operands of type bool"), std::string::npos);
}

TEST(ExprText, comments_end_with_their_line) {
  EXPECT_EQ(print(parse("# a sum\nadd(i, # of a variable\n 3) # and a number")), "add(i, 3)");
  EXPECT_EQ(print(parse("#\n#\n# i\ni#")), "i");
}

TEST(ExprText, expressions_may_be_as_deep_as_the_limits) {
  const auto nested = [](int calls) {
    std::string text = "f";
    for (int k = 0; k < calls; ++k) text = "exp(" + text + ")";
    return text;
  };
  EXPECT_EQ(error_of(nested(199)), "no error");
  EXPECT_NE(error_of(nested(200)).find("nests too deeply"), std::string::npos);
  const auto tall = [](int calls) {
    std::string text = "let t0 = exp(f)\n";
    for (int k = 1; k < calls; ++k) {
      text += "let t" + std::to_string(k) + " = exp(t" + std::to_string(k - 1) + ")\n";
    }
    return text + "t" + std::to_string(calls - 1);
  };
  EXPECT_EQ(error_of(tall(1999)), "no error");
  EXPECT_NE(error_of(tall(2000)).find("too deep"), std::string::npos);
}

TEST(ExprText, hostile_expressions_are_errors_and_not_crashes) {
  for (const std::string& text :
       {std::string(""), std::string("add("), std::string("1.5"), std::string("99999999999999999999"),
        std::string("size("), std::string("size(a*)"), std::string("size(9223372036854775807*2)"), std::string("-"),
        std::string("x[,]"), std::string("cast<x>(i)"), std::string("1:"), std::string("\xff\x00\x80", 3),
        std::string("mul(size(9223372036854775807), size(4))"), std::string("let i = 3\n i"),
        std::string("select(i, i, i)"), std::string("1e999:f32")}) {
    EXPECT_NE(error_of(text), "no error") << text;
  }
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "neg(";
  EXPECT_NE(error_of(deep).find("nests too deeply"), std::string::npos);
  std::string chain = "let t0 = exp(f)\n";
  for (int i = 1; i < 100000; ++i) {
    chain += "let t" + std::to_string(i) + " = exp(t" + std::to_string(i - 1) + ")\n";
  }
  EXPECT_NE(error_of(chain + "f").find("too deep"), std::string::npos);
}

TEST(ExprText, text_that_would_unfold_exponentially_is_read_or_refused_at_once) {
  std::string lets;
  for (const std::string name : {"a", "b"}) {
    lets += "let " + name + "0 = mul(i, n[])\n";
    for (int k = 1; k < 100; ++k) {
      const std::string before = name + std::to_string(k - 1);
      lets += "let " + name + std::to_string(k) + " = mul(" + before + ", " + before + ")\n";
    }
  }
  EXPECT_EQ(print(parse(lets + "sub(a99, b99)")), "0");
  std::string product = "(a0 + b0)";
  for (int k = 1; k < 60; ++k) product += "*(a" + std::to_string(k) + " + b" + std::to_string(k) + ")";
  EXPECT_NE(error_of("size(" + product + ")").find("too many terms"), std::string::npos);
}

TEST(ExprText, identifiers_are_made_unique) {
  std::map<std::string, int, std::less<>> taken;
  EXPECT_EQ(unique_identifier("/encoder/layer.0", taken), "_encoder_layer_0");
  EXPECT_EQ(unique_identifier("_encoder_layer_0", taken), "_encoder_layer_0_2");
  EXPECT_EQ(unique_identifier("0", taken), "v0");
  EXPECT_EQ(unique_identifier("", taken), "v");
}

TEST(ExprText, identifiers_keep_letters_and_digits_and_nothing_beside_them) {
  const auto made = [](std::string_view name) {
    std::map<std::string, int, std::less<>> taken;
    return unique_identifier(name, taken);
  };
  EXPECT_EQ(made("azAZ_09"), "azAZ_09");
  for (const char c : {'`', '{', '@', '[', '/', ':', ' ', '-', '\x7f', '\xff'}) {
    EXPECT_EQ(made(std::string("a") + c), "a_") << "character " << static_cast<int>(c);
  }
  for (const char* name : {"0", "9", "5x"}) EXPECT_EQ(made(name), std::string("v") + name);
  for (const char* name : {"a", "z", "A", "Z", "_"}) EXPECT_EQ(made(name), name);
}

TEST(Lexer, takes_characters_for_what_they_are_up_to_the_first_and_last) {
  const auto kind = [](std::string_view text) { return Lexer(text, "text").peek().kind; };
  for (const char* text : {"a", "z", "A", "Z", "_", "a0", "z9", "a_Z"}) {
    EXPECT_EQ(kind(text), TokenKind::kName) << text;
    EXPECT_EQ(Lexer(text, "text").peek().text, text);
  }
  for (const char* text : {"0", "9", "1.5", "1e+5", "1e-5", "1E5", "0x1F"}) {
    EXPECT_EQ(kind(text), TokenKind::kNumber) << text;
    EXPECT_EQ(Lexer(text, "text").peek().text, text);
  }
  for (const char* text : {"`", "{", "@", "[", "/", ":", "+", "\x7f"}) {
    EXPECT_EQ(kind(text), TokenKind::kPunctuation) << text;
    EXPECT_EQ(Lexer(std::string("a") + text, "text").peek().text, "a") << text;
  }
  for (const char* text : {"", " ", "\n", "\t", "\r", "#", "# a", " \n\t\r# a\n"}) {
    EXPECT_EQ(kind(text), TokenKind::kEnd) << "'" << text << "'";
  }
}

TEST(Lexer, reads_whole_numbers_of_64_bits_and_no_others) {
  const auto read = [](std::string_view text) -> std::optional<int64_t> {
    Lexer lexer(text, "text");
    try {
      return lexer.integer("a number");
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("expected a number, a 64-bit integer"), std::string::npos) << error.message();
      return std::nullopt;
    }
  };
  EXPECT_EQ(read("0"), 0);
  EXPECT_EQ(read("-0"), 0);
  EXPECT_EQ(read("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(read("-9223372036854775808"), INT64_MIN);
  for (const char* text : {"9223372036854775808", "-9223372036854775809", "18446744073709551616", "1.5", "1a", "a", "-",
                           "", "--1", "+1"}) {
    EXPECT_EQ(read(text), std::nullopt) << text;
  }
}

TEST(Lexer, shows_what_it_found_without_what_does_not_print) {
  const auto found = [](const std::string& text) {
    try {
      Lexer(text, "text").expect("x");
    } catch (const Error& error) {
      return error.message();
    }
    return std::string();
  };
  EXPECT_EQ(found("~"), "expected 'x'; found '~'");
  EXPECT_EQ(found("!"), "expected 'x'; found '!'");
  EXPECT_EQ(found("\x7f"), "expected 'x'; found '?'");
  EXPECT_EQ(found("\x1f"), "expected 'x'; found '?'");
  EXPECT_EQ(found("\x80"), "expected 'x'; found '?'");
  EXPECT_EQ(found(""), "expected 'x'; found the end of the text");
  EXPECT_EQ(found(std::string(40, 'a')), "expected 'x'; found '" + std::string(40, 'a') + "'");
  EXPECT_EQ(found(std::string(41, 'a')), "expected 'x'; found '" + std::string(40, 'a') + "'");
}

TEST(Lexer, says_the_line_and_the_column) {
  Lexer lexer("a\n\n  b", "text");
  EXPECT_EQ(lexer.place(), "text, line 1, column 1");
  lexer.next();
  EXPECT_EQ(lexer.place(), "text, line 3, column 3");
}

TEST(Lexer, reads_sizes_up_to_what_ends_them) {
  const auto read = [](const std::string& text) -> std::pair<std::string, std::string> {
    Lexer lexer(text, "text");
    try {
      const Size size = lexer.size();
      return {size.to_string(), std::string(lexer.peek().text)};
    } catch (const Error& error) {
      return {"", error.message()};
    }
  };
  using Pair = std::pair<std::string, std::string>;
  for (const char* end : {",", "]", ")", "{", ";"}) {
    EXPECT_EQ(read(std::string("a") + end + "b"), Pair("a", end));
    EXPECT_EQ(read(std::string("a  ") + end + "b"), Pair("a", end));
  }
  EXPECT_EQ(read("a\nb"), Pair("a", "b"));
  EXPECT_EQ(read("max(a, b), c").first, max(Size::symbol("a"), Size::symbol("b")).to_string());
  EXPECT_NE(read(",").second.find("expected a size"), std::string::npos);
  EXPECT_NE(read("").second.find("expected a size"), std::string::npos);
  const std::string zeros((size_t{1} << 16) - 1, '0');
  EXPECT_EQ(read(zeros + "7").second.find("too long"), std::string::npos) << read(zeros + "7").second;
  EXPECT_NE(read("0" + zeros + "7").second.find("the size is too long"), std::string::npos);
}

TEST(Lexer, reads_what_stands_between_quotes_on_one_line) {
  const auto read = [](const std::string& text) -> std::string {
    Lexer lexer(text, "text");
    try {
      const std::string inside(lexer.quoted("a name"));
      return inside + "|" + std::string(lexer.peek().text);
    } catch (const Error& error) {
      return error.message();
    }
  };
  EXPECT_EQ(read("\"a b\" c"), "a b|c");
  EXPECT_EQ(read("\"\""), "|");
  for (const char* text : {"\"a", "\"a\nb\"", "a\"b\"", ""}) {
    EXPECT_NE(read(text).find("expected a name between double quotes"), std::string::npos) << text;
  }
}

TEST(ExprText, constants_keep_to_their_types) {
  for (const char* text : {"127:i8", "-128:i8", "255:u8", "0:u8", "32767:i16", "-32768:i16", "65535:u16",
                           "2147483647:i32", "-2147483648:i32", "4294967295:u32", "18446744073709551615:u64"}) {
    EXPECT_EQ(error_of(text), "no error") << text;
  }
  for (const char* text : {"128:i8", "-129:i8", "256:u8", "-1:u8", "32768:i16", "-32769:i16", "65536:u16",
                           "2147483648:i32", "-2147483649:i32", "4294967296:u32", "-1:u64", "18446744073709551616:u64",
                           "9223372036854775808:i64", "-9223372036854775809:i64", "1.5:i32", "1:str"}) {
    EXPECT_NE(error_of(text), "no error") << text;
  }
}

}  // namespace
}  // namespace graft
