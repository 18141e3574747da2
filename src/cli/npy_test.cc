#include "cli/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace liveshape::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string File(int major, std::string header, std::string data) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(major);
  file += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i)
    file += static_cast<char>(header.size() >> (8 * i));
  return file + header + data;
}

std::string Header(std::string descr, std::string shape, std::string fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape +
         ", }   \n";
}

std::string ErrorOf(const std::string& file, NpyOptions options = {}) {
  auto result = ParseNpy(Bytes(file), options);
  EXPECT_FALSE(result.ok());
  return result.status().message();
}

TEST(Npy, ReadsEveryVersionInPlace) {
  for (const int major : {1, 2, 3}) {
    const std::string file = File(major, Header("<f4", "(2, 3)"), std::string(24, '\0'));
    auto tensor = ParseNpy(Bytes(file));
    ASSERT_TRUE(tensor.ok()) << tensor.status().message();
    EXPECT_EQ(tensor->dtype, DType::kF32);
    EXPECT_THAT(tensor->dims, ElementsAre(2, 3));
    EXPECT_EQ(static_cast<const char*>(tensor->data), file.data() + file.size() - 24);
  }
}

TEST(Npy, ReadsEveryType) {
  const std::pair<const char*, DType> types[] = {
      {"<f2", DType::kF16}, {"<f4", DType::kF32}, {"<f8", DType::kF64},
      {"|i1", DType::kI8},  {"<i2", DType::kI16}, {"<i4", DType::kI32},
      {"<i8", DType::kI64}, {"|u1", DType::kU8},  {"|b1", DType::kBool}};
  for (const auto& [code, dtype] : types) {
    const std::string file = File(1, Header(code, "(3,)"), std::string(3 * SizeOf(dtype), '\1'));
    auto tensor = ParseNpy(Bytes(file));
    ASSERT_TRUE(tensor.ok()) << code << tensor.status().message();
    EXPECT_EQ(tensor->dtype, dtype);
  }
  const std::string bits = File(1, Header("<u2", "(3,)"), std::string(6, '\1'));
  EXPECT_THAT(ErrorOf(bits), HasSubstr("bfloat16"));
  auto tensor = ParseNpy(Bytes(bits), {.uint16_is_bf16 = true});
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->dtype, DType::kBF16);
}

TEST(Npy, ScalarsAndEmptyArrays) {
  const std::string scalar = File(1, Header("<i8", "()"), std::string(8, '\0'));
  auto tensor = ParseNpy(Bytes(scalar));
  ASSERT_TRUE(tensor.ok());
  EXPECT_TRUE(tensor->dims.empty());
  const std::string empty = File(1, Header("<f4", "(0, 4611686018427387904, 16)"), "");
  tensor = ParseNpy(Bytes(empty));
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->dims[0], 0);
}

TEST(Npy, RefusesWithAReason) {
  const std::string data(24, '\0');
  EXPECT_THAT(ErrorOf(File(1, Header("<f4", "(2, 3)", "True"), data)),
              HasSubstr("ascontiguousarray"));
  EXPECT_THAT(ErrorOf(File(1, Header(">f4", "(2, 3)"), data)), HasSubstr("big-endian"));
  EXPECT_THAT(ErrorOf(File(1, Header("<c8", "(3,)"), data)), HasSubstr("`<c8`"));
  EXPECT_THAT(ErrorOf(File(4, Header("<f4", "(2, 3)"), data)), HasSubstr("version 4"));
  EXPECT_THAT(ErrorOf(File(1, Header("<f4", "(2, 4)"), data)),
              HasSubstr("needs 32 bytes of data, the file has 24"));
  EXPECT_THAT(ErrorOf(File(1, Header("<f4", "(2, 2)"), data)), HasSubstr("needs 16"));
  EXPECT_THAT(ErrorOf(File(1, Header("|b1", "(2,)"), "\1\2")), HasSubstr("neither 0 nor 1"));
  EXPECT_THAT(
      ErrorOf(File(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", data)),
      HasSubstr("structured"));
}

TEST(Npy, HostileHeaders) {
  const std::string data(8, '\0');
  for (const char* shape :
       {"(-1,)", "(99999999999999999999,)", "(9223372036854775807, 9223372036854775807)", "(1", "1",
        "(,)", "(1 2)", "((1,),)", "(1e3,)", "", "(4294967296, 4294967296, 4294967296, 1)"})
    ErrorOf(File(1, Header("<f4", shape), data));
  for (const char* header :
       {"", "{", "}", "{}", "{'descr': '<f4'", "{'descr': '<f4', 'descr': '<f4'}", "{'descr",
        "{'x': 1}", "{1: 2}", "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}",
        "{'descr': '', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x"})
    ErrorOf(File(1, header, data));
  const std::string good = File(2, Header("<f4", "(2,)"), data);
  ASSERT_TRUE(ParseNpy(Bytes(good)).ok());
  for (size_t length = 0; length < good.size(); ++length) ErrorOf(good.substr(0, length));
  std::string many = "(";
  for (int i = 0; i < 65; ++i) many += "1,";
  EXPECT_THAT(ErrorOf(File(1, Header("|u1", many + ")"), "x")), HasSubstr("64"));
  EXPECT_THAT(ErrorOf(File(2, std::string("\0\0\0", 3), data)), HasSubstr("`{` expected"));
}

TEST(Npy, WritesWhatItReads) {
  const std::string path = testing::TempDir() + "/liveshape_npy_test.npy";
  const std::vector<std::vector<int64_t>> shapes = {{}, {5}, {2, 3}, {0, 7}, {1, 2, 3, 4, 5, 6}};
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kBool, DType::kI64})
    for (const auto& dims : shapes) {
      std::string data(720 * 8, '\1');
      const TensorRef tensor{.dtype = dtype, .data = data.data(), .dims = dims};
      ASSERT_TRUE(WriteNpy(path, tensor).ok());
      auto back = NpyFile::Open(path, {.uint16_is_bf16 = true});
      ASSERT_TRUE(back.ok()) << back.status().message();
      EXPECT_EQ(back->tensor().dtype, dtype);
      EXPECT_EQ(back->tensor().dims, dims);
      if (!dims.empty() && dims[0] == 5) {
        EXPECT_EQ(*static_cast<char*>(back->tensor().data), '\1');
      }
    }
  std::filesystem::remove(path);
  EXPECT_THAT(NpyFile::Open(path).status().message(), HasSubstr("liveshape_npy_test.npy"));
}

}  // namespace
}  // namespace liveshape::cli
