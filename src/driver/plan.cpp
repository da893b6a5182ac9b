// SPDX-License-Identifier: Apache-2.0
#include "driver/plan.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "engine/plan_sections.h"
#include "graph/infer.h"
#include "tile/panel_layout.h"

namespace graft {
namespace {

constexpr size_t kPlanAlignment = 64;  // of the memory that parse_plan reads

int64_t count_of(const std::vector<int64_t>& shape, DType type) {
  return checked_element_count(type, shape, "constant");
}

/// A packed constant whose layout and shapes fit each other.
PackedConstant checked_packing(const StoredConstant& stored) {
  const tile::PanelLayout layout = tile::parse_panel_layout(stored.layout);
  const auto check = [&](bool good) {
    GRAFT_USER_CHECK(good, kInvalidModel, fmt::format("the layout '{}' does not fit its shape", stored.layout),
                     fmt::format("constant '{}'", stored.name));
  };
  check(bit_width(stored.type) >= 8 && stored.type != DType::kString && fits(layout, stored.view.size()));
  check(layout.parts == 1 || stored.type == DType::kFloat32);
  check(count_of(stored.view, stored.type) == count_of(stored.shape, stored.type));
  const Shape physical = physical_shape(layout, Shape(stored.view.begin(), stored.view.end()));
  check(Shape(stored.data.shape().begin(), stored.data.shape().end()) == physical);
  return {stored.name, stored.layout, stored.view, stored.data};
}

/// The graph's own form of a constant that is stored packed.
TensorData unpacked(const PackedConstant& packed, const std::vector<int64_t>& shape) {
  return TensorData::deferred(packed.data.type(), shape, [packed, shape] {
    return tile::unpack(tile::parse_panel_layout(packed.layout), packed.data, packed.view).reshaped(shape);
  });
}

/// Constants that are stored packed become memory when they are unpacked: each byte of the file once.
class UnpackedConstants {
 public:
  TensorData find(const PackedConstant& packed, const std::vector<int64_t>& shape) {
    const std::byte* begin = packed.data.bytes().data();
    const std::byte* end = begin + packed.data.byte_count();
    const auto later = known_.upper_bound(begin);
    if (later != known_.begin()) {
      const Known& before = std::prev(later)->second;
      if (before.packed.layout == packed.layout && before.packed.view == packed.view &&
          before.packed.data.shares_bytes_with(packed.data)) {
        return before.data.reshaped(shape);
      }
      require(before.end <= begin, packed);
    }
    if (begin == end) return unpacked(packed, shape);
    require(later == known_.end() || end <= later->first, packed);
    return known_.emplace(begin, Known{end, packed, unpacked(packed, shape)}).first->second.data;
  }

 private:
  struct Known {
    const std::byte* end;
    PackedConstant packed;
    TensorData data;
  };
  static void require(bool apart, const PackedConstant& packed) {
    GRAFT_USER_CHECK(apart, kInvalidModel, "its bytes are also those of another constant, packed otherwise",
                     fmt::format("constant '{}'", packed.name));
  }
  std::map<const std::byte*, Known> known_;  ///< by the first byte
};

Plan read_contents(PlanFile file) {
  Plan plan;
  UnpackedConstants unpacked_constants;
  std::map<std::string, TensorData, std::less<>> weights;
  for (StoredConstant& stored : file.constants) {
    if (stored.layout.empty()) {
      GRAFT_USER_CHECK(stored.data.shape() == stored.shape, kInvalidModel, "its two shapes differ",
                       fmt::format("constant '{}'", stored.name));
      weights.insert_or_assign(stored.name, std::move(stored.data));
    } else {
      plan.packed.push_back(checked_packing(stored));
      weights.try_emplace(stored.name, unpacked_constants.find(plan.packed.back(), stored.shape));
    }
  }
  plan.graph = parse_graph(file.graph, &weights);
  verify(plan.graph, false);
  infer_types(plan.graph);
  plan.options = std::move(file.options);
  plan.metadata = std::move(file.metadata);
  for (const std::string& text : file.records) {
    plan.records.push_back(parse_record(text));
    parse_target(plan.records.back().target);
  }
  return plan;
}

}  // namespace

PlanFile to_file(const Plan& plan) {
  PlanFile file{.producer = "graft " GRAFT_VERSION, .graph = print(plan.graph, LargeConstants::kWeights)};
  file.options = plan.options;
  file.metadata = plan.metadata;
  for (const Record& record : plan.records) file.records.push_back(print(record));
  const auto constants = large_constants(plan.graph);
  for (const PackedConstant& packed : plan.packed) {
    const auto known = constants.find(packed.name);
    if (known == constants.end()) continue;
    file.constants.push_back(
        {packed.name, packed.data.type(), known->second.shape(), packed.layout, packed.view, packed.data});
  }
  std::set<std::string> packed;
  for (const StoredConstant& stored : file.constants) packed.insert(stored.name);
  for (const auto& entry : constants) {
    const TensorData& constant = entry.second;
    if (packed.contains(entry.first) && constant.is_deferred()) continue;
    file.constants.push_back({entry.first, constant.type(), constant.shape(), "", {}, constant});
  }
  return file;
}

Plan from_file(PlanFile file, const std::string& where) {
  try {
    return read_contents(std::move(file));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kOutOfMemory) throw;
    refuse_plan(where, "portable", error.what());
  }
}

void save(const Plan& plan, const std::string& path) { save_plan(to_file(plan), path); }

Plan open_plan(const std::string& path, Weights weights) { return from_file(read_plan(path, weights), path); }

Plan read_plan(std::span<const std::byte> file, std::shared_ptr<const void> owner) {
  const std::string where = "the plan in memory";
  const bool aligned = reinterpret_cast<uintptr_t>(file.data()) % kPlanAlignment == 0;
  return from_file(owner && aligned ? parse_plan(file, std::move(owner), where) : copy_plan(file, where), where);
}

bool is_plan(const std::string& path) {
  try {
    return looks_like_plan(MappedFile::open(path)->bytes());
  } catch (const Error&) {
    return false;
  }
}

const Record* record_for(const std::vector<Record>& records, const Target& target) {
  for (const Record& record : records) {
    const Target made = parse_target(record.target);
    if (made.kind == target.kind && made.architecture == target.architecture && made.features == target.features &&
        made.vector_bits == target.vector_bits) {
      return &record;
    }
  }
  return nullptr;
}

}  // namespace graft
