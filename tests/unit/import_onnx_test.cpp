// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "base/error.h"
#include "base/file.h"
#include "import/onnx/import.h"
#include "import/onnx/onnx.pb.h"

namespace graft {
namespace {

using graft_onnx::AttributeProto;
using graft_onnx::GraphProto;
using graft_onnx::ModelProto;
using graft_onnx::NodeProto;
using graft_onnx::TensorProto;
using Names = std::vector<std::string>;

ModelProto make_model(int64_t opset = 21) {
  ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(opset);
  model.mutable_graph()->set_name("main");
  return model;
}

/// Sizes that are not numbers are names; "" is an unknown size.
void add_value(graft_onnx::ValueInfoProto* info, const std::string& name, int type, const Names& shape) {
  info->set_name(name);
  auto* tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  tensor->mutable_shape();
  for (const std::string& size : shape) {
    auto* dim = tensor->mutable_shape()->add_dim();
    if (!size.empty() && size.find_first_not_of("-0123456789") == size.npos) {
      dim->set_dim_value(std::stoll(size));
    } else if (!size.empty()) {
      dim->set_dim_param(size);
    }
  }
}

NodeProto* add_node(GraphProto& graph, const std::string& op, const Names& inputs, const Names& outputs) {
  NodeProto* node = graph.add_node();
  node->set_op_type(op);
  node->set_name(op + "_node");
  for (const auto& name : inputs) node->add_input(name);
  for (const auto& name : outputs) node->add_output(name);
  return node;
}

AttributeProto* add_attribute(NodeProto* node, const std::string& name, AttributeProto::Type type) {
  AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(type);
  return attribute;
}

Graph import(const ModelProto& model, const ImportOptions& options = {}, const std::string& folder = "") {
  const std::string bytes = model.SerializeAsString();
  return import_onnx_bytes(std::as_bytes(std::span(bytes)), folder, options);
}

std::string error_of(const ModelProto& model, ErrorKind kind = ErrorKind::kInvalidModel,
                     const std::string& folder = "") {
  try {
    import(model, {}, folder);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "";
}

/// x -> Relu -> y
ModelProto relu_model(const Names& shape) {
  ModelProto model = make_model();
  add_value(model.mutable_graph()->add_input(), "x", 1, shape);
  add_value(model.mutable_graph()->add_output(), "y", 1, shape);
  add_node(*model.mutable_graph(), "Relu", {"x"}, {"y"});
  return model;
}

TEST(ImportOnnx, dimensions_become_symbols) {
  const Graph graph = import(relu_model({"batch size", "", "3", "-1", "mod"}));
  EXPECT_EQ(to_string(*graph.value(graph.inputs[0]).shape), "[batch_size, x_1, 3, x_3, _mod]");
  EXPECT_EQ(to_string(*graph.value(graph.outputs[0]).shape), "[batch_size, x_1, 3, x_3, _mod]");
  EXPECT_EQ(graph.opsets.at(""), kOpset);
}

TEST(ImportOnnx, options_fix_shapes_and_dimensions) {
  ImportOptions options;
  options.symbols["N"] = Size(8);
  options.symbols["L"] = Size::symbol("length");
  EXPECT_EQ(to_string(*import(relu_model({"N", "L"}), options).value(0).shape), "[8, length]");
  options.symbols["other"] = Size(1);
  EXPECT_THROW(import(relu_model({"N", "L"}), options), Error);
  ImportOptions shapes;
  shapes.input_shapes["x"] = {2, 5};
  EXPECT_EQ(to_string(*import(relu_model({"N", "L"}), shapes).value(0).shape), "[2, 5]");
  shapes.input_shapes["x"] = {2};
  EXPECT_THROW(import(relu_model({"N", "L"}), shapes), Error);
}

TEST(ImportOnnx, reads_tensors_in_every_field) {
  ModelProto model = make_model();
  GraphProto& graph = *model.mutable_graph();
  const auto add = [&](const std::string& name, int type, const std::vector<int64_t>& dims) {
    TensorProto* tensor = graph.add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(type);
    for (const int64_t dim : dims) tensor->add_dims(dim);
    add_value(graph.add_output(), name, type, {});
    return tensor;
  };
  add("half", 10, {2})->add_int32_data(0x3c00);
  graph.mutable_initializer(0)->add_int32_data(0xc000);
  add("packed", 22, {3})->add_int32_data(0xe1);
  graph.mutable_initializer(1)->add_int32_data(0xf7);
  add("bools", 9, {3})->set_raw_data(std::string("\x00\x02\x01", 3));
  add("words", 8, {1})->add_string_data("hello");
  add("scalar", 11, {})->add_double_data(2.5);
  add("none", 1, {0, 4});
  const Graph result = import(model);
  const auto constant = [&](const char* name) { return *result.value(result.find_value(name)).constant; };
  EXPECT_EQ(constant("half").read_double(0), 1.0);
  EXPECT_EQ(constant("half").read_double(1), -2.0);
  EXPECT_EQ(constant("packed").read_integer(0), 1);
  EXPECT_EQ(constant("packed").read_integer(1), -2);
  EXPECT_EQ(constant("packed").read_integer(2), 7);
  EXPECT_EQ(std::to_integer<int>(constant("packed").bytes()[1]), 7) << "unused bits are cleared";
  EXPECT_EQ(std::to_integer<int>(constant("bools").bytes()[1]), 1);
  EXPECT_EQ(constant("words").strings()[0], "hello");
  EXPECT_EQ(constant("scalar").read_double(0), 2.5);
  EXPECT_EQ(constant("none").element_count(), 0);
}

TEST(ImportOnnx, refuses_tensors_whose_data_does_not_fit) {
  ModelProto model = relu_model({"2"});
  TensorProto* tensor = model.mutable_graph()->add_initializer();
  tensor->set_name("w");
  tensor->set_data_type(1);
  tensor->add_dims(1000000);
  tensor->add_dims(1000000);
  EXPECT_NE(error_of(model).find("initializer 'w'"), std::string::npos);
  tensor->set_dims(0, -1);
  EXPECT_NE(error_of(model).find("negative"), std::string::npos);
  tensor->set_dims(0, INT64_MAX);
  EXPECT_NE(error_of(model), "");
  tensor->set_data_type(99);
  EXPECT_NE(error_of(model).find("99"), std::string::npos);
}

TEST(ImportOnnx, sparse_tensors_become_dense) {
  ModelProto model = make_model();
  auto* sparse = model.mutable_graph()->add_sparse_initializer();
  sparse->mutable_values()->set_name("s");
  sparse->mutable_values()->set_data_type(1);
  sparse->mutable_values()->add_dims(2);
  sparse->mutable_values()->add_float_data(5);
  sparse->mutable_values()->add_float_data(7);
  sparse->mutable_indices()->set_data_type(7);
  sparse->mutable_indices()->add_dims(2);
  sparse->mutable_indices()->add_int64_data(1);
  sparse->mutable_indices()->add_int64_data(5);
  sparse->add_dims(2);
  sparse->add_dims(3);
  add_value(model.mutable_graph()->add_output(), "s", 1, {});
  const Graph graph = import(model);
  EXPECT_TRUE(*graph.value(0).constant == TensorData::from_values<float>(DType::kFloat32, {2, 3}, {0, 5, 0, 0, 0, 7}));
  sparse->set_dims(0, 1000000000);
  EXPECT_NE(error_of(model, ErrorKind::kUnsupported), "");
  sparse->set_dims(0, 1);
  EXPECT_NE(error_of(model).find("outside"), std::string::npos);
}

TEST(ImportOnnx, functions_are_inlined_with_their_attributes) {
  ModelProto model = relu_model({"2"});
  model.mutable_graph()->clear_node();
  NodeProto* call = add_node(*model.mutable_graph(), "Scale", {"x"}, {"y"});
  call->set_domain("mine");
  call->set_name("call");
  add_attribute(call, "factor", AttributeProto::FLOAT)->set_f(3);
  auto* function = model.add_functions();
  function->set_name("Scale");
  function->set_domain("mine");
  function->add_input("a");
  function->add_output("b");
  function->add_attribute("factor");
  function->add_opset_import()->set_version(21);
  GraphProto body;
  auto* constant = add_attribute(add_node(body, "Constant", {}, {"k"}), "value_float", AttributeProto::FLOAT);
  constant->set_ref_attr_name("factor");
  add_node(body, "Mul", {"a", "k"}, {"b"});
  *function->mutable_node() = body.node();
  const Graph graph = import(model);
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].name, "call/Mul_node");
  EXPECT_EQ(graph.value(graph.nodes[0].inputs[1]).constant->read_double(0), 3.0);
  EXPECT_EQ(graph.value(graph.outputs[0]).name, "y");
  function->mutable_node(1)->set_op_type("Scale");
  function->mutable_node(1)->set_domain("mine");
  function->mutable_node(1)->clear_input();
  function->mutable_node(1)->add_input("a");
  EXPECT_NE(error_of(model).find("calls itself"), std::string::npos);
}

TEST(ImportOnnx, outer_values_become_inputs_of_a_subgraph) {
  ModelProto model = relu_model({"2"});
  GraphProto& graph = *model.mutable_graph();
  graph.clear_node();
  add_value(graph.add_input(), "c", 9, {});
  TensorProto* w = graph.add_initializer();
  w->set_name("w");
  w->set_data_type(1);
  w->add_float_data(4);
  NodeProto* node = add_node(graph, "If", {"c"}, {"y"});
  GraphProto* then = add_attribute(node, "then_branch", AttributeProto::GRAPH)->mutable_g();
  add_node(*then, "Mul", {"x", "w"}, {"t"});
  add_value(then->add_output(), "t", 1, {"2"});
  GraphProto* other = add_attribute(node, "else_branch", AttributeProto::GRAPH)->mutable_g();
  add_attribute(add_node(*other, "Constant", {}, {"e"}), "value_floats", AttributeProto::FLOATS)->add_floats(1);
  add_value(other->add_output(), "e", 1, {"1"});
  const Graph result = import(model);
  const Node& imported = result.nodes[0];
  ASSERT_EQ(imported.inputs.size(), 2u);
  EXPECT_EQ(result.value(imported.inputs[1]).name, "x");
  EXPECT_EQ(std::get<std::vector<int64_t>>(imported.attributes.at("captures")), (std::vector<int64_t>{0, 1}));
  const auto body = std::get<std::shared_ptr<const Graph>>(imported.attributes.at("then_branch"));
  ASSERT_EQ(body->inputs.size(), 1u);
  EXPECT_EQ(body->value(body->inputs[0]).name, "x");
  EXPECT_EQ(body->value(body->nodes[0].inputs[1]).constant->read_double(0), 4.0);
}

TEST(ImportOnnx, names_the_node_of_a_mistake) {
  ModelProto model = relu_model({"2"});
  model.mutable_graph()->mutable_node(0)->set_input(0, "nowhere");
  EXPECT_NE(error_of(model).find("node 'Relu_node' (Relu): it reads 'nowhere'"), std::string::npos);
  model = relu_model({"2"});
  add_node(*model.mutable_graph(), "Neg", {"x"}, {"y"});
  EXPECT_NE(error_of(model).find("defined a second time"), std::string::npos);
  model = relu_model({"2"});
  model.mutable_graph()->mutable_output(0)->set_name("z");
  EXPECT_NE(error_of(model).find("'z'"), std::string::npos);
  model = relu_model({"2"});
  model.mutable_opset_import(0)->set_version(99);
  EXPECT_NE(error_of(model, ErrorKind::kUnsupported).find("opset"), std::string::npos);
}

class ExternalData : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/graft-import-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    ::mkdir((folder_ + "/model").c_str(), 0700);
    write_file(folder_ + "/secret", std::string_view("0123456789abcdef"));
    write_file(folder_ + "/model/weights", std::string_view("0123456789abcdef"));
    EXPECT_EQ(::symlink("../secret", (folder_ + "/model/link").c_str()), 0);
    EXPECT_EQ(::symlink("..", (folder_ + "/model/up").c_str()), 0);
  }
  void TearDown() override {
    for (const char* name : {"/model/link", "/model/up", "/model/weights", "/secret"})
      ::unlink((folder_ + name).c_str());
    ::rmdir((folder_ + "/model").c_str());
    ::rmdir(folder_.c_str());
  }
  static ModelProto model(const std::string& location, const std::string& offset = "4",
                          const std::string& length = "8") {
    ModelProto model = make_model();
    TensorProto* w = model.mutable_graph()->add_initializer();
    w->set_name("w");
    w->set_data_type(2);
    w->add_dims(8);
    w->set_data_location(TensorProto::EXTERNAL);
    for (const auto& [key, value] : {std::pair("location", location), {"offset", offset}, {"length", length}}) {
      auto* entry = w->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    add_value(model.mutable_graph()->add_output(), "w", 2, {"8"});
    return model;
  }
  std::string folder_;
};

TEST_F(ExternalData, is_read_from_below_the_models_folder) {
  const Graph graph = import(model("weights"), {}, folder_ + "/model");
  EXPECT_EQ(graph.value(0).constant->read_integer(0), '4');
  EXPECT_EQ(import(model("./weights"), {}, folder_ + "/model").value(0).constant->read_integer(7), 'b');
}

TEST_F(ExternalData, cannot_leave_the_models_folder) {
  const std::string folder = folder_ + "/model";
  EXPECT_NE(error_of(model("../secret"), ErrorKind::kInvalidModel, folder).find("'..'"), std::string::npos);
  EXPECT_NE(error_of(model(folder_ + "/secret"), ErrorKind::kInvalidModel, folder).find("absolute"), std::string::npos);
  EXPECT_NE(error_of(model("link"), ErrorKind::kInvalidModel, folder).find("symbolic link"), std::string::npos);
  EXPECT_NE(error_of(model("up/secret"), ErrorKind::kInvalidModel, folder).find("symbolic link"), std::string::npos);
  EXPECT_NE(error_of(model("."), ErrorKind::kInvalidModel, folder), "");
  EXPECT_NE(error_of(model("weights"), ErrorKind::kInvalidModel, ""), "");
  EXPECT_NE(error_of(model("missing"), ErrorKind::kInvalidModel, folder), "");
}

TEST_F(ExternalData, must_lie_inside_its_file) {
  const std::string folder = folder_ + "/model";
  EXPECT_NE(error_of(model("weights", "12"), ErrorKind::kInvalidModel, folder).find("only 16"), std::string::npos);
  EXPECT_NE(error_of(model("weights", "18446744073709551615"), ErrorKind::kInvalidModel, folder), "");
  EXPECT_NE(error_of(model("weights", "-1"), ErrorKind::kInvalidModel, folder), "");
  EXPECT_NE(error_of(model("weights", "0", "9"), ErrorKind::kInvalidModel, folder), "");
}

TEST(ImportOnnx, survives_any_change_of_its_bytes) {
  ModelProto model = relu_model({"N", "4"});
  NodeProto* split = add_node(*model.mutable_graph(), "Split", {"y"}, {"a", "b"});
  add_attribute(split, "axis", AttributeProto::INT)->set_i(1);
  TensorProto* w = model.mutable_graph()->add_initializer();
  w->set_name("w");
  w->set_data_type(1);
  w->add_dims(2);
  w->set_raw_data(std::string(8, 'x'));
  add_node(*model.mutable_graph(), "Add", {"a", "w"}, {"z"});
  const std::string original = model.SerializeAsString();
  std::mt19937 random(5);
  int imported = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = original;
    for (int edits = 0; edits < 2 && !bytes.empty(); ++edits) {
      const size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
          break;
        case 1:
          bytes.erase(at, random() % 8);
          break;
        default:
          bytes.resize(random() % 4 ? bytes.size() : at);
      }
    }
    try {
      import_onnx_bytes(std::as_bytes(std::span(bytes)), "");
      ++imported;
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), ErrorKind::kInternal) << error.what();
    }
  }
  EXPECT_GT(imported, 10);
}

}  // namespace
}  // namespace graft
