#include "import/pt2/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "import/pt2/zip_builder.h"

namespace liveshape::pt2 {
namespace {

using testing::HasSubstr;

std::string Error(const std::string& file) {
  auto zip = ZipArchive::Open(Bytes(file));
  return zip.ok() ? "accepted" : zip.status().message();
}

ZipBuilder::Entry Named(const char* name, std::string data = "0123456789") {
  ZipBuilder::Entry entry;
  entry.name = name;
  entry.data = std::move(data);
  return entry;
}

TEST(Zip, ReadsMembersInPlace) {
  const std::string file =
      ZipBuilder().Add("m/a", "alpha").Add("m/dir/b", "").Add("other/c", "x").Finish();
  auto zip = ZipArchive::Open(Bytes(file));
  ASSERT_TRUE(zip.ok()) << zip.status().message();
  EXPECT_EQ(zip->root(), "m");
  ASSERT_EQ(zip->members().size(), 3u);
  const ZipMember* a = zip->Find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(ZipArchive::Text(*a), "alpha");
  EXPECT_GE(reinterpret_cast<const char*>(a->data.data()), file.data());
  EXPECT_LT(reinterpret_cast<const char*>(a->data.data()), file.data() + file.size());
  EXPECT_TRUE(zip->Find("dir/b")->data.empty());
  EXPECT_EQ(zip->Find("c"), nullptr) << "outside of the root folder";
  EXPECT_EQ(zip->RelativePath(zip->members()[2]), "");
  EXPECT_EQ(zip->Find("m/a"), nullptr);
}

TEST(Zip, ReadsWhatTorchWrites) {
  auto entry = Named("m/w", "weights");
  entry.data_descriptor = true;
  entry.local_padding = std::string("FB\x03\0ZZZ", 7);  // only the local header is padded
  const std::string file = ZipBuilder().Add(entry).Add("m/x", "y").Finish();
  auto zip = ZipArchive::Open(Bytes(file));
  ASSERT_TRUE(zip.ok()) << zip.status().message();
  EXPECT_EQ(ZipArchive::Text(*zip->Find("w")), "weights");
  EXPECT_TRUE(ZipArchive::CheckCrc(*zip->Find("w")).ok());
}

TEST(Zip, ReadsZip64) {
  auto entry = Named("m/w", "weights");
  entry.zip64 = true;
  const std::string file = ZipBuilder().Add("m/a", "b").Add(entry).Finish(/*zip64=*/true);
  auto zip = ZipArchive::Open(Bytes(file));
  ASSERT_TRUE(zip.ok()) << zip.status().message();
  EXPECT_EQ(ZipArchive::Text(*zip->Find("w")), "weights");
}

TEST(Zip, FindsTheEndBehindAComment) {
  const std::string file =
      ZipBuilder().Add("m/a", "b").Finish(false, -1, "PK\x05\x06 is not the end");
  EXPECT_TRUE(ZipArchive::Open(Bytes(file)).ok());
}

TEST(Zip, CrcOfEveryLengthMatchesTheSlowOne) {
  std::string data;
  for (int length = 0; length < 40; ++length) {
    const std::string file = ZipBuilder().Add("m/a", data).Finish();
    auto zip = ZipArchive::Open(Bytes(file));
    ASSERT_TRUE(zip.ok());
    EXPECT_TRUE(ZipArchive::CheckCrc(zip->members()[0]).ok()) << length;
    data += static_cast<char>(length * 37 + 11);
  }
  auto entry = Named("m/bad");
  entry.crc = 1;
  const std::string file = ZipBuilder().Add(entry).Finish();
  auto zip = ZipArchive::Open(Bytes(file));
  ASSERT_TRUE(zip.ok());
  EXPECT_THAT(ZipArchive::CheckCrc(zip->members()[0]).message(), HasSubstr("`m/bad` is corrupt"));
}

TEST(Zip, RefusesWhatItCannotRead) {
  auto entry = Named("m/packed");
  entry.method = 8;
  EXPECT_THAT(Error(ZipBuilder().Add(entry).Finish()),
              HasSubstr("`m/packed` is compressed (method 8)"));
  entry = Named("m/secret");
  entry.flags = 1;
  EXPECT_THAT(Error(ZipBuilder().Add(entry).Finish()), HasSubstr("`m/secret` is encrypted"));
  EXPECT_THAT(Error(""), HasSubstr("not a zip archive"));
  EXPECT_THAT(Error(std::string(100, 'x')), HasSubstr("not a zip archive"));
  EXPECT_THAT(Error(ZipBuilder().Finish()), HasSubstr("no members"));
}

TEST(Zip, RefusesHostileSizesAndOffsets) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  for (bool zip64 : {false, true})
    for (int64_t lie : {int64_t{11}, int64_t{1000}, int64_t{0xFFFFFFFE}, int64_t{0xFFFFFFFF}, kHuge,
                        kHuge - 30}) {
      auto entry = Named("m/w");
      entry.zip64 = zip64;
      entry.size_lie = lie;
      EXPECT_THAT(Error(ZipBuilder().Add(entry).Finish(zip64)), HasSubstr("`m/w`")) << lie;
      entry = Named("m/w");
      entry.zip64 = zip64;
      entry.offset_lie = lie;
      EXPECT_THAT(Error(ZipBuilder().Add(entry).Finish(zip64)), HasSubstr("`m/w`")) << lie;
    }
  for (int64_t lie : {int64_t{2}, int64_t{0xFFFF}, kHuge}) {
    EXPECT_THAT(Error(ZipBuilder().Add("m/a", "b").Finish(/*zip64=*/true, lie)),
                HasSubstr("cannot hold"));
  }
  EXPECT_THAT(Error(ZipBuilder().Add("m/a", "b").Finish(false, 2)), HasSubstr("cannot hold"));
}

TEST(Zip, RefusesOverlapsAndDoubleNames) {
  auto second = Named("m/a");
  second.offset_lie = 0;
  EXPECT_THAT(Error(ZipBuilder().Add("m/a", "0123456789").Add(second).Finish()),
              HasSubstr("overlap"));
  EXPECT_THAT(Error(ZipBuilder().Add("m/a", "x").Add("m/a", "y").Finish()),
              HasSubstr("appears twice"));
  auto renamed = Named("m/a");
  renamed.local_name = "m/b";
  EXPECT_THAT(Error(ZipBuilder().Add(renamed).Finish()), HasSubstr("has another name"));
}

TEST(Zip, EveryTruncationIsAnError) {
  for (bool zip64 : {false, true}) {
    auto entry = Named("m/w");
    entry.data_descriptor = true;
    entry.zip64 = zip64;
    const std::string file = ZipBuilder().Add(entry).Add("m/b", "c").Finish(zip64);
    for (size_t size = 0; size < file.size(); ++size) {
      // Its own allocation, so that a sanitizer sees a read past its end.
      const std::string cut(file.data(), size);
      EXPECT_NE(Error(cut), "accepted") << size;
      const std::string tail(file.data() + size + 1, file.size() - size - 1);
      Error(tail);  // whatever it says, it does not crash
    }
  }
}

TEST(Zip, EveryFlippedByteIsReadWithoutACrash) {
  auto entry = Named("m/w");
  entry.data_descriptor = entry.zip64 = true;
  const std::string file = ZipBuilder().Add(entry).Add("m/b", "c").Finish(true);
  for (size_t at = 0; at < file.size(); ++at)
    for (int value : {0, 1, 0x7F, 0x80, 0xFF}) {
      std::string bad = file;
      bad[at] = static_cast<char>(value);
      auto zip = ZipArchive::Open(Bytes(bad));
      if (!zip.ok()) continue;
      for (const ZipMember& member : zip->members()) (void)ZipArchive::CheckCrc(member);
    }
}

}  // namespace
}  // namespace liveshape::pt2
