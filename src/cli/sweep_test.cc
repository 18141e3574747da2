#include "cli/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace liveshape::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Points(std::vector<std::string> sweeps) {
  auto points = ParseSweeps(sweeps);
  if (!points.ok()) return {"error: " + points.status().message()};
  std::vector<std::string> text;
  for (const Point& point : *points) text.push_back(ToString(point));
  return text;
}

TEST(Sweep, ValuesMultiplyAndPointsAreListed) {
  EXPECT_THAT(Points({}), ElementsAre("static"));
  EXPECT_THAT(Points({"S=1,2"}), ElementsAre("S=1", "S=2"));
  EXPECT_THAT(Points({"S=1,2", "B=1,8"}), ElementsAre("S=1 B=1", "S=1 B=8", "S=2 B=1", "S=2 B=8"));
  EXPECT_THAT(Points({"S=4,B=2;S=8,B=1"}), ElementsAre("S=4 B=2", "S=8 B=1"));
  EXPECT_THAT(Points({"S=4;S=8", "B=3"}), ElementsAre("S=4 B=3", "S=8 B=3"));
  EXPECT_THAT(Points({"S=4,B=2"}), ElementsAre("S=4 B=2"));
  EXPECT_THAT(Points({" input_ids.1 = 4 , 5 "}), ElementsAre("input_ids.1=4", "input_ids.1=5"));
  EXPECT_THAT(Points({"S=0,-1;"}), ElementsAre("S=0", "S=-1"));
}

TEST(Sweep, RefusesWithAReason) {
  for (const char* bad :
       {"", ";", "S", "S=", "=4", "S=1,x", "S=1;2", "S=1.5", "S=1,B", "S=99999999999999999999"})
    EXPECT_THAT(Points({bad})[0], HasSubstr("error: --sweep")) << bad;
  EXPECT_THAT(Points({"S=1,S=2"})[0], HasSubstr("`S` is given twice"));
  EXPECT_THAT(Points({"S=1", "S=2"})[0], HasSubstr("gives `S` twice"));
  std::string many = "S=0";
  for (int i = 1; i < 1000; ++i) many += "," + std::to_string(i);
  EXPECT_THAT(Points({many, "B" + many.substr(1)})[0], HasSubstr("more than"));
}

TEST(Sweep, IntRanges) {
  auto ranges = ParseIntRanges(std::vector<std::string>{"ids=0:255", "pos=-3:-3"});
  ASSERT_TRUE(ranges.ok());
  EXPECT_EQ(ranges->at("ids").high, 255);
  EXPECT_EQ(ranges->at("pos").low, -3);
  for (const char* bad : {"", "ids", "ids=", "ids=3", "ids=3:", "=1:2", "ids=4:3", "ids=a:b", ":="})
    EXPECT_FALSE(ParseIntRanges(std::vector<std::string>{bad}).ok()) << bad;
}

}  // namespace
}  // namespace liveshape::cli
