// SPDX-License-Identifier: Apache-2.0
// SavedModels and checkpoints, written by hand: what is read of them, and what is said of those that are damaged.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "import/tensorflow/checkpoint.h"
#include "import/tensorflow/crc32c.h"
#include "import/tensorflow/import.h"
#include "import/tensorflow/snappy.h"
#include "import/tensorflow/sorted_table.h"
#include "import/tensorflow/tensor_slices.h"
#include "support/graph_def_text.h"
#include "support/saved_model_files.h"

namespace graft::tensorflow {
namespace {

using graft_tensorflow::GraphDef;
using test::Blocks;
using test::graph_of;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

template <class Body>
std::string failure(const Body& body) {
  try {
    body();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// A folder of its own for each test, which goes with it.
class SavedModel : public testing::Test {
 protected:
  SavedModel() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() / (std::string(test->name()) + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_ / "variables");
  }
  ~SavedModel() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name = "") const { return (folder_ / name).string(); }
  void write_variables(const test::CheckpointBytes& checkpoint) const {
    write_file(path("variables/variables.index"), checkpoint.index);
    write_file(path("variables/variables.data-00000-of-00001"), checkpoint.data);
  }
  std::string why_not(const ImportOptions& options = {}) const {
    return failure([&] { import_model(folder_.string(), options); });
  }

  std::filesystem::path folder_;
};

/// y = relu(x + layer/bias) through two functions, restored as TensorFlow 2 does.
test::SavedModelText model_with_functions() {
  test::SavedModelText model;
  GraphDef& graph = model.graph;
  graph = graph_of(R"(
    serving_x  Placeholder                       : dtype=float shape=?,3
    bias       VarHandleOp                       : dtype=float shared_name=not_unique
    Call       StatefulPartitionedCall serving_x bias : f=@outer
    file       Placeholder                       : dtype=string
    Restore    StatefulPartitionedCall file bias : f=@restore)");
  test::add_function(graph, "outer", {"x", "handle"}, {"first=StatefulPartitionedCall:output:1"},
                     "StatefulPartitionedCall StatefulPartitionedCall x handle ^check : f=@inner\n"
                     "check Assert x");
  test::add_function(graph, "inner", {"x", "handle"}, {"sum=add:z:0", "clamped=relu:activations:0"}, R"(
    read  ReadVariableOp handle          : dtype=float
    add   AddV2          x read:value:0  : T=float
    relu  Relu           add:z:0         : T=float)");
  test::add_function(graph, "restore", {"file", "handle"}, {"done=same:output:0"}, R"(
    names   Const : dtype=string
    slices  Const : dtype=string
    tensors RestoreV2 file names:output:0 slices:output:0
    first   Identity tensors:tensors:1
    set     AssignVariableOp handle first:output:0
    same    Identity file ^set)");
  auto& nodes = *graph.mutable_library()->mutable_function(2)->mutable_node_def();
  for (int i = 0; i < 2; ++i) {
    auto& tensor = *test::attribute(nodes[i], "value").mutable_tensor();
    tensor.set_dtype(7);
    tensor.mutable_tensor_shape()->add_dim()->set_size(2);
    tensor.add_string_val(i == 0 ? "counter" : ""), tensor.add_string_val(i == 0 ? "layer/bias" : "");
  }
  model.restore_op = "Restore";
  model.signatures["serving_default"] = {.inputs = {{"x", "serving_x:0"}}, .outputs = {{"y", "Call:0"}}};
  return model;
}

const std::map<std::string, std::vector<float>> kVariables = {{"counter", {7}}, {"layer/bias", {1, -2, 3}}};

TEST(Crc32c, is_that_of_the_standard) {  // RFC 3720, B.4
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\0'))), 0x8a9136aaU);
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\xff'))), 0x62a8ab43U);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283U);
  EXPECT_EQ(crc32c(bytes_of("6789"), crc32c(bytes_of("12345"))), 0xe3069283U);
}

TEST(Snappy, expands_literals_and_copies_that_overlap) {
  using namespace std::string_literals;
  EXPECT_EQ(expand_snappy(bytes_of("\x0a\x04" "ab\x11\x02\x00"s), 100), std::nullopt) << "6 of 10 bytes";
  EXPECT_EQ(expand_snappy(bytes_of("\x0a\x04" "ab\x1e\x02\x00"s), 100), "ababababab");
  EXPECT_EQ(expand_snappy(bytes_of("\x07\x08" "abc\x01\x03"s), 100), "abcabca");
  EXPECT_EQ(expand_snappy(bytes_of("\x02\xf0\x01" "ab"s), 100), "ab") << "a length of its own";
  EXPECT_EQ(expand_snappy(bytes_of("\x07\x08" "abc\x01\x04"s), 100), std::nullopt) << "before the beginning";
  EXPECT_EQ(expand_snappy(bytes_of("\x07\x08" "ab"s), 100), std::nullopt) << "cut short";
  EXPECT_EQ(expand_snappy(bytes_of("\x7f\x08" "abc"s), 100), std::nullopt) << "more than is allowed";
}

TEST(SortedTable, gives_all_entries_whether_blocks_are_compressed_or_not) {
  const std::map<std::string, std::string> entries = {
      {"", "head"}, {"layer/bias", "b"}, {"layer/kernel", std::string(500, 'k')}, {"z", ""}};
  for (const Blocks blocks : {Blocks::kRaw, Blocks::kSnappy}) {
    const SortedTable read = read_sorted_table(bytes_of(test::write_table(entries, blocks)), "table");
    EXPECT_EQ((std::map<std::string, std::string>(read.begin(), read.end())), entries);
  }
}

TEST(SortedTable, says_of_any_byte_that_was_changed_or_lost_that_it_is_damaged) {
  const std::string whole = test::write_table({{"", "head"}, {"layer/bias", "b"}, {"layer/kernel", "k"}});
  for (size_t at = 0; at < whole.size(); ++at) {
    EXPECT_NE(failure([&] { read_sorted_table(bytes_of(whole.substr(0, at)), "table"); }), "") << at;
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    const bool padding = failure([&] { read_sorted_table(bytes_of(changed), "table"); }).empty();
    EXPECT_TRUE(!padding || at >= whole.size() - 48) << at;
  }
}

TEST_F(SavedModel, is_a_graph_without_functions_and_with_the_checkpoints_weights) {
  write_file(path("saved_model.pb"), write_saved_model(model_with_functions()));
  write_variables(test::write_checkpoint(kVariables, Blocks::kSnappy));
  const Graph graph = import_model(folder_.string());
  ASSERT_EQ(graph.nodes.size(), 2U) << print(graph);
  EXPECT_EQ(graph.nodes[0].op, "Add");
  EXPECT_EQ(graph.nodes[0].name, "Call/add");
  EXPECT_EQ(graph.nodes[1].op, "Relu");
  EXPECT_EQ(graph.value(graph.inputs[0]).name, "x");
  EXPECT_EQ(graph.value(graph.inputs[0]).shape, (Shape{Size::symbol("x_0"), Size(3)}));
  EXPECT_EQ(graph.value(graph.outputs[0]).name, "y");
  const auto& bias = graph.value(graph.nodes[0].inputs[1]).constant;
  ASSERT_TRUE(bias);
  EXPECT_EQ(bias->as<float>()[1], -2);
  EXPECT_TRUE(MappedFile::find(bias->bytes().data())) << "weights stay in the file";
}

TEST_F(SavedModel, has_results_by_the_names_that_its_operators_definitions_give_them) {
  auto model = model_with_functions();
  graft_tensorflow::OpDef split;
  split.set_name("Uneven");
  split.add_output_arg()->set_name("many"), split.mutable_output_arg(0)->set_number_attr("N");
  split.add_output_arg()->set_name("last");
  model.operators.push_back(split);
  auto& inner = *model.graph.mutable_library()->mutable_function(1);
  *inner.add_node_def() = graph_of("odd Uneven x : N=2").node(0);
  inner.mutable_ret(1)->set_value("odd:last:0");
  write_file(path("saved_model.pb"), write_saved_model(model));
  write_variables(test::write_checkpoint(kVariables));
  EXPECT_NE(why_not().find("Uneven 'Call/odd': there is no converter for Uneven"), std::string::npos) << why_not();
  inner.mutable_ret(1)->set_value("odd:none:0");
  write_file(path("saved_model.pb"), write_saved_model(model));
  EXPECT_NE(why_not().find("Uneven has no output 'none'"), std::string::npos) << why_not();
}

TEST_F(SavedModel, says_what_is_wrong_with_it_and_what_to_do) {
  EXPECT_NE(why_not().find("the folder has no saved_model.pb"), std::string::npos) << why_not();
  const std::string whole = write_saved_model(model_with_functions());
  write_file(path("saved_model.pb"), whole.substr(0, whole.size() / 2));
  EXPECT_NE(why_not().find("saved_model.pb: it is no SavedModel, or it is damaged"), std::string::npos) << why_not();
  write_file(path("saved_model.pb"), whole);
  EXPECT_NE(why_not().find("variable 'bias': the graph has variables, and no checkpoint"), std::string::npos)
      << why_not();
  write_variables(test::write_checkpoint({{"layer/bia", {1, 2, 3}}}));
  EXPECT_NE(why_not().find("has no tensor 'layer/bias'; did you mean 'layer/bia'?"), std::string::npos) << why_not();
  write_variables(test::write_checkpoint(kVariables));
  EXPECT_EQ(why_not(), "");
  EXPECT_NE(why_not({.signature = "serving_defualt"}).find("it has serving_default; did you mean 'serving_default'?"),
            std::string::npos);
  EXPECT_NE(why_not({.tags = {"train"}}).find("no graph with the tags train; it has serve"), std::string::npos);
  EXPECT_NE(why_not({.outputs = {"y"}}).find("choose one by signature"), std::string::npos);
  EXPECT_NE(why_not({.shapes = {{"z", {1, 3}}}}).find("the model has no input 'z'; it has x"), std::string::npos);
}

TEST_F(SavedModel, says_of_a_checkpoint_that_was_cut_short_or_changed_which_tensor_it_is) {
  write_file(path("saved_model.pb"), write_saved_model(model_with_functions()));
  test::CheckpointBytes checkpoint = test::write_checkpoint(kVariables);
  write_variables({checkpoint.index, checkpoint.data.substr(0, 15)});
  EXPECT_NE(why_not().find("tensor 'layer/bias'"), std::string::npos) << why_not();
  EXPECT_NE(why_not().find("ends at byte 15"), std::string::npos) << why_not();
  checkpoint.data[5] = static_cast<char>(checkpoint.data[5] ^ 1);
  write_variables(checkpoint);
  const Graph graph = import_model(folder_.string());
  const std::string why = failure([&] { (void)graph.value(graph.nodes[0].inputs[1]).constant->bytes(); });
  EXPECT_NE(why.find("the checksum of its elements"), std::string::npos) << why;
  write_variables({checkpoint.index.substr(0, 60), checkpoint.data});
  EXPECT_NE(why_not().find("variables.index: it is no index of a checkpoint"), std::string::npos) << why_not();
}

TEST_F(SavedModel, is_read_from_its_own_folder_alone) {
  write_file(path("saved_model.pb"), write_saved_model(model_with_functions()));
  write_variables(test::write_checkpoint(kVariables));
  EXPECT_EQ(why_not(), "");
  for (const char* part : {"variables/variables.data-00000-of-00001", "variables/variables.index", "saved_model.pb"}) {
    const std::string outside = path() + "_outside";
    std::filesystem::rename(path(part), outside);
    std::filesystem::create_symlink(outside, path(part));
    EXPECT_NE(why_not().find("is a symbolic link"), std::string::npos) << part << ": " << why_not();
    std::filesystem::remove(path(part));
    std::filesystem::rename(outside, path(part));
  }
}

/// Writes a file of bytes from an offset on, before which it takes no room on the disk.
void write_behind(const std::string& path, int64_t offset, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.seekp(offset);
  file << bytes;
  ASSERT_TRUE(file.flush()) << path;
}

TEST_F(SavedModel, has_weights_in_several_shards_and_beyond_four_gigabytes) {
  const int64_t far = (int64_t{1} << 32) + 64;
  const test::PlacedTensor bias = {{1, -2, 3}, 1, far}, counter = {{7}, 0, 0};
  write_file(path("saved_model.pb"), write_saved_model(model_with_functions()));
  write_file(path("variables/variables.index"), test::write_index(
      {{"counter", test::entry_of(counter)}, {"layer/bias", test::entry_of(bias)}}, 2));
  const std::string shard = path("variables/variables.data-00001-of-00002");
  write_behind(shard, far, bias.bytes());
  const Graph graph = import_model(folder_.string());
  const auto& read = graph.value(graph.nodes[0].inputs[1]).constant;
  ASSERT_TRUE(read);
  EXPECT_EQ(read->as<float>()[1], -2);
  const auto file = MappedFile::find(read->bytes().data());
  ASSERT_TRUE(file) << "weights stay in the file";
  EXPECT_EQ(read->bytes().data() - file->bytes().data(), far);
  std::filesystem::resize_file(shard, static_cast<uintmax_t>(far) + 8);
  EXPECT_NE(why_not().find("ends at byte 4294967368, before its 12 bytes from 4294967360 on do"), std::string::npos)
      << why_not();
  std::filesystem::remove(shard);
  EXPECT_NE(why_not().find("variables.data-00001-of-00002"), std::string::npos) << why_not();
}

graft_tensorflow::TensorSliceProto slice_of(std::initializer_list<std::pair<int64_t, int64_t>> extents) {
  graft_tensorflow::TensorSliceProto slice;
  for (const auto& [start, length] : extents) {
    auto& extent = *slice.add_extent();
    if (length >= 0) extent.set_start(start), extent.set_length(length);
  }
  return slice;
}

TEST(TensorSlices, have_keys_that_sort_as_their_numbers_do) {
  using namespace std::string_literals;
  EXPECT_EQ(slice_key("a", slice_of({{2, 3}})), "\0a\0\1\1\1\x82\x83"s);
  EXPECT_EQ(slice_key("a\0\xff"s, slice_of({{0, -1}})), "\0a\0\xff\xff\0\0\1\1\1\x80\x7f"s) << "not divided";
  const std::string large = "\0\0\1\1\1\xc0\x40\xf0\x10\0\0"s;
  EXPECT_EQ(slice_key("", slice_of({{64, 1 << 20}})), large);
  EXPECT_EQ(slice_key("", slice_of({{int64_t{1} << 62, 0}})),
            "\0\0\1\1\1\xff\xc0\x40\0\0\0\0\0\0\0\x80"s);
}

TEST(TensorSlices, make_a_whole_of_boxes) {
  const auto part = [](const graft_tensorflow::TensorSliceProto& slice, const std::vector<float>& elements) {
    TensorSlice read = read_slice(slice, {2, 3}, "x");
    const std::vector<int64_t> lengths = read.length;
    return TensorPart{std::move(read), TensorData::from_values<float>(DType::kFloat32, lengths, elements)};
  };
  const TensorPart left = part(slice_of({{0, -1}, {0, 1}}), {1, 4}), top = part(slice_of({{0, 1}, {1, 2}}), {2, 3});
  const TensorPart rest = part(slice_of({{1, 1}, {1, 2}}), {5, 6}), row = part(slice_of({{1, 1}, {0, -1}}), {7, 8, 9});
  const TensorData whole = join_parts(DType::kFloat32, {2, 3}, {rest, left, top}, "x");
  const auto elements = whole.as<float>();
  EXPECT_EQ(std::vector<float>(elements.begin(), elements.end()), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_NE(failure([&] { join_parts(DType::kFloat32, {2, 3}, {left, top}, "x"); }).find("each element once"),
            std::string::npos);
  const TensorPart one = part(slice_of({{0, 1}, {1, 1}}), {2});  // as many elements as the whole has, one of them twice
  EXPECT_NE(failure([&] { join_parts(DType::kFloat32, {2, 3}, {left, row, one}, "x"); }), "");
  EXPECT_NE(failure([&] { read_slice(slice_of({{1, 2}, {0, -1}}), {2, 3}, "x"); }).find("within axis 0"),
            std::string::npos);
  EXPECT_NE(failure([&] { read_slice(slice_of({{0, -1}}), {2, 3}, "x"); }).find("another rank"), std::string::npos);
}

TEST_F(SavedModel, has_weights_in_parts_that_lie_in_several_shards) {
  const test::PlacedTensor counter = {{7}, 0, 0}, first = {{1, -2}, 0, 4}, second = {{3}, 1, 0};
  auto whole = test::entry_of({{0, 0, 0}, 0, 0});
  *whole.add_slices() = slice_of({{0, 2}}), *whole.add_slices() = slice_of({{2, 1}});
  std::map<std::string, graft_tensorflow::BundleEntryProto> entries = {
      {"counter", test::entry_of(counter)},
      {"layer/bias", whole},
      {slice_key("layer/bias", whole.slices(0)), test::entry_of(first)},
      {slice_key("layer/bias", whole.slices(1)), test::entry_of(second)}};
  write_file(path("saved_model.pb"), write_saved_model(model_with_functions()));
  write_file(path("variables/variables.index"), test::write_index(entries, 2));
  write_file(path("variables/variables.data-00000-of-00002"), counter.bytes() + first.bytes());
  write_file(path("variables/variables.data-00001-of-00002"), second.bytes());
  const Graph graph = import_model(folder_.string());
  const auto& bias = graph.value(graph.nodes[0].inputs[1]).constant;
  ASSERT_TRUE(bias);
  const auto elements = bias->as<float>();
  EXPECT_EQ(std::vector<float>(elements.begin(), elements.end()), (std::vector<float>{1, -2, 3}));
  entries.erase(slice_key("layer/bias", whole.slices(1)));
  write_file(path("variables/variables.index"), test::write_index(entries, 2));
  EXPECT_NE(why_not().find("tensor 'layer/bias' of"), std::string::npos) << why_not();
  EXPECT_NE(why_not().find("does not have its part number 1"), std::string::npos) << why_not();
}

TEST_F(SavedModel, keeps_no_state_between_runs) {
  auto model = model_with_functions();
  auto& inner = *model.graph.mutable_library()->mutable_function(1);
  *inner.add_node_def() = graph_of("count AssignAddVariableOp handle read:value:0").node(0);
  write_file(path("saved_model.pb"), write_saved_model(model));
  write_variables(test::write_checkpoint(kVariables));
  EXPECT_NE(why_not().find("node 'Call/count' (AssignAddVariableOp)"), std::string::npos) << why_not();
  EXPECT_NE(why_not().find("changes the variable 'bias'"), std::string::npos) << why_not();
}

TEST_F(SavedModel, that_calls_itself_is_told_so) {
  auto model = model_with_functions();
  auto& inner = *model.graph.mutable_library()->mutable_function(1);
  *inner.add_node_def() = graph_of("again PartitionedCall x handle : f=@inner").node(0);
  write_file(path("saved_model.pb"), write_saved_model(model));
  write_variables(test::write_checkpoint(kVariables));
  EXPECT_NE(why_not().find("the function 'inner' calls itself"), std::string::npos) << why_not();
}

TEST_F(SavedModel, a_frozen_graph_gives_what_nobody_takes_or_what_is_asked_for) {
  GraphDef graph = graph_of(R"(
    x     Placeholder        : dtype=float shape=?,3
    relu  Relu       x       : T=float
    neg   Neg        relu    : T=float
    abs   Abs        relu    : T=float)");
  write_file(path("frozen.pb"), graph.SerializeAsString());
  ASSERT_TRUE(is_model(path("frozen.pb")));
  const Graph all = import_model(path("frozen.pb"));
  ASSERT_EQ(all.outputs.size(), 2U);
  EXPECT_EQ(all.value(all.outputs[0]).name, "neg");
  const Graph one = import_model(path("frozen.pb"), {.outputs = {"relu"}});
  EXPECT_EQ(one.nodes.size(), 1U);
  EXPECT_EQ(one.value(one.outputs[0]).name, "relu");
  EXPECT_NE(failure([&] { import_model(path("frozen.pb"), {.outputs = {"rely"}}); }).find("did you mean 'relu'?"),
            std::string::npos);
}

}  // namespace
}  // namespace graft::tensorflow
