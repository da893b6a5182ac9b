// SPDX-License-Identifier: Apache-2.0
#include "shared/onnx_tree.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <optional>

#include "shared/mutate_text.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace graft::fuzz {
namespace {

enum Message : int { kNone, kModel, kGraph, kNode, kAttribute, kTensor, kSparse, kValueInfo, kType, kTensorType,
                     kSequence, kMap, kShape, kDimension, kFunction, kOpset, kEntry };

/// Fields of src/import/onnx/onnx.proto that are messages, or texts that name values.
struct SchemaRow {
  Message message;
  int number;
  Message child;
};
constexpr SchemaRow kMessages[] = {
    {kModel, 7, kGraph},         {kModel, 8, kOpset},        {kModel, 14, kEntry},       {kModel, 25, kFunction},
    {kGraph, 1, kNode},          {kGraph, 5, kTensor},       {kGraph, 11, kValueInfo},   {kGraph, 12, kValueInfo},
    {kGraph, 13, kValueInfo},    {kGraph, 15, kSparse},      {kNode, 5, kAttribute},     {kAttribute, 5, kTensor},
    {kAttribute, 6, kGraph},     {kAttribute, 10, kTensor},  {kAttribute, 11, kGraph},   {kAttribute, 14, kType},
    {kAttribute, 15, kType},     {kAttribute, 22, kSparse},  {kAttribute, 23, kSparse},  {kTensor, 13, kEntry},
    {kSparse, 1, kTensor},       {kSparse, 2, kTensor},      {kValueInfo, 2, kType},     {kType, 1, kTensorType},
    {kType, 4, kSequence},       {kType, 5, kMap},           {kType, 8, kTensorType},    {kType, 9, kSequence},
    {kTensorType, 2, kShape},    {kSequence, 1, kType},      {kMap, 2, kType},           {kShape, 1, kDimension},
    {kFunction, 7, kNode},       {kFunction, 9, kOpset},     {kFunction, 11, kAttribute}, {kFunction, 12, kValueInfo},
};
constexpr SchemaRow kValueNames[] = {{kNode, 1, kNone}, {kNode, 2, kNone}, {kValueInfo, 1, kNone}, {kTensor, 8, kNone}};
constexpr int kDeepest = 24;

int child_of(int message, int number) {
  for (const SchemaRow& row : kMessages) {
    if (row.message == message && row.number == number) return row.child;
  }
  return kNone;
}

bool names_value(const OnnxField& field) {
  return std::any_of(std::begin(kValueNames), std::end(kValueNames), [&](const SchemaRow& row) {
    return row.message == field.message && row.number == field.number;
  });
}

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  std::vector<OnnxField> read(int message, int depth) {
    std::vector<OnnxField> fields;
    while (!rest_.empty()) {
      const auto tag = varint();
      if (!tag) break;
      OnnxField field{.message = message, .number = static_cast<int>(*tag >> 3), .wire = static_cast<int>(*tag & 7)};
      if (!read_value(field, depth)) break;
      fields.push_back(std::move(field));
    }
    return fields;
  }

 private:
  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
    return std::nullopt;
  }

  bool read_value(OnnxField& field, int depth) {
    if (field.wire == 0) {
      const auto value = varint();
      field.value = value.value_or(0);
      return value.has_value();
    }
    std::optional<uint64_t> length;
    if (field.wire == 1) length = 8;
    if (field.wire == 5) length = 4;
    if (field.wire == 2) length = varint();
    if (!length || *length > rest_.size()) return false;
    const std::string_view bytes = rest_.substr(0, *length);
    rest_.remove_prefix(*length);
    field.child_message = field.wire == 2 && depth < kDeepest ? child_of(field.message, field.number) : kNone;
    if (field.wire != 2) {
      std::memcpy(&field.value, bytes.data(), bytes.size());
    } else if (field.child_message == kNone) {
      field.bytes = bytes;
    } else {
      field.children = WireReader(bytes).read(field.child_message, depth + 1);
    }
    return true;
  }

  std::string_view rest_;
};

void write_varint(std::string& out, uint64_t value) {
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  out += static_cast<char>(value);
}

/// A place in the tree: the fields of a message, and one of them.
struct Place {
  std::vector<OnnxField>* fields = nullptr;
  size_t at = 0;
  OnnxField& field() const { return (*fields)[at]; }
};

template <class Visitor>
void visit_fields(std::vector<OnnxField>& fields, const Visitor& visit) {
  for (size_t at = 0; at < fields.size(); ++at) {
    visit(Place{&fields, at});
    visit_fields(fields[at].children, visit);
  }
}

/// One of the places that a condition holds at.
template <class Condition>
std::optional<Place> draw_place(std::vector<OnnxField>& model, Random& random, const Condition& holds) {
  std::vector<Place> places;
  visit_fields(model, [&](const Place& place) {
    if (holds(place.field())) places.push_back(place);
  });
  if (places.empty()) return std::nullopt;
  return places[static_cast<size_t>(random.integer(0, std::ssize(places) - 1))];
}

bool is_leaf(const OnnxField& field) { return field.child_message == kNone; }

/// Another value of a number, or other bytes.
void change_leaf(OnnxField& field, Random& random) {
  if (field.wire == 0) {
    const std::string fresh = odd_number(std::to_string(static_cast<int64_t>(field.value)), random);
    field.value = static_cast<uint64_t>(std::strtoll(fresh.c_str(), nullptr, 10));
  } else if (field.wire == 2) {
    const size_t size = field.bytes.size();
    field.bytes.resize(size + 8);
    field.bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(field.bytes.data()), size, size + 8));
  } else {
    constexpr float kOdd[] = {0, -1, 0.5f, 2, 1e30f, -1e30f, 1e-40f, 3e9f};
    const float number = kOdd[random.integer(0, 7)];
    field.value = field.wire == 5 ? std::bit_cast<uint32_t>(number) : std::bit_cast<uint64_t>(double{number});
  }
}

/// A value in the place of another, or a field in the place of one of its kind.
void replace(std::vector<OnnxField>& model, std::vector<OnnxField>& donor, const Place& place, Random& random) {
  OnnxField& field = place.field();
  const bool name = names_value(field);
  const auto alike = [&](const OnnxField& other) {
    return (name && names_value(other)) || (other.message == field.message && other.number == field.number);
  };
  const bool own = name ? random.chance(0.95) : random.chance(0.4);
  const auto source = draw_place(own ? model : donor, random, alike);
  if (!source) return;
  OnnxField fresh = source->field();
  if (name) fresh.number = field.number, fresh.message = field.message;
  field = std::move(fresh);
}

/// An operator of the donor among those of the model, reading values of the model.
void add_node(std::vector<OnnxField>& model, std::vector<OnnxField>& donor, Random& random) {
  const auto is_node = [](const OnnxField& field) { return field.child_message == kNode; };
  const auto source = draw_place(donor, random, is_node), beside = draw_place(model, random, is_node);
  if (!source || !beside) return;
  OnnxField node = source->field();
  node.message = beside->field().message, node.number = beside->field().number;
  for (OnnxField& field : node.children) {
    if (field.number == 1) {  // an input
      const auto known = draw_place(model, random, names_value);
      if (known) field.bytes = known->field().bytes;
    } else if (field.number == 2) {  // an output
      field.bytes = "v" + std::to_string(random.integer(0, 1'000'000));
    }
  }
  // Before or behind the node that stands there.
  const size_t at = beside->at + (random.chance(0.5) ? 1 : 0);
  beside->fields->insert(beside->fields->begin() + static_cast<std::ptrdiff_t>(at), std::move(node));
}

}  // namespace

std::vector<OnnxField> parse_model(std::string_view bytes) { return WireReader(bytes).read(kModel, 0); }

std::string print_model(const std::vector<OnnxField>& model) {
  std::string out;
  for (const OnnxField& field : model) {
    write_varint(out, static_cast<uint64_t>(field.number) << 3 | static_cast<uint64_t>(field.wire));
    if (field.wire == 0) {
      write_varint(out, field.value);
    } else if (field.wire == 2) {
      const std::string bytes = field.child_message == kNone ? field.bytes : print_model(field.children);
      write_varint(out, bytes.size());
      out += bytes;
    } else {
      out.append(reinterpret_cast<const char*>(&field.value), field.wire == 5 ? 4 : 8);
    }
  }
  return out;
}

void mutate_model(std::vector<OnnxField>& model, const std::vector<OnnxField>& donor, Random& random) {
  std::vector<OnnxField> other = donor;
  const auto any = draw_place(model, random, [](const OnnxField&) { return true; });
  if (!any) {
    model = donor;
    return;
  }
  std::vector<OnnxField>& fields = *any->fields;
  const auto at = fields.begin() + static_cast<std::ptrdiff_t>(any->at);
  const int64_t kind = random.integer(0, 9);
  if (kind == 0) {
    fields.erase(at);
  } else if (kind == 1) {
    const OnnxField copy = *at;
    fields.insert(at, copy);
  } else if (kind == 2) {
    std::swap(*at, fields[static_cast<size_t>(random.integer(0, std::ssize(fields) - 1))]);
  } else if (kind <= 5) {
    replace(model, other, *any, random);
  } else if (kind <= 7) {
    if (const auto leaf = draw_place(model, random, is_leaf)) change_leaf(leaf->field(), random);
  } else if (kind == 8) {
    const auto name = draw_place(model, random, names_value);
    if (name) replace(model, other, *name, random);
  } else {
    add_node(model, other, random);
  }
}

}  // namespace graft::fuzz
