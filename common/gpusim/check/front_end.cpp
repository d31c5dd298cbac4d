#include "gpusim/check/front_end.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "gpusim/check/inline_ptx.hpp"
#include "gpusim/check/tokens.hpp"

namespace gpusim::check {
namespace {

bool is_any(const Token& token, std::initializer_list<std::string_view> texts) {
  return std::any_of(texts.begin(), texts.end(), [&](std::string_view text) { return token.is(text); });
}

/// Words that may stand before an expression, and are no part of it.
bool is_statement_word(const Token& token) {
  return is_any(token, {"return", "else", "do", "case", "if", "while", "for", "switch", "co_return", "throw",
                        "and", "or", "not", "template", "typename", "operator"});
}

/// Words that cannot be the name of a parameter.
bool is_type_word(const Token& token) {
  return is_any(token,
                {"void",     "bool",     "char",         "short",      "int",     "long",     "signed",
                 "unsigned", "float",    "double",       "auto",       "class",   "typename", "struct",
                 "const",    "volatile", "__restrict__", "__restrict", "wchar_t", "char16_t", "char32_t",
                 "char8_t",  "enum",     "union",        "__int128"});
}

bool is_qualifier(const Token& token) {
  return is_any(token, {"const", "volatile", "__restrict__", "__restrict"});
}

/// A name in a list of parameters, of a function or of a template.
struct Parameter {
  std::string name;
  bool is_pack = false;
};

class Rewriter {
 public:
  explicit Rewriter(std::string_view text) : text_(text), tokens_(tokens_of(text)) {}

  Rewritten run() {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (is_launch(i)) {
        rewrite_launch(i);
        i += 2;
      } else if (is_tag(i, "\"kernel\"")) {
        rewrite_kernel(i);
        make_cpp_linkage(i);
      } else if (is_tag(i, "\"device\"")) {
        remove_from_lambda(i);
        make_cpp_linkage(i);
      } else if (is_tag(i, "\"constant\"")) {
        make_cpp_linkage(i);
      } else if (is_any(tokens_[i], {"asm", "__asm", "__asm__"})) {
        rewrite_asm(i);
      } else if (tokens_[i].is("constexpr")) {
        note_constexpr(i);
      } else if (tokens_[i].is("__constinit")) {
        rewrite_shared(i);
      }
    }
    std::string text = edits_.apply(text_);
    for (const std::string& symbol : symbols_)
      text += "__asm__(\".set " + symbol + ", " + std::string(kDynamicSymbol) + "\");\n";
    return {std::move(text), std::move(constexpr_functions_), std::move(dynamic_arrays_), has_asm_,
            std::move(errors_)};
  }

 private:
  const Token& at(std::size_t i) const {
    static const Token kNone{TokenKind::kSign, ""};
    return i < tokens_.size() ? tokens_[i] : kNone;
  }
  std::string text_of(std::size_t begin, std::size_t end) const {  // of tokens, on one line
    std::string text;
    for (std::size_t i = begin; i < end; ++i) {
      if (!text.empty()) text += ' ';
      text += tokens_[i].text;
    }
    return text;
  }

  // ---- launches ------------------------------------------------------------------------------------------

  bool is_launch(std::size_t i) const {
    return at(i).is("<") && at(i + 1).is("<") && at(i + 2).is("<") && i > 0 && !at(i - 1).is("operator");
  }

  /// Where the expression before a launch begins: `ns::kernel<float>`, `table[i]`, `(*f)`, `object->kernel`.
  std::size_t begin_of_kernel(std::size_t end) const {
    std::size_t i = end;
    for (;;) {
      const Token& last = at(i - 1);
      if (last.is(">") || last.is("]") || last.is(")")) {
        const std::size_t open = opening(tokens_, i - 1);
        if (open == tokens_.size() || open == 0) return i - 1;
        i = open;
        const Token& before = at(i - 1);
        const bool goes_on = before.kind == TokenKind::kWord ? !is_statement_word(before)
                                                             : is_any(before, {">", "]"}) && !last.is(")");
        if (!goes_on) return i;
        continue;
      }
      if (last.kind != TokenKind::kWord) return i;
      --i;
      if (i > 0 && at(i - 1).is("template")) --i;
      if (i == 0 || !is_any(at(i - 1), {"::", ".", "->"})) return i;
      --i;
      const Token& scope = at(i - 1);
      const bool has_scope = i > 0 && (is_any(scope, {">", "]", ")"}) ||
                                       (scope.kind == TokenKind::kWord && !is_statement_word(scope)));
      if (!has_scope) return i;  // "::kernel"
    }
  }

  /// The first of the three > that end a configuration; tokens_.size() if there are none.
  std::size_t end_of_configuration(std::size_t i) const {
    for (; i < tokens_.size(); ++i) {
      if (is_any(at(i), {"(", "[", "{"})) {
        i = closing(tokens_, i);
        continue;
      }
      if (is_any(at(i), {";", ")", "}"})) break;
      if (at(i).is(">") && at(i + 1).is(">") && at(i + 2).is(">") && at(i + 3).is("(")) return i;
    }
    return tokens_.size();
  }

  void rewrite_launch(std::size_t open) {
    const std::size_t close = end_of_configuration(open + 3);
    if (close == tokens_.size()) return;  // g++ will say what it thinks of that
    const std::size_t last = closing(tokens_, close + 3);
    if (last == tokens_.size()) return;
    if (at(open).begin < end_of_kernel_) {
      const Place place = place_of(text_, at(open).begin);
      errors_.push_back(
          place.file + ':' + std::to_string(place.line) +
          ": error: gpusim does not simulate dynamic parallelism: here a kernel launches a kernel");
    }
    const std::size_t begin = begin_of_kernel(open);
    // (push_launch(configuration), kernel(arguments)): the kernel stays where it is, its configuration moves
    // before it.
    const std::string configuration(text_.substr(at(open + 2).end(), at(close).begin - at(open + 2).end()));
    edits_.insert(at(begin).begin, "(::gpusim::device::push_launch(" + on_one_line(configuration) + "), ");
    edits_.replace(at(open).begin, at(close + 2).end(), newlines_of(configuration));
    edits_.insert(at(last).end(), ")");
  }

  /// Without line markers, so that it can move.
  static std::string on_one_line(const std::string& text) {
    std::string line;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      if (text[begin] != '#') line += text.substr(begin, end - begin) + ' ';
      begin = end + 1;
    }
    return line;
  }
  /// What is left of a text that has moved: the lines that follow keep their numbers.
  static std::string newlines_of(const std::string& text) {
    std::string lines;
    for (std::size_t at = text.find('\n'); at != text.npos;) {
      const std::size_t end = text.find('\n', at + 1);
      lines += '\n';
      if (at + 1 < text.size() && text[at + 1] == '#') lines += text.substr(at + 1, end - at - 1);
      at = end;
    }
    return lines;
  }

  // ---- kernels -------------------------------------------------------------------------------------------

  /// `abi_tag("kernel")`, which the shim makes of a qualifier.
  bool is_tag(std::size_t i, std::string_view tag) const {
    return at(i).is("abi_tag") && at(i + 1).is("(") && at(i + 2).is(tag);
  }
  /// The index of the __attribute__ that contains a tag, and the index after it.
  std::pair<std::size_t, std::size_t> attribute_around(std::size_t tag) const {
    std::size_t begin = tag;
    while (begin > 0 && !at(begin).is("__attribute__")) --begin;
    return {begin, closing(tokens_, begin + 1) + 1};
  }

  /// Where the declaration begins that contains a token.
  std::size_t begin_of_declaration(std::size_t i) const {
    while (i > 0) {
      const Token& before = at(i - 1);
      if (is_any(before, {";", "{", "}"}) || (before.is(":") && i > 1)) break;
      if (is_any(before, {")", "]"})) {
        const std::size_t open = opening(tokens_, i - 1);
        if (open == tokens_.size()) break;
        i = open;
      } else {
        --i;
      }
    }
    return i;
  }

  /// The parameters between two brackets. Those without a name get one.
  std::vector<Parameter> parameters(std::size_t open, std::size_t close, const std::string& prefix) {
    std::vector<Parameter> result;
    for (std::size_t begin = open + 1; begin < close;) {
      std::size_t end = begin, value = 0;
      for (; end < close && !at(end).is(","); ++end) {
        if (at(end).is("=") && value == 0) value = end;
        if (is_any(at(end), {"(", "[", "{"})) end = closing(tokens_, end);
        if (at(end).is("<") && value == 0) end = std::min(closing(tokens_, end), close);
      }
      const std::size_t stop = value != 0 ? value : end;
      if (stop - begin == 1 && at(begin).is("void")) return result;
      if (stop > begin) result.push_back(parameter(begin, stop, prefix + std::to_string(result.size())));
      begin = end + 1;
    }
    return result;
  }

  Parameter parameter(std::size_t begin, std::size_t end, const std::string& new_name) {
    Parameter result;
    std::size_t name = end;
    for (std::size_t i = begin; i < end; ++i) {
      if (at(i).is("...")) result.is_pack = true;
      if (at(i).is("[") && name == end) name = i - 1;  // float x[]
      if (at(i).is("(") && at(i + 1).is("*") && name == end &&
          !at(begin).is("__attribute__")) {  // void (*f)(int)
        name = i + 2;
        if (at(name).is(")")) name = i + 1;
      }
    }
    if (name == end) name = end - 1;
    bool has_type = false;
    for (std::size_t i = begin; i < name; ++i) has_type |= !is_qualifier(at(i));
    const bool is_name =
        at(name).kind == TokenKind::kWord && !is_type_word(at(name)) && has_type && !at(name - 1).is("::");
    if (is_name) {
      result.name = at(name).text;
    } else {
      edits_.insert(at(name).end(), " " + new_name);
      result.name = new_name;
    }
    return result;
  }

  void rewrite_kernel(std::size_t tag) {
    const auto [attribute, after] = attribute_around(tag);
    // The name comes before the first parenthesis that belongs to no attribute.
    std::size_t open = after;
    while (open < tokens_.size() && !is_any(at(open), {"(", ";", "{"})) {
      if (is_any(at(open), {"__attribute__", "alignas", "decltype"})) {
        open = closing(tokens_, open + 1);
      } else if (at(open).is("<")) {
        open = closing(tokens_, open);
      }
      ++open;
    }
    if (!at(open).is("(")) return;
    const std::size_t close = closing(tokens_, open);
    std::size_t body = close + 1;
    while (body < tokens_.size() && !is_any(at(body), {"{", ";", "="})) {
      body = at(body).is("(") ? closing(tokens_, body) + 1 : body + 1;
    }
    if (!at(body).is("{")) return;
    end_of_kernel_ = std::max(end_of_kernel_, at(std::min(closing(tokens_, body), tokens_.size() - 1)).begin);
    const std::size_t name = begin_of_kernel(open);

    std::string full_name = text_of(name, open);
    const std::size_t begin = begin_of_declaration(attribute);
    if (at(begin).is("template") && !at(open - 1).is(">")) {
      const std::size_t end = closing(tokens_, begin + 1);
      const std::string names = joined(parameters(begin + 1, end, "gpusim_t"), "", "");
      if (!names.empty()) full_name += "<" + names + ">";
    }
    const std::vector<Parameter> own = parameters(open, close, "gpusim_p");
    const std::string arguments = joined(own, "", "");
    const std::string pointer = "static_cast<void (*)(" +
                                joined(own, "::gpusim::device::Plain<decltype(", ")>") + ")>(" + full_name +
                                ")";
    edits_.insert(at(body).end(), " if (::gpusim::device::is_on_host()) { " +
                                      take_cluster(begin_of_declaration(attribute), open) +
                                      "if (!::gpusim::device::is_asked(" + pointer +
                                      ")) ::gpusim::device::enter_kernel(" + pointer +
                                      (arguments.empty() ? "" : ", ") + arguments + "); return; }");
  }

  /// Removes __cluster_dims__ from a declaration. @return  a statement that says it, or nothing
  std::string take_cluster(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (!at(i).is("gpusim_cluster")) continue;
      const std::string numbers = text_of(i + 2, closing(tokens_, i + 1));
      const auto [first, after] = attribute_around(i);
      edits_.replace(at(first).begin, at(after - 1).end(), "");
      return "::gpusim::device::set_cluster(" + numbers + "); ";
    }
    return "";
  }

  static std::string joined(const std::vector<Parameter>& parameters, const std::string& before,
                            const std::string& after) {
    std::string text;
    for (const Parameter& p : parameters) {
      text += (text.empty() ? "" : ", ") + before + p.name + after + (p.is_pack ? "..." : "");
    }
    return text;
  }

  // ---- inline PTX ----------------------------------------------------------------------------------------

  void rewrite_asm(std::size_t i) {
    std::size_t open = i + 1;
    while (is_any(at(open), {"volatile", "__volatile__", "__volatile", "inline", "goto"})) ++open;
    if (!at(open).is("(")) return;
    const std::size_t close = closing(tokens_, open);
    if (close == tokens_.size() || !at(close + 1).is(";")) return;  // the name of a variable
    if (i > 0 && !is_any(at(i - 1), {";", "{", "}", ")", ":", "else", "do"})) return;
    const std::string statement(text_.substr(at(i).begin, at(close).end() - at(i).begin));
    const TranslatedAsm translated = translate_asm(on_one_line(statement));
    if (translated.code.empty() && translated.error.empty()) return;
    has_asm_ = true;
    if (!translated.error.empty()) {
      const Place place = place_of(text_, at(i).begin);
      errors_.push_back(place.file + ":" + std::to_string(place.line) + ": error: " + translated.error);
    }
    edits_.replace(at(i).begin, at(close).end(), translated.code + newlines_of(statement));
  }

  // ---- what g++ does not accept --------------------------------------------------------------------------

  /// extern "C" before a tag, or a block of it around: extern "C++" instead, or as well.
  void make_cpp_linkage(std::size_t tag) {
    const std::size_t begin = begin_of_declaration(attribute_around(tag).first);
    for (std::size_t i = begin; i < tag; ++i) {
      if (at(i).is("extern") && at(i + 1).is("\"C\"")) {
        edits_.replace(at(i + 1).begin, at(i + 1).end(), "\"C++\"");
        return;
      }
    }
    if (begin > 1 && is_in_block_of_c(begin) && begin != last_linkage_) {
      edits_.insert(at(begin).begin, "extern \"C++\" ");
      last_linkage_ = begin;
    }
  }
  bool is_in_block_of_c(std::size_t i) {
    open_scopes(i);
    return !scopes_.empty() && scopes_.back().is_c;
  }

  /// Brings scopes_ up to a token. Tokens are asked for in their order.
  void open_scopes(std::size_t i) {
    for (; scanned_ < i; ++scanned_) {
      if (at(scanned_).is("{")) {
        scopes_.push_back(scope_at(scanned_));
      } else if (at(scanned_).is("}") && !scopes_.empty()) {
        scopes_.pop_back();
      }
    }
  }
  struct Scope {
    bool is_c = false;    ///< extern "C" {
    std::string mangled;  ///< of a namespace: "1a1b" for a::b
  };
  Scope scope_at(std::size_t brace) const {
    Scope scope;
    if (brace < 2) return scope;
    scope.is_c = at(brace - 1).is("\"C\"") && at(brace - 2).is("extern");
    std::size_t i = brace;
    while (i > 0 && (at(i - 1).kind == TokenKind::kWord || at(i - 1).is("::")) && !at(i - 1).is("namespace"))
      --i;
    if (i == 0 || !at(i - 1).is("namespace")) return scope;
    if (i == brace) scope.mangled = "12_GLOBAL__N_1";
    for (; i < brace; ++i) {
      if (at(i).kind == TokenKind::kWord && !at(i).is("inline"))
        scope.mangled += std::to_string(at(i).text.size()) + std::string(at(i).text);
    }
    return scope;
  }

  void remove_from_lambda(std::size_t tag) {
    const auto [begin, end] = attribute_around(tag);
    std::size_t before = begin;  // __host__ expands to nothing
    if (before > 0 && at(before - 1).is("]") && is_lambda(opening(tokens_, before - 1)))
      edits_.replace(at(begin).begin, at(end - 1).end(), "");
  }
  /// `[=]`, and not the `[3]` of an array.
  bool is_lambda(std::size_t open) const {
    if (open == tokens_.size() || open == 0) return false;
    const Token& before = at(open - 1);
    return !(before.kind == TokenKind::kWord && !is_statement_word(before)) && !is_any(before, {"]", ")"});
  }

  /// "constexpr int tiles(int n)" declares the function tiles.
  void note_constexpr(std::size_t i) {
    while (i + 1 < tokens_.size() && !is_any(at(i + 1), {"(", ";", "=", "{"})) ++i;
    if (at(i + 1).is("(") && at(i).kind == TokenKind::kWord)
      constexpr_functions_.insert(std::string(at(i).text));
  }

  // ---- dynamic shared arrays -----------------------------------------------------------------------------

  /// `__shared__ alignas(16) float x[4]`: g++ wants alignas before the attributes of __shared__.
  void move_alignas(std::size_t begin, std::size_t i) {
    for (; i < tokens_.size() && !is_any(at(i), {";", "=", "{", "}"}); ++i) {
      if (!at(i).is("alignas") || !at(i + 1).is("(")) continue;
      const std::size_t close = closing(tokens_, i + 1);
      edits_.insert(at(begin).begin, text_of(i, close + 1) + " ");
      edits_.replace(at(i).begin, at(close).end(), "");
      return;
    }
  }

  /// @param i  of __constinit, a part of what the shim makes of __shared__
  void rewrite_shared(std::size_t i) {
    const std::size_t begin = begin_of_declaration(i);
    move_alignas(begin, i);
    bool is_extern = false;
    std::size_t end = begin;
    for (; end < tokens_.size() && !is_any(at(end), {";", "{", "}"}); ++end) {
      is_extern |= at(end).is("extern") && at(end + 1).kind == TokenKind::kWord;
    }
    if (!is_extern) return;
    for (std::size_t t = i; t < end; ++t) {
      if (!at(t).is("[") || !(at(t - 1).kind == TokenKind::kWord)) continue;
      add_dynamic_array(std::string(at(t - 1).text), i);
      std::size_t close = closing(tokens_, t);
      while (at(close + 1).is("[")) close = closing(tokens_, close + 1);
      edits_.insert(at(close).end(), " __asm__(\"" + std::string(kDynamicSymbol) + "\")");
      t = close;
    }
  }

  /// g++ ignores the label of an array that a template declares: the assembler has to know what its name
  /// stands for, too.
  void add_dynamic_array(const std::string& name, std::size_t i) {
    dynamic_arrays_.insert(name);
    open_scopes(i);
    std::string scope;
    for (const Scope& s : scopes_) scope += s.mangled;
    symbols_.insert(scope.empty() ? name : "_ZN" + scope + std::to_string(name.size()) + name + "E");
  }

  std::string_view text_;
  std::vector<Token> tokens_;
  Edits edits_;
  std::set<std::string> constexpr_functions_;
  std::set<std::string> dynamic_arrays_;
  std::set<std::string> symbols_;  ///< theirs, as g++ mangles them
  bool has_asm_ = false;
  std::vector<std::string> errors_;
  std::size_t scanned_ = 0;        ///< of the tokens, by open_scopes()
  std::vector<Scope> scopes_;      ///< those that are open there
  std::size_t end_of_kernel_ = 0;  ///< of the latest one, in the text
  std::size_t last_linkage_ = 0;   ///< the declaration that was made extern "C++"
};

}  // namespace

Rewritten rewrite_cuda(std::string_view preprocessed) { return Rewriter(preprocessed).run(); }

}  // namespace gpusim::check
