// SPDX-License-Identifier: Apache-2.0
#include "plugin/select_nodes.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/spelling.h"
#include "base/words.h"

namespace graft::plugin {
namespace {

using Names = std::set<std::string, std::less<>>;

[[noreturn]] void fail(const std::string& message, const std::string& where) {
  throw Error(ErrorKind::kInvalidArgument, message, where);
}

/// The number of the node that gives a tensor.
std::map<std::string, size_t, std::less<>> producers(const ModelFile& model) {
  std::map<std::string, size_t, std::less<>> producer;
  for (size_t n = 0; n < model.nodes().size(); ++n) {
    for (const std::string& name : model.nodes()[n].outputs) producer[name] = n;
  }
  return producer;
}

/// Takes in the Constant nodes that the part reads: what they hold may decide how it is computed.
void add_constants(const ModelFile& model, std::vector<bool>& chosen) {
  const auto producer = producers(model);
  for (size_t n = 0; n < chosen.size(); ++n) {
    if (!chosen[n]) continue;
    for (const std::string& name : model.nodes()[n].inputs) {
      const auto made = producer.find(name);
      if (made != producer.end() && model.nodes()[made->second].op == "Constant") chosen[made->second] = true;
    }
  }
}

/// Throws where a result of the part comes back to it through others. Nodes of a file stand behind what they read.
void check_acyclic(const ModelFile& model, const std::vector<bool>& chosen) {
  const std::vector<ModelNode>& nodes = model.nodes();
  std::map<std::string, size_t, std::less<>> behind;  // values that depend on the part, by the node that gives them
  for (size_t n = 0; n < nodes.size(); ++n) {
    bool depends = chosen[n] && nodes[n].op != "Constant";
    for (const std::string& name : nodes[n].inputs) {
      const auto found = behind.find(name);
      if (found == behind.end()) continue;
      depends = true;
      if (!chosen[n] || chosen[found->second]) continue;
      const std::string& between = nodes[found->second].name;
      fail(fmt::format("the chosen nodes cannot run as one: '{}' of node '{}', which is not chosen, depends on them "
                       "and node '{}' of them reads it; choose '{}' and what leads to it too, or fewer nodes",
                       name, between, nodes[n].name, between), "nodes");
    }
    if (!depends) continue;
    for (const std::string& name : nodes[n].outputs) behind[name] = n;
  }
}

/// Weights of many floats are inputs of the plugin, so that they are in memory once and parts that differ in nothing
/// else share it.
bool is_handed_in(const TensorData& weight) {
  constexpr int64_t kMostInside = 8;
  return is_float(weight.type()) && weight.element_count() > kMostInside;
}

ModelCut part_of(const ModelFile& model, std::vector<bool> chosen) {
  check_acyclic(model, chosen);
  add_constants(model, chosen);
  ModelCut part = model.around(chosen);
  const auto producer = producers(model);
  const auto is_constant = [&](const std::string& name) {
    const auto made = producer.find(name);
    return made != producer.end() && model.nodes()[made->second].op == "Constant";
  };
  std::erase_if(part.outputs, is_constant);
  if (part.outputs.empty()) fail("they are constants: nothing is left to compute", "nodes");
  Names seen;
  for (size_t n = 0; n < chosen.size(); ++n) {
    if (!chosen[n]) continue;
    for (const std::string& name : model.nodes()[n].inputs) {
      const auto made = producer.find(name);
      if (made != producer.end() && chosen[made->second]) continue;
      const auto weight = model.weights().find(name);
      if (weight != model.weights().end() && !is_handed_in(weight->second)) continue;
      if (seen.insert(name).second) part.inputs.push_back(name);
    }
  }
  return part;
}

/// Puts those that are named first, in that order.
void order(std::vector<std::string>& names, const std::vector<std::string>& named) {
  const auto place = [&](const std::string& name) { return std::find(named.begin(), named.end(), name); };
  std::stable_sort(names.begin(), names.end(), [&](auto& a, auto& b) { return place(a) < place(b); });
}

/// The nodes between tensors, as one part; throws where they also depend on inputs of the model that are not named.
ModelCut region_part(const ModelFile& model, const std::string& region) {
  const size_t dots = region.find("..");
  const std::vector<std::string> results = words_of(region.substr(0, dots));
  const std::vector<std::string> given =
      dots == region.npos ? std::vector<std::string>() : words_of(std::string_view(region).substr(dots + 2));
  if (results.empty() || (dots != region.npos && given.empty())) {
    fail(fmt::format("'{}' is not OUT..IN: the tensors that are computed, two dots, and those that they are computed "
                     "from, with commas between several", region), "--region");
  }
  for (const auto* names : {&results, &given}) {
    for (const std::string& name : *names) model.check_value(name, "--region");
  }
  ModelCut part;
  try {
    part = model.between(given, results);
  } catch (const Error& error) {
    fail(error.message(), "--region");
  }
  Names open;
  for (const ModelInput& input : model.inputs()) open.insert(input.name);
  for (const std::string& name : given) open.erase(name);
  for (size_t n = 0; n < part.nodes.size() && !given.empty(); ++n) {
    if (!part.nodes[n]) continue;
    for (const std::string& name : model.nodes()[n].inputs) {
      if (!open.count(name)) continue;
      fail(fmt::format("it is not closed: {} {} also computed from the model's input '{}', which node '{}' reads; name "
                       "that, or a tensor on the way from it, behind the dots too",
                       fmt::join(results, ", "), results.size() > 1 ? "are" : "is", name, model.nodes()[n].name),
           "--region");
    }
  }
  ModelCut closed = part_of(model, part.nodes);
  order(closed.outputs, results);
  order(closed.inputs, given);
  return closed;
}

std::vector<ModelCut> parts_of_nodes(const ModelFile& model, const std::vector<std::vector<std::string>>& groups) {
  std::vector<ModelCut> parts;
  Names taken;
  for (const std::vector<std::string>& names : groups) {
    for (const std::string& name : Names(names.begin(), names.end())) {
      if (!taken.insert(name).second) fail(fmt::format("'{}' cannot be part of two plugins", name), "--nodes");
    }
    parts.push_back(part_of(model, model.around(names).nodes));
  }
  return parts;
}

std::vector<ModelCut> nodes_of_types(const ModelFile& model, const std::vector<std::string>& types) {
  std::vector<std::string> known;
  for (const ModelNode& node : model.nodes()) known.push_back(node.op);
  for (const std::string& type : types) {
    if (std::find(known.begin(), known.end(), type) != known.end()) continue;
    fail(fmt::format("the model has no node of operator '{}'{}", type, did_you_mean(type, known)), "--types");
  }
  std::vector<ModelCut> parts;
  for (size_t n = 0; n < known.size(); ++n) {
    if (std::find(types.begin(), types.end(), known[n]) == types.end()) continue;
    std::vector<bool> chosen(known.size(), false);
    chosen[n] = true;
    parts.push_back(part_of(model, std::move(chosen)));
  }
  return parts;
}

/// Gives wanted nodes that hand each other what is no tensor the number of one of them.
std::vector<size_t> joined_by_sequences(const ModelFile& model, const std::vector<bool>& wanted) {
  const std::vector<ModelNode>& nodes = model.nodes();
  std::vector<size_t> part(nodes.size());
  const auto producer = producers(model);
  for (size_t n = 0; n < nodes.size(); ++n) {
    part[n] = n;
    for (const std::string& name : nodes[n].inputs) {
      const auto made = producer.find(name);
      if (made == producer.end() || !wanted[n] || !wanted[made->second] || model.type_of(name).is_tensor) continue;
      const size_t old = part[made->second];
      std::replace(part.begin(), part.end(), old, n);
    }
  }
  return part;
}

}  // namespace

std::vector<ModelCut> parts_of_refused(
    const ModelFile& model, const std::vector<std::string>& nodes,
    const std::function<void(const std::string& node, const std::string& why)>& left) {
  const std::vector<bool> wanted = model.around(nodes).nodes;
  const std::vector<size_t> joined = joined_by_sequences(model, wanted);
  std::vector<ModelCut> parts;
  std::set<size_t> done;
  for (size_t n = 0; n < wanted.size(); ++n) {
    if (!wanted[n] || !done.insert(joined[n]).second) continue;
    std::vector<bool> chosen(wanted.size(), false);
    for (size_t m = 0; m < wanted.size(); ++m) chosen[m] = wanted[m] && joined[m] == joined[n];
    try {
      parts.push_back(part_of(model, std::move(chosen)));
    } catch (const Error& error) {
      left(model.nodes()[n].name, error.message());
    }
  }
  return parts;
}

std::vector<ModelCut> select_parts(const ModelFile& model, const Selection& selection) {
  if (!selection.types.empty()) return nodes_of_types(model, selection.types);
  if (!selection.region.empty()) return {region_part(model, selection.region)};
  return parts_of_nodes(model, selection.nodes);
}

}  // namespace graft::plugin
