#include "harness/files.hpp"

#include <gtest/gtest.h>

#include <ostream>

#include "harness/errors.hpp"
#include "temporary_folder.hpp"

namespace fa {
namespace {

namespace fs = std::filesystem;

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

const auto kHello = [](std::ostream& out) { out << "hello"; };

TEST(WriteFile, ReplacesTheOldContents) {
  const TemporaryFolder folder;
  create(folder / "a", "something longer");
  write_file(folder / "a", kHello);
  EXPECT_EQ(contents(folder / "a"), "hello");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(WriteFile, KeepsTheOldContentsWhenWritingFails) {
  const TemporaryFolder folder;
  create(folder / "a", "old");
  EXPECT_THROW(write_file(folder / "a", [](std::ostream& out) { out << "half" << std::flush, throw 1; }),
               int);
  EXPECT_EQ(contents(folder / "a"), "old");
  const auto fails = [](std::ostream& out) { out.setstate(std::ios::failbit); };
  EXPECT_THROW(write_file(folder / "a", fails), UsageError);
  EXPECT_EQ(contents(folder / "a"), "old");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(WriteFile, FollowsALink) {
  const TemporaryFolder folder;
  create(folder / "target", "old");
  fs::create_symlink("target", folder / "link");
  write_file(folder / "link", kHello);
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(contents(folder / "target"), "hello");
}

TEST(WriteFile, LeavesDevicesWhatTheyAre) {
  write_file("/dev/null", kHello);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(WriteFile, NamesTheFileThatCannotBeWritten) {
  const TemporaryFolder folder;
  const std::string path = folder / "missing/a";
  EXPECT_EQ(message_of([&] { write_file(path, kHello); }),
            path + ": cannot be written: No such file or directory");
  EXPECT_EQ(message_of([&] { write_file(folder.path(), kHello); }),
            folder.path().string() + ": cannot be written: it is a folder; give a file name");
  EXPECT_EQ(folder.entries(), 0);
}

TEST(RequireWritable, LeavesNothingBehind) {
  const TemporaryFolder folder;
  require_writable("--json", folder / "a.json");
  EXPECT_EQ(folder.entries(), 0);
  create(folder / "a.json", "old");
  require_writable("--json", folder / "a.json");
  EXPECT_EQ(contents(folder / "a.json"), "old");
  require_writable("--json", "/dev/null");
}

TEST(RequireWritable, NamesTheOption) {
  const TemporaryFolder folder;
  const std::string path = folder / "missing/a";
  EXPECT_EQ(message_of([&] { require_writable("--json", path); }),
            "--json " + path + ": cannot be written: there is no folder " + (folder / "missing").string());
  EXPECT_EQ(message_of([&] { require_writable("--json", folder.path()); }),
            "--json " + folder.path().string() + ": cannot be written: it is a folder; give a file name");
  EXPECT_EQ(message_of([&] { require_writable("--json", folder / "a/"); }).substr(0, 7), "--json ");
}

TEST(OutputFolder, IsRemovedAgainWhenNothingWasPutIntoIt) {
  const TemporaryFolder folder;
  {
    const OutputFolder out("--out", folder / "a/b/c");
    EXPECT_TRUE(fs::is_directory(folder / "a/b/c"));
    EXPECT_TRUE(fs::is_empty(folder / "a/b/c"));
  }
  EXPECT_EQ(folder.entries(), 0);
}

TEST(OutputFolder, StaysWhenItHoldsSomethingOrWasThereBefore) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "before");
  {
    const OutputFolder made("--out", folder / "a/b");
    write_file(made.path() / "y.npy", kHello);
    const OutputFolder existing("--out", folder / "before");
  }
  EXPECT_TRUE(fs::exists(folder / "a/b/y.npy"));
  EXPECT_TRUE(fs::is_directory(folder / "before"));
}

TEST(OutputFolder, RefusesWhatIsNoFolder) {
  const TemporaryFolder folder;
  create(folder / "file", "");
  const std::string file = folder / "file";
  const std::string reason = ": give a folder that can be written: ";
  EXPECT_EQ(message_of([&] { OutputFolder("--out", file); }),
            "--out " + file + reason + file + " is not a folder");
  EXPECT_EQ(message_of([&] { OutputFolder("--out", file + "/x"); }),
            "--out " + file + "/x" + reason + file + " is not a folder");
  EXPECT_EQ(message_of([&] { OutputFolder("--out", ""); }), "--out " + reason + "the name is empty");
  EXPECT_NE(message_of([&] { OutputFolder("--out", "/proc/fa/b"); }), "no error");
  EXPECT_EQ(folder.entries(), 1);
}

}  // namespace
}  // namespace fa
