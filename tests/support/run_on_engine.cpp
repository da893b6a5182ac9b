// SPDX-License-Identifier: Apache-2.0
#include "support/run_on_engine.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

BufferView view_of(const TensorData& data) {
  return {const_cast<std::byte*>(data.bytes().data()), data.type(), data.shape(), {}};
}

}  // namespace

void expect_results_of(const Graph& graph, std::shared_ptr<const LoadedEngine> code, const TensorsByName& inputs,
                       double tolerance) {
  const std::vector<TensorData> expected = evaluate(graph, inputs);
  std::vector<TensorData> actual;
  std::vector<BufferView> given, results;
  for (const ValueId id : graph.inputs) given.push_back(view_of(inputs.at(graph.value(id).name)));
  for (const TensorData& tensor : expected) actual.push_back(TensorData::zeros(tensor.type(), tensor.shape()));
  for (TensorData& tensor : actual) {
    results.push_back({tensor.mutable_bytes().data(), tensor.type(), tensor.shape(), {}});
  }
  Session session(std::move(code));
  const Status status = session.run(given, results);
  ASSERT_TRUE(status.ok()) << status.message();
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto difference = first_difference(expected[i], actual[i], tolerance);
    EXPECT_FALSE(difference) << "output " << i << ": " << *difference;
  }
}

}  // namespace graft
