// SPDX-License-Identifier: Apache-2.0
// Any bytes as a program of torch.export: an archive, or the description of its graph, which is put into one with a
// weight and a constant. What can be read is a graph that holds together, or an error.
#include <cstring>
#include <memory>
#include <string>

#include "import/pt2/import.h"
#include "shared/run_engine.h"
#include "support/stored_archive.h"

namespace {

using namespace graft;

constexpr size_t kLongestInput = 1 << 15;

/// The description of a program as torch writes it beside weights.
std::string archive_of(const std::string& model) {
  const auto tensor = [](const std::string& name, const std::string& path, const std::string& sizes) {
    return R"({"config": {")" + name + R"(": {"path_name": ")" + path + R"(", "use_pickle": false, "tensor_meta": )"
           R"({"dtype": 7, "sizes": )" + sizes + R"(, "strides": [{"as_int": 3}, {"as_int": 1}], )"
           R"("storage_offset": {"as_int": 0}}}}})";
  };
  return test::stored_archive({{"m/models/model.json", model},
                               {"m/data/weights/weight_0", std::string(48, '\x3c')},
                               {"m/data/weights/model_weights_config.json",
                                tensor("l.weight", "weight_0", R"([{"as_int": 4}, {"as_int": 3}])")}});
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  fuzz::prepare(count, arguments, kLongestInput);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string given(reinterpret_cast<const char*>(data), size);
  if (!given.starts_with("PK")) given = archive_of(given);
  const auto bytes = std::make_shared<const std::string>(std::move(given));
  const fuzz::Execution execution;
  fuzz::Execution::attempt([&] {
    const Graph graph = pt2::import_bytes(std::as_bytes(std::span(*bytes)), bytes, "fuzz");
    verify(graph, true);
    fuzz::check_text(print(graph));
  });
  return 0;
}
