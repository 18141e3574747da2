#include "cli/golden.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace liveshape::cli {
namespace {

using testing::HasSubstr;

class GoldenTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ + "/0/0");
    const float values[] = {1, 2};
    const TensorRef tensor{.dtype = DType::kF32, .data = const_cast<float*>(values), .dims = {2}};
    ASSERT_TRUE(WriteNpy(folder_ + "/0/0/x.npy", tensor).ok());
    ASSERT_TRUE(WriteNpy(folder_ + "/../outside.npy", tensor).ok());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Result<Golden> Load(const std::string& json) {
    std::ofstream(folder_ + "/golden.json") << json;
    return Golden::Load(folder_);
  }
  Result<Golden> WithFile(const std::string& file, const std::string& more = "") {
    return Load(
        R"({"version":1,"model":"m","tolerance":1e-5,"points":[{"shape":{"S":2,"B":3},"steps":[)"
        R"({"inputs":[{"name":"x","file":")" +
        file + "\"" + more + R"(}],"outputs":[]}]}]})");
  }

  const std::string folder_ = testing::TempDir() + "/liveshape_golden_test";
};

TEST_F(GoldenTest, Reads) {
  auto golden = WithFile("0/0/x.npy");
  ASSERT_TRUE(golden.ok()) << golden.status().message();
  ASSERT_EQ(golden->points.size(), 1u);
  const GoldenPoint& point = golden->points[0];
  EXPECT_EQ(point.Volume(), 3 * 4);
  EXPECT_EQ(ToString(point.steps[0].shape), "S=2 B=3");  // the point's, where a step has none
  EXPECT_EQ(point.steps[0].given[0].file.tensor().dims, std::vector<int64_t>{2});
}

TEST_F(GoldenTest, RefusesPathsThatLeaveTheDirectory) {
  for (const char* file :
       {"../outside.npy", "0/../../outside.npy", "/etc/hostname", "", "0/0/x.npy\\u0000"})
    EXPECT_THAT(WithFile(file).status().message(), HasSubstr("not below")) << file;
  EXPECT_THAT(WithFile("0/0/y.npy").status().message(), HasSubstr("0/0/y.npy"));
  EXPECT_THAT(WithFile("0/0/x.npy", R"(,"dtype":"float8")").status().message(),
              HasSubstr("float8"));
}

TEST_F(GoldenTest, RefusesWhatIsNotAGolden) {
  for (const char* json :
       {"", "{", "[]", "{}", R"({"version":2,"model":"m","tolerance":1,"points":[]})",
        R"({"version":1,"model":"m","tolerance":1,"points":[]})",
        R"({"version":1,"model":"m","tolerance":-1,"points":[{"shape":{},"steps":[]}]})",
        R"({"version":1,"model":"m","tolerance":"NaN","points":[{"shape":{},"steps":[]}]})",
        R"({"version":1,"model":"m","tolerance":1,"points":[{"shape":{"S":"x"},"steps":[]}]})"})
    EXPECT_FALSE(Load(json).ok()) << json;
}

}  // namespace
}  // namespace liveshape::cli
