// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "engine/plan_file.h"
#include "engine/plan_generated.h"
#include "engine/plan_sections.h"
#include "engine/text_table.h"

namespace graft {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using Text = Offset<flatbuffers::String>;
template <class T>
using List = Offset<flatbuffers::Vector<T>>;

/// Where the bytes of each constant go; tensors that share their bytes share their place.
struct WeightLayout {
  std::vector<uint64_t> offsets;  ///< by constant
  std::vector<std::pair<uint64_t, std::span<const std::byte>>> pieces;
  uint64_t bytes = 0;
};

WeightLayout place_weights(const Engine& engine) {
  WeightLayout layout;
  std::map<std::pair<const std::byte*, size_t>, uint64_t> known;
  for (const TensorData& constant : engine.constants) {
    const auto bytes = constant.type() == DType::kString ? std::span<const std::byte>() : constant.bytes();
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

/// Writes the two structured sections.
class PlanWriter {
 public:
  explicit PlanWriter(const Engine& engine) : engine_(engine) {}

  std::vector<std::byte> portable(const WeightLayout& weights) {
    std::vector<Offset<plan::Tensor>> tensors;
    for (const EngineTensor& tensor : engine_.tensors) tensors.push_back(write(tensor));
    std::vector<Offset<plan::Constant>> constants;
    for (size_t c = 0; c < engine_.constants.size(); ++c) {
      constants.push_back(write(engine_.constants[c], weights.offsets[c]));
    }
    std::vector<Offset<plan::Symbol>> symbols;
    for (const auto& [name, range] : engine_.symbols) {
      symbols.push_back(plan::CreateSymbol(builder_, text(name), range.min, range.opt, range.max));
    }
    std::vector<Offset<plan::Option>> options;
    for (const auto& [name, value] : engine_.options) {
      const Text written_name = text(name), written_value = text(value);
      options.push_back(plan::CreateOption(builder_, written_name, written_value));
    }
    const Text producer = text("graft " GRAFT_VERSION), name = text(engine_.name);
    const auto tensor_list = list(tensors);
    const auto inputs = list(engine_.inputs), outputs = list(engine_.outputs);
    const auto constant_list = list(constants);
    const auto symbol_list = list(symbols);
    const auto option_list = list(options);
    builder_.Finish(plan::CreatePortable(builder_, producer, name, tensor_list, inputs, outputs, constant_list,
                                         symbol_list, option_list, engine_.has_computed_symbols));
    return take();
  }

  std::vector<std::byte> target() {
    number_units();
    std::vector<plan::Lifetime> lifetimes;
    for (const EngineTensor& tensor : engine_.tensors) lifetimes.emplace_back(tensor.first_step, tensor.last_step);
    std::vector<Offset<plan::Step>> steps;
    for (const EngineStep& step : engine_.steps) steps.push_back(write(step));
    std::vector<Offset<plan::Kernel>> kernels;
    for (const EngineKernel& kernel : engine_.kernels) kernels.push_back(write(kernel));
    const Text target = text(engine_.target);
    const auto lifetime_list = builder_.CreateVectorOfStructs(lifetimes);
    const auto step_list = list(steps);
    const auto kernel_list = list(kernels);
    const auto lengths = list(texts_.lengths());
    const std::vector<std::byte> frame = texts_.compress();
    const auto frame_list = builder_.CreateVector(reinterpret_cast<const uint8_t*>(frame.data()), frame.size());
    builder_.Finish(plan::CreateTarget(builder_, target, engine_.threads, lifetime_list, step_list, kernel_list,
                                       lengths, frame_list));
    return take();
  }

 private:
  Text text(const std::string& value) { return builder_.CreateSharedString(value); }
  Text text(const Size& value) { return text(value.to_string()); }
  template <class T>
  List<T> list(const std::vector<T>& values) {
    return builder_.CreateVector(values);
  }
  List<Text> texts(const std::vector<std::string>& values) {
    std::vector<Text> written;
    for (const std::string& value : values) written.push_back(text(value));
    return list(written);
  }

  std::vector<std::byte> take() {
    const auto* begin = reinterpret_cast<const std::byte*>(builder_.GetBufferPointer());
    std::vector<std::byte> bytes(begin, begin + builder_.GetSize());
    builder_.Clear();
    return bytes;
  }

  /// Objects come in the order in which threads finished them; units are numbered in the order of their kernels.
  void number_units() {
    for (const EngineKernel& kernel : engine_.kernels) {
      if (kernel.object >= 0) units_.emplace(kernel.object, static_cast<int>(units_.size()));
    }
  }

  Offset<plan::Tensor> write(const EngineTensor& tensor) {
    std::vector<Text> shape;
    for (const Size& size : tensor.shape) shape.push_back(text(size));
    const Text name = text(tensor.name), type = text(std::string(name_of(tensor.type))), bytes = text(tensor.bytes);
    const auto shape_list = list(shape);
    return plan::CreateTensor(builder_, name, type, shape_list, bytes, static_cast<uint8_t>(tensor.storage),
                              tensor.index);
  }

  Offset<plan::Constant> write(const TensorData& constant, uint64_t offset) {
    const bool is_string = constant.type() == DType::kString;
    const Text type = text(std::string(name_of(constant.type())));
    const auto shape = list(constant.shape());
    const auto strings = texts(is_string ? constant.strings() : std::vector<std::string>());
    const uint64_t bytes = is_string ? 0 : static_cast<uint64_t>(constant.byte_count());
    return plan::CreateConstant(builder_, type, shape, offset, bytes, strings);
  }

  List<Offset<plan::Read>> write_reads(const EngineStep& step) {
    std::vector<Offset<plan::Read>> reads;
    for (const SymbolRead& read : step.reads) {
      reads.push_back(plan::CreateRead(builder_, text(read.symbol), read.tensor, read.element));
    }
    return list(reads);
  }

  List<Offset<plan::Check>> write_checks(const EngineStep& step) {
    std::vector<Offset<plan::Check>> checks;
    for (const RunCheck& check : step.checks) {
      const Text value = text(check.value), message = text(check.message);
      checks.push_back(plan::CreateCheck(builder_, value, check.at_least_zero, message));
    }
    return list(checks);
  }

  List<Offset<plan::Candidate>> write_candidates(const EngineStep& step) {
    std::vector<Offset<plan::Candidate>> candidates;
    for (const Candidate& candidate : step.candidates) {
      const Text name = text(candidate.name), reason = text(candidate.reason);
      candidates.push_back(plan::CreateCandidate(builder_, name, candidate.milliseconds, reason));
    }
    return list(candidates);
  }

  Offset<plan::Step> write(const EngineStep& step) {
    const Text name = text(step.name), library = text(step.library), count = text(step.count_symbol);
    const Text operations = text(step.operations), bytes = text(step.bytes);
    const auto nodes = texts(step.nodes);
    const auto operators = texts(step.operators);
    const auto tensors = list(step.tensors);
    const auto reads = write_reads(step);
    const auto checks = write_checks(step);
    const auto references = list(step.reference_inputs);
    const auto candidates = write_candidates(step);
    const uint32_t schedule = texts_.add(step.schedule), region = texts_.add(step.region);
    return plan::CreateStep(builder_, name, nodes, operators, static_cast<uint8_t>(step.kind), step.kernel, library,
                            schedule, tensors, step.input_count, reads, checks, count, references, region, operations,
                            bytes, candidates);
  }

  Offset<plan::Kernel> write(const EngineKernel& kernel) {
    const auto unit = units_.find(kernel.object);
    const Text name = text(kernel.name), grid = text(kernel.grid), scratch = text(kernel.scratch);
    const auto sizes = texts(kernel.sizes);
    return plan::CreateKernel(builder_, name, unit == units_.end() ? -1 : unit->second, sizes, grid, scratch,
                              texts_.add(kernel.program));
  }

  const Engine& engine_;
  FlatBufferBuilder builder_;
  TextTable texts_;
  std::map<int, int> units_;  ///< by object
};

/// Passes header, sections and the zeros between them to `sink(bytes)`, in the order of the file.
template <class Sink>
void write_plan(const Engine& engine, const Sink& sink) {
  const WeightLayout weights = place_weights(engine);
  PlanWriter writer(engine);
  const std::vector<std::byte> portable = writer.portable(weights);
  const std::vector<std::byte> target = writer.target();
  constexpr SectionKind kKinds[] = {SectionKind::kPortable, SectionKind::kTarget, SectionKind::kWeights};
  const uint64_t sizes[] = {portable.size(), target.size(), weights.bytes};
  std::vector<Section> sections = place_sections(kKinds, sizes);
  sections[0].checksum = hash128(portable);
  sections[1].checksum = hash128(target);
  Hasher checksum;
  uint64_t hashed = 0;
  const std::byte zeros[kSectionAlignment] = {};
  for (const auto& [offset, bytes] : weights.pieces) {
    checksum.add(std::span(zeros).first(offset - hashed)).add(bytes);
    hashed = offset + bytes.size();
  }
  sections[2].checksum = checksum.finish();

  uint64_t at = 0;
  const auto put = [&](uint64_t offset, std::span<const std::byte> bytes) {
    sink(std::span(zeros).first(offset - at));
    sink(bytes);
    at = offset + bytes.size();
  };
  put(0, print_section_table(sections));
  put(sections[0].offset, portable);
  put(sections[1].offset, target);
  put(sections[2].offset, {});
  for (const auto& [offset, bytes] : weights.pieces) put(sections[2].offset + offset, bytes);
}

}  // namespace

std::vector<std::byte> print_plan(const Engine& engine) {
  std::vector<std::byte> file;
  write_plan(engine, [&](std::span<const std::byte> bytes) { file.insert(file.end(), bytes.begin(), bytes.end()); });
  return file;
}

void save_plan(const Engine& engine, const std::string& path) {
  AtomicFile file(path);
  write_plan(engine, [&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

}  // namespace graft
