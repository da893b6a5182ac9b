// SPDX-License-Identifier: Apache-2.0
// Frozen graphs of TensorFlow with engines put into them: a graph that can be read again, or an error. Mutations change
// nodes of small networks by the table of converters, or any bytes.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/hash.h"
#include "driver/embed.h"
#include "import/tensorflow/graph_file.h"
#include "import/tensorflow/rows.h"
#include "shared/mutate_text.h"
#include "shared/run_engine.h"
#include "support/graph_def_text.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using namespace graft;
using graft_tensorflow::AttrValue;
using graft_tensorflow::GraphDef;
using graft_tensorflow::NodeDef;
using graft_tensorflow::TensorShapeProto;

constexpr size_t kLongestInput = 1 << 14;

/// Of images, of rows, of shapes that are computed, and of branches.
const std::vector<GraphDef>& seeds() {
  static const auto* const made = [] {
    constexpr const char* kTexts[] = {
        R"(
    image   Placeholder                   : dtype=float shape=?,8,8,3
    conv    Conv2D      image kernel      : T=float strides=1,1,1,1 padding=SAME
    bias    BiasAdd     conv row          : T=float
    norm    FusedBatchNormV3 bias row row row row : T=float U=float is_training=false
    relu    Relu6       norm              : T=float
    pool    MaxPool     relu              : T=float ksize=1,2,2,1 strides=1,2,2,1 padding=VALID
    blocks  SpaceToDepth pool             : T=float block_size=2
    large   ResizeBilinear blocks         : T=float size=8,8
    y       Mean        large             : T=float reduction_indices=1,2)",
        R"(
    x       Placeholder                   : dtype=float shape=?,3
    flat    Reshape     kernel            : T=float shape=12,9
    turned  Transpose   flat              : T=float perm=1,0
    part    Slice       turned            : T=float begin=0,0 size=3,8
    y       MatMul      x part            : T=float
    soft    Softmax     y                 : T=float
    halves  Split       soft              : T=float split_dim=1 num_split=2
    joined  ConcatV2    halves:1 halves   : T=float N=2 axis=1
    rows    StridedSlice joined           : T=float begin=0,1 end=0,-1 strides=1,1 begin_mask=1 end_mask=1
    z       Pack        rows rows         : T=float N=2 axis=0)",
        R"(
    x       Placeholder                   : dtype=float shape=?,4
    shape   Shape       x                 : T=float out_type=int32
    first   StridedSlice shape            : T=int32 begin=0,0 end=1,0 strides=1,1 shrink_axis_mask=1
    odd     Mystery     x first ^shape
    wide    Cast        odd               : SrcT=float DstT=half
    best    TopKV2      wide              : T=half k=2
    taken   GatherV2    wide best:1       : Tparams=half Tindices=int32 axis=0
    test    Greater     x x               : T=float
    sides   Switch      x test            : T=float
    yes     Identity    sides:1 ^odd      : T=float
    y       Merge       sides yes         : T=float N=2)"};
    auto* graphs = new std::vector<GraphDef>;
    for (const char* text : kTexts) {
      GraphDef& graph = graphs->emplace_back(test::graph_of(text));
      test::add_weights(graph, "kernel", {3, 3, 3, 4});
      test::add_weights(graph, "row", {4});
    }
    return graphs;
  }();
  return *made;
}

template <class Container>
decltype(auto) draw(Container& items, Random& random) {
  return items[static_cast<size_t>(random.integer(0, std::ssize(items) - 1))];
}

template <class Repeated>
auto* draw_item(Repeated& items, Random& random) {
  return items.empty() ? nullptr : &items[static_cast<int>(random.integer(0, items.size() - 1))];
}

int64_t odd_integer(Random& random) { return std::strtoll(fuzz::odd_number("4", random).c_str(), nullptr, 10); }

void change_shape(TensorShapeProto& shape, Random& random) {
  if (shape.dim_size() == 0 || random.chance(0.3)) {
    shape.add_dim()->set_size(random.chance(0.5) ? random.integer(-1, 8) : odd_integer(random));
  } else if (random.chance(0.3)) {
    shape.mutable_dim()->RemoveLast();
  } else if (random.chance(0.1)) {
    shape.set_unknown_rank(!shape.unknown_rank());
  } else {
    draw_item(*shape.mutable_dim(), random)->set_size(odd_integer(random));
  }
}

void change_value(AttrValue& value, Random& random) {
  constexpr const char* kWords[] = {"SAME", "VALID", "EXPLICIT", "NHWC", "NCHW", "REFLECT", "ab,bc->ac", ""};
  switch (random.integer(0, 7)) {
    case 0:
      value.set_i(odd_integer(random));
      break;
    case 1:
      value.set_b(random.chance(0.5));
      break;
    case 2:
      value.set_type(static_cast<int>(random.integer(0, 24)));
      break;
    case 3:
      value.set_s(kWords[random.integer(0, 7)]);
      break;
    case 4:
      change_shape(*value.mutable_shape(), random);
      break;
    case 5: {
      auto& numbers = *value.mutable_list()->mutable_i();
      if (numbers.empty() || random.chance(0.4)) {
        numbers.Add(random.integer(-1, 4));
      } else if (random.chance(0.3)) {
        numbers.RemoveLast();
      } else {
        *draw_item(numbers, random) = odd_integer(random);
      }
      break;
    }
    case 6:
      value.set_f(static_cast<float>(random.uniform(-2, 2)));
      break;
    default: {
      auto& tensor = *value.mutable_tensor();
      change_shape(*tensor.mutable_tensor_shape(), random);
      if (random.chance(0.3)) tensor.clear_tensor_content(), tensor.add_float_val(1);
      if (random.chance(0.2)) tensor.set_dtype(static_cast<int>(random.integer(0, 24)));
      if (random.chance(0.2)) tensor.add_int_val(static_cast<int>(odd_integer(random)));
      if (random.chance(0.1)) tensor.add_string_val("text");
    }
  }
}

/// `conv`, `conv:1`, `^conv`.
std::string draw_source(GraphDef& graph, Random& random) {
  const NodeDef* node = draw_item(*graph.mutable_node(), random);
  if (!node || random.chance(0.02)) return "nothing";
  if (random.chance(0.1)) return "^" + node->name();
  const int64_t result = random.chance(0.9) ? 0 : random.chance(0.9) ? random.integer(1, 3) : odd_integer(random);
  return result == 0 ? node->name() : node->name() + ":" + std::to_string(result);
}

/// A node of the table, whose arguments are values of the graph and attributes.
void add_node(GraphDef& graph, Random& random) {
  static const std::vector<std::string> names = tensorflow::converters().names();
  NodeDef node;
  node.set_name("n" + std::to_string(random.integer(0, 1'000'000)));
  node.set_op(draw(names, random));
  for (const frontend::Parameter& parameter : tensorflow::converters().find(node.op())->signature.parameters) {
    if (parameter.has_default && random.chance(0.5)) continue;
    if (parameter.type.empty() || random.chance(0.2)) {
      change_value(test::attribute(node, parameter.name), random);
    } else {
      node.add_input(draw_source(graph, random));
    }
  }
  test::attribute(node, "T").set_type(1);
  *graph.add_node() = std::move(node);
}

void change_graph(GraphDef& graph, Random& random) {
  NodeDef* node = draw_item(*graph.mutable_node(), random);
  if (!node || random.chance(0.25)) return add_node(graph, random);
  AttrValue* value = node->attr_size() == 0 ? nullptr : draw_item(*node->mutable_attr(), random)->mutable_value();
  switch (random.integer(0, 7)) {
    case 0:
      if (node->input_size() > 0) *draw_item(*node->mutable_input(), random) = draw_source(graph, random);
      break;
    case 1:
      *node->add_input() = draw_source(graph, random);
      break;
    case 2:
      if (node->input_size() > 0) node->mutable_input()->RemoveLast();
      break;
    case 3:
      node->set_op(draw(seeds(), random).node(static_cast<int>(random.integer(0, 8))).op());
      break;
    case 4:
      if (value) node->mutable_attr()->RemoveLast();
      break;
    default:
      if (value) change_value(*value, random);
  }
}

/// Bytes of any message are changed as libFuzzer does.
size_t mutate_bytes(uint8_t* data, size_t size, size_t max_size, Random& random) {
  const auto first = static_cast<size_t>(random.integer(0, static_cast<int64_t>(size) - 1));
  const size_t most = std::min<size_t>(size - first, 16);
  if (random.chance(0.9)) return LLVMFuzzerMutate(data + first, most, most) > 0 ? size : first;
  return LLVMFuzzerMutate(data, size, max_size);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  fuzz::prepare(count, arguments, kLongestInput);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  Random random(seed);
  if (size > 16 && random.chance(0.15)) return mutate_bytes(data, size, max_size, random);
  GraphDef graph;
  if (size < 16 || random.chance(0.4) || !graph.ParseFromArray(data, static_cast<int>(size))) {
    graph = draw(seeds(), random);
  }
  const int64_t changes = fuzz::draw_changes(random);
  for (int64_t change = 0; change < changes; ++change) change_graph(graph, random);
  const std::string bytes = graph.SerializeAsString();
  if (bytes.size() > max_size) return size;
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}

/// Asked for are the last two nodes, and a result of the last that may not be there.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::make_shared<const std::string>(reinterpret_cast<const char*>(data), size);
  const auto span = std::as_bytes(std::span(*bytes));
  const fuzz::Execution execution;
  fuzz::Execution::attempt([&] {
    const tensorflow::GraphFile file(span, bytes);
    const std::vector<tensorflow::FileNode>& nodes = file.nodes();
    std::vector<std::string> outputs;
    for (size_t i = nodes.size(); i-- > 0 && outputs.size() < 2;) {
      if (nodes[i].op != "Const") outputs.push_back(nodes[i].name);
    }
    if (!outputs.empty() && hash64(span) % 4 == 0) outputs.push_back(outputs[0] + ":1");
    const EmbedChoices choices{.compile = fuzz::fuzz_options(true, execution.deadline(2.5))};
    const Embedded made = embed("tensorflow", span, bytes, outputs, choices);
    fuzz::check_text(made.report);
    const auto written = std::make_shared<const std::string>(made.bytes);
    try {
      tensorflow::GraphFile(std::as_bytes(std::span(*written)), written);
    } catch (const Error& error) {
      fuzz::report_finding(std::string("what was written cannot be read: ") + error.what());
    }
  });
  return 0;
}
