// SPDX-License-Identifier: Apache-2.0
// Programs of torch.export: archives that are whole, and such that are not. tests/torch/test_pt2.py has torch's own.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "import/pt2/archive.h"
#include "import/pt2/import.h"
#include "import/pt2/in_place.h"
#include "support/stored_archive.h"

namespace graft::pt2 {
namespace {

using frontend::ForeignGraph;
using frontend::Reference;

Archive opened(std::string bytes) {
  const auto held = std::make_shared<const std::string>(std::move(bytes));
  return {std::as_bytes(std::span(*held)), held, "test"};
}

std::string text_of(const std::optional<std::span<const std::byte>>& bytes) {
  return bytes ? std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()) : "(none)";
}

TEST(Archive, entries_are_found_below_the_one_folder) {
  const Archive archive = opened(test::stored_archive({{"net/models/net.json", "{}"}, {"net/byteorder", "little"}}));
  EXPECT_EQ(text_of(archive.find("byteorder")), "little");
  EXPECT_EQ(text_of(archive.find("byte")), "(none)");
  EXPECT_EQ(archive.names("models/"), (std::vector<std::string>{"models/net.json"}));
}

TEST(Archive, every_cut_and_every_changed_byte_is_read_or_refused) {
  const std::string whole = test::stored_archive({{"a/b", "12345"}, {"a/c", "678"}});
  for (size_t length = 0; length < whole.size(); ++length) EXPECT_THROW(opened(whole.substr(0, length)), Error);
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char byte : {'\0', '\x7f', '\xff'}) {
      std::string changed = whole;
      changed[at] = byte;
      try {
        opened(changed);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kInvalidModel) << at;
      }
    }
  }
}

TEST(Archive, entries_that_share_bytes_are_refused) {
  std::string archive = test::stored_archive({{"a/b", "12345"}, {"a/c", "678"}});
  const size_t second = archive.rfind("PK\x01\x02");
  archive.replace(second + 42, 4, std::string(4, '\0'));  // the second lies where the first does
  EXPECT_THROW(opened(archive), Error);
}

/// x -> conv -> relu_ -> ..., as lists of (operator, operand, result).
struct Drawn {
  ForeignGraph graph;
  int value(const std::string& name) {
    graph.values.push_back({.name = name});
    return static_cast<int>(graph.values.size()) - 1;
  }
  int add(const std::string& op, int operand) {
    const int result = value(op + std::to_string(graph.values.size()));
    graph.nodes.push_back({.op = op, .name = op, .attributes = {{"self", Reference{operand}}}, .outputs = {result}});
    return result;
  }
  int operand(size_t node) { return std::get<Reference>(graph.nodes[node].attributes.at("self").is).value; }
};

TEST(InPlace, who_reads_what_was_written_to_reads_the_result) {
  Drawn net;
  const int x = net.value("x");
  net.graph.inputs = {x};
  const int conv = net.add("aten::conv2d", x), relu = net.add("aten::relu_", conv);
  net.graph.outputs = {net.add("aten::add.Tensor", conv), relu};
  rename_in_place(net.graph, "test");
  EXPECT_EQ(net.graph.nodes[1].op, "aten::relu");
  EXPECT_EQ(net.operand(2), relu);
}

TEST(InPlace, inputs_and_views_that_are_read_later_are_not_written_to) {
  Drawn net;
  const int x = net.value("x");
  net.graph.inputs = {x};
  Drawn given = net;
  given.graph.outputs = {given.add("aten::relu_", given.add("aten::view", x))};
  EXPECT_THROW(rename_in_place(given.graph, "test"), Error);
  for (const bool read : {false, true}) {
    Drawn seen = net;
    const int conv = seen.add("aten::conv2d", x), rows = seen.add("aten::view", conv);
    const int relu = seen.add("aten::relu_", conv);
    seen.graph.outputs = {relu};
    if (read) seen.graph.outputs.push_back(seen.add("aten::neg", rows));
    if (read) {
      EXPECT_THROW(rename_in_place(seen.graph, "test"), Error);
    } else {
      EXPECT_NO_THROW(rename_in_place(seen.graph, "test"));
    }
  }
}

}  // namespace
}  // namespace graft::pt2
