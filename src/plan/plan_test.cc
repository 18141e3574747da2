// Slots never overlap while live, sizes are maxima over the ranges, and writes go in place only when safe.
#include "plan/plan.h"

#include <gtest/gtest.h>

#include <random>

#include "ops/ops.h"
#include "plan/offsets.h"
#include "runtime/testing.h"

namespace liveshape::plan {
namespace {

size_t Overlaps(const std::vector<Storage>& storages) {
  size_t count = 0;
  for (size_t i = 0; i < storages.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const Storage &a = storages[i], &b = storages[j];
      if (a.place != Place::kArena || b.place != Place::kArena || !a.capacity || !b.capacity)
        continue;
      const bool together = a.first_step <= b.last_step && b.first_step <= a.last_step;
      count += together && a.offset < b.offset + b.capacity && b.offset < a.offset + a.capacity;
    }
  return count;
}

TEST(Offsets, LiveSlotsNeverOverlapAndTheArenaIsNearTheLowerBound) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Storage> storages(2 + random() % 60);
    for (Storage& s : storages) {
      s.capacity = 64 * (random() % 100);
      s.first_step = random() % 50;
      s.last_step = s.first_step + random() % 6;
    }
    const size_t bytes = AssignOffsets(storages);
    EXPECT_EQ(Overlaps(storages), 0u);
    EXPECT_GE(bytes, LowerBound(storages));
    for (const Storage& s : storages) EXPECT_LE(s.offset + s.capacity, bytes);
  }
}

TEST(Plan, ASlotIsAsLargeAsItsLargestSizeNotItsSizeAtTheBound) {
  GraphMaker m;
  sym::Expr s = m.Symbol("s0", 1, 64);
  ir::ValueId x = m.graph->AddInput("x", {DType::kF32, {s}});
  ir::ValueId rest = m.call.Full({64 - s}, DType::kF32, 1);  // largest at s = 1
  m.Output("x2", m.Add(x, x));
  m.Output("rest", m.Add(rest, rest));
  auto plan = MakePlan(*m.graph, {});
  ASSERT_TRUE(plan.ok());
  const StorageId storage = plan->outputs[1].operand.storage;
  EXPECT_GE(plan->storages[storage].capacity, 63 * sizeof(float));
  EXPECT_EQ(Overlaps(plan->storages), 0u);
}

TEST(Plan, ASizeWithoutAFiniteMaximumNamesTheSymbolAndTheFlag) {
  GraphMaker m;
  sym::Expr s = m.table().Symbol({.name = "s0", .lo = 1, .display = "S"});
  ir::ValueId x = m.graph->AddInput("x", {DType::kF32, {s}});
  m.Output("y", m.Add(x, x));
  auto plan = MakePlan(*m.graph, {});
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.status().message().find("`S`"), std::string::npos);
  EXPECT_NE(plan.status().message().find("--bound S=N"), std::string::npos);
}

// cache' = index_put(cache); in place if the old cache is dead, else on a copy.
Result<Plan> CachePlan(bool read_old_later, bool keep) {
  GraphMaker m;
  ir::ValueId index = m.graph->AddInput("index", {DType::kI64, {m.Int(1)}});
  ir::ValueId row = m.graph->AddInput("row", {DType::kF32, {m.Int(1), m.Int(4)}});
  ir::ValueId cache = m.State("cache", DType::kF32, {8, 4});
  ir::ValueId next = m.call.Emit(ops::kIndexPut, {cache, row, index},
                                 {{"axes", std::vector<int64_t>{0}}, {"accumulate", int64_t{0}}});
  if (keep)
    m.graph->states[0].result = next;
  else
    m.graph->states[0].result = cache;
  m.Output("y", read_old_later ? m.Add(next, cache) : m.Add(next, next));
  return MakePlan(*m.graph, {});
}

TEST(Plan, AStateIsWrittenInPlaceOnlyIfNobodyReadsTheOldValueLater) {
  auto in_place = CachePlan(/*read_old_later=*/false, /*keep=*/true);
  ASSERT_TRUE(in_place.ok());
  EXPECT_TRUE(in_place->steps[0].in_place);
  auto read_later = CachePlan(true, true);
  ASSERT_TRUE(read_later.ok());
  EXPECT_FALSE(read_later->steps[0].in_place);
  EXPECT_TRUE(read_later->steps.back().commits_state);
  auto not_kept = CachePlan(false, /*keep=*/false);  // the state must stay as it was
  ASSERT_TRUE(not_kept.ok());
  EXPECT_FALSE(not_kept->steps[0].in_place);
}

TEST(Plan, W7_ViewsAreAliasesAndCarryLiveDims) {
  GraphMaker m;
  sym::Expr a = m.Symbol("a", 0, 16), b = m.Symbol("b", 0, 16);
  ir::ValueId x = m.graph->AddInput("x", {DType::kF32, {a, b, m.Int(6)}});
  ir::ValueId y = m.call.Reshape(m.Add(x, x), {a, 3 * b, m.Int(2)});
  m.Output("z", m.Add(y, y));
  auto plan = MakePlan(*m.graph, {});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->copies, 0u);
  EXPECT_EQ(plan->steps.size(), 2u);
  std::vector<int64_t> block(plan->program.block_size());
  const int64_t values[] = {4, 5};
  plan->program.SetSymbols(values, block);
  ASSERT_TRUE(plan->program.Run(0, block).ok());
  const Operand& z = plan->outputs[0].operand;
  EXPECT_EQ((std::vector<int64_t>(&block[z.dims_at], &block[z.dims_at] + 3)),
            (std::vector<int64_t>{4, 15, 2}));
}

}  // namespace
}  // namespace liveshape::plan
