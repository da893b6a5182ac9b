// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "engine/plan_file.h"
#include "engine/plan_generated.h"
#include "engine/plan_sections.h"

namespace graft {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

/// Where the bytes of each constant go; constants that share their bytes share their place.
struct WeightLayout {
  std::vector<uint64_t> offsets;  ///< by constant
  std::vector<std::pair<uint64_t, std::span<const std::byte>>> pieces;
  uint64_t bytes = 0;
};

WeightLayout place_weights(const PlanFile& plan) {
  WeightLayout layout;
  std::map<std::pair<const std::byte*, size_t>, uint64_t> known;
  for (const StoredConstant& constant : plan.constants) {
    const auto bytes = constant.type == DType::kString ? std::span<const std::byte>() : constant.data.bytes();
    if (bytes.empty()) {
      layout.offsets.push_back(0);
      continue;
    }
    const uint64_t next = (layout.bytes + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment;
    const auto [it, fresh] = known.emplace(std::pair(bytes.data(), bytes.size()), next);
    layout.offsets.push_back(it->second);
    if (!fresh) continue;
    layout.pieces.push_back({next, bytes});
    layout.bytes = next + bytes.size();
  }
  return layout;
}

Offset<plan::Constant> write(FlatBufferBuilder& builder, const StoredConstant& constant, uint64_t offset) {
  const bool is_string = constant.type == DType::kString;
  const auto name = builder.CreateString(constant.name);
  const auto type = builder.CreateSharedString(std::string(name_of(constant.type)));
  const auto shape = builder.CreateVector(constant.shape);
  const auto layout = builder.CreateSharedString(constant.layout);
  const auto view = builder.CreateVector(constant.view);
  const auto stored = builder.CreateVector(constant.data.shape());
  const auto strings = builder.CreateVectorOfStrings(is_string ? constant.data.strings() : std::vector<std::string>());
  const uint64_t bytes = is_string ? 0 : static_cast<uint64_t>(constant.data.byte_count());
  return plan::CreateConstant(builder, name, type, shape, layout, view, stored, offset, bytes, strings);
}

std::vector<std::byte> portable_section(const PlanFile& plan, const WeightLayout& weights) {
  FlatBufferBuilder builder;
  std::vector<Offset<plan::Constant>> constants;
  for (size_t c = 0; c < plan.constants.size(); ++c) {
    constants.push_back(write(builder, plan.constants[c], weights.offsets[c]));
  }
  const auto pairs = [&](const std::vector<std::pair<std::string, std::string>>& given) {
    std::vector<Offset<plan::Option>> written;
    for (const auto& [name, value] : given) {
      const auto written_name = builder.CreateString(name), written_value = builder.CreateString(value);
      written.push_back(plan::CreateOption(builder, written_name, written_value));
    }
    return builder.CreateVector(written);
  };
  const auto producer = builder.CreateString(plan.producer), graph = builder.CreateString(plan.graph);
  const auto constant_list = builder.CreateVector(constants);
  const auto option_list = pairs(plan.options), metadata = pairs(plan.metadata);
  builder.Finish(plan::CreatePortable(builder, producer, graph, constant_list, option_list, metadata));
  const auto* begin = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {begin, begin + builder.GetSize()};
}

Hash128 checksum_of(const WeightLayout& weights) {
  Hasher checksum;
  uint64_t hashed = 0;
  const std::byte zeros[kSectionAlignment] = {};
  for (const auto& [offset, bytes] : weights.pieces) {
    checksum.add(std::span(zeros).first(offset - hashed)).add(bytes);
    hashed = offset + bytes.size();
  }
  return checksum.finish();
}

/// Passes header, sections and the zeros between them to `sink(bytes)`, in the order of the file, behind `start(all of
/// their bytes)`.
template <class Start, class Sink>
void write_plan(const PlanFile& plan, const Start& start, const Sink& sink) {
  GRAFT_CHECK(plan.records.size() <= kMostRecords, "a plan for too many targets");
  const WeightLayout weights = place_weights(plan);
  const std::vector<std::byte> portable = portable_section(plan, weights);
  std::vector<SectionKind> kinds = {SectionKind::kPortable};
  std::vector<std::span<const std::byte>> texts = {portable};
  for (const std::string& record : plan.records) {
    kinds.push_back(SectionKind::kRecord);
    texts.push_back(std::as_bytes(std::span(record)));
  }
  kinds.push_back(SectionKind::kWeights);
  std::vector<uint64_t> sizes;
  for (const auto& text : texts) sizes.push_back(text.size());
  sizes.push_back(weights.bytes);
  std::vector<Section> sections = place_sections(kinds, sizes);
  for (size_t i = 0; i < texts.size(); ++i) sections[i].checksum = hash128(texts[i]);
  sections.back().checksum = checksum_of(weights);

  start(sections.back().offset + sections.back().bytes);
  uint64_t at = 0;
  const std::byte zeros[kSectionAlignment] = {};
  const auto put = [&](uint64_t offset, std::span<const std::byte> bytes) {
    sink(std::span(zeros).first(offset - at));
    sink(bytes);
    at = offset + bytes.size();
  };
  put(0, print_section_table(sections));
  for (size_t i = 0; i < texts.size(); ++i) put(sections[i].offset, texts[i]);
  put(sections.back().offset, {});
  for (const auto& [offset, bytes] : weights.pieces) put(sections.back().offset + offset, bytes);
}

}  // namespace

std::vector<std::byte> print_plan(const PlanFile& plan) {
  std::vector<std::byte> file;
  write_plan(plan, [&](uint64_t bytes) { file.reserve(bytes); },
             [&](std::span<const std::byte> bytes) { file.insert(file.end(), bytes.begin(), bytes.end()); });
  return file;
}

void save_plan(const PlanFile& plan, const std::string& path) {
  OutputFile file(path);
  write_plan(plan, [](uint64_t) {}, [&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

}  // namespace graft
