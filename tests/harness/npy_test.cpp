#include "harness/npy.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "temporary_folder.hpp"

namespace fa {
namespace {

const std::vector<Axis> kMatrix = {{"rows", {}}, {"cols", {}}};

std::string bytes_of(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// A file of format version `major`.0, with its header padded as in NumPy.
std::string npy(std::string header, const std::string& data, int major = 1) {
  const std::size_t before = major == 1 ? 10 : 12;
  while ((before + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file = "\x93NUMPY";
  file += char(major);
  file += '\0';
  for (std::size_t byte = 0; byte < (major == 1 ? 2u : 4u); ++byte)
    file += char(header.size() >> (8 * byte) & 0xff);
  return file + header + data;
}

const std::string kHeader = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
const std::string kData = bytes_of({1, 2, 3, 4, 5, 6});

class Npy : public ::testing::Test {
 protected:
  /// The tensor in a file of these bytes.
  Tensor read(const std::string& bytes, const std::vector<Axis>& axes = kMatrix) {
    create(path_, bytes);
    return read_npy(path_, axes);
  }

  /// The message without the file's name, which must be at its start. One line.
  std::string refusal(const std::string& bytes, const std::vector<Axis>& axes = kMatrix) {
    create(path_, bytes);
    return refusal_of_file(path_, axes);
  }

  static std::string refusal_of_file(const std::filesystem::path& path,
                                     const std::vector<Axis>& axes = kMatrix) {
    try {
      read_npy(path, axes);
    } catch (const NpyError& error) {
      const std::string message = error.what(), start = path.string() + ": ";
      EXPECT_EQ(message.substr(0, start.size()), start);
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      return message.substr(start.size());
    }
    return "it was read";
  }

  /// The refusal of a well-formed file with a different header and the same data.
  std::string refusal_of_header(const std::string& header) { return refusal(npy(header, kData)); }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "a.npy";
};

TEST_F(Npy, ReadsWhatItWrites) {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{6}, {2, 3}, {1, 2, 3}, {1, 1, 6, 1}}) {
    const Tensor written{shape, {1, -2.5f, 3e-40f, std::numeric_limits<float>::infinity(), -0.0f, 6}};
    write_npy(path_, written);
    const std::vector<Axis> axes(shape.size(), Axis{"any", {}});
    const Tensor read = read_npy(path_, axes);
    EXPECT_EQ(read.shape, shape);
    EXPECT_EQ(bytes_of(read.data), bytes_of(written.data));
  }
}

TEST_F(Npy, WritesWhatNumPyWrites) {
  write_npy(path_, {{2, 3}, {1, 2, 3, 4, 5, 6}});
  EXPECT_EQ(contents(path_), npy(kHeader, kData));
  write_npy(path_, {{1}, {1}});
  EXPECT_EQ(contents(path_), npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", bytes_of({1})));
}

TEST_F(Npy, ElementsStartAtAMultipleOf64) {
  for (std::int64_t length = 1; length < 1'000'000; length *= 10) {
    write_npy(path_, {{length}, std::vector<float>(std::size_t(length))});
    EXPECT_EQ((contents(path_).size() - std::size_t(length) * sizeof(float)) % 64, 0u);
  }
}

TEST_F(Npy, RefusesToWriteATensorThatContradictsItself) {
  EXPECT_THROW(write_npy(path_, {{2, 3}, {1}}), std::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Npy, ReadsAllVersions) {
  for (const int major : {1, 2, 3}) {
    const Tensor tensor = read(npy(kHeader, kData, major));
    EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(tensor.data, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  }
}

TEST_F(Npy, ReadsEveryFloat16) {
  std::string data;
  for (int bits = 0; bits < 65536; ++bits) {
    data += char(bits & 0xff);
    data += char(bits >> 8);
  }
  const Tensor tensor = read(npy("{'descr': '<f2', 'fortran_order': False, 'shape': (256, 256), }", data));
  ASSERT_EQ(tensor.data.size(), 65536u);
  for (int bits = 0; bits < 65536; ++bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double expected = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31) expected = fraction == 0 ? HUGE_VAL : std::nan("");
    if (bits >> 15) expected = -expected;
    const float got = tensor.data[std::size_t(bits)];
    ASSERT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected))) << bits;
    ASSERT_EQ(std::signbit(got), bits >> 15 != 0) << bits;
  }
}

TEST_F(Npy, ReadsHeadersInEveryOrderAndSpacing) {
  for (const char* header : {"{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"<f4\"}",
                             "{ 'shape' : ( 2 , 3 , ) , 'descr' : '<f4' , 'fortran_order' : False }",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}"}) {
    EXPECT_EQ(read(npy(header, kData)).data.size(), 6u) << header;
  }
}

TEST_F(Npy, RefusesOtherElementTypes) {
  const auto with_type = [](const std::string& type) {
    return "{'descr': " + type + ", 'fortran_order': False, 'shape': (2, 3), }";
  };
  for (const char* type : {"<f8", ">f4", ">f2", "<i4", "|u1", "|b1", "<c8", "|O", "f4", "=f4", ""}) {
    EXPECT_EQ(refusal_of_header(with_type("'" + std::string(type) + "'")),
              "has elements of type '" + std::string(type) +
                  "'; must be '<f4' (float32) or '<f2' (float16), little-endian");
  }
  EXPECT_EQ(refusal_of_header(with_type("[('a', '<f4')]")),
            "holds records of several fields; must hold numbers");
}

TEST_F(Npy, RefusesFortranOrder) {
  EXPECT_EQ(refusal_of_header("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }"),
            "is in Fortran order; must be in C order (numpy.ascontiguousarray)");
}

TEST_F(Npy, RefusesOtherShapes) {
  const auto with_shape = [](const std::string& shape) {
    return "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }";
  };
  EXPECT_EQ(refusal_of_header(with_shape("(6,)")), "has shape [6]; must be [rows, cols], each at least 1");
  EXPECT_EQ(refusal_of_header(with_shape("(1, 2, 3)")),
            "has shape [1, 2, 3]; must be [rows, cols], each at least 1");
  EXPECT_EQ(refusal_of_header(with_shape("()")), "has shape []; must be [rows, cols], each at least 1");
  EXPECT_EQ(refusal(npy(with_shape("(0, 3)"), "")),
            "has shape [0, 3]; must be [rows, cols], each at least 1");
  EXPECT_EQ(refusal(npy(kHeader, kData), {{"batch", 2}, {"head_dim", 4}}),
            "has shape [2, 3]; must be [2, 4], each at least 1");
  std::string many = "(";
  for (int axis = 0; axis < 1000; ++axis) many += "1, ";
  EXPECT_EQ(refusal_of_header(with_shape(many + ")")),
            "has 1000 dimensions; must be [rows, cols], each at least 1");
}

TEST_F(Npy, RefusesAbsurdShapes) {
  const auto with_shape = [](const std::string& shape) {
    return "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }";
  };
  EXPECT_EQ(refusal_of_header(with_shape("(4294967296, 4294967296)")),
            "has shape [4294967296, 4294967296], which is more than any file can hold");
  EXPECT_EQ(refusal_of_header(with_shape("(2305843009213693952, 1)")),
            "has shape [2305843009213693952, 1], which is more than any file can hold");
  EXPECT_EQ(refusal_of_header(with_shape("(1000000, 1000000)")),
            "has shape [1000000, 1000000] and so needs 4000000000000 bytes of elements, but 24 follow the "
            "header: it is cut off");
  for (const char* shape :
       {"(99999999999999999999, 1)", "(-2, 3)", "(2.0, 3)", "(2L, 3)", "2", "(2 3)", "(,)", "None"}) {
    EXPECT_EQ(refusal_of_header(with_shape(shape)).substr(0, 25), "the header is not NumPy's") << shape;
  }
}

TEST_F(Npy, RefusesTooFewAndTooManyBytes) {
  EXPECT_EQ(refusal(npy(kHeader, kData.substr(0, 23))),
            "has shape [2, 3] and so needs 24 bytes of elements, but 23 follow the header: it is cut off");
  EXPECT_EQ(refusal(npy(kHeader, "")),
            "has shape [2, 3] and so needs 24 bytes of elements, but 0 follow the header: it is cut off");
  EXPECT_EQ(refusal(npy(kHeader, kData + "x")),
            "has shape [2, 3] and so needs 24 bytes of elements, but 25 follow the header: too many");
}

TEST_F(Npy, RefusesAFileThatEndsInItsHeader) {
  const std::string whole = npy(kHeader, kData);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(refusal(whole.substr(0, length)), "it was read") << length;
  }
  EXPECT_EQ(refusal(""), "is not a .npy file: too short");
  EXPECT_EQ(refusal(whole.substr(0, 7)), "is cut off in the version");
  EXPECT_EQ(refusal(whole.substr(0, 9)), "is cut off in the length of the header");
}

TEST_F(Npy, RefusesAHeaderThatLiesAboutItsSize) {
  std::string longer = npy(kHeader, kData);
  longer[8] = '\xff', longer[9] = '\xff';
  EXPECT_EQ(refusal(longer), "says its header has 65535 bytes, but only 142 follow");
  std::string huge = npy(kHeader, kData, 2);
  huge[8] = huge[9] = huge[10] = huge[11] = '\xff';
  EXPECT_EQ(refusal(huge), "says its header has 4294967295 bytes, but only 140 follow");
  std::string shorter = npy(kHeader, kData);
  shorter[8] = 20;
  EXPECT_EQ(refusal(shorter), "the header is not NumPy's: a string does not end");
  std::string into_the_data = npy(kHeader, kData);
  into_the_data[8] += 4;
  EXPECT_EQ(refusal(into_the_data), "the header is not NumPy's: something follows the dictionary");
}

TEST_F(Npy, RefusesOtherFiles) {
  EXPECT_EQ(refusal("PK\x03\x04 a .npz file"), "is not a .npy file: does not start with \\x93NUMPY");
  std::string newer = npy(kHeader, kData);
  newer[6] = 4;
  EXPECT_EQ(refusal(newer), "has format version 4.0; must be 1.0, 2.0 or 3.0");
  newer[6] = 1, newer[7] = 1;
  EXPECT_EQ(refusal(newer), "has format version 1.1; must be 1.0, 2.0 or 3.0");
}

TEST_F(Npy, RefusesBrokenHeaders) {
  const std::string start = "the header is not NumPy's: ";
  EXPECT_EQ(refusal_of_header(""), start + "it ends where '{' should be");
  EXPECT_EQ(refusal_of_header("[]"), start + "'[' where '{' should be");
  EXPECT_EQ(refusal_of_header("{}"), start + "'descr' is missing");
  EXPECT_EQ(refusal_of_header("{'descr': '<f4', 'shape': (2, 3), }"), start + "'fortran_order' is missing");
  EXPECT_EQ(refusal_of_header("{'descr': '<f4', 'fortran_order': False}"), start + "'shape' is missing");
  EXPECT_EQ(refusal_of_header("{'descr': '<f4', 'descr': '<f4'}"), start + "'descr' occurs twice");
  EXPECT_EQ(refusal_of_header("{'fortran_order': 0}"), start + "'fortran_order' is neither True nor False");
  EXPECT_EQ(refusal_of_header("{'color': 'red'}"), start + "'color' is not a key of the format");
  EXPECT_EQ(refusal_of_header(kHeader + kHeader), start + "something follows the dictionary");
  EXPECT_EQ(refusal_of_header(kHeader.substr(0, kHeader.size() - 3)), start + "it ends where '}' should be");
  EXPECT_EQ(refusal_of_header(std::string("{'a\n\x1b[2Jb': 1}")),
            start + "'a??[2Jb' is not a key of the format");
}

TEST_F(Npy, RefusesWhatIsNoRegularFile) {
  EXPECT_EQ(refusal_of_file(folder_ / "missing.npy"), "no such file");
  EXPECT_EQ(refusal_of_file(folder_.path()), "is a folder; give a .npy file");
  EXPECT_EQ(refusal_of_file("/dev/zero"), "is not a regular file; give a .npy file");
  EXPECT_EQ(refusal_of_file(""), "no such file");
}

TEST_F(Npy, AnyByteMayBeWrong) {
  const std::string whole = npy(kHeader, kData);
  for (std::size_t position = 0; position < whole.size() - kData.size(); ++position) {
    for (const char replacement : {'\0', '\xff', '(', '\'', '9', ' '}) {
      std::string changed = whole;
      changed[position] = replacement;
      create(path_, changed);
      try {
        EXPECT_EQ(read_npy(path_, kMatrix).data.size(), 6u);  // harmless, such as a space for a space
      } catch (const NpyError&) {
      }
    }
  }
}

// ---- whole numbers

const std::vector<Axis> kList = {{"seq", {}}};

std::string list_of(const std::string& type, std::int64_t length) {
  return "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + std::to_string(length) + ",), }";
}

template <class T>
std::string bytes_of_integers(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST_F(Npy, ReadsWholeNumbersOfEveryType) {
  const auto read = [&](const std::string& type, const std::string& data, std::int64_t length) {
    create(path_, npy(list_of(type, length), data));
    return read_npy_integers(path_, kList).data;
  };
  using Numbers = std::vector<std::int64_t>;
  EXPECT_EQ(read("<i4", bytes_of_integers<std::int32_t>({0, -1, 2147483647}), 3),
            (Numbers{0, -1, 2147483647}));
  EXPECT_EQ(read("<i8", bytes_of_integers<std::int64_t>({5, -(1ll << 62)}), 2), (Numbers{5, -(1ll << 62)}));
  EXPECT_EQ(read("|u1", bytes_of_integers<std::uint8_t>({0, 1, 255}), 3), (Numbers{0, 1, 255}));
  EXPECT_EQ(read("|b1", bytes_of_integers<std::uint8_t>({0, 1, 1}), 3), (Numbers{0, 1, 1}));
}

TEST_F(Npy, RefusesOtherTypesOfWholeNumbers) {
  const auto refusal_of = [&](const std::string& type) {
    create(path_, npy(list_of(type, 6), kData));
    try {
      read_npy_integers(path_, kList);
    } catch (const NpyError& error) {
      return std::string(error.what()).substr((path_.string() + ": ").size());
    }
    return std::string("it was read");
  };
  for (const std::string type : {"<f4", "<f2", ">i4", "<i2", "<u4", "|i1", "<u8"}) {
    EXPECT_EQ(refusal_of(type), "has elements of type '" + type +
                                    "'; must be '<i4' (int32), '<i8' (int64), '|u1' (uint8) or '|b1' (bool), "
                                    "little-endian");
  }
  EXPECT_EQ(refusal_of("|u1"),
            "has shape [6] and so needs 6 bytes of elements, but 24 follow the header: too many");
}

TEST_F(Npy, WritesBytesAsUint8) {
  write_npy_bytes(path_, HostTensor<std::uint8_t>{{2, 3}, {0, 1, 0, 1, 1, 255}});
  EXPECT_EQ(contents(path_), npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }",
                                 bytes_of_integers<std::uint8_t>({0, 1, 0, 1, 1, 255})));
  EXPECT_EQ(read_npy_integers(path_, kMatrix).data, (std::vector<std::int64_t>{0, 1, 0, 1, 1, 255}));
}

}  // namespace
}  // namespace fa
