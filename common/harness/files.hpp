/// @file
/// Writes files such that a reader sees either the old or the new file, never half of one.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string_view>

namespace fa {

/// Writes a file under a temporary name in its own folder, then renames it.
///
/// A link is followed; something that is not a regular file (/dev/null, a pipe) is written to directly.
///
/// @param write  puts the contents into the stream
/// @throws UsageError  naming the file, if it cannot be written; then nothing is left behind
void write_file(const std::filesystem::path& path, const std::function<void(std::ostream&)>& write);

/// Finds out early whether write_file() will work, by creating and removing a temporary file next to it.
///
/// @param option  for the message: "--json"
/// @throws UsageError  naming the option and the file, if it will fail
void require_writable(std::string_view option, const std::filesystem::path& path);

/// The folder of --out. The constructor creates it, and the destructor removes it if it is still empty, so
/// that a run that is refused later leaves nothing behind.
class OutputFolder {
 public:
  /// @param option  for the message: "--out"
  /// @throws UsageError  naming the option and the folder, if it cannot be created or written
  OutputFolder(std::string_view option, std::filesystem::path folder);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  const std::filesystem::path& path() const { return folder_; }

 private:
  void remove_if_empty() const;

  std::filesystem::path folder_;
  std::filesystem::path existing_parent_;  ///< the deepest folder of the path that existed before
};

}  // namespace fa
