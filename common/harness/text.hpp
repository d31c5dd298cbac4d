/// @file
/// Numbers in a readable form.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace fa {

/// Three significant digits and a decimal prefix: "1.61 G", "12.3 k", "512".
std::string with_prefix(double value);

/// "1.61 GB", "512 B".
inline std::string in_bytes(double bytes) {
  const std::string text = with_prefix(bytes);
  return text.find(' ') == std::string::npos ? text + " B" : text + "B";
}

/// Words separated by spaces, in lines of at most `width` columns; all lines but the first begin with two
/// spaces. A longer word has a line to itself.
std::string in_lines(const std::vector<std::string>& words, std::size_t width);

/// The word as a shell reads it: in quotes, if it has characters that mean something to a shell.
std::string in_shell(const std::string& word);

/// The word that is most like `word`, if at most a third of the characters have to be changed, added or
/// removed; otherwise an empty one.
std::string closest(const std::string& word, const std::vector<std::string>& words);

/// Two significant digits, short: "3.1e-7", "2e-6", "0", "nan".
std::string scientific(double value);

}  // namespace fa
