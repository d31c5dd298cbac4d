#include "harness/files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "harness/errors.hpp"

namespace fa {
namespace {

namespace fs = std::filesystem;

/// A name in the folder of `path` that no other process or thread uses.
fs::path temporary_name(const fs::path& path) {
  static std::atomic<int> count = 0;
  return path.parent_path() / fmt::format(".{}.{}.{}.tmp", path.filename().string(), getpid(), count++);
}

/// Removes the file when it goes out of scope, unless it has been renamed.
struct TemporaryFile {
  fs::path path;
  ~TemporaryFile() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

/// Creates or overwrites a file. Returns the reason if that fails.
std::string write_directly(const fs::path& path, const std::function<void(std::ostream&)>& write) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  if (file) write(file);
  file.close();
  if (file) return {};
  return errno != 0 ? std::strerror(errno) : "the write failed";
}

/// The target of a link, so that the link itself is not replaced by a file.
fs::path behind_links(const fs::path& path) {
  std::error_code error;
  const fs::path target = fs::is_symlink(path, error) ? fs::weakly_canonical(path, error) : path;
  return error || target.empty() ? path : target;
}

bool is_special(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

/// write_file() without the exception: returns the reason if it fails.
std::string try_to_write(const fs::path& path, const std::function<void(std::ostream&)>& write) {
  const fs::path target = behind_links(path);
  if (is_special(target)) return write_directly(target, write);
  std::error_code error;
  if (fs::is_directory(target, error)) return "it is a folder; give a file name";

  const TemporaryFile temporary{temporary_name(target)};
  if (std::string problem = write_directly(temporary.path, write); !problem.empty()) return problem;
  fs::rename(temporary.path, target, error);
  return error ? error.message() : std::string();
}

}  // namespace

void write_file(const fs::path& path, const std::function<void(std::ostream&)>& write) {
  if (const std::string problem = try_to_write(path, write); !problem.empty()) {
    throw UsageError(fmt::format("{}: cannot be written: {}", path.string(), problem));
  }
}

void require_writable(std::string_view option, const fs::path& path) {
  const auto refuse = [&](std::string_view reason) {
    throw UsageError(fmt::format("{} {}: cannot be written: {}", option, path.string(), reason));
  };
  if (!path.has_filename()) refuse("give a file name");
  const fs::path target = behind_links(path);
  if (is_special(target)) return;
  std::error_code error;
  if (fs::is_directory(target, error)) refuse("it is a folder; give a file name");
  const fs::path folder = target.has_parent_path() ? target.parent_path() : ".";
  if (!fs::is_directory(folder, error)) refuse(fmt::format("there is no folder {}", folder.string()));
  const TemporaryFile probe{temporary_name(target)};
  if (const std::string problem = write_directly(probe.path, [](std::ostream&) {}); !problem.empty())
    refuse(problem);
}

OutputFolder::OutputFolder(std::string_view option, fs::path folder) : folder_(std::move(folder)) {
  const auto refuse = [&](std::string_view reason) {
    throw UsageError(
        fmt::format("{} {}: give a folder that can be written: {}", option, folder_.string(), reason));
  };
  std::error_code error;
  if (folder_.empty()) refuse("the name is empty");
  folder_ = fs::absolute(folder_, error).lexically_normal();
  existing_parent_ = folder_;
  while (!fs::exists(existing_parent_, error) && existing_parent_.has_relative_path()) {
    existing_parent_ = existing_parent_.parent_path();
  }
  if (!fs::is_directory(existing_parent_, error)) {
    refuse(fmt::format("{} is not a folder", existing_parent_.string()));
  }
  fs::create_directories(folder_, error);
  std::string problem = error ? error.message() : std::string();
  if (problem.empty()) {
    const TemporaryFile probe{temporary_name(folder_ / "probe")};
    problem = write_directly(probe.path, [](std::ostream&) {});
  }
  if (!problem.empty()) {
    remove_if_empty();
    refuse(problem);
  }
}

OutputFolder::~OutputFolder() { remove_if_empty(); }

void OutputFolder::remove_if_empty() const {
  std::error_code error;
  for (fs::path folder = folder_; folder != existing_parent_ && folder.has_relative_path();
       folder = folder.parent_path()) {
    fs::remove(folder, error);  // refuses a folder that holds something
  }
}

}  // namespace fa
