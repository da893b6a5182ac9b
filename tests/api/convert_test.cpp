// SPDX-License-Identifier: Apache-2.0
// Models of mixed precision through the public headers: a file as another, and a symbol of MXNet in memory.
#include "graft/convert.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace {

constexpr char kSymbol[] = R"({"nodes": [
  {"op": "null", "name": "data", "inputs": []},
  {"op": "null", "name": "fc_weight", "inputs": []},
  {"op": "FullyConnected", "name": "fc", "attrs": {"num_hidden": "2", "no_bias": "True"},
   "inputs": [[0, 0, 0], [1, 0, 0]]}],
  "arg_nodes": [0, 1], "heads": [[2, 0, 0]]})";

class Convert : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "graft-convert-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    std::ofstream(folder_ / "net-symbol.json") << kSymbol;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  static std::string text_of(const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  std::filesystem::path folder_;
};

TEST_F(Convert, writes_a_file_in_the_format_that_it_came_in) {
  const std::string model = folder_ / "net-symbol.json", output = folder_ / "mixed";
  const std::string report = graft::convert(model, output, {{"precision", "fp16"}});
  EXPECT_EQ(report, "{\"file\": \"" + output + "-symbol.json\", \"params\": \"\", \"casts\": 2, \"multicasts\": 0, " +
                        "\"parameters\": {\"fc_weight\": \"float16\"}}");
  EXPECT_NE(text_of(output + "-symbol.json").find("amp_cast"), std::string::npos);
}

TEST_F(Convert, takes_lists_as_a_request) {
  const std::string model = folder_ / "net-symbol.json", output = folder_ / "mixed";
  graft::convert(model, output, {{"request", R"({"fp32_ops": ["FullyConnected"]})"}});
  EXPECT_EQ(text_of(output + "-symbol.json").find("amp_cast"), std::string::npos);
}

TEST_F(Convert, gives_a_symbol_in_memory_the_casts_that_its_file_gets) {
  const auto [symbol, report] = graft::convert_symbol(kSymbol);
  EXPECT_NE(report.find("\"amp_cast\": 2"), std::string::npos) << report;
  const std::string model = folder_ / "net-symbol.json", output = folder_ / "mixed";
  graft::convert(model, output);
  EXPECT_EQ(symbol, text_of(output + "-symbol.json"));
}

TEST_F(Convert, names_what_is_wrong) {
  const std::string model = folder_ / "net-symbol.json", output = folder_ / "mixed";
  const auto said = [&](const std::string& file, const std::vector<std::pair<std::string, std::string>>& options) {
    try {
      graft::convert(file, output, options);
    } catch (const graft::Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_NE(said(model, {{"precison", "fp16"}}).find("did you mean 'precision'?"), std::string::npos);
  EXPECT_NE(said(model, {{"precision", "int8"}}).find("int8"), std::string::npos);
  EXPECT_NE(said(folder_ / "none.onnx", {}).find("none.onnx"), std::string::npos);
  EXPECT_NE(said(folder_ / "net.pt", {}).find("TorchScript is rewritten with libtorch"), std::string::npos);
  EXPECT_NE(said(folder_ / "net.onnx", {{"params", "net.params"}}).find("they are for symbols"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(output + "-symbol.json"));
}

}  // namespace
