// A producer library and the in-process walk are one.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "backends/npu/producer/library.h"
#include "backends/npu/producer/source.h"
#include "backends/npu/testing.h"

namespace liveshape::npu {
namespace {

using ::testing::HasSubstr;

std::string PathOf(const char* name) {
  return (std::filesystem::path(::testing::TempDir()) / name).string();
}

Result<Lowered> Chain() {
  SizedGraph g;
  const sym::Expr r = g.Size("R"), c = g.Size("C");
  const ir::ValueId x = g.Input("x", {r, c}), w = g.Input("w", {c, r});
  const ir::ValueId y = g.call.Emit(ops::kMatmul, {g.Add(x, x), w});
  g.Output(
      g.call.Emit(ops::kSoftmax, {y}, {{"dim", int64_t{0}}, {"all_masked", std::string("nan")}}));
  if (!g.call.ok()) return g.call.status();
  return LowerGraph(std::move(g.graph), {});
}

TEST(ProducerTest, ALibraryEmitsTheRecordsOfTheWalkAtEverySize) {
  auto lowered = Chain();
  ASSERT_TRUE(lowered.ok()) << lowered.status().message();
  const std::string path = PathOf("chain.so");
  Status compiled = CompileProducer(ProducerSource(lowered->model), path);
  ASSERT_TRUE(compiled.ok()) << compiled.message();
  auto producer = Producer::Open(path, Digest(lowered->model));
  ASSERT_TRUE(producer.ok()) << producer.status().message();
  ASSERT_EQ((*producer)->kernels(), static_cast<int32_t>(lowered->model.kernels.size()));
  for (auto [r, c] : {std::pair{1, 1}, {37, 1000}, {129, 65}, {2000, 3}, {1024, 1024}})
    for (size_t k = 0; k < lowered->model.kernels.size(); ++k) {
      const Kernel& kernel = lowered->model.kernels[k];
      auto args = ShapeArgs(kernel, {{r, c}});
      ASSERT_TRUE(args.ok());
      Recorder library;
      const ls_trace_sink sink = library.sink();
      ASSERT_EQ(
          (*producer)->kernel(k).walk(args->data(), static_cast<int32_t>(args->size()), &sink), 0);
      EXPECT_TRUE(library.records == RecordWalk(kernel, {{r, c}}).records)
          << kernel.name << " at " << r << "x" << c;
    }
  EXPECT_EQ((*producer)->kernel(0).walk(nullptr, 77, nullptr), -1);
}

TEST(ProducerTest, ALibraryOfAnotherModelOrNoLibraryIsRefused) {
  auto lowered = Chain();
  ASSERT_TRUE(lowered.ok());
  const std::string path = PathOf("other.so");
  ASSERT_TRUE(CompileProducer(ProducerSource(lowered->model), path).ok());
  EXPECT_THAT(Producer::Open(path, "0123").status().message(),
              HasSubstr("made from another model"));
  EXPECT_THAT(Producer::Open(PathOf("absent.so")).status().message(), HasSubstr("absent.so"));
}

TEST(ProducerTest, ALibraryOfAnotherAbiVersionIsRefused) {
  const std::string path = PathOf("newer.so");
  Status compiled = CompileProducer(
      "extern \"C\" __attribute__((visibility(\"default\")))\n"
      "const void* ls_trace_get_library(unsigned version) { return version == 999 ? \"\" : 0; }\n",
      path);
  ASSERT_TRUE(compiled.ok()) << compiled.message();
  EXPECT_THAT(Producer::Open(path).status().message(), HasSubstr("another version of the ABI"));
}

TEST(ProducerTest, NoCompilerIsAClearError) {
  setenv("LIVESHAPE_CXX", "no-such-compiler", 1);
  const Status status = CompileProducer("", PathOf("never.so"));
  unsetenv("LIVESHAPE_CXX");
  EXPECT_THAT(status.message(),
              HasSubstr("LIVESHAPE_CXX names the C++ compiler `no-such-compiler`"));
}

}  // namespace
}  // namespace liveshape::npu
