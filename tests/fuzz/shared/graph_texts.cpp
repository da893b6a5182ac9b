// SPDX-License-Identifier: Apache-2.0
#include "shared/graph_texts.h"

#include <map>

#include "graph/text_form.h"
#include "shared/mutate_text.h"
#include "shared/run_engine.h"
#include "support/sample_case.h"
#include "support/text_network.h"

namespace graft::fuzz {
namespace {

/// Elements that print would leave out all become the first one.
void flatten_constants(Graph& graph) {
  for (Value& value : graph.values) {
    if (!value.constant || value.constant->element_count() <= kInlineElements) continue;
    TensorData& data = *value.constant;
    if (data.type() == DType::kString || kind_of(data.type()) == DTypeKind::kComplex) continue;
    const double first = data.read_double(0);
    for (int64_t i = 0; i < data.element_count(); ++i) data.write_double(i, first);
  }
}

std::vector<std::string> make_seeds() {
  std::vector<std::string> seeds;
  for (const SampleCase& sample : all_sample_cases()) {
    for (const Openness openness : {Openness::kContents, Openness::kSizes}) {
      Graph graph = make_graph(sample, openness);
      flatten_constants(graph);
      seeds.push_back(print(graph));
    }
  }
  for (const graft_test::TextNetwork& network : graft_test::kTextNetworks) seeds.emplace_back(network.text);
  return seeds;
}

/// `  %y: ? = Relu "name" (%x) {...}` of another graph as a statement of this one: it reads values of this graph and
/// writes new ones, which may become outputs.
std::string adopt(const std::string& line, const std::string& text, Random& random) {
  std::vector<std::string> known;
  for (const Word& word : words_of(text)) {
    if (word.kind == WordKind::kName) known.push_back(text.substr(word.begin, word.length));
  }
  const size_t equals = line.find('=');
  std::map<std::string, std::string, std::less<>> names;
  std::string changed, outputs;
  size_t copied = 0;
  for (const Word& word : words_of(line)) {
    if (word.kind != WordKind::kName) continue;
    const std::string name = line.substr(word.begin, word.length);
    std::string& fresh = names[name];
    if (fresh.empty() && word.begin < equals) {
      fresh = "%v" + std::to_string(random.integer(0, 1'000'000));
      if (random.chance(0.5)) outputs += "  output " + fresh + "\n";
    } else if (fresh.empty()) {
      fresh = known.empty() ? name : known[static_cast<size_t>(random.integer(0, std::ssize(known) - 1))];
    }
    changed += line.substr(copied, word.begin - copied) + fresh;
    copied = word.begin + word.length;
  }
  return changed + line.substr(copied) + outputs;
}

/// An operator of another graph, before the graph's end.
std::string add_statement(const std::string& text, Random& random) {
  std::vector<std::string> statements;
  for (std::string& line : lines_of(draw_graph(random))) {
    if (line.find('=') != line.npos && line.find('(') != line.npos) statements.push_back(std::move(line));
  }
  const size_t end = text.rfind('}');
  if (statements.empty() || end == text.npos) return text;
  // Outputs come last.
  const size_t outputs = std::min(text.find("\n  output "), end - 1);
  const std::string& line = statements[static_cast<size_t>(random.integer(0, std::ssize(statements) - 1))];
  return text.substr(0, outputs + 1) + adopt(line, text, random) + text.substr(outputs + 1);
}

}  // namespace

const std::vector<std::string>& graph_seeds() {
  static const auto* const seeds = new std::vector<std::string>(make_seeds());
  return *seeds;
}

const std::string& draw_graph(Random& random) {
  return graph_seeds()[static_cast<size_t>(random.integer(0, std::ssize(graph_seeds()) - 1))];
}

std::string mutate_graph(std::string text, Random& random) {
  const int64_t changes = draw_changes(random);
  for (int64_t change = 0; change < changes; ++change) {
    text = random.chance(0.3) ? add_statement(text, random) : mutate_text(std::move(text), draw_graph(random), random);
  }
  return text;
}

}  // namespace graft::fuzz
