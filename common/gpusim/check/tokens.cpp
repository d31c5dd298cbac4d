#include "gpusim/check/tokens.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace gpusim::check {
namespace {

bool begins_word(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$'; }
bool is_in_word(char c) { return begins_word(c) || std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// The end of a string or a character, which begins with a quotation mark.
std::size_t end_of_text(std::string_view text, std::size_t at) {
  const char mark = text[at];
  for (++at; at < text.size() && text[at] != mark && text[at] != '\n'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

/// The end of R"x(..)x". @param at  of the quotation mark
std::size_t end_of_raw_text(std::string_view text, std::size_t at) {
  const std::size_t open = text.find('(', at);
  if (open == text.npos) return text.size();
  const std::string close = ")" + std::string(text.substr(at + 1, open - at - 1)) + "\"";
  const std::size_t end = text.find(close, open);
  return end == text.npos ? text.size() : end + close.size();
}

bool is_prefix_of_text(std::string_view word) {
  return word == "L" || word == "u" || word == "U" || word == "u8" || word == "R" || word == "LR" ||
         word == "uR" || word == "UR" || word == "u8R";
}

struct LineMarker {
  int line;
  std::string_view file;
  std::string_view flags;

  bool has(char flag) const { return flags.find(flag) != flags.npos; }
};

/// `# 12 "file" 1 3`. @param line  without its newline
bool read_marker(std::string_view line, LineMarker& marker) {
  if (line.size() < 5 || line[0] != '#' || line[1] != ' ' ||
      std::isdigit(static_cast<unsigned char>(line[2])) == 0)
    return false;
  const std::size_t open = line.find('"'), close = line.rfind('"');
  if (open == line.npos || close == open) return false;
  marker = {std::atoi(line.data() + 2), line.substr(open + 1, close - open - 1), line.substr(close + 1)};
  return true;
}

/// The length of a sign.
std::size_t length_of_sign(std::string_view rest) {
  for (const std::string_view sign : {"...", "::", "->", "<=", ">=", "==", "&&", "||"}) {
    if (rest.starts_with(sign)) return sign.size();
  }
  return 1;
}

bool opens(const Token& t) { return t.is("(") || t.is("[") || t.is("{"); }
bool closes(const Token& t) { return t.is(")") || t.is("]") || t.is("}"); }

}  // namespace

std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  bool is_system = false, is_at_begin = true;
  std::string_view file;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (is_at_begin && (c == '#' || is_system)) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      LineMarker marker;
      if (read_marker(text.substr(at, end - at), marker)) {
        // A macro of a system header that the file uses is marked with 3, too, but the file stays the same.
        if (marker.file != file || marker.has('1') || marker.has('2')) is_system = marker.has('3');
        file = marker.file;
      }
      at = end + 1;
      continue;
    }
    is_at_begin = c == '\n';
    if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      ++at;
      continue;
    }
    std::size_t end = at + 1;
    TokenKind kind = TokenKind::kSign;
    if (begins_word(c)) {
      while (end < text.size() && is_in_word(text[end])) ++end;
      kind = TokenKind::kWord;
      const std::string_view word = text.substr(at, end - at);
      if (end < text.size() && (text[end] == '"' || text[end] == '\'') && is_prefix_of_text(word)) {
        end = word.ends_with('R') && text[end] == '"' ? end_of_raw_text(text, end) : end_of_text(text, end);
        kind = TokenKind::kText;
      }
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0 ||
               (c == '.' && end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0)) {
      const auto continues = [&] {
        const char now = text[end], before = text[end - 1];
        if (is_in_word(now) || now == '.') return true;
        if (now == '\'') return end + 1 < text.size() && is_in_word(text[end + 1]);
        const bool is_hexadecimal = text[at + 1] == 'x' || text[at + 1] == 'X';
        const bool is_exponent =
            is_hexadecimal ? before == 'p' || before == 'P' : before == 'e' || before == 'E';
        return (now == '+' || now == '-') && is_exponent;
      };
      while (end < text.size() && continues()) ++end;
      kind = TokenKind::kNumber;
    } else if (c == '"' || c == '\'') {
      end = end_of_text(text, at);
      kind = TokenKind::kText;
    } else {
      end = at + length_of_sign(text.substr(at, 3));
    }
    tokens.push_back({kind, text.substr(at, end - at), at});
    at = end;
  }
  return tokens;
}

Place place_of(std::string_view text, std::size_t position) {
  Place place{"", 0};
  for (std::size_t at = 0; at <= position && at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    LineMarker marker;
    if (read_marker(text.substr(at, end - at), marker)) {
      place = {std::string(marker.file), marker.line - 1};
    } else {
      ++place.line;
    }
    at = end + 1;
  }
  return place;
}

std::size_t closing(const std::vector<Token>& tokens, std::size_t open) {
  const bool is_angle = tokens[open].is("<");
  int depth = 0;
  for (std::size_t i = open; i < tokens.size(); ++i) {
    if (is_angle) {
      if (tokens[i].is("<")) ++depth;
      if (tokens[i].is(">") && --depth == 0) return i;
      if (tokens[i].is(";") || closes(tokens[i])) break;
      if (opens(tokens[i])) i = closing(tokens, i);
    } else {
      if (opens(tokens[i])) ++depth;
      if (closes(tokens[i]) && --depth == 0) return i;
    }
  }
  return tokens.size();
}

std::size_t opening(const std::vector<Token>& tokens, std::size_t close) {
  const bool is_angle = tokens[close].is(">");
  int depth = 0;
  for (std::size_t i = close + 1; i-- > 0;) {
    if (is_angle) {
      if (tokens[i].is(">")) ++depth;
      if (tokens[i].is("<") && --depth == 0) return i;
      if (tokens[i].is(";") || opens(tokens[i])) break;
      if (closes(tokens[i])) {
        i = opening(tokens, i);
        if (i == tokens.size()) break;
      }
    } else {
      if (closes(tokens[i])) ++depth;
      if (opens(tokens[i]) && --depth == 0) return i;
    }
  }
  return tokens.size();
}

void Edits::replace(std::size_t begin, std::size_t end, std::string with) {
  edits_.push_back({begin, end, std::move(with)});
}

std::string Edits::apply(std::string_view text) const {
  std::vector<const Edit*> sorted;
  for (const Edit& edit : edits_) sorted.push_back(&edit);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Edit* a, const Edit* b) { return a->begin < b->begin; });
  std::string result;
  std::size_t done = 0;
  for (const Edit* edit : sorted) {
    if (edit->begin < done) continue;  // inside a part that has been replaced
    result += text.substr(done, edit->begin - done);
    result += edit->text;
    done = edit->end;
  }
  result += text.substr(done);
  return result;
}

}  // namespace gpusim::check
