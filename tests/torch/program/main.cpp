// SPDX-License-Identifier: Apache-2.0
// `program NET.pt SAVED.pt`: what a user's program does in C++: compiles a scripted module for images of one size and
// for a range of sizes, saves it, loads it, compares what they give, and makes a plan of it. With `--pair` NET.pt takes
// a tuple and gives one.
#include <cstring>
#include <iostream>

#include <graft/torchscript.h>
#include <torch/script.h>

namespace {

namespace ts = graft::torchscript;

/// Whether two modules agree on images of these sizes.
bool agree(torch::jit::Module& first, torch::jit::Module& second, const std::vector<std::vector<int64_t>>& sizes) {
  for (const auto& size : sizes) {
    const at::Tensor x = torch::rand(size);
    if (!at::allclose(first.forward({x}).toTensor(), second.forward({x}).toTensor(), 1e-5, 1e-5)) return false;
  }
  return true;
}

int fail(const char* what) {
  std::cout << what << '\n';
  return 1;
}

int one_size_and_a_range(torch::jit::Module& module, const char* path) {
  ts::Spec spec;
  spec.inputs = {{{1, 1, 28, 28}}};
  spec.options = {{"tune", "off"}};
  ts::Report report;
  torch::jit::Module fixed = ts::compile(module, spec, &report);
  std::cout << report.engines << " engines, " << report.fallbacks << " fallbacks\n" << report.text;
  if (!agree(module, fixed, {{1, 1, 28, 28}})) return fail("one size: they differ");
  if (ts::compare(module, fixed, spec).relative > 1e-5) return fail("compare() says that they differ");

  spec.inputs = {ts::Input::range({1, 1, 16, 16}, {1, 1, 28, 28}, {1, 1, 54, 54})};
  torch::jit::Module ranged = ts::compile(module, spec);
  ranged.save(path);
  torch::jit::Module loaded = torch::jit::load(path);
  const std::vector<std::vector<int64_t>> sizes = {{1, 1, 16, 16}, {1, 1, 28, 28}, {1, 1, 54, 54}, {1, 1, 20, 33}};
  if (!agree(module, ranged, sizes) || !agree(module, loaded, sizes)) return fail("a range: they differ");

  spec.inputs = {{{"batch", 1, 28, 28}, torch::kFloat}};
  spec.dims = {{"batch", {1, 4, 8}}};
  torch::jit::Module batched = ts::compile(module, spec);
  if (!agree(module, batched, {{1, 1, 28, 28}, {8, 1, 28, 28}})) return fail("batches: they differ");
  const std::string plan = ts::convert_to_plan(module, spec);
  torch::jit::Module embedded = ts::embed_plan(plan);
  if (!agree(module, embedded, {{3, 1, 28, 28}})) return fail("the plan differs");
  if (!ts::check_operator_support(module, spec).empty()) return fail("an operator is not supported");
  std::cout << ts::get_build_info();
  spec.dims.clear();
  try {
    ts::compile(module, spec);
  } catch (const c10::ValueError& error) {
    std::cout << error.what_without_backtrace() << '\n';
    return 0;
  }
  return fail("no error for a dimension without a range");
}

int pair_of_tensors(torch::jit::Module& module, const char* path) {
  ts::Spec spec;
  spec.inputs = {ts::Input::tuple({{{2, 3}, torch::kFloat}, {{2, 3}, torch::kFloat}})};
  spec.options = {{"tune", "off"}};
  ts::compile(module, spec).save(path);
  torch::jit::Module loaded = torch::jit::load(path);
  const auto given = c10::ivalue::Tuple::create(torch::rand({2, 3}), torch::rand({2, 3}));
  const auto result = loaded.forward({given}), expected = module.forward({given});
  for (size_t i = 0; i < 2; ++i) {
    const at::Tensor a = result.toTupleRef().elements()[i].toTensor();
    const at::Tensor b = expected.toTupleRef().elements()[i].toTensor();
    if (!at::allclose(a, b, 1e-5, 1e-5)) return fail("they differ");
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const torch::NoGradGuard no_gradients;
  torch::jit::Module module = torch::jit::load(arguments[1]);
  const bool pair = count > 3 && std::strcmp(arguments[3], "--pair") == 0;
  return pair ? pair_of_tensors(module, arguments[2]) : one_size_and_a_range(module, arguments[2]);
}
