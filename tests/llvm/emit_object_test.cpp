// SPDX-License-Identifier: Apache-2.0
// The object and the C interface of the module: determinism, source on request, errors as text.
#include "codegen/llvm/emit_object.h"

#include "llvm/kernel_runner.h"

extern "C" int graft_codegen_compile(const char* programs, size_t program_bytes, const char* target,
                                     const char* options, graft_codegen_sink sink, void* context);
extern "C" const char* graft_codegen_version(void);

namespace graft::codegen {
namespace {

tile::Program make_scale(const std::string& name, double factor) {
  const Size n = Size::symbol("n");
  tile::Program program =
      make_program({make_buffer("x", DType::kFloat32, {n}), make_buffer("y", DType::kFloat32, {n}, true)}, {"n"});
  program.name = name;
  const tile::Axis i = make_axis(n);
  tile::Map map{.axes = {i}, .condition = {}, .stores = {}, .ordered = false};
  map.stores = {
      store_to(1, {i.variable}, make_load(0, DType::kFloat32, {i.variable}) * make_constant(DType::kFloat32, factor))};
  program.body.push_back({map});
  return program;
}

using Results = std::map<std::string, std::string>;

int collect(void* context, const char* kind, const void* data, size_t bytes) {
  (*static_cast<Results*>(context))[kind] = std::string(static_cast<const char*>(data), bytes);
  return 0;
}

/// Answers the question number `stop_at` and all after it, from 1, with a stop.
struct Impatient {
  int stop_at = 0;
  int asked = 0;
  std::vector<std::string> finished, results;
};

int answer(void* context, const char* kind, const void* data, size_t bytes) {
  auto& self = *static_cast<Impatient*>(context);
  if (std::string_view(kind) != "progress") {
    self.results.emplace_back(kind);
    return 0;
  }
  if (bytes > 0) self.finished.emplace_back(static_cast<const char*>(data), bytes);
  return ++self.asked >= self.stop_at;
}

int compile_asking(Impatient& sink) {
  const std::string text = tile::print(make_scale("a", 2)) + tile::print(make_scale("b", 3)) +
                           tile::print(make_scale("c", 4));
  const std::string target = print(least_target());
  return graft_codegen_compile(text.data(), text.size(), target.c_str(), "", answer, &sink);
}

TEST(EmitObject, gives_equal_bytes_for_equal_programs) {
  const Target target = least_target();
  const std::vector<tile::Program> once{make_scale("a", 2), make_scale("b", 3)},
      again{make_scale("a", 2), make_scale("b", 3)};
  EXPECT_EQ(emit_object(once, target).elf, emit_object(again, target).elf);
}

TEST(EmitObject, names_an_element_type_it_lacks) {
  const Size n = 4;
  tile::Program program =
      make_program({make_buffer("x", DType::kFloat8E5M2, {n}), make_buffer("y", DType::kFloat32, {n}, true)});
  const tile::Axis i = make_axis(n);
  tile::Map map{.axes = {i}, .condition = {}, .stores = {}, .ordered = false};
  map.stores = {store_to(1, {i.variable}, make_cast(DType::kFloat32, make_load(0, DType::kFloat8E5M2, {i.variable})))};
  program.body.push_back({map});
  try {
    emit_object(std::span(&program, 1), least_target());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUnsupported);
    EXPECT_NE(e.message().find("f8e5m2"), std::string::npos);
  }
}

TEST(EmitObject, compiles_several_texts_through_the_c_interface) {
  const std::string text = tile::print(make_scale("double_it", 2)) + tile::print(make_scale("treble_it", 3));
  const std::string target = print(least_target());
  Results results;
  ASSERT_EQ(graft_codegen_compile(text.data(), text.size(), target.c_str(), "source", collect, &results), 0)
      << results["error"];
  EXPECT_NE(results["source"].find("define i32 @double_it"), std::string::npos);
  LoadedObject object;
  const std::string& elf = results["object"];
  ASSERT_TRUE(LoadedObject::load({reinterpret_cast<const uint8_t*>(elf.data()), elf.size()}, &object).ok());
  EXPECT_NE(object.find("double_it"), nullptr);
  EXPECT_NE(object.find("treble_it"), nullptr);
  EXPECT_NE(std::string(graft_codegen_version()).find("LLVM 19"), std::string::npos);
}

TEST(EmitObject, gives_an_error_for_text_that_is_no_program) {
  const std::string target = print(least_target());
  for (const std::string text : {"", "program", "program x {", "\xff\xfe"}) {
    Results results;
    EXPECT_EQ(graft_codegen_compile(text.data(), text.size(), target.c_str(), "", collect, &results), 1);
    EXPECT_FALSE(results["error"].empty());
    EXPECT_EQ(results.count("object"), 0u);
  }
}

TEST(EmitObject, names_each_kernel_when_it_is_finished) {
  Impatient sink{.stop_at = 1000};
  EXPECT_EQ(compile_asking(sink), graft_codegen_done);
  EXPECT_EQ(sink.finished, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(sink.results, std::vector<std::string>{"object"});
}

TEST(EmitObject, stops_wherever_it_is_asked_to) {
  Impatient patient{.stop_at = 1000};
  compile_asking(patient);
  for (int stop_at = 1; stop_at <= patient.asked; ++stop_at) {
    Impatient sink{.stop_at = stop_at};
    EXPECT_EQ(compile_asking(sink), graft_codegen_stopped) << stop_at;
    EXPECT_EQ(sink.asked, stop_at) << "it went on asking";
    EXPECT_TRUE(sink.results.empty()) << stop_at << ": " << sink.results.front();
  }
}

}  // namespace
}  // namespace graft::codegen
