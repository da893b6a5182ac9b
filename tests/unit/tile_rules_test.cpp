// SPDX-License-Identifier: Apache-2.0
// Each rule of tile programs, broken alone in a program that keeps all the others: the message names it.
#include <functional>

#include <gtest/gtest.h>

#include "tile/program.h"

namespace graft::tile {
namespace {

/// A program with every kind of statement, for a GPU: statements 0 to 6.
Program whole_program() {
  return parse_program(R"(program whole {
  threads 64
  sizes m, n
  global x: f32[m, n] strides [n, 1]
  global y: f32[m, n] strides [n, 1] written
  global rank: i32[m, n] strides [n, 1] written
  shared row: f32[16, 16] strides [16, 1]
  shared best: f32[16] strides [1]
  shared where_: i64[16] strides [1]
  fragment acc: f32[16, 16] strides [16, 1]
  grid [g0 < m]
  body {
    for i0 < size(n) bound 8 stages 2 {
      map [i1 < 16 bound 16] ordered {
        where lt(i1, size(n))
        row[i0, i1] = x[g0, i1]
      }
    }
    if lt(g0, size(n)) {
      map [] {
        y[g0, 0] += 1:f32
      }
    }
    reduce [i0 < 16 bound 16] over [i1 < 16 bound 16] {
      state (a0: f32, a1: i64) (b0: f32, b1: i64)
      lift row[i0, i1], i1
      identity -inf:f32, 0
      combine max(a0, b0), select(lt(a0, b0), b1, a1)
      into best[i0], where_[i0]
    }
    contract m [i0 < 16 bound 16] n [i1 < 16 bound 16] k [i2 < 16 bound 16] {
      acc[i0, i1] = row[i0, i2] * row[i2, i1]
    }
    sort y[g0, 0] positions rank[g0, 0] length size(n)
    scan [i0 < 16 bound 16] along i1 < 16 bound 16 {
      state (s0: f32)
      initial 0:f32
      step add(s0, row[i0, i1])
      row[i0, i1] = s0
    }
    select [] along i0 < size(n) first 4 {
      rank r0
      key x[g0, i0]
      into y[g0, r0], rank[g0, r0]
    }
  }
}
)");
}

For& loop_of(Program& p) { return std::get<For>(p.body[0].node); }
Map& map_of(Program& p) { return std::get<Map>(loop_of(p).body[0].node); }
If& branch_of(Program& p) { return std::get<If>(p.body[1].node); }
Reduce& reduce_of(Program& p) { return std::get<Reduce>(p.body[2].node); }
Contract& contract_of(Program& p) { return std::get<Contract>(p.body[3].node); }
SortRow& sort_of(Program& p) { return std::get<SortRow>(p.body[4].node); }
Scan& scan_of(Program& p) { return std::get<Scan>(p.body[5].node); }
Select& select_of(Program& p) { return std::get<Select>(p.body[6].node); }

struct Break {
  const char* message;
  std::function<void(Program&)> apply;
};

const Expr& zero() {
  static const Expr e = make_index(0);
  return e;
}
const Expr& narrow() {
  static const Expr e = make_integer(DType::kInt32, 0);
  return e;
}

// Buffers by number: x 0, y 1, rank 2, row 3, best 4, where_ 5, acc 6.

/// Of names, buffers, sizes and axes.
std::vector<Break> breaks_of_the_header() {
  return {
      {"the name is not a C identifier", [](Program& p) { p.name = "1st"; }},
      {"the name is not a C identifier", [](Program& p) { p.name = ""; }},
      {"the name is not a C identifier", [](Program& p) { p.name = "a-b"; }},
      {"sizes are not sorted and unique",
       [](Program& p) {
         p.sizes = {"n", "m"};
       }},
      {"sizes are not sorted and unique",
       [](Program& p) {
         p.sizes = {"m", "n", "n"};
       }},
      {"threads is not a multiple of 32", [](Program& p) { p.threads = 48; }},
      {"threads is not a multiple of 32", [](Program& p) { p.threads = 1056; }},
      {"threads is not a multiple of 32", [](Program& p) { p.threads = -32; }},
      {"buffer name '' is empty or used twice", [](Program& p) { p.buffers[0].name = ""; }},
      {"buffer name 'y' is empty or used twice", [](Program& p) { p.buffers[0].name = "y"; }},
      {"buffer 'x' has no type", [](Program& p) { p.buffers[0].type = DType::kUndefined; }},
      {"buffer 'x' has not one stride per axis", [](Program& p) { p.buffers[0].strides.pop_back(); }},
      {"global buffer 'best' follows a local one", [](Program& p) { p.buffers[4].scope = Scope::kGlobal; }},
      {"buffer 'best' lies in a block's memory but its size varies",
       [](Program& p) { p.buffers[4].shape = {Size::symbol("n")}; }},
      {"fragment 'best' has neither two axes nor one",
       [](Program& p) {
         p.buffers[4].scope = Scope::kFragment;
         p.buffers[4].shape = {4, 2, 2}, p.buffers[4].strides = {4, 2, 1};
       }},
      {"size 'k' is used but not listed", [](Program& p) { p.buffers[0].shape[0] = Size::symbol("k"); }},
      {"size 'k' is used but not listed", [](Program& p) { p.grid[0].extent = Size::symbol("k"); }},
      {"statement 0: size 'k' is used but not listed",
       [](Program& p) { loop_of(p).axis.extent = make_size(Size::symbol("k")); }},
      {"an axis or state is not a variable", [](Program& p) { loop_of(p).axis.variable = zero(); }},
      {"an axis or state is not a variable", [](Program& p) { p.grid[0].variable = {}; }},
      {"statement 0.0: a variable is bound twice", [](Program& p) { map_of(p).axes[0].variable = p.grid[0].variable; }},
      {"an axis variable is not i64", [](Program& p) { loop_of(p).axis.variable = make_variable(DType::kInt32); }},
      {"an extent is missing", [](Program& p) { loop_of(p).axis.extent = {}; }},
      {"an extent is not i64", [](Program& p) { loop_of(p).axis.extent = narrow(); }},
      {"a bound is negative", [](Program& p) { loop_of(p).axis.bound = -1; }},
      {"an extent exceeds its bound", [](Program& p) { map_of(p).axes[0].bound = 15; }},
      {"buffer 'row' is no constant", [](Program& p) { p.buffers[3].constant = true; }},
      {"buffer 'row' lies in a block's memory but its size varies",
       [](Program& p) {
         p.buffers[3].strides = {Size::symbol("n"), 1};
       }},
      {"fragment 'acc' has neither two axes nor one",
       [](Program& p) {
         p.buffers[6].shape = p.buffers[6].strides = {};
       }},
  };
}

/// Characters beside those that a name may have.
std::vector<Break> breaks_of_names() {
  std::vector<Break> breaks;
  for (const char* name : {"@", "[", "`", "{", "/", ":", "0a", "9a", "a@", "a[", "a`", "a{", "a/", "a:", "a b"}) {
    breaks.push_back({"the name is not a C identifier", [=](Program& p) { p.name = name; }});
  }
  return breaks;
}

/// Of loops, branches and maps.
std::vector<Break> breaks_of_maps() {
  return {
      {"teams go with producers and without a split", [](Program& p) { p.roles.teams = 2; }},
      {"buffer 'y' is no constant", [](Program& p) { p.buffers[1].constant = true; }},
      {"stages is not between 1 and 16", [](Program& p) { loop_of(p).stages = 0; }},
      {"stages is not between 1 and 16", [](Program& p) { loop_of(p).stages = 17; }},
      {"a loop that copies nothing ahead copies early",
       [](Program& p) { loop_of(p).stages = 1, loop_of(p).early = true; }},
      {"statement 1: a condition is missing", [](Program& p) { branch_of(p).condition = {}; }},
      {"statement 1: a condition is not bool", [](Program& p) { branch_of(p).condition = zero(); }},
      {"statement 0.0: a condition is not bool", [](Program& p) { map_of(p).condition = zero(); }},
      {"a map stores nothing", [](Program& p) { map_of(p).stores.clear(); }},
      {"a store names no buffer", [](Program& p) { map_of(p).stores[0].buffer = 7; }},
      {"a store names no buffer", [](Program& p) { map_of(p).stores[0].buffer = -1; }},
      {"a store has 1 indices for 'row', which has 2 axes", [](Program& p) { map_of(p).stores[0].indices.pop_back(); }},
      {"an index of 'row' in a store is not i64", [](Program& p) { map_of(p).stores[0].indices[1] = narrow(); }},
      {"a store writes 'x', which is not marked written", [](Program& p) { map_of(p).stores[0].buffer = 0; }},
      {"a stored value has another type than 'row'", [](Program& p) { map_of(p).stores[0].value = zero(); }},
      {"a stored value uses a variable out of scope",
       [](Program& p) {
         map_of(p).stores[0].value = make_load(0, DType::kFloat32, {make_variable(), make_index(0)});
       }},
      {"a stored value loads 'x' with another type",
       [](Program& p) {
         map_of(p).stores[0].value = make_load(0, DType::kFloat64, {zero(), zero()});
       }},
      {"statement 1.0: a stored value uses a variable out of scope",
       [](Program& p) {
         std::get<Map>(branch_of(p).body[0].node).stores[0].value =
             make_load(3, DType::kFloat32, {loop_of(p).axis.variable, make_index(0)});
       }},
  };
}

/// Of reductions.
std::vector<Break> breaks_of_reductions() {
  return {
      {"components of a reduction do not agree in number", [](Program& p) { reduce_of(p).lift.pop_back(); }},
      {"components of a reduction do not agree in number", [](Program& p) { reduce_of(p).outputs.pop_back(); }},
      {"components of a reduction do not agree in number", [](Program& p) { reduce_of(p).monoid.identity.pop_back(); }},
      {"components of a reduction do not agree in number", [](Program& p) { reduce_of(p).monoid.left.pop_back(); }},
      {"components of a reduction do not agree in number", [](Program& p) { reduce_of(p).monoid.right.pop_back(); }},
      {"components of a reduction do not agree in number", [](Program& p) { reduce_of(p).monoid.combine.pop_back(); }},
      {"a variable is bound twice", [](Program& p) { reduce_of(p).monoid.left[0] = reduce_of(p).monoid.right[0]; }},
      {"an identity is no constant",
       [](Program& p) { reduce_of(p).monoid.identity[1] = make_size(Size::symbol("n")); }},
      {"component types of a reduction differ",
       [](Program& p) { reduce_of(p).monoid.identity[1] = make_constant(DType::kFloat32, 0); }},
      {"component types of a reduction differ", [](Program& p) { reduce_of(p).monoid.combine[0] = zero(); }},
      {"a combination uses a variable out of scope",
       [](Program& p) { reduce_of(p).monoid.combine[1] = reduce_of(p).axes[0].variable; }},
      {"an output of a reduction has another type", [](Program& p) { reduce_of(p).outputs[1].buffer = 4; }},
      {"an output uses a variable out of scope",
       [](Program& p) { reduce_of(p).outputs[0].indices[0] = reduce_of(p).reduced[0].variable; }},
  };
}

/// Of contractions and sorts.
std::vector<Break> breaks_of_contractions() {
  return {
      {"an operand of a contraction is not a load",
       [](Program& p) {
         p.threads = 0;
         contract_of(p).a = make_constant(DType::kFloat32, 1);
       }},
      {"an operand's index is not affine",
       [](Program& p) {
         p.threads = 0;
         Contract& c = contract_of(p);
         c.a = make_load(3, DType::kFloat32, {mod(c.m[0].variable, make_index(3)), c.k[0].variable});
       }},
      {"an index of the result is not affine",
       [](Program& p) {
         Contract& c = contract_of(p);
         c.c_indices[0] = mod(c.m[0].variable, make_index(3));
       }},
      {"tf32 is asked for where not all is f32",
       [](Program& p) { contract_of(p).tf32 = true, p.buffers[6].type = DType::kFloat64; }},
      {"a contraction has no k axis",
       [](Program& p) {
         Contract& c = contract_of(p);
         c.a = make_load(3, DType::kFloat32, {c.m[0].variable, make_index(0)});
         c.b = make_load(3, DType::kFloat32, {make_index(0), c.n[0].variable});
         c.k.clear();
       }},
      {"operand a uses an n axis",
       [](Program& p) {
         Contract& c = contract_of(p);
         c.a = make_load(3, DType::kFloat32, {c.n[0].variable, c.k[0].variable});
       }},
      {"operand b uses an m axis",
       [](Program& p) {
         Contract& c = contract_of(p);
         c.b = make_load(3, DType::kFloat32, {c.m[0].variable, c.n[0].variable});
       }},
      {"the result uses a k axis", [](Program& p) { contract_of(p).c_indices[0] = contract_of(p).k[0].variable; }},
      {"the last n axis is not contiguous in c",
       [](Program& p) {
         p.buffers[6].strides = {1, 16};
       }},
      {"the sort keys has 1 indices for 'y'", [](Program& p) { sort_of(p).key_indices.pop_back(); }},
      {"the sort positions has 1 indices for 'rank'", [](Program& p) { sort_of(p).position_indices.pop_back(); }},
      {"the sort keys writes 'x', which is not marked written", [](Program& p) { sort_of(p).keys = 0; }},
      {"the sort length is missing", [](Program& p) { sort_of(p).length = {}; }},
      {"the sort length is not i64", [](Program& p) { sort_of(p).length = narrow(); }},
      {"sort positions are not integers", [](Program& p) { sort_of(p).positions = 1; }},
      {"a fragment cannot be sorted", [](Program& p) { sort_of(p).keys = 6; }},
      {"a sorted buffer has no axis",
       [](Program& p) {
         p.buffers[2].shape = p.buffers[2].strides = {};
         sort_of(p).position_indices = {};
       }},
  };
}

/// The contraction of a program with two axes of each kind; buffers a 0, b 1, c 2.
Program wide_product() {
  return parse_program(R"(program wide {
  global a: f32[4, 4, 4, 4] strides [64, 16, 4, 1]
  global b: f32[4, 4, 4, 4] strides [64, 16, 4, 1]
  global c: f32[4, 4, 4, 4] strides [64, 16, 4, 1] written
  body {
    contract m [i0 < 4, i1 < 4] n [i2 < 4, i3 < 4] k [i4 < 4, i5 < 4] {
      c[i0, i1, i2, i3] = a[i0, i1, i4, i5] * b[i4, i5, i2, i3]
    }
  }
}
)");
}

TEST(TileRules, keep_each_axis_of_a_contraction_in_its_place) {
  EXPECT_EQ(broken_rule(wide_product()), std::nullopt);
  const auto reason = [](const auto& change) {
    Program program = wide_product();
    change(std::get<Contract>(program.body[0].node));
    return broken_rule(program).value_or("nothing");
  };
  for (const size_t axis : {size_t{0}, size_t{1}}) {
    for (const size_t at : {size_t{0}, size_t{3}}) {
      const auto replaced = [&](const Expr& load, const Expr& variable) {
        std::vector<Expr> indices(load->args.begin(), load->args.end());
        indices[at] = variable;
        return make_load(load->tensor, load->type, std::move(indices));
      };
      const std::string of_a = reason([&](Contract& c) { c.a = replaced(c.a, c.n[axis].variable); });
      EXPECT_NE(of_a.find("operand a uses an n axis"), std::string::npos) << axis << " " << at << ": " << of_a;
      const std::string of_b = reason([&](Contract& c) { c.b = replaced(c.b, c.m[axis].variable); });
      EXPECT_NE(of_b.find("operand b uses an m axis"), std::string::npos) << axis << " " << at << ": " << of_b;
      const std::string of_c = reason([&](Contract& c) { c.c_indices[at] = c.k[axis].variable; });
      EXPECT_NE(of_c.find("the result uses a k axis"), std::string::npos) << axis << " " << at << ": " << of_c;
    }
  }
}

TEST(TileRules, take_tf32_only_where_all_three_are_f32) {
  for (int wide = 0; wide < 8; ++wide) {
    Program program = wide_product();
    Contract& c = std::get<Contract>(program.body[0].node);
    const auto type = [&](int bit) { return wide >> bit & 1 ? DType::kFloat64 : DType::kFloat32; };
    for (int buffer = 0; buffer < 3; ++buffer) program.buffers[static_cast<size_t>(buffer)].type = type(buffer);
    c.a = make_load(0, type(0), {c.a->args.begin(), c.a->args.end()});
    c.b = make_load(1, type(1), {c.b->args.begin(), c.b->args.end()});
    EXPECT_EQ(broken_rule(program), std::nullopt) << wide;
    c.tf32 = true;
    EXPECT_EQ(broken_rule(program).has_value(), wide != 0) << wide;
  }
}

/// What lies at the limit of a rule, and keeps it.
TEST(TileRules, hold_up_to_their_limits) {
  const auto roles = [](int threads, int producers, int teams, int group, int split) {
    return [=](Program& p) { p.threads = threads, p.roles = {producers, teams, group, split}; };
  };
  const std::vector<std::function<void(Program&)>> changes = {
      [](Program& p) { p.threads = 1024; },
      [](Program& p) { p.threads = 32; },
      [](Program& p) { p.name = "azAZ_09"; },
      [](Program& p) { p.name = "_"; },
      [](Program& p) { p.name = "a"; },
      [](Program& p) { p.name = "z"; },
      [](Program& p) { p.name = "A"; },
      [](Program& p) { p.name = "Z"; },
      [](Program& p) { loop_of(p).stages = 1; },
      [](Program& p) { loop_of(p).early = true; },
      [](Program& p) { loop_of(p).stages = 16; },
      [](Program& p) { loop_of(p).axis.bound = 0; },
      [](Program& p) { map_of(p).axes[0].bound = 0; },
      [](Program& p) { map_of(p).axes[0].bound = 17; },
      [](Program& p) { map_of(p).condition = {}; },
      [](Program& p) { p.buffers[0].constant = true; },
      [](Program& p) { select_of(p).count = 1; },
      [](Program& p) { select_of(p).count = kMostSelected; },
      [](Program& p) { sort_of(p).positions = 2; },
      roles(64, 128, 1, 1, 1),
      roles(896, 128, 1, 1, 8),
      roles(448, 128, 2, 1024, 1),
      roles(64, 0, 1, 1, 8)};
  for (size_t i = 0; i < changes.size(); ++i) {
    Program program = whole_program();
    changes[i](program);
    EXPECT_EQ(broken_rule(program), std::nullopt) << "change " << i;
  }
}

/// Of scans.
std::vector<Break> breaks_of_scans() {
  return {
      {"components of a scan do not agree in number", [](Program& p) { scan_of(p).state.clear(); }},
      {"components of a scan do not agree in number",
       [](Program& p) { scan_of(p).state.clear(), scan_of(p).initial.clear(), scan_of(p).step.clear(); }},
      {"components of a scan do not agree in number", [](Program& p) { scan_of(p).initial.clear(); }},
      {"components of a scan do not agree in number", [](Program& p) { scan_of(p).step.clear(); }},
      {"an initial state uses a variable out of scope",
       [](Program& p) { scan_of(p).initial[0] = make_load(3, DType::kFloat32, {zero(), scan_of(p).axis.variable}); }},
      {"an extent is not i64", [](Program& p) { scan_of(p).axis.extent = narrow(); }},
      {"an extent exceeds its bound", [](Program& p) { scan_of(p).axis.bound = 15; }},
      {"an axis variable is not i64", [](Program& p) { scan_of(p).axis.variable = make_variable(DType::kInt32); }},
      {"a variable is bound twice", [](Program& p) { scan_of(p).axis.variable = scan_of(p).axes[0].variable; }},
      {"an axis or state is not a variable", [](Program& p) { scan_of(p).state[0] = zero(); }},
      {"a step is missing", [](Program& p) { scan_of(p).step[0] = {}; }},
      {"component types of a scan differ", [](Program& p) { scan_of(p).step[0] = zero(); }},
      {"component types of a scan differ", [](Program& p) { scan_of(p).initial[0] = zero(); }},
      {"a scan stores nothing", [](Program& p) { scan_of(p).stores.clear(); }},
      {"a store writes 'x', which is not marked written", [](Program& p) { scan_of(p).stores[0].buffer = 0; }},
      {"a stored value is missing", [](Program& p) { scan_of(p).stores[0].value = {}; }},
      {"a scan stores another type than 'row' has", [](Program& p) { scan_of(p).stores[0].value = zero(); }},
      {"a scan stores another type than 'row' has", [](Program& p) { scan_of(p).stores[0].mode = ScatterMode::kAdd; }},
  };
}

/// Of selections.
std::vector<Break> breaks_of_selections() {
  return {
      {"a selection keeps too many or none", [](Program& p) { select_of(p).count = 0; }},
      {"a selection keeps too many or none", [](Program& p) { select_of(p).count = kMostSelected + 1; }},
      {"an extent is missing", [](Program& p) { select_of(p).axis.extent = {}; }},
      {"an axis variable is not i64", [](Program& p) { select_of(p).rank = make_variable(DType::kInt32); }},
      {"a key is missing", [](Program& p) { select_of(p).key = {}; }},
      {"the key of a selection is wider than 32 bits", [](Program& p) { select_of(p).key = zero(); }},
      {"a key uses a variable out of scope",
       [](Program& p) { select_of(p).key = make_load(0, DType::kFloat32, {zero(), select_of(p).rank}); }},
      {"a selection uses a variable out of scope",
       [](Program& p) { select_of(p).keys.indices[1] = select_of(p).axis.variable; }},
      {"a selection writes 'x', which is not marked written", [](Program& p) { select_of(p).keys.buffer = 0; }},
      {"selected keys have another type", [](Program& p) { select_of(p).key = make_integer(DType::kInt32, 0); }},
      {"selected positions are not integers",
       [](Program& p) { select_of(p).positions = select_of(p).keys; }},
  };
}

/// Of the roles of threads.
std::vector<Break> breaks_of_roles() {
  const auto with = [](int producers, int teams, int group, int split) {
    return [=](Program& p) {
      p.roles.producers = producers, p.roles.teams = teams, p.roles.group = group, p.roles.split = split;
    };
  };
  const char *teams = "teams go with producers and without a split", *producers = "producers are not one warpgroup";
  const char* range = "a group or a split is out of range";
  return {{teams, with(128, 0, 1, 1)}, {teams, with(128, 2, 1, 2)}, {teams, with(0, 2, 1, 1)},
          {producers, with(64, 1, 1, 1)}, {producers, with(128, 15, 1, 1)}, {producers, with(127, 1, 1, 1)},
          {producers, with(-128, 1, 1, 1)},
          {producers, [](Program& p) { p.threads = 928, p.roles.producers = 128; }},
          {range, with(128, 1, 0, 1)}, {range, with(128, 1, 1, 0)}, {range, with(128, 1, 1, 9)}};
}

TEST(TileRules, keep_selections_to_blocks_of_threads) {
  const auto on_a_cpu = [](size_t statement) {
    Program program = whole_program();
    program.threads = 0;
    program.body = {program.body[statement]};
    return broken_rule(program);
  };
  EXPECT_EQ(on_a_cpu(5), std::nullopt) << "a scan";
  EXPECT_NE(on_a_cpu(6).value_or("").find("is for GPUs"), std::string::npos) << "a selection";
}

TEST(TileRules, are_kept_by_the_whole_program) { EXPECT_EQ(broken_rule(whole_program()), std::nullopt); }

TEST(TileRules, are_named_when_one_is_broken) {
  for (const auto& breaks :
       {breaks_of_the_header(), breaks_of_names(), breaks_of_maps(), breaks_of_reductions(), breaks_of_contractions(),
        breaks_of_scans(), breaks_of_selections(), breaks_of_roles()}) {
    for (const Break& one : breaks) {
      Program program = whole_program();
      one.apply(program);
      const auto reason = broken_rule(program);
      EXPECT_TRUE(reason && reason->find(one.message) != reason->npos)
          << "expected: " << one.message << "\nfound: " << reason.value_or("nothing");
    }
  }
}

TEST(TileRules, allow_on_a_cpu_what_a_block_of_threads_cannot) {
  Program program = whole_program();
  program.threads = 0;
  program.body.erase(program.body.begin() + 5, program.body.end());
  program.buffers[4].shape = {Size::symbol("n")};
  EXPECT_EQ(broken_rule(program), std::nullopt);
  Contract& c = contract_of(program);
  const Expr turned = make_load(3, DType::kFloat32, {c.n[0].variable, c.k[0].variable});
  c.b = turned;
  EXPECT_NE(broken_rule(program).value_or("").find("not contiguous in b"), std::string::npos);
  program.threads = 64;
  program.buffers[4].shape = {16};
  EXPECT_EQ(broken_rule(program), std::nullopt);
}

TEST(TileRules, refuse_an_index_that_is_affine_but_written_out_at_length) {
  Program program = whole_program();
  Contract& c = contract_of(program);
  Expr index = c.m[0].variable;
  for (int i = 0; i < 14; ++i) index = make_call(Intrinsic::kAdd, {index, index});
  c.a = make_load(3, DType::kFloat32, {index, c.k[0].variable});
  EXPECT_NE(broken_rule(program).value_or("").find("an operand is written out at length"), std::string::npos);
  program.threads = 0;
  EXPECT_NE(broken_rule(program).value_or("").find("an operand's index is not affine"), std::string::npos);
}

TEST(TileRules, let_a_block_of_threads_copy_any_operand) {
  Program program = whole_program();
  Contract& c = contract_of(program);
  const Expr row = mod(c.m[0].variable, make_index(3));
  const Expr load = make_load(3, DType::kFloat32, {row, c.k[0].variable});
  c.a = select(lt(row, make_index(2)), load, make_constant(DType::kFloat32, 0));
  EXPECT_EQ(broken_rule(program), std::nullopt);
  EXPECT_EQ(print(parse_program(print(program))), print(program));
}

}  // namespace
}  // namespace graft::tile
