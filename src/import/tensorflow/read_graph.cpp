// SPDX-License-Identifier: Apache-2.0
#include "import/tensorflow/read_graph.h"

#include <algorithm>
#include <climits>
#include <queue>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/import_budget.h"
#include "base/spelling.h"
#include "frontend/control_flow.h"
#include "graph/symbols.h"
#include "import/tensorflow/element_types.h"
#include "import/tensorflow/graph.pb.h"
#include "import/tensorflow/import_tensor.h"
#include "import/tensorflow/inline_functions.h"
#include "import/tensorflow/operand_facts.h"
#include "import/tensorflow/read_attribute.h"
#include "import/tensorflow/rows.h"

namespace graft::tensorflow {
namespace {

using frontend::Argument;
using frontend::Arguments;
using frontend::ForeignNode;
using frontend::ForeignValue;

/// Results of a node that nobody takes are values, too: as many as the file has bytes, and so many in any case.
constexpr size_t kLeastResults = 1 << 16;
/// Constants that wait for operators name these: so many, all constants together.
constexpr size_t kMostBehind = 1 << 22;
constexpr int kScalarPlaceholders = 24;  // before, the shape [] of a placeholder stood for an unknown one

/// What only hands on what it is given.
bool hands_on(std::string_view op) {
  return op == "Identity" || op == "Snapshot" || op == "StopGradient" || op == "PreventGradient";
}

/// Whether a result is of TensorFlow's type `variant`: a list of tensors, or what else has no elements.
bool is_variant(const FileNode& node, size_t result) {
  constexpr int kVariant = 21;  // in DataType
  constexpr std::string_view kGiveTensors[] = {"TensorListStack", "TensorListGetItem", "TensorListLength",
                                               "TensorListGather", "TensorListElementShape", "TensorListConcat",
                                               "TensorListConcatV2"};
  if (std::find(std::begin(kGiveTensors), std::end(kGiveTensors), node.op) != std::end(kGiveTensors)) return false;
  if (node.op.find("TensorList") != std::string::npos) return result == 0;
  if (node.op == "TensorArrayV3" || node.op == "TensorArrayWriteV3" || node.op == "TensorArrayScatterV3") return true;
  for (const char* name : {"T", "Tout"}) {
    const auto* type = node.attribute(name);
    if (!type) continue;
    const auto& list = type->list().type();
    const auto at = static_cast<int>(std::min<size_t>(result, static_cast<size_t>(INT_MAX)));
    if (type->type() == kVariant || (at < list.size() && list.Get(at) == kVariant)) return true;
  }
  return false;
}

bool is_next_iteration(std::string_view op) { return op == "NextIteration" || op == "RefNextIteration"; }

std::string in_node(const FileNode& node) { return fmt::format("node '{}'", node.name); }

using Edges = std::vector<std::vector<int>>;

/// Nodes of a function with those of the functions that it runs: a loop is converted several times, until its sizes are
/// known.
using frontend::kDeepestFunction;
constexpr size_t kMostNodes = 1 << 18;
constexpr size_t kMostNodesRead = 1 << 20;  // of all functions together

bool runs_functions(std::string_view op) {
  return op == "If" || op == "StatelessIf" || op == "Case" || op == "StatelessCase" || op == "While" ||
         op == "StatelessWhile" || op == "PartitionedCall" || op == "StatefulPartitionedCall";
}

/// The functions of a file as graphs, each read once.
class Bodies {
 public:
  Bodies(const frontend::Converters& converters, size_t file_bytes)
      : converters_(converters), budget_(file_bytes) {}

  ConstantBudget& budget() { return budget_; }

  using Body = std::shared_ptr<const frontend::ForeignGraph>;
  /// Null where it is damaged, nested too deeply, calls itself, or is too large.
  Body find(const GraphFile& file, const std::string& function, const std::string& where);
  /// How many nodes a graph has with those of its functions.
  static size_t nodes_of(const frontend::ForeignGraph& graph);

 private:
  Body read(const GraphFile& file, const std::string& function, const std::string& where);

  const frontend::Converters& converters_;
  ConstantBudget budget_;  // of the whole file
  std::map<std::string, Body, std::less<>> known_;
  size_t nodes_read_ = 0;
  int depth_ = 0;
};

/// The work of one call of read_graph().
class Reader {
 public:
  Reader(const GraphFile& file, const PlaceholderShapes& shapes, const frontend::Converters& converters,
         Bodies& bodies, bool in_function)
      : in_function_(in_function), file_(file), shapes_(shapes), converters_(converters), bodies_(bodies),
        values_(file.nodes().size()), node_of_(file.nodes().size(), -1), behind_(file.nodes().size()),
        needed_(file.nodes().size(), false), depth_(file.nodes().size(), 0) {
    read_.constant.assign(file.nodes().size(), false);
  }

  ReadGraph run(const std::vector<std::string>& outputs) {
    check_placeholders();
    const std::vector<Source> given = find_outputs(outputs);
    count_results(given);
    const std::vector<int> order = sort_nodes();
    for (const int n : order) find_depth(n);
    find_needed(given);
    for (const Source& source : given) given_.insert(file_.find(source.node));
    for (const int n : order) read_node(n);
    for (const Source& source : given) read_.foreign.outputs.push_back(value_of(source));
    add_facts();
    follow_lists();
    read_.before = std::move(behind_);
    for (std::vector<int>& before : read_.before) {
      for (int& each : before) each = read_.file_nodes[static_cast<size_t>(each)];
    }
    return std::move(read_);
  }

 private:
  const FileNode& node(int n) const { return file_.nodes()[static_cast<size_t>(n)]; }
  int value_of(const Source& source) const {
    return values_[static_cast<size_t>(file_.find(source.node))][static_cast<size_t>(source.index)];
  }

  void check_placeholders() const {
    std::vector<std::string> names;
    for (const FileNode& each : file_.nodes()) {
      if (each.op == "Placeholder") names.push_back(each.name);
    }
    for (const auto& [name, shape] : shapes_) {
      const bool found = std::find(names.begin(), names.end(), name) != names.end();
      GRAFT_USER_CHECK(found, kInvalidArgument,
                       fmt::format("the graph has no placeholder '{}'{}", name, did_you_mean(name, names)), "shape");
    }
  }

  std::vector<Source> find_outputs(const std::vector<std::string>& outputs) const {
    GRAFT_USER_CHECK(!outputs.empty(), kInvalidArgument, "name what the graph gives, by node or tensor", "outputs");
    std::vector<Source> found;
    for (const std::string& output : outputs) {
      found.push_back(parse_source(output, "outputs"));
      if (file_.find(found.back().node) >= 0 && !found.back().control) continue;
      std::vector<std::string> names;
      for (const FileNode& each : file_.nodes()) names.push_back(each.name);
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the graph has no node '{}'{}", found.back().node,
                              did_you_mean(found.back().node, names)),
                  "outputs");
    }
    return found;
  }

  /// How many results a node has is stated by operators' definitions, which are not here: those that somebody takes.
  void count_results(const std::vector<Source>& outputs) {
    for (std::vector<int>& results : values_) results.assign(1, -1);
    size_t untaken = std::max(kLeastResults, file_.bytes().size());
    const auto note = [&](const Source& source) {
      std::vector<int>& results = values_[static_cast<size_t>(file_.find(source.node))];
      const auto needed = static_cast<size_t>(source.index) + 1;
      if (source.control || needed <= results.size()) return;
      GRAFT_USER_CHECK(needed - results.size() <= untaken, kInvalidModel,
                       fmt::format("somebody takes its result {}, and of those before it nobody", source.index),
                       fmt::format("node '{}'", source.node));
      untaken -= needed - results.size();
      results.resize(needed, -1);
    };
    for (const FileNode& each : file_.nodes()) std::for_each(each.inputs.begin(), each.inputs.end(), note);
    std::for_each(outputs.begin(), outputs.end(), note);
  }

  /// Whether it is the end of a round, which a loop goes on from: of the graph without these edges there is an order.
  bool is_of_next_round(const Source& source) const {
    return is_next_iteration(node(file_.find(source.node)).op);
  }

  /// An order in which nodes can run, the file's where it leaves a choice.
  std::vector<int> sort_nodes() const {
    const size_t count = file_.nodes().size();
    std::vector<std::vector<int>> next(count);
    std::vector<int> waiting(count, 0), order;
    for (size_t n = 0; n < count; ++n) {
      for (const Source& source : file_.nodes()[n].inputs) {
        if (is_of_next_round(source)) continue;
        next[static_cast<size_t>(file_.find(source.node))].push_back(static_cast<int>(n));
        ++waiting[n];
      }
    }
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (size_t n = 0; n < count; ++n) {
      if (waiting[n] == 0) ready.push(static_cast<int>(n));
    }
    while (!ready.empty()) {
      order.push_back(ready.top());
      ready.pop();
      for (const int each : next[static_cast<size_t>(order.back())]) {
        if (--waiting[static_cast<size_t>(each)] == 0) ready.push(each);
      }
    }
    if (order.size() < count) {
      const auto stuck = std::find_if(waiting.begin(), waiting.end(), [](int left) { return left > 0; });
      throw Error(ErrorKind::kInvalidModel, "it takes what is made of its own result, and not in a loop's next round",
                  in_node(node(static_cast<int>(stuck - waiting.begin()))));
    }
    return order;
  }

  /// How many conditionals and loops a node runs inside of: what joins both sides must not hang on one. A loop enters
  /// (Enter), and its Switch leads on or out of it (Exit).
  void find_depth(int n) {
    int& depth = depth_[static_cast<size_t>(n)];
    const FileNode& file_node = node(n);
    bool in_rounds = false;
    for (const Source& source : file_node.inputs) {
      depth = std::max(depth, depth_[static_cast<size_t>(file_.find(source.node))]);
      in_rounds = in_rounds || is_of_next_round(source);
    }
    const std::string& op = file_node.op;
    if (op == "Switch" || op == "RefSwitch" || op == "Enter" || op == "RefEnter") ++depth;
    if ((op == "Merge" || op == "RefMerge") && !in_rounds) --depth;
    if (op == "Exit" || op == "RefExit") depth -= 2;
    depth = std::max(depth, 0);
  }

  void find_needed(const std::vector<Source>& outputs) {
    std::vector<size_t> queue;
    const auto visit = [&](const Source& source) {
      const auto n = static_cast<size_t>(file_.find(source.node));
      if (!needed_[n]) queue.push_back(n);
      needed_[n] = true;
    };
    std::for_each(outputs.begin(), outputs.end(), visit);
    while (!queue.empty()) {
      const FileNode& each = file_.nodes()[queue.back()];
      queue.pop_back();
      std::for_each(each.inputs.begin(), each.inputs.end(), visit);
    }
  }

  int add_value(int n, int index, ForeignValue value) {
    value.name = spell(node(n).name, index);
    read_.foreign.values.push_back(std::move(value));
    read_.lists.push_back(is_variant(node(n), static_cast<size_t>(index)));
    const int made = static_cast<int>(read_.foreign.values.size()) - 1;
    values_[static_cast<size_t>(n)][static_cast<size_t>(index)] = made;
    return made;
  }

  /// What becomes a value, and no node here, must not hide who else is read.
  static void check_inputs(const FileNode& node) {
    const bool source = node.op == "Const" || node.op == "Placeholder";
    if (!source && !hands_on(node.op)) return;
    const auto data = std::count_if(node.inputs.begin(), node.inputs.end(),
                                    [](const Source& input) { return !input.control; });
    GRAFT_USER_CHECK(data <= (source ? 0 : 1), kInvalidModel,
                     fmt::format("it takes {} tensors, more than {} has", data, node.op), in_node(node));
  }

  void read_node(int n) {
    const FileNode& file_node = node(n);
    check_inputs(file_node);
    if (file_node.op == "Const") return read_constant(n, import_constant(file_, file_node, bodies_.budget()));
    if (file_node.op == "Placeholder") return read_placeholder(n);
    const auto data = std::find_if(file_node.inputs.begin(), file_node.inputs.end(),
                                   [](const Source& source) { return !source.control; });
    if (hands_on(file_node.op) && data != file_node.inputs.end()) {
      const TensorData constant = read_.foreign.values[static_cast<size_t>(value_of(*data))].constant;
      if (constant) return read_constant(n, constant);
    }
    if (waits_for_nothing(n) || is_dead_in_function(n)) return leave_out(n);
    read_operator(n);
  }

  /// Freezing leaves a NoOp that waits for everything that was a variable. An output stays what it is.
  bool waits_for_nothing(int n) const {
    return node(n).op == "NoOp" && !given_.contains(n) && behind(n).empty() &&
           std::all_of(node(n).inputs.begin(), node(n).inputs.end(), [](const Source& input) { return input.control; });
  }

  /// What a function computes for nobody. An operator without a converter may have an effect, and stays.
  bool is_dead_in_function(int n) const {
    const std::string& op = node(n).op;
    return in_function_ && !needed_[static_cast<size_t>(n)] && !runs_functions(op) && converters_.find(op);
  }

  void leave_out(int n) {
    for (size_t i = 0; i < values_[static_cast<size_t>(n)].size(); ++i) {
      add_value(n, static_cast<int>(i), {.tensor = false});
    }
    read_.constant[static_cast<size_t>(n)] = true;
  }

  void read_constant(int n, const TensorData& tensor) {
    std::vector<int>& results = values_[static_cast<size_t>(n)];
    GRAFT_USER_CHECK(results.size() == 1, kInvalidModel, "somebody takes a result that it does not have",
                     in_node(node(n)));
    if (!tensor) {  // of a type that Graft does not have
      add_value(n, 0, {.tensor = false});
      return;
    }
    Shape shape(tensor.shape().begin(), tensor.shape().end());
    add_value(n, 0, {.type = tensor.type(), .shape = std::move(shape), .constant = tensor});
    read_.constant[static_cast<size_t>(n)] = true;
    const std::vector<int>& before = behind_[static_cast<size_t>(n)] = behind(n);
    behind_count_ += before.size();
    GRAFT_USER_CHECK(behind_count_ <= kMostBehind, kUnsupported, "too many constants wait for too many operators",
                     in_node(node(n)));
  }

  void read_placeholder(int n) {
    const FileNode& file_node = node(n);
    ForeignValue value;
    const auto* type = file_node.attribute("dtype");
    const auto known = type ? element_type(type->type()) : std::nullopt;
    value.tensor = known.has_value();
    value.type = known.value_or(DType::kUndefined);
    const auto* shape = file_node.attribute("shape");
    if (shape && shape->has_shape()) value.shape = import_shape(shape->shape(), file_node.name);
    const bool means_unknown = file_.producer() < kScalarPlaceholders;
    if (means_unknown && value.shape && value.shape->empty()) value.shape = stated_shape(n, 0);
    if (const auto chosen = shapes_.find(file_node.name); chosen != shapes_.end()) {
      value.shape = Shape(chosen->second.begin(), chosen->second.end());
    }
    read_.foreign.inputs.push_back(add_value(n, 0, std::move(value)));
    for (size_t i = 1; i < values_[static_cast<size_t>(n)].size(); ++i) {
      throw Error(ErrorKind::kInvalidModel, "somebody takes a result that it does not have", in_node(file_node));
    }
  }

  /// What an importer or a tool has written down about a result.
  std::optional<Shape> stated_shape(int n, int index) const {
    const auto* stated = node(n).attribute("_output_shapes");
    if (!stated || index >= stated->list().shape_size()) return std::nullopt;
    return import_shape(stated->list().shape(index), spell(node(n).name, index));
  }

  void read_operator(int n) {
    const FileNode& file_node = node(n);
    ForeignNode made{.op = file_node.op, .name = file_node.name};
    const size_t slash = file_node.name.rfind('/');
    if (slash != std::string::npos) made.scope = file_node.name.substr(0, slash);
    for (const auto& entry : file_node.message->attr()) {
      take_import(bytes_as_argument(entry.value()), "attributes of nodes");  // calls of a function share its messages
      made.attributes.insert_or_assign(entry.key(), read_attribute(entry.value()));
    }
    if (runs_functions(file_node.op)) {
      for (const auto& entry : file_node.message->attr()) {
        if (!entry.value().has_func()) continue;
        auto body = bodies_.find(file_, entry.value().func().name(), in_node(file_node));
        if (body) made.bodies.emplace(entry.key(), std::move(body));
      }
      const auto* branches = file_node.attribute("branches");
      for (int i = 0; branches && i < branches->list().func_size(); ++i) {
        auto body = bodies_.find(file_, branches->list().func(i).name(), in_node(file_node));
        if (body) made.bodies.emplace(branch_name(static_cast<size_t>(i)), std::move(body));
      }
    }
    made.arguments = arguments_of(n, made.after);
    for (size_t i = 0; i < values_[static_cast<size_t>(n)].size(); ++i) {
      made.outputs.push_back(add_value(n, static_cast<int>(i), {.shape = stated_shape(n, static_cast<int>(i))}));
    }
    if (depth_[static_cast<size_t>(n)] > 0) made.kept = "it runs in a branch of a conditional, or in a loop";
    if (!needed_[static_cast<size_t>(n)]) made.kept = "no output needs it";
    node_of_[static_cast<size_t>(n)] = static_cast<int>(read_.foreign.nodes.size());
    read_.counts.push_back(!hands_on(file_node.op) && file_node.op != "IdentityN");
    read_.file_nodes.push_back(n);
    read_.foreign.nodes.push_back(std::move(made));
  }

  /// The nodes that have to run before one, data apart: of its control inputs, and of the constants that it takes,
  /// which are no nodes here.
  std::vector<int> behind(int n) const {
    std::vector<int> before;
    for (const Source& source : node(n).inputs) {
      if (is_of_next_round(source)) continue;
      const auto from = static_cast<size_t>(file_.find(source.node));
      if (source.control && node_of_[from] >= 0) before.push_back(node_of_[from]);
      before.insert(before.end(), behind_[from].begin(), behind_[from].end());
    }
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    return before;
  }

  /// Data inputs, lists put together as the signature has them; control inputs go into `after`.
  Arguments arguments_of(int n, std::vector<int>& after) {
    const FileNode& file_node = node(n);
    std::vector<Argument> inputs;
    for (const Source& source : file_node.inputs) {
      if (!source.control && !is_of_next_round(source)) inputs.push_back(frontend::Reference{value_of(source)});
    }
    after = behind(n);
    const frontend::Converters::Entry* row = converters_.find(file_node.op);
    const Operands operands = operands_of(file_node, row ? &row->signature : nullptr, static_cast<int>(inputs.size()));
    Arguments arguments;
    size_t at = 0;
    for (const int list : operands.lists) {
      if (list < 0) {
        arguments.push_back(inputs[at++]);
        continue;
      }
      const auto begin = inputs.begin() + static_cast<std::ptrdiff_t>(at);
      arguments.push_back(Arguments(begin, begin + list));
      at += static_cast<size_t>(list);
    }
    return arguments;
  }

  /// Values whose makers say nothing are what those who take them demand.
  void add_facts() {
    for (size_t k = 0; k < read_.file_nodes.size(); ++k) {
      const FileNode& file_node = node(read_.file_nodes[k]);
      const frontend::Converters::Entry* row = converters_.find(file_node.op);
      if (!row) continue;
      std::vector<int> taken;
      const Argument arguments(read_.foreign.nodes[k].arguments);
      frontend::visit_references(arguments, [&](int value) { taken.push_back(value); });
      const Operands operands = operands_of(file_node, &row->signature, static_cast<int>(taken.size()));
      for (size_t i = 0; i < taken.size(); ++i) {
        add_facts(read_.foreign.values[static_cast<size_t>(taken[i])], operands.facts[i]);
      }
    }
  }

  /// What hands lists on gives lists: arrays of TensorFlow 1 do not say so by a type.
  void follow_lists() {
    for (const ForeignNode& each : read_.foreign.nodes) {
      if (each.op != "Identity" && each.op != "While" && each.op != "If") continue;
      std::vector<int> taken;
      frontend::visit_references(Argument(each.arguments), [&](int value) { taken.push_back(value); });
      const auto is_list = [&](int value) { return read_.lists[static_cast<size_t>(value)]; };
      const bool any = std::any_of(taken.begin(), taken.end(), is_list);
      for (size_t i = 0; i < each.outputs.size(); ++i) {
        const bool own = each.op == "If" ? any : i < taken.size() && is_list(taken[i]);
        if (own) read_.lists[static_cast<size_t>(each.outputs[i])] = true;
      }
    }
  }

  static void add_facts(ForeignValue& value, const OperandFacts& facts) {
    if (value.type == DType::kUndefined) value.type = facts.type;
    if (value.shape || !facts.rank) return;
    Shape shape;
    for (int axis = 0; axis < *facts.rank; ++axis) {
      shape.push_back(Size::symbol(dimension_symbol(fmt::format("{}_{}", value.name, axis))));
    }
    value.shape = std::move(shape);
  }

  const bool in_function_;
  const GraphFile& file_;
  const PlaceholderShapes& shapes_;
  const frontend::Converters& converters_;
  Bodies& bodies_;
  Edges values_;                          // by node of the file and result
  std::vector<int> node_of_;              // by node of the file
  size_t behind_count_ = 0;
  Edges behind_;                          // by node of the file that is a constant: what has to run before it
  std::vector<bool> needed_;
  std::set<int> given_;                   // outputs, by node of the file
  std::vector<int> depth_;
  ReadGraph read_;
};

Bodies::Body Bodies::find(const GraphFile& file, const std::string& function, const std::string& where) {
  const auto known = known_.find(function);
  if (known != known_.end()) return known->second;  // null while it is read: it calls itself
  if (depth_ >= kDeepestFunction || nodes_read_ > kMostNodesRead) return nullptr;
  known_.emplace(function, nullptr);
  const int depth = depth_;
  try {
    return known_[function] = read(file, function, where);
  } catch (const Error& error) {  // what runs it stays with the framework
    if (error.kind() == ErrorKind::kInternal) throw;
    depth_ = depth;
    return nullptr;
  }
}

Bodies::Body Bodies::read(const GraphFile& file, const std::string& function, const std::string& where) {
  const FunctionGraph read = read_function(file, function, where);
  nodes_read_ += read.file.nodes().size();
  if (read.outputs.empty()) return nullptr;
  ++depth_;
  frontend::ForeignGraph graph = Reader(read.file, {}, converters_, *this, true).run(read.outputs).foreign;
  --depth_;
  graph.name = function;
  std::erase_if(graph.nodes, [](const ForeignNode& node) { return node.op == "NoOp"; });  // what waits is an engine
  for (ForeignNode& node : graph.nodes) node.after.clear();
  std::vector<int> inputs;
  for (const std::string& name : read.inputs) {
    const auto is_named = [&](int value) { return graph.values[static_cast<size_t>(value)].name == name; };
    inputs.push_back(*std::find_if(graph.inputs.begin(), graph.inputs.end(), is_named));
  }
  graph.inputs = std::move(inputs);
  if (nodes_of(graph) > kMostNodes) return nullptr;
  return std::make_shared<const frontend::ForeignGraph>(std::move(graph));
}

size_t Bodies::nodes_of(const frontend::ForeignGraph& graph) {
  size_t count = graph.nodes.size();
  for (const ForeignNode& node : graph.nodes) {
    for (const auto& [attribute, body] : node.bodies) count += nodes_of(*body);
    if (count > kMostNodes) return count;
  }
  return count;
}

}  // namespace

ReadGraph read_graph(const GraphFile& file, const std::vector<std::string>& outputs, const PlaceholderShapes& shapes,
                     const frontend::Converters& converters) {
  Bodies bodies(converters, file.bytes().size());
  return Reader(file, shapes, converters, bodies, false).run(outputs);
}

}  // namespace graft::tensorflow
