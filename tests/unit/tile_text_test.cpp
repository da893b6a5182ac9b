// SPDX-License-Identifier: Apache-2.0
#include <random>

#include <gtest/gtest.h>

#include "base/error.h"
#include "tile/program.h"

namespace graft::tile {
namespace {

/// Every statement kind, store mode, scope and option of the text form.
constexpr std::string_view kEverything = R"(program everything {
  threads 128
  sizes batch, length
  global x: f32[batch, length] strides [length, 1]
  global index: i64[batch] strides [1]
  global y: f32[batch, length] strides [length, 1] written
  global rank: i32[batch, length] strides [length, 1] written
  shared row: f32[64, 64] strides [68, 1]
  shared best: f32[64] strides [1]
  shared where_2: i64[64] strides [1]
  fragment acc: f32[64, 64] strides [64, 1]
  grid [g0 < batch, g1 < floor_div(length + 63, 64)]
  body {
    let t0 = min(64, sub(size(length), mul(64, g1)))
    for i0 < t0 bound 64 stages 3 {
      if lt(i0, size(length)) {
        map [i1 < sub(64, i0) bound 64, i2 < 64] ordered {
          where lt(add(i1, i2), size(length))
          y[g0, i1] += x[g0, i2]
          y[g0, i2] max= 0:f32
          row[i1, i2] = select(lt(i1, i2), -inf:f32, exp(x[g0, i1]))
        }
      }
      contract m [i3 < 64] n [i4 < 64] k [i5 < 16] tf32 {
        acc[i3, i4] += row[i3, i5] * row[i5, i4]
      }
    }
    reduce [i6 < 64] over [i7 < 64] accumulate sequential {
      state (a0: f32, a1: i64) (b0: f32, b1: i64)
      lift acc[i6, i7], i7
      identity -inf:f32, 0
      combine max(a0, b0), select(lt(a0, b0), b1, a1)
      into best[i6], where_2[i6]
    }
    scan [i8 < 64] along i9 < 64 exclusive reverse {
      state (a2: f32)
      let t1 = exp(row[i8, i9])
      initial 0:f32
      step add(a2, mul(t1, t1))
      row[i8, i9] = add(a2, t1)
    }
    sort y[g0, 0] positions rank[g0, 0] length size(length) descending
    map [] {
      y[g0, check_index(index[g0], size(length))] min= best[0]
      y[g0, 0] *= 2:f32
    }
  }
}
)";

std::string error_of(std::string_view text) {
  try {
    parse_programs(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
    return error.what();
  }
  return "";
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(TileText, prints_what_it_read) {
  const std::string once = print(parse_program(kEverything));
  EXPECT_EQ(print(parse_program(once)), once);
  // Extents of a loop are printed with their lets repeated in place when short; the rest is as written.
  for (const std::string_view part :
       {"threads 128", "sizes batch, length", "shared row: f32[64, 64] strides [68, 1]",
        "fragment acc: f32[64, 64] strides [64, 1]", "stages 3", "map [i1 <", "ordered {",
        "where lt(add(i1, i2), size(length))", "y[g0, i1] += x[g0, i2]", "y[g0, i2] max= 0:f32",
        "acc[i3, i4] += row[i3, i5] * row[i5, i4]", "accumulate sequential {",
        "combine max(a0, b0), select(lt(a0, b0), b1, a1)", "into best[i6], where_2[i6]", "exclusive reverse {",
        "sort y[g0, 0] positions rank[g0, 0] length size(length) descending", "map [] {",
        "y[g0, 0] *= 2:f32"}) {
    EXPECT_NE(once.find(part), once.npos) << part << "\n" << once;
  }
}

TEST(TileText, separates_programs_printed_one_after_the_other) {
  const std::string one = print(parse_program(kEverything));
  const std::vector<Program> programs = parse_programs(one + replaced(one, "everything", "second"));
  ASSERT_EQ(programs.size(), 2u);
  EXPECT_EQ(print(programs[0]), one);
  EXPECT_EQ(programs[1].name, "second");
  EXPECT_TRUE(parse_programs("  # nothing\n").empty());
}

TEST(TileText, names_roles_where_there_are_some) {
  for (const char* threads : {"threads 128", "threads 128 producers 128", "threads 256 producers 128 group 4",
                              "threads 128 producers 128 split 2"}) {
    const std::string text = replaced(std::string(kEverything), "threads 128", threads);
    EXPECT_NE(print(parse_program(text)).find(std::string("  ") + threads + "\n"), text.npos) << threads;
  }
}

TEST(TileText, makes_identifiers_of_buffer_names) {
  Program program;
  program.name = "copy";
  for (const char* name : {"/layer.0/Add", "_layer_0_Add", "map", "t0"}) {
    program.buffers.push_back({name, DType::kFloat32, Scope::kGlobal, {4}, {1}, true});
  }
  const Expr i = make_variable();
  program.body.push_back({Map{{{i, make_index(4), 4}}, {}, {{3, {i}, make_load(0, DType::kFloat32, {i})}}}});
  const std::string text = print(program);
  EXPECT_EQ(print(parse_program(text)), text);
}

TEST(TileText, errors_name_line_and_cause) {
  const std::string text(kEverything);
  EXPECT_NE(error_of(replaced(text, "x[g0, i2]", "z[g0, i2]")).find("line 19"), std::string::npos);
  EXPECT_NE(error_of(replaced(text, "x[g0, i2]", "x[i2]")).find("2 axes"), std::string::npos);
  EXPECT_NE(error_of(replaced(text, "lt(i0, size(length))", "i0")).find("not bool"), std::string::npos);
  EXPECT_NE(error_of(replaced(text, "combine max(a0, b0)", "combine max(a0, i6)")).find("differ"),
            std::string::npos);
  EXPECT_NE(error_of(replaced(text, "sizes batch, length", "sizes batch")).find("'length' is used"),
            std::string::npos);
  EXPECT_NE(error_of(replaced(text, " strides [length, 1] written", " strides [length, 1]"))
                .find("not marked written"),
            std::string::npos);
  EXPECT_NE(error_of(text + "x").find("expected 'program'"), std::string::npos);
}

TEST(TileText, refuses_deep_nesting) {
  std::string text = "program deep { body {";
  for (int i = 0; i < 100000; ++i) text += "if true {";
  EXPECT_NE(error_of(text).find("nest deeper"), std::string::npos);
}

TEST(TileText, survives_any_bytes) {
  std::mt19937 random(20240607);
  const std::string text = print(parse_program(kEverything));
  for (size_t length = 0; length < text.size(); length += 7) error_of(text.substr(0, length));
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string mutated = text;
    for (int edit = 0; edit < 1 + round % 4; ++edit) {
      const size_t at = random() % mutated.size();
      switch (random() % 3) {
        case 0: mutated[at] = static_cast<char>(random() % 256); break;
        case 1: mutated.erase(at, random() % 12); break;
        default: mutated.insert(at, mutated.substr(random() % mutated.size(), random() % 24)); break;
      }
    }
    accepted += error_of(mutated).empty();
  }
  EXPECT_GT(accepted, 0);  // such as a changed name or number
}

}  // namespace
}  // namespace graft::tile
