/// @file
/// The tokens of preprocessed C++, as far as rewriting CUDA needs them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace gpusim::check {

enum class TokenKind { kWord, kNumber, kText, kSign };

/// `<` and `>` are always tokens of their own, so that `<<<`, `<< <` and `>>` of nested templates look alike.
struct Token {
  TokenKind kind;
  std::string_view text;
  std::size_t begin = 0;  ///< in the text

  std::size_t end() const { return begin + text.size(); }
  bool is(std::string_view other) const { return text == other; }
};

/// The tokens of a preprocessed text that come from the user's files: what g++ marks as a system header is
/// left out.
/// @param text  has to outlive the tokens
std::vector<Token> tokens_of(std::string_view text);

/// The file and the line that line markers give a position of a preprocessed text.
struct Place {
  std::string file;
  int line = 0;
};
Place place_of(std::string_view text, std::size_t position);

/// The index of the bracket that closes the one at `open`, one of ( [ { <; tokens.size() if there is none.
std::size_t closing(const std::vector<Token>& tokens, std::size_t open);
/// The index of the bracket that opens the one at `close`; tokens.size() if there is none.
std::size_t opening(const std::vector<Token>& tokens, std::size_t close);

/// Replaces parts of a text.
class Edits {
 public:
  /// Edits of the same position keep their order.
  void replace(std::size_t begin, std::size_t end, std::string with);
  void insert(std::size_t at, std::string text) { replace(at, at, std::move(text)); }
  std::string apply(std::string_view text) const;

 private:
  struct Edit {
    std::size_t begin, end;
    std::string text;
  };
  std::vector<Edit> edits_;
};

}  // namespace gpusim::check
