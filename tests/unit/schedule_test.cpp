// SPDX-License-Identifier: Apache-2.0
#include "strategy/strategy.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "strategy/attention.h"
#include "strategy/block.h"
#include "strategy/contract.h"
#include "strategy/nest.h"
#include "strategy/product.h"
#include "target/cpus.h"
#include "target/target.h"

namespace graft {
namespace {

TEST(Schedule, every_record_reads_back_as_printed) {
  for (const tile::Schedule& schedule :
       {tile::Schedule(tile::NestSchedule{.chunk = 77, .lanes = 3}),
        tile::Schedule(
            tile::ContractSchedule{.m = 5, .n = 96, .k = 7, .m_chunk = 8, .panel = 16, .columns_outer = false}),
        tile::Schedule(tile::BlockSchedule{.z = 2, .y = 0, .x = 77, .warps = 4}),
        tile::Schedule(tile::AttentionSchedule{.queries = 9, .keys = 11}),
        tile::Schedule(tile::ProductSchedule{.producers = 128, .teams = 2, .group = 16}),
        tile::Schedule(tile::ProductSchedule{.m = 64, .n = 32, .k = 16, .threads = 64, .stages = 3, .panel = 32})}) {
    EXPECT_EQ(tile::parse_schedule(tile::print(schedule)), schedule) << tile::print(schedule);
  }
}

TEST(Schedule, fields_left_out_keep_their_defaults) {
  EXPECT_EQ(tile::parse_schedule("contract m=8"), tile::Schedule(tile::ContractSchedule{.m = 8}));
}

TEST(Schedule, every_field_has_a_least_and_a_largest_value) {
  struct Row {
    std::string field;
    int64_t least, largest;
  };
  for (const Row& row : {Row{"nest chunk", 1, 1 << 20}, {"nest lanes", 1, 4096}, {"contract m", 1, 1024},
                         {"contract n", 1, 4096}, {"contract k", 0, 1 << 20}, {"contract m_chunk", 0, 1 << 20},
                         {"contract panel", 0, 256}, {"contract columns_outer", 0, 1}, {"attention queries", 1, 512},
                         {"attention keys", 1, 1024}, {"block z", 0, 1 << 12}, {"block y", 0, 1 << 16},
                         {"block x", 0, 1 << 20}, {"block warps", 1, 32}, {"product m", 16, 512},
                         {"product n", 16, 512}, {"product k", 8, 1024}, {"product threads", 32, 1024},
                         {"product stages", 2, 16}, {"product panel", 0, 256}, {"product producers", 0, 128},
                         {"product teams", 1, 4}, {"product group", 1, 64}, {"product split", 1, 8},
                         {"product early", 0, 1}}) {
    const auto with = [&](int64_t value) { return row.field + "=" + std::to_string(value); };
    EXPECT_NE(tile::print(tile::parse_schedule(with(row.least))), tile::print(tile::parse_schedule(with(row.largest))));
    EXPECT_THROW(tile::parse_schedule(with(row.least - 1)), Error) << row.field;
    EXPECT_THROW(tile::parse_schedule(with(row.largest + 1)), Error) << row.field;
  }
}

TEST(Schedule, refuses_unknown_names_and_values_out_of_range) {
  for (const char* text : {"", "loop", "contract m=0", "contract m=1025", "contract rows=3", "nest chunk=x",
                           "nest chunk=", "attention queries=99999999999999999999", "nest chunk=4 chunk"}) {
    EXPECT_THROW(tile::parse_schedule(text), Error) << text;
  }
}

TEST(Target, every_built_in_description_reads_back_as_printed) {
  for (const std::string& name : target_names()) {
    const std::string text = print(find_target(name, 2));
    EXPECT_EQ(print(parse_target(text)), text) << name;
  }
}

TEST(Target, tells_what_a_machine_lacks) {
  const Target low = find_target("x86-64-v2", 1), high = find_target("x86-64-v4", 1);
  EXPECT_EQ(why_not_runnable(low, high), "");
  EXPECT_NE(why_not_runnable(high, low).find("avx"), std::string::npos);
  EXPECT_NE(why_not_runnable(find_target("sm_90a"), low), "");
}

TEST(Target, tells_what_an_arm_machine_lacks) {
  const auto reason = [](const char* built, const char* machine) {
    return why_not_runnable(find_target(built, 1), find_target(machine, 1));
  };
  EXPECT_EQ(reason("armv8-a", "neoverse-n1"), "");
  EXPECT_EQ(reason("neoverse-n1", "apple-m1"), "");
  EXPECT_EQ(reason("neoverse-n1", "armv8-a"), "it needs the processor feature fullfp16");
  EXPECT_EQ(reason("neoverse-v1", "armv8.6-a+i8mm+bf16"), "it needs the processor feature sve");
  EXPECT_EQ(reason("neoverse-n1", "x86-64-v4"), "it was built for aarch64");
  EXPECT_EQ(reason("x86-64-v2", "neoverse-n1"), "it was built for x86_64");
}

TEST(Target, takes_longer_vectors_of_the_machine_and_no_shorter_ones) {
  const auto reason = [](const char* built, const char* machine) {
    return why_not_runnable(find_target(built, 1), find_target(machine, 1));
  };
  EXPECT_EQ(reason("armv9-a", "armv9-a+sve512"), "");
  EXPECT_EQ(reason("armv9-a+sve256", "armv9-a+sve512"), "");
  EXPECT_EQ(reason("armv9-a+sve512", "armv9-a+sve256"),
            "it needs vectors of 512 bits, and this machine's have 256");
}

TEST(Target, portable_is_the_least_processor_of_this_architecture) {
  const Target portable = find_target("portable", 1), machine = host_cpu(1);
  EXPECT_EQ(portable.architecture, machine.architecture);
  EXPECT_EQ(why_not_runnable(portable, machine), "");
  for (const Cpu& cpu : all_cpus()) {
    const Target other = find_target(cpu.name, 1);
    if (other.architecture != machine.architecture) continue;
    EXPECT_EQ(why_not_runnable(portable, other), "") << cpu.name;
  }
}

TEST(Target, a_machine_has_the_features_of_a_known_architecture) {
  const Target machine = host_cpu(1);
  ASSERT_NE(find_architecture(machine), nullptr);
  EXPECT_EQ(find_architecture(machine)->name, host_architecture().name);
  EXPECT_EQ(find_architecture(find_target("sm_90a")), nullptr);
}

TEST(Target, refuses_unknown_names_and_fields) {
  for (const char* text :
       {"x86-64-v9", "kind=tpu", "kind=cpu cores=2", "kind=cpu vector_bits=7", "kind=cpu vector_bits=-128"}) {
    EXPECT_THROW(find_target(text), Error) << text;
  }
}

}  // namespace
}  // namespace graft
