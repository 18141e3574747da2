#include "backends/npu/sim/wait_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace liveshape::npu {
namespace {

TEST(WaitGraph, NamesTheCycleAndNotTheWayToIt) {
  WaitGraph waits;
  waits.Add("store c", "load a");
  waits.Add("load a", "matmul");
  waits.Add("load a", "load b");
  waits.Add("matmul", "port");
  waits.Add("port", "load a");
  EXPECT_EQ(waits.Cycle(), "load a waits for matmul, which waits for port, which waits for load a");
}

TEST(WaitGraph, WithoutACycleTheLongestChain) {
  WaitGraph waits;
  EXPECT_EQ(waits.Cycle(), "");
  waits.Add("a", "b");
  waits.Add("b", "c");
  EXPECT_EQ(waits.Cycle(), "a waits for b, which waits for c");
  waits.Add("d", "d");
  EXPECT_EQ(waits.Cycle(), "d waits for d");
}

}  // namespace
}  // namespace liveshape::npu
