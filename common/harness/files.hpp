/// @file
/// Writing files so that a reader sees the old one or the new one, never half of one.
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
/// @throws UsageError  naming the file, if it cannot be written; nothing is left behind then
void write_file(const std::filesystem::path& path, const std::function<void(std::ostream&)>& write);

/// Finds out early whether write_file() will work, by creating and removing a temporary file beside it.
///
/// @param option  for the message: "--json"
/// @throws UsageError  naming the option and the file, if it will not
void require_writable(std::string_view option, const std::filesystem::path& path);

/// The folder of --out: made in the constructor, and removed again in the destructor if nothing was put into
/// it, so that a run that is refused later leaves nothing behind.
class OutputFolder {
 public:
  /// @param option  for the message: "--out"
  /// @throws UsageError  naming the option and the folder, if it cannot be made or written
  OutputFolder(std::string_view option, std::filesystem::path folder);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  const std::filesystem::path& path() const { return folder_; }

 private:
  void remove_if_empty() const;

  std::filesystem::path folder_;
  std::filesystem::path existing_parent_;  ///< the deepest folder of the path that was there before
};

}  // namespace fa
