#include "harness/npy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "harness/files.hpp"

namespace fa {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "elements are read and written in memory order");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64;  ///< of the first element, as NumPy writes it

/// The contents of the header.
struct Header {
  std::string descr;  ///< the element type in NumPy's notation: "<f4"
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

/// Reads the one kind of Python dictionary that a header may contain:
/// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }. Keys in any order, each once, no others.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  /// @throws std::runtime_error  with what is wrong, without the file's name
  Header parse() {
    Header header;
    bool has_descr = false, has_order = false, has_shape = false;
    const auto first_time = [](bool& seen, std::string_view key) {
      if (std::exchange(seen, true)) fail(fmt::format("'{}' occurs twice", key));
    };
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr") {
        first_time(has_descr, key);
        header.descr = element_type();
      } else if (key == "fortran_order") {
        first_time(has_order, key);
        header.fortran_order = boolean();
      } else if (key == "shape") {
        first_time(has_shape, key);
        header.shape = tuple();
      } else {
        fail(fmt::format("'{}' is not a key of the format", printable(key)));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!rest_.empty()) fail("something follows the dictionary");
    if (!has_descr) fail("'descr' is missing");
    if (!has_order) fail("'fortran_order' is missing");
    if (!has_shape) fail("'shape' is missing");
    return header;
  }

  /// The text, with every character replaced that would disturb a line on a terminal.
  static std::string printable(std::string text) {
    constexpr std::size_t kLongest = 40;
    if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    return text;
  }

 private:
  [[noreturn]] static void fail(const std::string& reason) {
    throw std::runtime_error("the header is not NumPy's: " + reason);
  }

  void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }

  bool accept(char wanted) {
    skip_space();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char wanted) {
    if (accept(wanted)) return;
    fail(rest_.empty()
             ? fmt::format("it ends where '{}' should be", wanted)
             : fmt::format("'{}' where '{}' should be", printable(std::string(1, rest_.front())), wanted));
  }

  std::string quoted() {
    skip_space();
    const char quote = rest_.starts_with('"') ? '"' : '\'';
    expect(quote);
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos) fail("a string does not end");
    const std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return text;
  }

  std::string element_type() {
    skip_space();
    if (rest_.starts_with('[')) {
      throw std::runtime_error("holds records of several fields; must hold numbers");
    }
    return quoted();
  }

  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (rest_.starts_with(word)) {
        rest_.remove_prefix(word.size());
        return value;
      }
    }
    fail("'fortran_order' is neither True nor False");
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> lengths;
    expect('(');
    while (!accept(')')) {
      skip_space();
      std::int64_t length = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), length);
      if (error != std::errc() || length < 0) fail("'shape' is not a tuple of lengths from 0 to 2^63 - 1");
      rest_.remove_prefix(std::size_t(end - rest_.data()));
      lengths.push_back(length);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return lengths;
  }

  std::string_view rest_;
};

/// An open .npy file of known size.
class Reader {
 public:
  explicit Reader(const fs::path& path) : path_(path) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status))
      fail(error && status.type() == fs::file_type::none ? error.message() : "no such file");
    if (fs::is_directory(status)) fail("is a folder; give a .npy file");
    if (!fs::is_regular_file(status)) fail("is not a regular file; give a .npy file");
    left_ = fs::file_size(path, error);
    if (!error) file_.open(path, std::ios::binary);
    if (error || !file_) fail("cannot be opened for reading");
  }

  [[noreturn]] void fail(const std::string& reason) const {
    throw NpyError(fmt::format("{}: {}", path_.string(), reason));
  }

  /// The number of bytes not read yet.
  std::uint64_t left() const { return left_; }

  /// Reads exactly this many bytes; if there are fewer, `what` is cut off.
  void read(void* to, std::uint64_t bytes, std::string_view what) {
    if (bytes > left_ || !file_.read(static_cast<char*>(to), std::streamsize(bytes))) {
      fail(fmt::format("is cut off in {}", what));
    }
    left_ -= bytes;
  }

  Header read_header() {
    std::string magic(kMagic.size(), '\0');
    if (left_ < magic.size()) fail("is not a .npy file: too short");
    read(magic.data(), magic.size(), "the magic string");
    if (magic != kMagic) fail("is not a .npy file: does not start with \\x93NUMPY");

    std::uint8_t version[2] = {};
    read(version, sizeof version, "the version");
    const bool known = version[0] >= 1 && version[0] <= 3 && version[1] == 0;
    if (!known)
      fail(fmt::format("has format version {}.{}; must be 1.0, 2.0 or 3.0", version[0], version[1]));

    std::uint32_t length = 0;  // little-endian: two bytes in version 1, four later
    read(&length, version[0] == 1 ? 2 : 4, "the length of the header");
    if (length > left_) fail(fmt::format("says its header has {} bytes, but only {} follow", length, left_));
    std::string text(length, '\0');
    read(text.data(), text.size(), "the header");
    try {
      return HeaderParser(text).parse();
    } catch (const std::runtime_error& error) {
      fail(error.what());
    }
  }

 private:
  fs::path path_;
  std::ifstream file_;
  std::uint64_t left_ = 0;
};

/// An element type in NumPy's notation, and the bytes of an element.
struct ElementType {
  std::string_view descr;
  std::uint64_t bytes;
};

/// The types that a file may have.
struct ElementTypes {
  std::vector<ElementType> types;
  const char* names;  ///< for messages
};

const ElementTypes& floats() {
  static const ElementTypes kFloats = {{{"<f4", 4}, {"<f2", 2}},
                                       "'<f4' (float32) or '<f2' (float16), little-endian"};
  return kFloats;
}

const ElementTypes& integers() {
  static const ElementTypes kIntegers = {
      {{"<i4", 4}, {"<i8", 8}, {"|u1", 1}, {"|b1", 1}},
      "'<i4' (int32), '<i8' (int64), '|u1' (uint8) or '|b1' (bool), little-endian"};
  return kIntegers;
}

/// "[rows, cols]", "[1, kv_heads, seq_k, 32]".
std::string to_string(const std::vector<Axis>& axes) {
  std::vector<std::string> words;
  for (const Axis& axis : axes) words.push_back(axis.length ? std::to_string(*axis.length) : axis.name);
  return fmt::format("[{}]", fmt::join(words, ", "));
}

bool matches(const std::vector<std::int64_t>& shape, const std::vector<Axis>& axes) {
  return std::equal(shape.begin(), shape.end(), axes.begin(), axes.end(),
                    [](std::int64_t length, const Axis& axis) {
                      return axis.length ? length == *axis.length : length >= 1;
                    });
}

/// The number of bytes of all elements, or nothing if it does not fit into 63 bits.
std::optional<std::uint64_t> data_bytes(const std::vector<std::int64_t>& shape, std::uint64_t element_bytes) {
  std::int64_t bytes = std::int64_t(element_bytes);
  for (const std::int64_t length : shape) {
    if (__builtin_mul_overflow(bytes, length, &bytes)) return std::nullopt;
  }
  return std::uint64_t(bytes);
}

/// The header of a file, checked, and the number of bytes that follow it.
struct CheckedHeader {
  Header header;
  std::uint64_t element_bytes, bytes;
};

/// Reads up to the first element.
CheckedHeader read_checked_header(Reader& reader, const std::vector<Axis>& axes,
                                  const ElementTypes& expected) {
  Header header = reader.read_header();
  const auto type = std::find_if(expected.types.begin(), expected.types.end(),
                                 [&](const ElementType& each) { return each.descr == header.descr; });
  if (type == expected.types.end()) {
    reader.fail(fmt::format("has elements of type '{}'; must be {}", HeaderParser::printable(header.descr),
                            expected.names));
  }
  if (header.fortran_order) reader.fail("is in Fortran order; must be in C order (numpy.ascontiguousarray)");
  constexpr std::size_t kMostDimensions = 64;  // NumPy allows no more; the limit keeps the message short
  if (header.shape.size() > kMostDimensions) {
    reader.fail(
        fmt::format("has {} dimensions; must be {}, each at least 1", header.shape.size(), to_string(axes)));
  }
  if (!matches(header.shape, axes)) {
    reader.fail(fmt::format("has shape {}; must be {}, each at least 1", header.shape, to_string(axes)));
  }
  const std::optional<std::uint64_t> bytes = data_bytes(header.shape, type->bytes);
  if (!bytes) reader.fail(fmt::format("has shape {}, which is more than any file can hold", header.shape));
  if (reader.left() != *bytes) {
    reader.fail(fmt::format("has shape {} and so needs {} bytes of elements, but {} follow the header: {}",
                            header.shape, *bytes, reader.left(),
                            reader.left() < *bytes ? "it is cut off" : "too many"));
  }
  return {std::move(header), type->bytes, *bytes};
}

/// The elements of a file.
template <class T>
std::vector<T> read_elements(Reader& reader, std::uint64_t bytes) {
  std::vector<T> elements(bytes / sizeof(T));
  reader.read(elements.data(), bytes, "the elements");
  return elements;
}

template <class T>
void write_as(const fs::path& path, const HostTensor<T>& tensor, const char* descr) {
  std::uint64_t elements = 1;
  for (const std::int64_t length : tensor.shape) elements *= std::uint64_t(length);
  if (elements != tensor.data.size()) {
    throw std::invalid_argument(
        fmt::format("shape {} does not fit {} elements", tensor.shape, tensor.data.size()));
  }
  const std::string tuple =
      fmt::format("({}{})", fmt::join(tensor.shape, ", "), tensor.shape.size() == 1 ? "," : "");
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, tuple);
  const std::size_t before_header = kMagic.size() + 4;  // magic, version, length in two bytes
  const std::size_t unpadded = before_header + header.size() + 1;
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ').push_back('\n');

  write_file(path, [&](std::ostream& out) {
    const auto length = std::uint16_t(header.size());
    out << kMagic << '\x01' << '\x00';
    out.write(reinterpret_cast<const char*>(&length), sizeof length);
    out << header;
    out.write(reinterpret_cast<const char*>(tensor.data.data()),
              std::streamsize(tensor.data.size() * sizeof(T)));
  });
}

}  // namespace

Tensor read_npy(const fs::path& path, const std::vector<Axis>& axes) {
  Reader reader(path);
  const CheckedHeader file = read_checked_header(reader, axes, floats());
  if (file.element_bytes == sizeof(float))
    return {file.header.shape, read_elements<float>(reader, file.bytes)};
  const auto halves = read_elements<Eigen::half>(reader, file.bytes);
  return {file.header.shape, {halves.begin(), halves.end()}};
}

HostTensor<std::int64_t> read_npy_integers(const fs::path& path, const std::vector<Axis>& axes) {
  Reader reader(path);
  const CheckedHeader file = read_checked_header(reader, axes, integers());
  const auto widened = [&](const auto& elements) {
    return HostTensor<std::int64_t>{file.header.shape, {elements.begin(), elements.end()}};
  };
  switch (file.element_bytes) {
    case 1: return widened(read_elements<std::uint8_t>(reader, file.bytes));
    case 4: return widened(read_elements<std::int32_t>(reader, file.bytes));
    default: return widened(read_elements<std::int64_t>(reader, file.bytes));
  }
}

void write_npy(const fs::path& path, const Tensor& tensor) { write_as(path, tensor, "<f4"); }

void write_npy_bytes(const fs::path& path, const HostTensor<std::uint8_t>& tensor) {
  write_as(path, tensor, "|u1");
}

}  // namespace fa
