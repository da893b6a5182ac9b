// SPDX-License-Identifier: Apache-2.0
// MXNet's files: what MXNet wrote comes back byte for byte, and files that are damaged or made up give errors that say
// where.
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "import/mxnet/params_file.h"
#include "import/mxnet/symbol_file.h"
#include "plan/temporary_directory.h"
#include "support/test_root.h"

namespace graft {
namespace {

std::string sample(const std::string& name) { return test_root() + "/tests/golden/mxnet/" + name; }

std::string bytes_of(const std::string& path) { return read_text_file(path); }

mxnet::ParamsFile params_from(const std::string& bytes) {
  const auto kept = std::make_shared<std::string>(bytes);
  return mxnet::parse_params(std::as_bytes(std::span(*kept)), kept, "file");
}

template <class Action>
std::string fault_of(const Action& action) {
  try {
    action();
  } catch (const Error& fault) {
    EXPECT_TRUE(fault.kind() == ErrorKind::kInvalidModel || fault.kind() == ErrorKind::kUnsupported) << fault.what();
    return fault.what();
  }
  return "no error";
}

void expect_symbol_fault(const std::string& json, const std::string& part) {
  const std::string fault = fault_of([&] { mxnet::parse_symbol(json, "file"); });
  EXPECT_NE(fault.find(part), fault.npos) << json << "\n" << fault;
}

TEST(MxnetFiles, a_symbol_comes_back_byte_for_byte) {
  const std::string text = bytes_of(sample("foreach-symbol.json"));
  const mxnet::Symbol symbol = mxnet::parse_symbol(text, "file");
  EXPECT_EQ(mxnet::symbol_text(symbol), text);
  const mxnet::SymbolNode& loop = symbol.nodes.at(4);
  EXPECT_EQ(loop.op, "_foreach");
  EXPECT_EQ(loop.attributes.at("remain_locs"), "[1, 2]");
  ASSERT_EQ(loop.subgraphs.size(), 1U);
  EXPECT_EQ(loop.subgraphs[0].nodes.at(0).name, "seq-0");
}

TEST(MxnetFiles, names_of_any_characters_come_back) {
  mxnet::Symbol symbol;
  symbol.nodes.push_back({.op = "", .name = "a\"b\\c\td\n\xc3\xa9", .output_count = 1});
  symbol.heads.push_back({0, 0});
  const std::string text = mxnet::symbol_text(symbol);
  EXPECT_EQ(mxnet::parse_symbol(text, "file").nodes[0].name, symbol.nodes[0].name);
  EXPECT_EQ(mxnet::symbol_text(mxnet::parse_symbol(text, "file")), text);
}

TEST(MxnetFiles, names_and_keys_of_attributes_end_no_text) {
  mxnet::Symbol symbol;
  symbol.nodes.push_back({.op = "", .name = std::string("a\x01\x1f\0b", 5), .output_count = 1});
  symbol.nodes[0].attributes = {{"k\": \"v\", \"inputs", "\b"}};
  symbol.heads.push_back({0, 0});
  const mxnet::Symbol again = mxnet::parse_symbol(mxnet::symbol_text(symbol), "file");
  EXPECT_EQ(again.nodes.at(0).name, symbol.nodes[0].name);
  EXPECT_EQ(again.nodes.at(0).attributes, symbol.nodes[0].attributes);
}

TEST(MxnetFiles, numbers_of_outputs_leave_room_for_what_is_added) {
  const auto counted = [](const std::string& count) {
    return R"({"nodes": [{"op": "null", "name": "x", "inputs": []}], "arg_nodes": [0], "heads": [[0, 0, 0]],
               "node_row_ptr": [0, )" + count + "]}";
  };
  EXPECT_EQ(mxnet::parse_symbol(counted("7"), "file").nodes.at(0).output_count, 7);
  expect_symbol_fault(counted("2147483646"), "node_row_ptr: its number 1 is no number below 16777216");
}

TEST(MxnetFiles, old_spellings_of_attributes_are_read) {
  const mxnet::Symbol symbol = mxnet::parse_symbol(
      R"({"nodes": [{"op": "null", "param": {}, "name": "x", "inputs": [], "backward_source_id": -1},
          {"op": "FullyConnected", "param": {"num_hidden": "3"}, "name": "f", "inputs": [[0, 0]],
           "attr": {"ctx_group": "a"}, "backward_source_id": -1}], "arg_nodes": [0], "heads": [[1, 0]]})",
      "file");
  EXPECT_EQ(symbol.nodes[1].attributes.at("num_hidden"), "3");
  EXPECT_EQ(symbol.nodes[1].attributes.at("ctx_group"), "a");
  EXPECT_EQ(mxnet::symbol_text(symbol).find("node_row_ptr"), std::string::npos);
}

TEST(MxnetFiles, what_is_wrong_in_a_symbol_is_named) {
  expect_symbol_fault("{\"nodes\": [", "it is no JSON");
  expect_symbol_fault("[]", "a graph is an object");
  expect_symbol_fault(R"({"nodes": [], "heads": []})", "'arg_nodes' is missing");
  const auto with = [](const std::string& node, const std::string& rest = R"("arg_nodes": [0], "heads": [[1, 0, 0]])") {
    return R"({"nodes": [{"op": "null", "name": "x", "inputs": []}, )" + node + "], " + rest + "}";
  };
  const std::string relu = R"({"op": "relu", "name": "r", "inputs": [[0, 0, 0]]})";
  EXPECT_EQ(fault_of([&] { mxnet::parse_symbol(with(relu), "file"); }), "no error");
  expect_symbol_fault(with(R"({"op": "relu", "name": "r", "inputs": [[1, 0, 0]]})"), "node 1 'r'");  // a cycle
  expect_symbol_fault(with(R"({"op": "relu", "name": "r", "inputs": [[-1, 0, 0]]})"), "node 1 'r'");
  expect_symbol_fault(with(R"({"op": "relu", "name": "r", "inputs": [[0, 4, 0]]})"), "output 4 of the variable 'x'");
  expect_symbol_fault(with(R"({"op": "relu", "name": "r", "inputs": [[0, 99999999999, 0]]})"), "the output that it");
  expect_symbol_fault(with(R"({"op": "relu", "name": "r", "inputs": [[0.5, 0, 0]]})"), "the node that it reads");
  expect_symbol_fault(with(R"({"op": "relu", "name": "r", "inputs": 3})"), "node 1 'r': 'inputs' is missing");
  expect_symbol_fault(with(R"({"op": "relu", "inputs": []})"), "node 1: 'name'");
  expect_symbol_fault(with(R"({"op": "relu", "name": "r", "attrs": {"a": 1}, "inputs": []})"), "'a' is no text");
  expect_symbol_fault(with(relu, R"("arg_nodes": [1], "heads": [[1, 0, 0]])"), "'r' is an operator");
  expect_symbol_fault(with(relu, R"("arg_nodes": [0], "heads": [[2, 0, 0]])"), "head 0");
  expect_symbol_fault(with(relu, R"("arg_nodes": [0], "heads": [], "node_row_ptr": [0, 1])"), "node_row_ptr");
  expect_symbol_fault(with(relu, R"("arg_nodes": [0], "heads": [], "node_row_ptr": [0, 2, 1])"), "'r' has no output");
  expect_symbol_fault(with(relu, R"("arg_nodes": [0], "heads": [], "attrs": {"v": ["int", {}]})"), "'v'");
}

TEST(MxnetFiles, deep_subgraphs_are_refused) {
  const auto nested = [](int graphs) {
    std::string text = R"({"nodes": [], "arg_nodes": [], "heads": []})";
    for (int i = 0; i < graphs; ++i) {
      text = R"({"nodes": [{"op": "_cond", "name": "c", "inputs": [], "subgraphs": [)" + text +
             R"(]}], "arg_nodes": [], "heads": []})";
    }
    return text;
  };
  expect_symbol_fault(nested(50), "graphs are nested too deep");
  expect_symbol_fault(nested(1000), "its JSON is nested more than 256 deep");
}

TEST(MxnetFiles, parameters_come_back_byte_for_byte) {
  const TemporaryDirectory directory;
  for (const char* name : {"types.params", "list.params", "v3.params", "sparse.params"}) {
    const std::string copy = directory / "copy.params";
    mxnet::write_params(mxnet::read_params(sample(name)), copy);
    EXPECT_TRUE(bytes_of(copy) == bytes_of(sample(name))) << name;
  }
}

TEST(MxnetFiles, parameters_have_their_types_and_names) {
  const mxnet::ParamsFile file = mxnet::read_params(sample("types.params"));
  std::map<std::string, std::string> types;
  for (const mxnet::ParamsEntry& entry : file.entries) types[entry.name] = describe(entry.data);
  const std::map<std::string, std::string> expected = {{"arg:w", "f32[2, 3]"}, {"arg:h", "f16[2]"},
                                                       {"aux:i8", "i8[2]"},    {"arg:i64", "i64[1]"},
                                                       {"u8", "u8[1]"},        {"f64", "f64[1]"}};
  EXPECT_EQ(types, expected);
  EXPECT_EQ(file.entries[1].plain_name().find(':'), std::string_view::npos);
  const mxnet::ParamsFile scalar = mxnet::read_params(sample("v3.params"));
  EXPECT_EQ(scalar.entries.at(1).data.rank(), 0);
  EXPECT_EQ(scalar.entries.at(1).record_version, 3);
}

template <class T>
std::string packed(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

TEST(MxnetFiles, records_of_old_versions_come_back) {
  const TemporaryDirectory directory;
  const std::string header = packed<uint64_t>({0x112, 0, 2});
  const std::string device_and_type = packed<int32_t>({1, 0, 0});
  const std::string oldest = packed<uint32_t>({1, 2}) + device_and_type + packed<float>({1, 2});
  const std::string first =
      packed<uint32_t>({0xF993FAC8, 1}) + packed<int64_t>({2}) + device_and_type + packed<float>({3, 4});
  const std::string bytes = header + oldest + first + packed<uint64_t>({0});
  const mxnet::ParamsFile file = params_from(bytes);
  EXPECT_EQ(file.entries.at(0).data.read_double(1), 2);
  EXPECT_EQ(file.entries.at(1).data.read_double(1), 4);
  mxnet::write_params(file, directory / "old.params");
  EXPECT_EQ(bytes_of(directory / "old.params"), bytes);
}

TEST(MxnetFiles, what_cannot_be_read_says_so) {
  EXPECT_NE(fault_of([] { params_from("PK\x03\x04 and so on"); }).find("this is no .npz file"), std::string::npos);
  EXPECT_NE(fault_of([] { params_from(""); }).find("the file ends"), std::string::npos);
  const auto record = [](int32_t rank, std::initializer_list<int64_t> sizes, int32_t type) {
    return packed<uint64_t>({0x112, 0, 1}) + packed<uint32_t>({0xF993FAC9}) + packed<int32_t>({0, rank}) +
           packed<int64_t>(sizes) + packed<int32_t>({1, 0, type}) + std::string(64, 'x');
  };
  const auto fault = [&](int32_t rank, std::initializer_list<int64_t> sizes, int32_t type) {
    return fault_of([&] { params_from(record(rank, sizes, type)); });
  };
  EXPECT_NE(fault(2000000000, {}, 0).find("array 0 of 1: a rank of 2000000000"), std::string::npos);
  EXPECT_NE(fault(1, {-3}, 0).find("it has the size -3"), std::string::npos);
  EXPECT_NE(fault(2, {int64_t{1} << 40, int64_t{1} << 40}, 0).find("more than the file has"), std::string::npos);
  EXPECT_NE(fault(1, {8}, 99).find("there is no element type 99"), std::string::npos);
  EXPECT_NE(fault(2, {0, int64_t{1} << 62}, 0), "no error");
}

/// The matrix 0 5 0 / 0 0 0 / 7 0 0, as MXNet saves it.
std::string csr(int64_t columns, int64_t second_row, int64_t column) {
  return packed<uint64_t>({0x112, 0, 1}) + packed<uint32_t>({0xF993FAC9}) + packed<int32_t>({2, 1}) +
         packed<int64_t>({2}) + packed<int32_t>({2}) + packed<int64_t>({3, columns}) +
         packed<int32_t>({1, 0, 0, 6, 1}) + packed<int64_t>({4}) + packed<int32_t>({6, 1}) + packed<int64_t>({2}) +
         packed<float>({5, 7}) + packed<int64_t>({0, second_row, 1, 2, column, 0}) + packed<uint64_t>({0});
}

TEST(MxnetFiles, sparse_arrays_are_dense_to_who_reads_them_and_come_back_as_they_were) {
  const TemporaryDirectory directory;
  const mxnet::ParamsFile file = params_from(csr(3, 1, 1));
  const TensorData& matrix = file.entries.at(0).data;
  EXPECT_EQ(describe(matrix), "f32[3, 3]");
  std::string elements;
  for (int64_t i = 0; i < 9; ++i) elements += fmt::format("{} ", matrix.read_double(i));
  EXPECT_EQ(elements, "0 5 0 0 0 0 7 0 0 ");
  mxnet::write_params(file, directory / "csr.params");
  EXPECT_EQ(bytes_of(directory / "csr.params"), csr(3, 1, 1));
  const mxnet::ParamsFile rows = mxnet::read_params(sample("sparse.params"));
  EXPECT_EQ(rows.entries.at(0).sparse->storage, 1);
  const TensorData& data = rows.entries[0].sparse->data;
  double there = 0, all = 0;
  for (int64_t i = 0; i < data.element_count(); ++i) there += data.read_double(i);
  for (int64_t i = 0; i < rows.entries[0].data.element_count(); ++i) all += rows.entries[0].data.read_double(i);
  EXPECT_EQ(there, all);
  EXPECT_LT(data.element_count(), rows.entries[0].data.element_count());
}

TEST(MxnetFiles, indices_outside_of_a_sparse_array_are_errors) {
  const auto fault = [](const std::string& bytes) { return fault_of([&] { params_from(bytes); }); };
  EXPECT_NE(fault(csr(3, 1, 3)).find("array 0 of 1: the column 3 is outside of 3"), std::string::npos);
  EXPECT_NE(fault(csr(3, 1, -1)).find("the column -1"), std::string::npos);
  EXPECT_NE(fault(csr(3, 2, 1)).find("row 1 does not lie in its elements"), std::string::npos);
  EXPECT_NE(fault(csr(int64_t{1} << 40, 1, 1)).find("more than 1024 times the file"), std::string::npos);
}

TEST(MxnetFiles, archives_of_mxnet_2_have_dense_and_sparse_arrays) {
  const TemporaryDirectory directory;
  const auto listed = [](const mxnet::ParamsFile& file) {
    std::map<std::string, std::string> arrays;
    for (const mxnet::ParamsEntry& entry : file.entries) {
      std::string& text = arrays[entry.name] = describe(entry.data) + (entry.sparse ? " sparse:" : ":");
      for (int64_t i = 0; i < entry.data.element_count(); ++i) text += fmt::format(" {}", entry.data.read_double(i));
    }
    return arrays;
  };
  const std::map<std::string, std::string> expected = {
      {"arg:w", "f32[2, 3]: 0 1 2 3 4 5"},   {"aux:s", "f32[]: 2.5"},
      {"arg:i", "i64[1]: 7"},                {"arg:b", "bf16[2]: 1 -2"},
      {"arg:rows", "f32[3, 2] sparse: 0 0 1 2 0 0"}, {"arg:csr", "f32[3, 3] sparse: 0 5 0 0 0 0 7 0 0"}};
  const mxnet::ParamsFile file = mxnet::read_params(sample("mxnet2.npz"));
  EXPECT_EQ(listed(file), expected);
  const auto again = [&](const mxnet::ParamsFile& written, const char* name) {
    mxnet::write_params(written, directory / name);
    EXPECT_EQ(listed(mxnet::read_params(directory / name)), expected);
    return bytes_of(directory / name);
  };
  const std::string archive = again(file, "archive.params");
  EXPECT_EQ(archive.substr(0, 4), "PK\3\4");
  EXPECT_EQ(again(mxnet::read_params(directory / "archive.params"), "again.params"), archive);
  mxnet::ParamsFile list = file;
  list.archive = false;
  EXPECT_EQ(again(list, "list.params").substr(0, 2), packed<uint16_t>({0x112}));
}

TEST(MxnetFiles, an_archive_has_no_arrays_without_name_or_contents) {
  const TemporaryDirectory directory;
  mxnet::ParamsFile file = mxnet::read_params(sample("list.params"));
  file.archive = true;
  const std::string fault = fault_of([&] { mxnet::write_params(file, directory / "archive.params"); });
  EXPECT_NE(fault.find("write a list"), std::string::npos) << fault;
}

/// Bytes cut off, and bytes changed: whatever can be read has its elements.
void damage(const std::string& whole) {
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(fault_of([&] { params_from(whole.substr(0, size)); }), "no error") << size;
  }
  Random random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = whole;
    for (int k = 0; k < 3; ++k) {
      bytes[random.next() % bytes.size()] = static_cast<char>(random.next());
    }
    fault_of([&] {
      const mxnet::ParamsFile file = params_from(bytes);
      for (const mxnet::ParamsEntry& entry : file.entries) entry.data.bytes();
    });
  }
}

TEST(MxnetFiles, damaged_parameters_are_errors_or_other_parameters) {
  for (const char* name : {"types.params", "sparse.params", "mxnet2.npz"}) damage(bytes_of(sample(name)));
  damage(csr(3, 1, 1));
}

TEST(MxnetFiles, damaged_symbols_are_errors_or_other_symbols) {
  const std::string whole = bytes_of(sample("foreach-symbol.json"));
  Random random(1);
  for (int i = 0; i < 1000; ++i) {
    std::string text = whole;
    for (int k = 0; k < 2; ++k) {
      text[random.next() % text.size()] = "0129[]{},\"x"[random.next() % 11];
    }
    fault_of([&] { mxnet::symbol_text(mxnet::parse_symbol(text, "file")); });
  }
}

}  // namespace
}  // namespace graft
