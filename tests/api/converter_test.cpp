// SPDX-License-Identifier: Apache-2.0
// Converters of users through the C interface: only graft/ is included here.
#include "graft/graft_converter.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "api/host_graph_writer.h"
#include "graft/converter.h"
#include "graft/graft.h"

using graft_tests::Host, graft_tests::none, graft_tests::of;

namespace {

using Convert = std::function<graft_status(graft_conversion*)>;

/// Converters of the process for as long as it lives.
struct Registered {
  explicit Registered(const char* signature, Convert convert, int32_t priority = 0, const char* frontend = "aten")
      : function(std::move(convert)) {
    const graft_converter row{.struct_size = sizeof row, .frontend = frontend, .signature = signature,
                              .priority = priority, .convert = [](graft_conversion* c, void* self) {
                                return static_cast<Registered*>(self)->function(c);
                              }, .context = this,
                              .destroy = [](void* self) { ++static_cast<Registered*>(self)->destroyed; }};
    status = graft_converters_add(&row, 1, "the test", &id, &error);
  }
  Registered(const Registered&) = delete;
  ~Registered() { graft_converters_remove(id); }

  Convert function;
  uint64_t id = 0;
  graft_status status = GRAFT_OK;
  graft_error error = {};
  int destroyed = 0;
};

int32_t add(graft_conversion* c, const char* op, std::vector<int32_t> inputs, const char* domain = nullptr,
            const char* definition = nullptr) {
  int32_t made = -1;
  graft_added_node node{.struct_size = sizeof node, .op = op, .domain = domain, .inputs = inputs.data(),
                        .input_count = inputs.size(), .attribute_names = nullptr, .attributes = nullptr,
                        .attribute_count = 0, .outputs = &made, .output_count = 1, .definition = definition};
  c->add(c, &node);
  return made;
}

/// result = op(self)
Convert unary(const char* op) {
  return [op](graft_conversion* c) {
    int32_t x = -1;
    c->tensor(c, "self", &x);
    const int32_t y = add(c, op, {x});
    return c->give(c, &y, 1);
  };
}

graft_host_argument real(double value) {
  graft_host_argument made = {};
  made.kind = GRAFT_ARGUMENT_REAL, made.real = value;
  return made;
}

/// x -> one operator -> y
struct Net : Host {
  explicit Net(const char* op, std::vector<graft_host_argument> more = {}, int32_t dtype = 0) {
    x = value("x", {2, 2}, GRAFT_FLOAT32);
    more.insert(more.begin(), of(x));
    y = add(op, "odd", more, dtype ? value("y", {2, 2}, dtype) : value("y"));
    EXPECT_EQ(graft_host_graph_set_borders(graph, &x, 1, &y, 1, &error), GRAFT_OK);
  }
  std::string reason() const { return graft_host_partition_reason(partition, 0); }
  /// What the network gives for {1, -2, 3, -4}.
  std::vector<float> result() {
    const graft_option off{"tune", "off"};
    graft_engine* handle = nullptr;
    if (graft_host_partition_compile(partition, 0, &off, 1, nullptr, nullptr, &handle, &error) != GRAFT_OK) {
      ADD_FAILURE() << error.message;
      return {};
    }
    const graft::Engine engine(handle);
    graft::Session session(engine);
    std::vector<float> given = {1, -2, 3, -4}, made(4);
    graft::TensorView output = graft::view("", made.data(), {2, 2});
    const graft::Status status = session.run({graft::view("", given.data(), {2, 2})}, {&output, 1});
    EXPECT_TRUE(status.ok()) << status.message();
    return made;
  }
  int32_t x = 0, y = 0;
};

TEST(ConverterInterface, a_converter_of_the_process_serves_until_it_is_taken_back) {
  {
    const Registered row("my::odd(Tensor self) -> Tensor", unary("Neg"));
    ASSERT_EQ(row.status, GRAFT_OK) << row.error.message;
    Net net("my::odd");
    ASSERT_EQ(net.split(), GRAFT_OK) << net.error.message;
    EXPECT_EQ(net.reason(), "");
    graft_converters_remove(row.id);
    EXPECT_EQ(row.destroyed, 0) << "the partition has it still";
    EXPECT_EQ(net.result(), (std::vector<float>{-1, 2, -3, 4}));
    graft_host_partition_destroy(std::exchange(net.partition, nullptr));
    EXPECT_EQ(row.destroyed, 1);
  }
  Net net("my::odd");
  ASSERT_EQ(net.split(), GRAFT_OK);
  EXPECT_EQ(net.reason(), "there is no converter for my::odd");
}

TEST(ConverterInterface, a_higher_priority_goes_first_and_a_refusal_asks_the_next) {
  const Registered equal("aten::relu(Tensor self) -> Tensor", unary("Neg"));
  const Registered high("aten::relu(Tensor self) -> Tensor", [](graft_conversion* c) {
    return c->refuse(c, "not today");
  }, 5);
  const Registered low("aten::relu(Tensor self) -> Tensor", unary("Abs"), -1);
  Net net("aten::relu");
  ASSERT_EQ(net.split(), GRAFT_OK) << net.error.message;
  EXPECT_EQ(net.result(), (std::vector<float>{-1, 2, -3, 4})) << "that of equal priority stands before Graft's own";
  graft_converters_remove(equal.id);
  ASSERT_EQ(net.split(), GRAFT_OK);
  EXPECT_EQ(net.result(), (std::vector<float>{1, 0, 3, 0}));
}

TEST(ConverterInterface, where_all_refuse_each_reason_is_told) {
  const Registered one("my::odd(Tensor self) -> Tensor", [](graft_conversion* c) { return c->refuse(c, "too odd"); });
  Net net("my::odd");
  ASSERT_EQ(net.split(), GRAFT_OK);
  EXPECT_EQ(net.reason(), "too odd");
  const Registered two("my::odd(Tensor self) -> Tensor", [](graft_conversion*) { return GRAFT_UNSUPPORTED; });
  ASSERT_EQ(net.split(), GRAFT_OK);
  EXPECT_NE(net.reason().find("without a reason"), std::string::npos) << net.reason();
  EXPECT_NE(net.reason().find("that of the test: too odd"), std::string::npos) << net.reason();
}

TEST(ConverterInterface, arguments_have_defaults_types_and_sizes) {
  std::string seen;
  const Registered row("my::odd(Tensor self, float scale=2.5, int[2] size=[3, 4], *, bool on=True, str mode=\"a\", "
                       "int? axis=None) -> Tensor", [&](graft_conversion* c) {
    double scale = 0;
    int32_t x = -1, on = 0, size = -1;
    const int64_t* sizes = nullptr;
    size_t count = 0;
    const char* mode = nullptr;
    graft_host_argument axis = {.kind = 7}, scales = {};
    const graft_value_info* info = nullptr;
    c->tensor(c, "self", &x), c->describe(c, x, &info), c->real(c, "scale", &scale), c->flag(c, "on", &on);
    c->integers(c, "size", 2, &sizes, &count), c->text(c, "mode", &mode), c->argument(c, "axis", &axis);
    c->argument(c, "size", &scales), c->shape_tensor(c, "size", &size);
    graft_tensor elements = {};
    c->content(c, size, &elements);
    if (!info || !sizes || !elements.data) return c->fail(c, "nothing was given");
    seen = std::to_string(scale) + " " + std::to_string(sizes[1]) + " " + mode + " " + std::to_string(on) + " " +
           std::to_string(axis.kind) + " " + std::to_string(scales.list[0].integer) + " " + info->axes[1].text + " " +
           std::to_string(static_cast<const int64_t*>(elements.data)[1]) + " " + c->op + " " + c->name + " " +
           c->source;
    const int64_t two = 2;
    const float factors[] = {1, static_cast<float>(scale)};
    graft_tensor tensor = {};
    tensor.struct_size = sizeof tensor, tensor.dtype = GRAFT_FLOAT32, tensor.rank = 1, tensor.shape = &two;
    tensor.data = const_cast<float*>(factors), tensor.bytes = sizeof factors;
    int32_t constant = -1;
    c->constant(c, &tensor, &constant);
    const int32_t y = add(c, "Mul", {x, constant});
    return c->give(c, &y, 1);
  });
  Net net("my::odd", {real(0.5)});
  ASSERT_EQ(net.split(), GRAFT_OK) << net.error.message;
  EXPECT_EQ(seen, "0.500000 4 a 1 0 3 2 4 my::odd odd model.py:7");
  EXPECT_EQ(net.result(), (std::vector<float>{1, -1, 3, -2}));
}

/// (self + bias) over the axes that are given, of float32.
void biased_sum(graft::NodeConversion& c) {
  const auto x = c.tensor("self"), bias = c.tensor("bias");
  if (c.integers("dim").empty()) c.refuse("no axes");
  if (c.describe(x).rank != 2) throw std::runtime_error("two axes are wanted");
  const auto shifted = bias ? c.add("Add", {x, bias}) : x;
  const auto sum = c.add("ReduceSum", {shifted, c.shape_tensor("dim")}, {{"keepdims", c.flag("keep")}});
  c.give({c.add("Expand", {sum, c.integers_constant({2, 2})})});
}

graft_host_argument list_of(const std::vector<graft_host_argument>& elements) {
  graft_host_argument made = {};
  made.kind = GRAFT_ARGUMENT_LIST, made.list = elements.data(), made.count = elements.size();
  return made;
}

TEST(ConverterInterface, the_header_for_cpp_builds_refuses_and_throws) {
  const graft_converter row =
      graft::converter<biased_sum>("my::odd(Tensor self, int[] dim, Tensor? bias=None, bool keep=True) -> Tensor");
  graft_error error = {};
  uint64_t id = 0;
  ASSERT_EQ(graft_converters_add(&row, 1, "the test", &id, &error), GRAFT_OK) << error.message;
  const std::vector<graft_host_argument> one = {{.kind = GRAFT_ARGUMENT_INTEGER, .integer = 1}};
  Net net("my::odd", {list_of(one), real(1)});
  ASSERT_EQ(net.split(), GRAFT_OK) << net.error.message;
  EXPECT_EQ(net.reason(), "");
  EXPECT_EQ(net.result(), (std::vector<float>{1, 1, 1, 1}));
  Net none_given("my::odd", {list_of({})});
  ASSERT_EQ(none_given.split(), GRAFT_OK) << none_given.error.message;
  EXPECT_EQ(none_given.reason(), "no axes");
  Host flat;
  const int32_t x = flat.value("x", {4}, GRAFT_FLOAT32);
  const int32_t y = flat.add("my::odd", "odd", {of(x), list_of(one)}, flat.value("y"));
  ASSERT_EQ(graft_host_graph_set_borders(flat.graph, &x, 1, &y, 1, &flat.error), GRAFT_OK);
  EXPECT_EQ(flat.split(), GRAFT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(flat.error.message).find("two axes are wanted"), std::string::npos) << flat.error.message;
  graft_converters_remove(id);
}

TEST(ConverterInterface, an_operator_of_ones_own_brings_its_definition) {
  const Registered row("my::odd(Tensor self) -> Tensor", [](graft_conversion* c) {
    int32_t x = -1;
    c->tensor(c, "self", &x);
    const int32_t y = add(c, "Twice", {x}, "example",
                          "operator example::Twice {\n  type T: float\n  input x: T[...]\n  output y: T[...]\n"
                          "  compute y over [...] { value x[...] + x[...] }\n}\n");
    return c->give(c, &y, 1);
  });
  Net net("my::odd");
  ASSERT_EQ(net.split(), GRAFT_OK) << net.error.message;
  EXPECT_EQ(net.reason(), "");
  EXPECT_EQ(net.result(), (std::vector<float>{2, -4, 6, -8}));
}

TEST(ConverterInterface, what_an_operators_definition_rejects_is_a_refusal) {
  const Registered row("my::odd(Tensor self) -> Tensor", [](graft_conversion* c) {
    int32_t x = -1;
    c->tensor(c, "self", &x);
    const int32_t y = add(c, "MatMul", {x, add(c, "Concat", {x, x})});
    return c->give(c, &y, 1);
  });
  Net net("my::odd");
  ASSERT_EQ(net.split(), GRAFT_OK) << net.error.message;
  EXPECT_NE(net.reason(), "");
}

/// What a converter does wrong, and what the error says of it.
struct Fault {
  const char* said;
  Convert convert;
};

TEST(ConverterInterface, faults_are_errors_that_name_operator_node_and_converter) {
  const std::vector<Fault> faults = {
      {"it threw: oops", [](graft_conversion*) -> graft_status { throw std::runtime_error("oops"); }},
      {"it threw", [](graft_conversion*) -> graft_status { throw 3; }},
      {"my own words", [](graft_conversion* c) { return c->fail(c, "my own words"); }},
      {"status 42", [](graft_conversion*) { return 42; }},
      {"it gives 0 results, and the operator has 1", [](graft_conversion*) { return GRAFT_OK; }},
      {"it gives 2 results, and the operator has 1", [](graft_conversion* c) {
         int32_t x[2] = {};
         c->tensor(c, "self", &x[0]);
         x[1] = x[0];
         return c->give(c, x, 2);
       }},
      {"its result 0 is f32[2, 2], and the graph states i64[2, 2]", unary("Neg")},
      {"did you mean 'Sigmoid'", unary("Sigmiod")},
      {"there is no value 77", [](graft_conversion* c) {
         add(c, "Neg", {77});
         return GRAFT_OK;
       }},
      {"asks for the argument 'other', and its signature has self", [](graft_conversion* c) {
         int32_t x = -1;
         c->tensor(c, "other", &x);
         return c->give(c, &x, 1);  // the first failure stays
       }},
      {"node of Add", [](graft_conversion* c) {
         int32_t x = -1;
         c->tensor(c, "self", &x);
         const int32_t y = add(c, "Add", {x});
         return c->give(c, &y, 1);
       }},
      {"line 1", [](graft_conversion* c) {
         add(c, "Twice", {}, "example", "operator example::Twice nonsense");
         return GRAFT_OK;
       }},
  };
  for (const Fault& fault : faults) {
    const Registered row("my::odd(Tensor self) -> Tensor", fault.convert);
    Net net("my::odd", {}, GRAFT_INT64);
    ASSERT_EQ(net.split(), GRAFT_INVALID_ARGUMENT) << fault.said;
    const std::string said = net.error.message;
    for (const char* part : {fault.said, "my::odd", "'odd'", "the test", "model.py:7"}) {
      EXPECT_NE(said.find(part), std::string::npos) << said;
    }
  }
}

TEST(ConverterInterface, what_is_no_converter_is_refused_and_told) {
  for (const char* signature : {"my::odd", "odd(Tensor self)", ""}) {
    const Registered row(signature, unary("Neg"));
    EXPECT_EQ(row.status, GRAFT_INVALID_ARGUMENT) << signature;
    EXPECT_NE(std::string(row.error.message).find("the test"), std::string::npos) << row.error.message;
    EXPECT_EQ(row.destroyed, 1);
  }
  const Registered other("my::odd(Tensor self)", unary("Neg"), 0, "caffe");
  EXPECT_NE(std::string(other.error.message).find("'caffe', which is none of: aten"), std::string::npos);
  graft_error error;
  graft_converter empty = {};
  EXPECT_EQ(graft_converters_add(&empty, 1, nullptr, nullptr, &error), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_converters_load("/nowhere/libmine.so", nullptr, &error), GRAFT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error.message).find("libmine.so"), std::string::npos);
  Net net("my::odd");
  EXPECT_EQ(net.split({{"converters", "/nowhere/libmine.so"}}), GRAFT_INVALID_ARGUMENT);
  graft_converters_remove(987654321);
}

}  // namespace
