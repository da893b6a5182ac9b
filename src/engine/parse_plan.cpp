// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "engine/plan_file.h"
#include "engine/plan_generated.h"
#include "engine/plan_sections.h"
#include "engine/text_table.h"
#include "engine/verify_engine.h"

namespace graft {
namespace {

constexpr uint64_t kLargestStructure = uint64_t{1} << 30;
constexpr int kDeepestTable = 16;
constexpr int kMostTables = 8'000'000;
constexpr size_t kLongestSize = 16384;

/// Reads the two structured sections into an engine. Lists that are absent count as empty.
class PlanReader {
 public:
  PlanReader(const PlanSections& sections, std::shared_ptr<const void> keep_alive, const std::string& where)
      : sections_(sections), keep_alive_(std::move(keep_alive)), where_(where) {}

  Engine run() {
    in_section("portable", [&] { read_portable(); });
    in_section("target", [&] { read_target(); });
    in_section("target", [&] { verify(engine_); });
    return std::move(engine_);
  }

 private:
  template <class Body>
  void in_section(const std::string& section, const Body& body) {
    section_ = section;
    try {
      body();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kOutOfMemory || error.where().starts_with("plan '")) throw;
      refuse_plan(where_, section_, error.what());
    }
  }
  void require(bool good, const std::string& problem) const {
    if (!good) refuse_plan(where_, section_, problem);
  }

  /// The root table of a section, once every offset in it is known to stay inside.
  template <class Table>
  const Table& root(std::span<const std::byte> bytes) const {
    require(bytes.size() <= kLargestStructure, "it is larger than 1 GB");
    flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), kDeepestTable,
                                   kMostTables);
    require(verifier.VerifyBuffer<Table>(nullptr), "its structure is damaged");
    return *flatbuffers::GetRoot<Table>(bytes.data());
  }

  static std::string text(const flatbuffers::String* value) { return value ? value->str() : std::string(); }
  /// Numbers; the verifier has seen that they lie inside, but not that they are aligned.
  template <class T>
  std::vector<T> list(const flatbuffers::Vector<T>* values) const {
    if (!values || values->size() == 0) return {};  // FlatBuffers leaves empty vectors unaligned
    require(reinterpret_cast<uintptr_t>(values->Data()) % sizeof(T) == 0, "its structure is damaged");
    return std::vector<T>(values->begin(), values->end());
  }
  static std::vector<std::string> texts(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* values) {
    std::vector<std::string> read;
    if (!values) return read;
    for (const flatbuffers::String* value : *values) read.push_back(text(value));
    return read;
  }
  template <class Table, class Read>
  static void for_each(const flatbuffers::Vector<flatbuffers::Offset<Table>>* tables, const Read& read) {
    if (!tables) return;
    for (const Table* table : *tables) read(*table);
  }

  /// A size in its canonical text, the only one that saving writes. Sums in brackets, which it never has outside of
  /// functions, could take exponential time to multiply out.
  Size size(const flatbuffers::String* value) const {
    const std::string written = text(value);
    require(written.size() <= kLongestSize, "a size is too long");
    for (size_t i = 0; i < written.size(); ++i) {
      const bool call = i > 0 && written[i - 1] >= 'a' && written[i - 1] <= 'z';
      require(written[i] != '(' || call, fmt::format("the size '{}' is not in canonical form", written));
    }
    Size parsed = parse_size(written);
    require(parsed.to_string() == written, fmt::format("the size '{}' is not in canonical form", written));
    return parsed;
  }

  DType type(const flatbuffers::String* name) const {
    const auto parsed = parse_dtype(text(name));
    require(parsed.has_value(), fmt::format("the element type '{}' is unknown", text(name)));
    return *parsed;
  }

  void read_portable() {
    const auto& portable = root<plan::Portable>(sections_.portable);
    engine_.name = text(portable.name());
    for_each(portable.tensors(), [&](const plan::Tensor& tensor) { read(tensor); });
    engine_.inputs = list(portable.inputs());
    engine_.outputs = list(portable.outputs());
    for_each(portable.constants(), [&](const plan::Constant& constant) { read(constant); });
    for_each(portable.symbols(), [&](const plan::Symbol& symbol) {
      const bool fresh = engine_.symbols.emplace(text(symbol.name()),
                                                 SymbolRange{symbol.min(), symbol.opt(), symbol.max()}).second;
      require(fresh, fmt::format("symbol '{}' is there twice", text(symbol.name())));
    });
    for_each(portable.options(), [&](const plan::Option& option) {
      engine_.options.emplace_back(text(option.name()), text(option.value()));
    });
    engine_.has_computed_symbols = portable.has_computed_symbols();
  }

  void read(const plan::Tensor& tensor) {
    EngineTensor out;
    out.name = text(tensor.name());
    out.type = type(tensor.type());
    if (tensor.shape()) {
      for (const flatbuffers::String* extent : *tensor.shape()) out.shape.push_back(size(extent));
    }
    out.bytes = size(tensor.bytes());
    require(tensor.storage() <= static_cast<uint8_t>(Storage::kAlias), "a tensor has an unknown storage");
    out.storage = static_cast<Storage>(tensor.storage());
    out.index = tensor.index();
    engine_.tensors.push_back(std::move(out));
  }

  void read(const plan::Constant& constant) {
    const DType element = type(constant.type());
    const std::vector<int64_t> shape = list(constant.shape());
    const int64_t count = checked_element_count(element, shape, "a constant");
    if (element == DType::kString) {
      std::vector<std::string> strings = texts(constant.strings());
      require(static_cast<int64_t>(strings.size()) == count, "a constant of strings has too few or too many");
      engine_.constants.push_back(TensorData::from_strings(shape, std::move(strings)));
      return;
    }
    const uint64_t offset = constant.offset(), bytes = constant.bytes();
    require(offset % kSectionAlignment == 0 && offset <= sections_.weights.size() &&
                bytes <= sections_.weights.size() - offset,
            "a constant lies outside the weights section");
    require(bytes == static_cast<uint64_t>(packed_bytes(element, count)), "a constant's bytes contradict its shape");
    engine_.constants.push_back(
        TensorData::borrow(element, shape, sections_.weights.subspan(offset, bytes), keep_alive_));
  }

  void read_target() {
    const auto& target = root<plan::Target>(sections_.target);
    engine_.target = text(target.target());
    engine_.threads = target.threads();
    const size_t lifetimes = target.lifetimes() ? target.lifetimes()->size() : 0;
    require(lifetimes == engine_.tensors.size(), "there is not one lifetime for each tensor");
    for (size_t t = 0; t < lifetimes; ++t) {
      const plan::Lifetime* lifetime = target.lifetimes()->Get(static_cast<flatbuffers::uoffset_t>(t));
      engine_.tensors[t].first_step = lifetime->first_step();
      engine_.tensors[t].last_step = lifetime->last_step();
    }
    const std::vector<uint32_t> lengths = list(target.text_bytes());
    const std::span<const uint8_t> frame = target.texts() ? std::span(target.texts()->data(), target.texts()->size())
                                                          : std::span<const uint8_t>();
    auto texts = decompress_texts(std::as_bytes(frame), lengths);
    require(texts.has_value(), "the texts of its kernels are damaged");
    texts_ = *std::move(texts);
    for_each(target.steps(), [&](const plan::Step& step) { read(step); });
    for_each(target.kernels(), [&](const plan::Kernel& kernel) { read(kernel); });
  }

  const std::string& numbered_text(uint32_t number) const {
    require(number < texts_.size(), fmt::format("text {} of {} is referred to", number, texts_.size()));
    return texts_[number];
  }

  void read(const plan::Step& step) {
    EngineStep out;
    out.name = text(step.name());
    out.nodes = texts(step.nodes());
    out.operators = texts(step.operators());
    require(step.kind() <= static_cast<uint8_t>(StepKind::kInterpreter), "a step is of an unknown kind");
    out.kind = static_cast<StepKind>(step.kind());
    out.kernel = step.kernel();
    out.library = text(step.library());
    out.schedule = numbered_text(step.schedule());
    out.tensors = list(step.tensors());
    out.input_count = step.input_count();
    for_each(step.reads(), [&](const plan::Read& read) {
      out.reads.push_back({text(read.symbol()), read.tensor(), read.element()});
    });
    for_each(step.checks(), [&](const plan::Check& check) {
      out.checks.push_back({size(check.value()), check.at_least_zero(), text(check.message())});
    });
    out.count_symbol = text(step.count_symbol());
    out.reference_inputs = list(step.reference_inputs());
    out.region = numbered_text(step.region());
    out.operations = size(step.operations());
    out.bytes = size(step.bytes());
    for_each(step.candidates(), [&](const plan::Candidate& candidate) {
      out.candidates.push_back({text(candidate.name()), candidate.milliseconds(), text(candidate.reason())});
    });
    engine_.steps.push_back(std::move(out));
  }

  void read(const plan::Kernel& kernel) {
    engine_.kernels.push_back({text(kernel.name()), kernel.unit(), texts(kernel.sizes()), size(kernel.grid()),
                               size(kernel.scratch()), numbered_text(kernel.program())});
  }

  const PlanSections& sections_;
  std::shared_ptr<const void> keep_alive_;
  const std::string& where_;
  std::string section_;
  std::vector<std::string> texts_;
  Engine engine_;
};

}  // namespace

bool looks_like_plan(std::span<const std::byte> file) {
  return file.size() >= sizeof kPlanMagic && std::memcmp(file.data(), kPlanMagic, sizeof kPlanMagic) == 0;
}

Engine parse_plan(std::span<const std::byte> file, std::shared_ptr<const void> keep_alive, const std::string& where) {
  GRAFT_CHECK(reinterpret_cast<uintptr_t>(file.data()) % kSectionAlignment == 0, "a plan in memory is aligned to 64");
  const PlanSections sections = read_sections(file, where);
  return PlanReader(sections, std::move(keep_alive), where).run();
}

Engine load_plan(const std::string& path) {
  const auto file = MappedFile::open(path);
  return parse_plan(file->bytes(), file, path);
}

}  // namespace graft
