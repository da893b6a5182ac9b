// SPDX-License-Identifier: Apache-2.0
// Einsum: one reduction over the labels that the result lacks.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "ops/compose.h"
#include "ops/samples.h"

namespace graft {
namespace {

using namespace samples;

/// An equation's terms, one label per axis. Labels of an ellipsis are 1000 + their distance from its end.
struct Equation {
  std::vector<std::vector<int>> inputs;
  std::vector<int> output;
};

constexpr int kEllipsis = 1000;

/// The labels of one term; an ellipsis stands for `extra` axes.
std::vector<int> read_term(const Definition& d, const std::string& term, int extra) {
  std::vector<int> labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term[i] == '.') {
      if (term.compare(i, 3, "...") != 0 || extra < 0) d.reject("its equation has a wrong ellipsis");
      for (int k = extra; k-- > 0;) labels.push_back(kEllipsis + k);
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(term[i]))) {
      labels.push_back(term[i]);
    } else {
      d.reject("its equation has the character '" + std::string(1, term[i]) + "'");
    }
  }
  return labels;
}

Equation read_equation(Definition& d) {
  std::string text = d.text("equation");
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  Equation e;
  if (d.input_count() > kMostOperands) d.unsupported(fmt::format("it has more than {} inputs", kMostOperands));
  int widest = 0;
  std::map<int, int> uses;
  for (int k = 0; k < d.input_count(); ++k) {
    const size_t comma = left.find(',');
    if ((comma == std::string::npos) != (k + 1 == d.input_count())) d.reject("its equation has not a term per input");
    const std::string term = left.substr(0, comma);
    left = comma == std::string::npos ? "" : left.substr(comma + 1);
    const int rank = static_cast<int>(d.input_shape(k).size());
    const bool open = term.find("...") != std::string::npos;
    const int extra = open ? rank - static_cast<int>(term.size()) + 3 : 0;
    e.inputs.push_back(read_term(d, term, extra));
    if (static_cast<int>(e.inputs.back().size()) != rank) d.reject("a term does not fit its input's rank");
    widest = std::max(widest, extra);
    for (const int label : e.inputs.back()) ++uses[label];
  }
  if (arrow != std::string::npos) {
    e.output = read_term(d, text.substr(arrow + 2), widest);
    return e;
  }
  for (int k = widest; k-- > 0;) e.output.push_back(kEllipsis + k);
  for (const auto& [label, count] : uses) {
    if (count == 1 && label < kEllipsis) e.output.push_back(label);
  }
  return e;
}

void define_einsum(Definition& d) {
  const Equation e = read_equation(d);
  std::map<int, Size> sizes;
  for (int k = 0; k < d.input_count(); ++k) {
    for (int axis = 0; axis < d.in(k).rank(); ++axis) {
      const auto [it, added] = sizes.try_emplace(e.inputs[k][axis], d.in(k).size(axis));
      if (!added) it->second = d.broadcast(it->second, d.in(k).size(axis));
    }
  }
  Shape shape, reduced;
  std::map<int, Expr> place;
  std::vector<int> summed;
  for (const int label : e.output) {
    if (!sizes.contains(label)) d.reject("its result has a label that no input has");
    shape.push_back(sizes.at(label));
  }
  for (const auto& [label, size] : sizes) {
    if (std::find(e.output.begin(), e.output.end(), label) != e.output.end()) continue;
    summed.push_back(label);
    reduced.push_back(size);
  }
  const auto product = [&](const Indices& i, const Indices& r) {
    for (size_t k = 0; k < i.size(); ++k) place[e.output[k]] = i[k];
    for (size_t k = 0; k < r.size(); ++k) place[summed[k]] = r[k];
    Expr value;
    for (int k = 0; k < d.input_count(); ++k) {
      Indices at;
      for (const int label : e.inputs[k]) at.push_back(place.at(label));
      const Expr element = d.at(d.in(k), at);
      value = value ? value * element : element;
    }
    return value;
  };
  const DType type = d.input_type(0);
  if (reduced.empty()) {
    return d.out(0, d.compute("y", type, shape, [&](const Indices& i) { return product(i, {}); }));
  }
  d.out(0, stored_as(d, "y", d.reduce("product", Intrinsic::kAdd, shape, reduced, product), type));
}

std::vector<Sample> einsum_samples() {
  const auto equation = [](const char* text) { return Attributes{{"equation", std::string(text)}}; };
  return {{.name = "matrix_product", .inputs = {f32({3, 7}), f32({7, 5})}, .attributes = equation("ij,jk->ik")},
          {.name = "batches_with_ellipsis", .inputs = {f32({2, 3, 7}), f32({2, 7, 5})},
           .attributes = equation("...ij, ...jk -> ...ik")},
          {.name = "implicit_result", .inputs = {f32({3, 4})}, .attributes = equation("ba")},
          {.name = "diagonal", .inputs = {f32({5, 5})}, .attributes = equation("ii->i")},
          {.name = "trace_of_batches", .inputs = {f32({2, 5, 5})}, .attributes = equation("bii->b")},
          {.name = "scores_of_attention", .inputs = {f32({2, 3, 4, 5}), f32({2, 6, 4, 5})},
           .attributes = equation("bqhd,bkhd->bhqk")},
          {.name = "three_inputs", .inputs = {f32({3, 4}), f32({4, 5}), f32({5})},
           .attributes = equation("ab,bc,c->a")}};
}

}  // namespace

std::vector<OpDef> einsum_ops() {
  return {{.domain = "", .name = "Einsum", .since = 12, .inputs = {"inputs*"}, .outputs = {"output"},
           .attributes = {{"equation"}}, .define = define_einsum, .samples = einsum_samples,
           .doc = "Products summed over labelled axes."}};
}

}  // namespace graft
