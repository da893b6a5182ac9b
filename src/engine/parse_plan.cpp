// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "engine/plan_file.h"
#include "engine/plan_generated.h"
#include "engine/plan_sections.h"

namespace graft {
namespace {

constexpr uint64_t kLargestStructure = uint64_t{1} << 30;
constexpr int kDeepestTable = 4;
constexpr int kMostTables = 8'000'000;

/// Reads the portable section. Lists that are absent count as empty.
class PortableReader {
 public:
  PortableReader(const PlanSections& sections, std::shared_ptr<const void> keep_alive, const std::string& where)
      : sections_(sections), keep_alive_(std::move(keep_alive)), where_(where) {}

  PlanFile run() {
    const plan::Portable& portable = root();
    PlanFile plan{.producer = text(portable.producer()), .graph = text(portable.graph())};
    if (portable.constants()) {
      for (const plan::Constant* constant : *portable.constants()) plan.constants.push_back(read(*constant));
    }
    if (portable.options()) {
      for (const plan::Option* option : *portable.options()) {
        plan.options.emplace_back(text(option->name()), text(option->value()));
      }
    }
    if (portable.metadata()) {
      for (const plan::Option* entry : *portable.metadata()) {
        plan.metadata.emplace_back(text(entry->name()), text(entry->value()));
      }
    }
    return plan;
  }

 private:
  void require(bool good, const std::string& problem) const {
    if (!good) refuse_plan(where_, "portable", problem);
  }

  /// The root table, once every offset in it is known to stay inside.
  const plan::Portable& root() const {
    const auto bytes = sections_.portable;
    require(bytes.size() <= kLargestStructure, "it is larger than 1 GB");
    flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), kDeepestTable,
                                   kMostTables);
    require(verifier.VerifyBuffer<plan::Portable>(nullptr), "its structure is damaged");
    return *flatbuffers::GetRoot<plan::Portable>(bytes.data());
  }

  static std::string text(const flatbuffers::String* value) { return value ? value->str() : std::string(); }

  /// Numbers; the verifier has seen that they lie inside, but not that they are aligned.
  std::vector<int64_t> list(const flatbuffers::Vector<int64_t>* values) const {
    if (!values || values->size() == 0) return {};  // FlatBuffers leaves empty vectors unaligned
    require(reinterpret_cast<uintptr_t>(values->Data()) % sizeof(int64_t) == 0, "its structure is damaged");
    require(values->size() <= 64, "a shape has more than 64 axes");
    return {values->begin(), values->end()};
  }

  StoredConstant read(const plan::Constant& constant) const {
    const auto type = parse_dtype(text(constant.type()));
    require(type && *type != DType::kUndefined, fmt::format("the element type '{}' is unknown", text(constant.type())));
    StoredConstant stored{.name = text(constant.name()),
                          .type = *type,
                          .shape = list(constant.shape()),
                          .layout = text(constant.layout()),
                          .view = list(constant.view())};
    try {
      stored.data = data(constant, *type);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kOutOfMemory) throw;
      refuse_plan(where_, "portable", fmt::format("constant '{}': {}", stored.name, error.message()));
    }
    return stored;
  }

  TensorData data(const plan::Constant& constant, DType type) const {
    const std::vector<int64_t> shape = list(constant.stored());
    if (type == DType::kString) {
      std::vector<std::string> strings;
      if (constant.strings()) {
        for (const flatbuffers::String* value : *constant.strings()) strings.push_back(text(value));
      }
      return TensorData::from_strings(shape, std::move(strings));
    }
    const auto bytes = static_cast<uint64_t>(packed_bytes(type, checked_element_count(type, shape)));
    require(constant.bytes() == bytes && bytes <= sections_.weights.size() &&
                constant.offset() <= sections_.weights.size() - bytes && constant.offset() % kSectionAlignment == 0,
            fmt::format("the bytes of constant '{}' are not in the weights", text(constant.name())));
    return TensorData::borrow(type, shape, sections_.weights.subspan(constant.offset(), bytes), keep_alive_);
  }

  const PlanSections& sections_;
  std::shared_ptr<const void> keep_alive_;
  const std::string& where_;
};

}  // namespace

bool looks_like_plan(std::span<const std::byte> file) {
  return file.size() >= sizeof kPlanMagic &&
         std::equal(std::begin(kPlanMagic), std::end(kPlanMagic), reinterpret_cast<const char*>(file.data()));
}

PlanFile parse_plan(std::span<const std::byte> file, std::shared_ptr<const void> keep_alive, const std::string& where) {
  GRAFT_CHECK(reinterpret_cast<uintptr_t>(file.data()) % kSectionAlignment == 0, "a plan is not aligned in memory");
  const PlanSections sections = read_sections(file, where);
  PlanFile plan = PortableReader(sections, std::move(keep_alive), where).run();
  for (const auto& record : sections.records) {
    plan.records.emplace_back(reinterpret_cast<const char*>(record.data()), record.size());
  }
  return plan;
}

PlanFile copy_plan(std::span<const std::byte> file, const std::string& where) {
  // Copied first and checked then, so that what was checked is what is used.
  const auto copy = std::make_shared<const TensorData>(
      TensorData::from_bytes(DType::kUint8, {static_cast<int64_t>(file.size())}, file));
  return parse_plan(copy->bytes(), copy, where);
}

PlanFile read_plan(const std::string& path, Weights weights) {
  const auto file = MappedFile::open(path);
  return weights == Weights::kMapped ? parse_plan(file->bytes(), file, path) : copy_plan(file->bytes(), path);
}

}  // namespace graft
