// SPDX-License-Identifier: Apache-2.0
// A strategy in one file, as docs/ADDING_A_STRATEGY.md says: maps of one axis, of which each grid point computes every
// `points`-th element. It is added without a row, prints, is a candidate, computes, and is refused with a reason.
#include <gtest/gtest.h>

#include "llvm/schedule_sample.h"
#include "strategy/choose_schedule.h"
#include "tile/builder.h"

namespace graft::tile {
namespace {

struct InterleavedSchedule {
  int64_t points = 4;
  int64_t unused = 0;

  static constexpr Member<InterleavedSchedule> kMembers[] = {{"points", &InterleavedSchedule::points, 1, 64},
                                                             {"unused", &InterleavedSchedule::unused, 0, 9, true}};
  static const Strategy& strategy();
};

std::string why_not(const RegionView& view, const Target&) {
  if (view.region.forms.size() != 1) return "it has several forms";
  const auto* map = std::get_if<Compute>(&view.region.forms[0]);
  return map && map->axes.size() == 1 ? "" : "its form is no map of one axis";
}

void candidates(const RegionView&, const Target&, bool, std::vector<Schedule>& schedules) {
  for (const int64_t points : {4, 3}) schedules.emplace_back(InterleavedSchedule{.points = points});
}

double seconds(const Region&, const Schedule&, const Bindings&, const Target&) { return 1; }

Layouts layouts(const Region& region, const std::vector<bool>&, const Schedule&) {
  return Layouts(region.tensors.size());
}

Lowered lower_interleaved(const Region& region, const Layouts& layouts, const Schedule& schedule,
                          const Target& target) {
  if (std::string reason = why_not({region, {}, {}}, target); !reason.empty()) return reason;
  const auto& form = std::get<Compute>(region.forms[0]);
  const Size points = schedule.as<InterleavedSchedule>()->points, extent = form.axes[0].extent;
  ProgramBuilder builder(region, layouts);
  const Expr first = builder.add_grid(points);
  const Axis axis = make_axis(ceil_div(extent, points));
  const Expr index = axis.variable * make_size(points) + first;
  Map map{.axes = {axis}, .condition = {}, .stores = {}};
  const Expr value = substitute(form.value, {{form.axes[0].variable->variable, min(index, make_size(extent - 1))}});
  map.stores.push_back(builder.store(form.output, {min(index, make_size(extent - 1))}, builder.to_buffers(value)));
  builder.add({std::move(map)});
  return builder.finish(region.name);
}

constexpr auto kFields = fields_of<InterleavedSchedule>();
constexpr Strategy kInterleaved = {.name = "interleaved",
                                   .fields = kFields,
                                   .kind = TargetKind::kCpu,
                                   .why_not = why_not,
                                   .candidates = candidates,
                                   .seconds = seconds,
                                   .layouts = layouts,
                                   .lower = lower_interleaved};
const Strategy& InterleavedSchedule::strategy() { return kInterleaved; }

const codegen::Sample& map_sample() {
  static const codegen::Sample sample =
      codegen::make_sample("range n 1 10 40\ninput %x: f32[n]\n%y: ? = Exp \"exp\" (%x)\noutput %y\n");
  return sample;
}

TEST(AddedStrategy, prints_and_reads_back_while_it_is_there) {
  EXPECT_THROW(parse_schedule("interleaved points=5"), Error);
  const AddedStrategy added(kInterleaved);
  const Schedule schedule = InterleavedSchedule{.points = 5};
  EXPECT_EQ(print(schedule), "interleaved points=5");
  EXPECT_EQ(print(InterleavedSchedule{.points = 5, .unused = 2}), "interleaved points=5 unused=2");
  EXPECT_EQ(parse_schedule("interleaved points=5"), schedule);
  EXPECT_EQ(parse_schedule("interleaved"), Schedule(InterleavedSchedule{}));
  EXPECT_THROW(parse_schedule("interleaved points=65"), Error);
  EXPECT_THROW(parse_schedule("interleaved unit=avx512_bf16"), Error);
}

TEST(AddedStrategy, is_a_candidate_behind_those_of_the_table_and_computes) {
  const AddedStrategy added(kInterleaved);
  const codegen::Sample& sample = map_sample();
  const Target target = host_cpu(2);
  const auto found =
      schedule_candidates(sample.region, std::vector<bool>(sample.region.tensors.size()), sample.sizes, target);
  ASSERT_GE(found.size(), 3u);
  EXPECT_EQ(print(found[found.size() - 2].schedule), "interleaved points=4");
  codegen::check(sample, found[found.size() - 2].schedule, target);
  codegen::check(sample, found.back().schedule, target);
}

TEST(AddedStrategy, is_refused_with_a_reason_where_it_does_not_apply) {
  const AddedStrategy added(kInterleaved);
  const codegen::Sample sample =
      codegen::make_sample("range n 1 10 40\ninput %x: f32[4, n]\n%y: ? = Softmax \"weights\" (%x)\noutput %y\n");
  const auto refused =
      refused_strategies(sample.region, std::vector<bool>(sample.region.tensors.size()), sample.sizes, host_cpu(2));
  const auto reason =
      std::find_if(refused.begin(), refused.end(), [](const auto& r) { return r.first == "interleaved"; });
  ASSERT_NE(reason, refused.end());
  EXPECT_EQ(reason->second, "it has several forms");
  const Lowered lowered = lower(sample.region, {}, InterleavedSchedule{}, host_cpu(2));
  EXPECT_EQ(std::get<std::string>(lowered), "it has several forms");
}

TEST(Strategies, of_the_table_say_why_they_do_not_apply) {
  const codegen::Sample& sample = map_sample();
  const std::vector<bool> constant(sample.region.tensors.size());
  for (const char* machine : {"x86-64-v4", "sm_90a"}) {
    const Target target = find_target(machine, 2);
    std::set<std::string> known;
    for (const auto& [name, reason] : refused_strategies(sample.region, constant, sample.sizes, target)) {
      EXPECT_FALSE(reason.empty()) << name;
      known.insert(name);
    }
    const bool gpu = target.kind == TargetKind::kCuda;
    EXPECT_EQ(known, gpu ? (std::set<std::string>{"attention", "product"})
                         : (std::set<std::string>{"attention", "contract", "decode", "window"}));
  }
}

}  // namespace
}  // namespace graft::tile
