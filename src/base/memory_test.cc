#include "base/memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace liveshape {
namespace {

constexpr size_t kMega = 1 << 20;

std::string TestPath(const char* name) { return testing::TempDir() + "/liveshape_" + name; }

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string Slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Reservation, IsPhysicalOnlyWhereTouched) {
  auto arena = Reservation::Make(size_t{64} << 30);  // more than this machine has
  ASSERT_TRUE(arena.ok()) << arena.status().message();
  EXPECT_EQ(arena->size(), size_t{64} << 30);
  EXPECT_EQ(arena->Resident(), 0u);
  std::memset(arena->data() + 100 * kMega, 1, kMega);
  EXPECT_GE(arena->Resident(), kMega);
  EXPECT_LE(arena->Resident(), kMega + 8192);
}

TEST(Reservation, WhatIsPhysicalOfAHugeOneIsKnownWithoutLookingAtEveryPage) {
  auto arena = Reservation::Make(size_t{300} << 30);
  ASSERT_TRUE(arena.ok()) << arena.status().message();
  const size_t before = arena->Resident();  // of neighbours that the kernel merged with it
  EXPECT_LT(before, size_t{1} << 30);
  std::memset(arena->data() + 100 * kMega, 1, kMega);
  EXPECT_GE(arena->Resident(), before + kMega);
  EXPECT_LE(arena->Resident(), before + 3 * kMega);
}

TEST(Reservation, ReleaseGivesPagesBackAndKeepsTheAddress) {
  auto arena = Reservation::Make(4 * kMega);
  ASSERT_TRUE(arena.ok());
  std::byte* const base = arena->data();
  std::memset(base, 7, arena->size());
  EXPECT_EQ(arena->Resident(), 4 * kMega);
  arena->Release(kMega + 1, arena->size());
  EXPECT_EQ(arena->data(), base);
  EXPECT_GE(arena->Resident(), kMega + 1);
  EXPECT_LE(arena->Resident(), kMega + 65536);
  EXPECT_EQ(base[kMega], std::byte{7});              // partly live page: kept
  EXPECT_EQ(base[arena->size() - 1], std::byte{0});  // reads as zero
  arena->Release(5, 6);                              // no whole page inside: nothing
  EXPECT_EQ(base[5], std::byte{7});
}

TEST(Reservation, EmptyMovedAndImpossible) {
  auto none = Reservation::Make(0);
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->size(), 0u);
  EXPECT_EQ(none->Resident(), 0u);
  none->Release(0, 100);

  auto one = Reservation::Make(1);
  ASSERT_TRUE(one.ok());
  std::byte* const base = one->data();
  Reservation moved = *std::move(one);
  EXPECT_EQ(moved.data(), base);
  EXPECT_GE(moved.size(), 1u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(base) % 64, 0u);

  EXPECT_EQ(Reservation::Make(SIZE_MAX).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(Reservation::Make(SIZE_MAX / 2).status().code(), Code::kResourceExhausted);
}

TEST(MappedFile, SeesTheBytesAndOutlivesTheName) {
  const std::string path = TestPath("mapped");
  std::ofstream(path, std::ios::binary) << std::string(3 * 4096, 'x') << "end";
  auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  std::filesystem::remove(path);
  ASSERT_EQ((*file)->bytes().size(), 3u * 4096 + 3);
  EXPECT_EQ((*file)->bytes().back(), std::byte{'d'});
  (*file)->Forget((*file)->bytes());
  (*file)->Forget((*file)->bytes().subspan(5, 7));
  (*file)->Forget({});
  EXPECT_EQ((*file)->bytes().front(), std::byte{'x'});
}

TEST(MappedFile, EmptyMissingAndDirectory) {
  const std::string path = TestPath("empty");
  std::ofstream(path, std::ios::binary).close();
  auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE((*file)->bytes().empty());
  std::filesystem::remove(path);

  EXPECT_EQ(MappedFile::Open(path).status().code(), Code::kNotFound);
  EXPECT_EQ(MappedFile::Open(testing::TempDir()).status().code(), Code::kInvalidArgument);
}

TEST(AtomicFile, AppearsWholeOrNotAtAll) {
  const std::filesystem::path folder = TestPath("atomic");
  std::filesystem::create_directories(folder);
  const std::string path = folder / "out.bin";
  {
    AtomicFile file;
    ASSERT_TRUE(file.Create(path).ok());
    ASSERT_TRUE(file.Write(Bytes("half")).ok());
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));

  AtomicFile file;
  ASSERT_TRUE(file.Create(path).ok());
  ASSERT_TRUE(file.Write(Bytes("abc")).ok());
  ASSERT_TRUE(file.PadTo(64).ok());
  EXPECT_EQ(file.offset(), 64u);
  ASSERT_TRUE(file.PadTo(64).ok());
  ASSERT_TRUE(file.Write(Bytes("z")).ok());
  ASSERT_TRUE(file.Commit().ok());
  EXPECT_EQ(Slurp(path), "abc" + std::string(61, '\0') + "z");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  std::filesystem::remove_all(folder);
}

TEST(AtomicFile, AKilledWriterLeavesNothingBehind) {
  const std::filesystem::path folder = TestPath("killed");
  std::filesystem::create_directories(folder);
  const int probe = open(folder.c_str(), O_TMPFILE | O_WRONLY, 0666);
  const pid_t child = fork();
  if (child == 0) {
    AtomicFile file;
    if (!file.Create(folder / "out.bin").ok() || !file.Write(Bytes("half")).ok()) _exit(1);
    raise(SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(probe < 0 || std::filesystem::is_empty(folder));
  EXPECT_FALSE(std::filesystem::exists(folder / "out.bin"));
  close(probe);
  std::filesystem::remove_all(folder);
}

TEST(AtomicFile, RefusesWhatARenameWouldDestroy) {
  AtomicFile file;
  EXPECT_EQ(file.Create("/dev/null").code(), Code::kInvalidArgument);
  EXPECT_EQ(file.Create(testing::TempDir()).code(), Code::kInvalidArgument);
  EXPECT_EQ(file.Create(TestPath("no/such/folder")).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace liveshape
