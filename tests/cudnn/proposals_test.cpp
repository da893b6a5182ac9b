// SPDX-License-Identifier: Apache-2.0
// What cuDNN would run on an H200, asked without one: how many ways it proposes for the graphs that calls become.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "base/error.h"
#include "library/cudnn/operation_graph.h"
#include "support/test_root.h"

namespace graft::cudnn {
namespace {

/// cuDNN proposes kernels only where a driver's library is there; the toolkit's stand-in will do.
bool have_driver() {
  static const bool found = [] {
    for (const char* file : {"libcuda.so.1", "/usr/local/cuda/lib64/stubs/libcuda.so"}) {
      if (dlopen(file, RTLD_NOW | RTLD_GLOBAL)) return true;
    }
    return false;
  }();
  return found;
}

/// The device as cuDNN describes it.
const Descriptor& h200() {
  static const std::unique_ptr<Descriptor> device = [] {
    std::ifstream file(test_root() + "/tests/cudnn/h200.json");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    auto made = std::make_unique<Descriptor>(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    made->set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<int64_t>(text.size()),
              text.data());
    made->finalize("a device cannot be described");
    return made;
  }();
  return *device;
}

int64_t proposals(const OperationGraph& graph) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, *graph.graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, h200());
  heuristic.finalize("it proposes nothing");
  // Those are counted that cuDNN still supports when it hands them out.
  std::vector<std::unique_ptr<Descriptor>> made;
  std::vector<cudnnBackendDescriptor_t> slots;
  for (int i = 0; i < 64; ++i) {
    made.push_back(std::make_unique<Descriptor>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    slots.push_back(made.back()->get());
  }
  int64_t count = 0;
  check(api().get(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 64, &count,
                  slots.data()),
        "it proposes nothing");
  return count;
}

class CudnnProposals : public testing::Test {
 protected:
  void SetUp() override {
    if (!api().missing.empty()) GTEST_SKIP() << api().missing;
    if (api().version() < 90800) GTEST_SKIP() << "this cuDNN describes no devices";
    if (!have_driver()) GTEST_SKIP() << "neither libcuda.so.1 nor the toolkit's stand-in for it is found";
  }
  int64_t of(const std::string& call) const {
    const LibraryCall parsed = parse_library_call(call);
    return proposals(parsed.is_attention() ? operation_graph(attention_form(parsed), nullptr)
                                           : operation_graph(convolution_form(parsed), nullptr));
  }
};

/// Attention of heads of a size over rows that hold queries, keys and values one after the other, and then `mask`.
std::string packed(std::string_view type, int64_t batch, int64_t length, int64_t heads, int64_t size,
                   const std::string& mask = "") {
  const int64_t row = 3 * heads * size;
  const std::string by_key = fmt::format("[{}, {}, 1, {}]", length * row, size, row);
  const std::string by_row = fmt::format("[{}, {}, {}, 1]", length * row, size, row);
  return fmt::format("product {} batch [{}, {}], rows {}, columns {}, depth {}\n", type, batch, heads, length, length,
                     size) +
         "source 0 offset 0, strides " + by_row + "\nweights 0 offset " + std::to_string(heads * size) + ", strides " +
         by_key +
         fmt::format("\nresult 2 offset 0, strides [{}, {}, {}, 1]\n", length * heads * size, size, heads * size) +
         "post linear 0.125:f32 0:f32\n" + mask +
         fmt::format("values width {}, 0 offset {}, strides {}\n", size, 2 * heads * size, by_row);
}

TEST_F(CudnnProposals, of_attention_with_heads_in_one_tensor) {
  for (const char* type : {"f16", "bf16"}) {
    EXPECT_GT(of(packed(type, 128, 128, 12, 64)), 0) << type;
    EXPECT_GT(of(packed(type, 128, 197, 12, 64)), 0) << "a length that no tile divides";
    EXPECT_GT(of(packed(type, 1, 77, 8, 40)), 0) << "a size of heads between the usual ones";
    EXPECT_GT(of(packed(type, 8, 1024, 12, 64, "causal\n")), 0);
  }
}

TEST_F(CudnnProposals, of_attention_with_masks_that_are_added) {
  const auto mask = [](const char* strides) { return fmt::format("post add 1 f32 offset 0, strides {}\n", strides); };
  EXPECT_GT(of(packed("f16", 32, 128, 12, 64, mask("[128, 0, 0, 1]"))), 0) << "of keys";
  EXPECT_GT(of(packed("f16", 32, 128, 12, 64, mask("[0, 0, 128, 1]"))), 0) << "of pairs";
  EXPECT_GT(of(packed("f16", 32, 128, 12, 64, mask("[196608, 16384, 128, 1]"))), 0) << "by head";
  EXPECT_GT(of(packed("f16", 32, 128, 12, 64, mask("[128, 0, 0, 1]") + "causal\n")), 0) << "before what lies ahead";
}

TEST_F(CudnnProposals, of_attention_are_none_for_heads_of_odd_sizes) {
  EXPECT_EQ(of(packed("f16", 1, 64, 8, 20)), 0);
  EXPECT_NE(first_reason().find("multiple of 8"), std::string::npos) << first_reason();
}

TEST_F(CudnnProposals, of_convolutions) {
  for (const char* type : {"f32", "f16", "bf16"}) {
    const std::string call = fmt::format("product {} batch [], rows 32, columns 64, depth 64\n", type) +
                             "window input 56, output 56, kernel 3, stride 1, dilation 1, before 1\n"
                             "window input 56, output 56, kernel 3, stride 1, dilation 1, before 1\n"
                             "source 0 offset 0, strides [200704, 1, 3584, 64]\n"
                             "weights 1 offset 0, panel 1\n"
                             "result 4 offset 0, strides [200704, 1, 3584, 64]\n"
                             "post add 2 offset 0, strides [0, 1, 0, 0]\n"
                             "post add 3 offset 0, strides [200704, 1, 3584, 64]\n"
                             "post relu 0:f32\n";
    EXPECT_GT(of(call), 0) << type;
  }
}

}  // namespace
}  // namespace graft::cudnn
