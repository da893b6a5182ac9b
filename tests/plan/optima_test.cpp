// SPDX-License-Identifier: Apache-2.0
// Several optima of a dimension: how they are chosen, planned, kept in plans, and taken by runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "graph/optima.h"
#include "graph/text_form.h"
#include "plan/repair_checksums.h"
#include "runtime/session.h"

namespace graft {
namespace {

constexpr int64_t kColumns = 64, kResults = 256;

/// A product whose best way depends on the batch, and a step without a batch.
std::string layer(const std::string& optima) {
  return R"(graph "layer" {
  opset "" 28
  range batch 1 )" + optima + R"( 512
  input %x: f32[batch, 64]
  input %v: f32[64]
  constant %w: f32[64, 256] = all 0.25
  %y: ? = MatMul "product" (%x, %w)
  %r: ? = Relu "clamp" (%y)
  %e: ? = Exp "alone" (%v)
  output %r
  output %e
})";
}

CompileOptions quick() {
  CompileOptions options;
  options.tuning = Tuning::kOff;
  options.threads = 2;
  return options;
}

Compiled compiled(const std::string& text) { return compile_from(parse_graph(text), Stage::kImport, quick()); }

/// Runs a batch in a session; the results, and the variant that ran them, as its number or that of an equal one.
struct Ran {
  std::vector<float> results;
  const Engine* engine = nullptr;
};

Ran run(Session& session, int64_t batch) {
  Random random(static_cast<uint64_t>(batch));
  std::vector<float> x(static_cast<size_t>(batch * kColumns)), v(kColumns, 0.5F);
  for (float& value : x) value = static_cast<float>(random.uniform(-1, 1));
  Ran ran{std::vector<float>(static_cast<size_t>(batch * kResults)), nullptr};
  std::vector<float> e(kColumns);
  const BufferView inputs[] = {{x.data(), DType::kFloat32, {batch, kColumns}, {}},
                               {v.data(), DType::kFloat32, {kColumns}, {}}};
  BufferView outputs[] = {{ran.results.data(), DType::kFloat32, {batch, kResults}, {}},
                          {e.data(), DType::kFloat32, {kColumns}, {}}};
  const Status status = session.run(inputs, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  ran.engine = &session.last_engine();
  return ran;
}

const Engine* variant_of(const LoadedEngine& loaded, const Bindings& optima) {
  for (const EngineVariant& variant : loaded.engine->variants) {
    if (variant.optima == optima) return variant.engine ? variant.engine.get() : loaded.engine.get();
  }
  return nullptr;
}

TEST(Optima, a_graph_s_text_has_them_and_graphs_with_one_look_as_before) {
  const Graph graph = parse_graph(layer("8, 1, 200"));
  EXPECT_EQ(graph.symbol_ranges.at("batch").opt, 8);
  EXPECT_EQ(graph.symbol_ranges.at("batch").others, (std::vector<int64_t>{1, 200}));
  EXPECT_NE(print(graph).find("range batch 1 8, 1, 200 512\n"), std::string::npos) << print(graph);
  EXPECT_EQ(print(parse_graph(print(graph))), print(graph));
  EXPECT_NE(print(parse_graph(layer("8"))).find("range batch 1 8 512\n"), std::string::npos);
}

TEST(Optima, the_option_names_several_of_which_the_first_is_the_main_one) {
  CompileOptions options;
  set_option(options, {"dim", "batch=1:8,1,32:64,length=4,depth=2:3"});
  EXPECT_EQ(options.dims.at("batch").opt, 8);
  EXPECT_EQ(options.dims.at("batch").others, (std::vector<int64_t>{1, 32}));
  EXPECT_EQ(options.dims.at("batch").max, 64);
  EXPECT_EQ(options.dims.at("length").opt, 4);
  EXPECT_EQ(options.dims.at("depth").max, 3);
  for (const char* wrong : {"n=1:8,8:64", "n=1:0,8:64", "n=1:8,65:64", "n=1:8,:64", "n=1:,8:64", "n=1,2", "n=1,2:3",
                            "n=1:2:3,4", "n=1:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17:64"}) {
    CompileOptions other;
    EXPECT_THROW(set_option(other, {"dim", wrong}), Error) << wrong;
  }
}

TEST(Optima, combinations_begin_with_the_main_one_and_are_not_too_many) {
  Graph graph = parse_graph(layer("8, 1, 200"));
  const std::vector<Bindings> combined = combined_optima(graph);
  ASSERT_EQ(combined.size(), 3U);
  EXPECT_EQ(combined[0], (Bindings{{"batch", 8}}));
  EXPECT_EQ(combined_optima(parse_graph(layer("8"))), std::vector<Bindings>(1));
  const auto refuses = [](const std::string& text, const char* reason) {
    try {
      combined_optima(parse_graph(text));
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  };
  refuses(layer("8, 8"), "different sizes");
  refuses(layer("8, 513"), "within its range");
  std::string no_axis = layer("8, 1");
  no_axis.replace(no_axis.find("batch, 64"), 5, "2*batch");
  refuses(no_axis, "no input has it as an axis");
  std::string many = "1";
  for (int i = 2; i <= 16; ++i) many += fmt::format(", {}", i);
  EXPECT_EQ(combined_optima(parse_graph(layer(many))).size(), 16U);
  EXPECT_THROW(parse_graph(layer(many + ", 17")), Error);
}

TEST(Optima, a_run_takes_the_smallest_that_is_not_below_its_size_or_the_largest) {
  Compiled made = compiled(layer("8, 1, 200"));
  const auto loaded = load(std::move(made.engine), "cpu", 0);
  Session session(loaded);
  const std::pair<int64_t, int64_t> taken[] = {{1, 1}, {2, 8}, {8, 8}, {9, 200}, {200, 200}, {300, 200}, {512, 200}};
  for (const auto& [batch, optimum] : taken) {
    EXPECT_EQ(run(session, batch).engine, variant_of(*loaded, {{"batch", optimum}})) << batch;
    EXPECT_EQ(loaded->engine->variants[tightest_variant(*loaded->engine, {{"batch", batch}})].optima.at("batch"),
              optimum);
  }
}

TEST(Optima, each_is_planned_as_if_it_were_the_only_one) {
  const Compiled all = compiled(layer("8, 1, 200"));
  for (const int64_t optimum : {8, 1, 200}) {
    const Compiled alone = compiled(layer(std::to_string(optimum)));
    const EngineVariant& variant = all.engine.variants[tightest_variant(all.engine, {{"batch", optimum}})];
    const Engine& engine = variant.engine ? *variant.engine : all.engine;
    ASSERT_EQ(engine.steps.size(), alone.engine.steps.size());
    for (size_t s = 0; s < engine.steps.size(); ++s) {
      EXPECT_EQ(engine.steps[s].schedule, alone.engine.steps[s].schedule) << optimum;
      EXPECT_EQ(engine.steps[s].library, alone.engine.steps[s].library);
    }
    for (const auto& [key, choice] : alone.plan.records[0].regions) {
      ASSERT_TRUE(all.plan.records[0].regions.contains(key)) << choice.step;
      EXPECT_EQ(all.plan.records[0].regions.at(key).way, choice.way);
    }
  }
  std::set<std::string> ways;
  for (const auto& [key, choice] : all.plan.records[0].regions) {
    if (choice.step == "product") ways.insert(choice.way);
  }
  EXPECT_GT(ways.size(), 1U) << "the test is about sizes that are done in different ways";
}

TEST(Optima, results_are_those_of_a_plan_with_one) {
  Session several(load(compiled(layer("8, 1, 200")).engine, "cpu", 0));
  CompileOptions interpreted = quick();
  interpreted.interpret = true;
  Session reference(
      load(compile_from(parse_graph(layer("8")), Stage::kImport, interpreted).engine, "cpu", 0));
  for (const int64_t batch : {1, 512, 3, 8, 9, 200, 1, 77}) {
    const std::vector<float> got = run(several, batch).results, expected = run(reference, batch).results;
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-4) << batch;
  }
}

TEST(Optima, a_plan_file_keeps_them_and_each_weight_once) {
  const Compiled made = compiled(layer("8, 1, 200"));
  const std::vector<std::byte> bytes = print_plan(to_file(made.plan));
  const AlignedCopy copy(bytes);
  const Plan again = from_file(parse_plan(copy.bytes(), copy.owner(), "optima"), "optima");
  EXPECT_EQ(print_plan(to_file(again)), bytes);
  const Engine rebuilt = build(again, host_cpu(2), options_of(again));
  ASSERT_EQ(rebuilt.variants.size(), made.engine.variants.size());
  for (size_t v = 0; v < rebuilt.variants.size(); ++v) {
    EXPECT_EQ(rebuilt.variants[v].optima, made.engine.variants[v].optima);
    ASSERT_EQ(rebuilt.variants[v].engine == nullptr, made.engine.variants[v].engine == nullptr);
    const Engine& before = made.engine.variants[v].engine ? *made.engine.variants[v].engine : made.engine;
    const Engine& after = rebuilt.variants[v].engine ? *rebuilt.variants[v].engine : rebuilt;
    for (size_t s = 0; s < after.steps.size(); ++s) EXPECT_EQ(after.steps[s].schedule, before.steps[s].schedule);
  }
  std::set<std::pair<std::string, std::string>> packed;
  for (const PackedConstant& each : made.plan.packed) {
    EXPECT_TRUE(packed.emplace(each.name, each.layout).second) << each.name << " is there twice as " << each.layout;
  }
  Session first(load(made.plan, "cpu", 2)), second(load(again, "cpu", 2));
  for (const int64_t batch : {1, 8, 300}) EXPECT_EQ(run(first, batch).results, run(second, batch).results);
}

TEST(Optima, equal_weights_and_equal_code_are_in_memory_once) {
  const auto equal_bytes = [](const TensorData& a, const TensorData& b) {
    return a.byte_count() == b.byte_count() && std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin());
  };
  // These differ in their kernels, and read the weights in one form.
  const auto loaded = load(compiled(layer("8, 1, 200")).engine, "cpu", 0);
  int weights = 0;
  for (size_t v = 0; v < loaded->variants.size(); ++v) {
    if (!loaded->variants[v]) continue;
    const LoadedEngine& variant = *loaded->variants[v];
    for (const TensorData& constant : variant.engine->constants) {
      for (const TensorData& known : loaded->engine->constants) {
        if (constant.byte_count() <= 64 || !equal_bytes(constant, known)) continue;
        EXPECT_TRUE(constant.shares_bytes_with(known));
        ++weights;
      }
    }
    for (size_t o = 0; o < variant.objects.size(); ++o) {
      for (size_t m = 0; m < loaded->objects.size(); ++m) {
        if (variant.engine->objects[o] == loaded->engine->objects[m]) {
          EXPECT_EQ(variant.objects[o], loaded->objects[m]);
        }
      }
    }
  }
  RecordProperty("shared_weights", weights);
}

TEST(Optima, optima_that_are_done_alike_are_one_engine) {
  const Compiled made = compiled(layer("100, 101, 102"));
  std::set<const Engine*> different;
  for (const EngineVariant& variant : made.engine.variants) different.insert(variant.engine.get());
  EXPECT_LT(different.size(), 3U);
  Session session(load(build(made.plan, host_cpu(2), options_of(made.plan)), "cpu", 0));
  run(session, 7);
}

TEST(Optima, limits_and_profiles_hold_for_each_variant) {
  Session session(load(compiled(layer("8, 1, 200")).engine, "cpu", 0));
  session.set_profiling(true);
  for (const int64_t batch : {1, 8, 200}) {
    const Ran ran = run(session, batch);
    EXPECT_FALSE(session.profile().empty());
    for (const StepTime& time : session.profile()) {
      ASSERT_LT(static_cast<size_t>(time.step), ran.engine->steps.size());
    }
  }
  session.set_deadline(60);
  session.set_memory_limit(1);
  std::vector<float> x(400 * kColumns), v(kColumns);
  const BufferView inputs[] = {{x.data(), DType::kFloat32, {400, kColumns}, {}},
                               {v.data(), DType::kFloat32, {kColumns}, {}}};
  BufferView outputs[2];
  const Status status = session.run(inputs, outputs, [](void* context, int output, DType, std::span<const int64_t>,
                                                        size_t bytes) -> void* {
    return static_cast<Session*>(context)->give_output(output, bytes);
  }, &session);
  EXPECT_EQ(status.kind(), ErrorKind::kOutOfMemory) << status.message();
}

TEST(Optima, two_dimensions_combine) {
  const std::string text = R"(graph "two" {
  opset "" 28
  range batch 1 1, 16 64
  range length 1 32, 4 128
  input %x: f32[batch, length, 8]
  constant %w: f32[8, 16] = all 0.5
  %y: ? = MatMul "product" (%x, %w)
  output %y
})";
  const auto loaded = load(compiled(text).engine, "cpu", 0);
  ASSERT_EQ(loaded->engine->variants.size(), 4U);
  Session session(loaded);
  const std::tuple<int64_t, int64_t, int64_t, int64_t> taken[] = {
      {1, 4, 1, 4}, {1, 5, 1, 32}, {2, 3, 16, 4}, {64, 128, 16, 32}};
  for (const auto& [batch, length, first, second] : taken) {
    std::vector<float> x(static_cast<size_t>(batch * length * 8), 1), y(static_cast<size_t>(batch * length * 16));
    const BufferView inputs[] = {{x.data(), DType::kFloat32, {batch, length, 8}, {}}};
    BufferView outputs[] = {{y.data(), DType::kFloat32, {batch, length, 16}, {}}};
    const Status status = session.run(inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(&session.last_engine(), variant_of(*loaded, {{"batch", first}, {"length", second}}));
    EXPECT_EQ(y.back(), 4.0F);
  }
}

}  // namespace
}  // namespace graft
