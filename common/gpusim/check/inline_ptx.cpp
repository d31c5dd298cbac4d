#include "gpusim/check/inline_ptx.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace gpusim::check {
namespace ptx {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// ---- the asm statement ----------------------------------------------------------------------------------

/// An operand of the asm statement: `[name] "=r"(expression)`.
struct AsmOperand {
  std::string name, constraint, expression;
  bool is_output = false;
  bool is_read() const { return !is_output || constraint.find('+') != constraint.npos; }
  char letter() const { return constraint.empty() ? '?' : constraint.back(); }
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$'; }

/// The contents of string literals next to each other, with their escapes resolved.
std::string contents(std::string_view literals) {
  std::string text;
  for (std::size_t i = 0; i < literals.size(); ++i) {
    if (literals[i] == 'R' && i + 1 < literals.size() && literals[i + 1] == '"') {
      const std::size_t open = literals.find('(', i);
      const std::string end = ")" + std::string(literals.substr(i + 2, open - i - 2)) + "\"";
      const std::size_t close = literals.find(end, open);
      text += literals.substr(open + 1, close - open - 1);
      i = close + end.size() - 1;
      continue;
    }
    if (literals[i] != '"') continue;
    for (++i; i < literals.size() && literals[i] != '"'; ++i) {
      if (literals[i] != '\\') {
        text += literals[i];
        continue;
      }
      const char c = literals[++i];
      text += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c == '\n' ? ' ' : c;
    }
  }
  return text;
}

/// Where the string literal that begins at `i` ends.
std::size_t after_literal(std::string_view text, std::size_t i) {
  const bool is_raw = i > 0 && text[i - 1] == 'R';
  if (is_raw) {
    const std::size_t open = text.find('(', i);
    const std::string end = ")" + std::string(text.substr(i + 1, open - i - 1)) + "\"";
    return text.find(end, open) + end.size();
  }
  for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\';
  return i + 1;
}

/// Splits at a separator that is in no brackets and no string.
std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '"') {
      const std::size_t end = after_literal(text, i);
      parts.back() += text.substr(i, end - i);
      i = end;
      continue;
    }
    if (text[i] == '(' || text[i] == '[' || text[i] == '{') ++depth;
    if (text[i] == ')' || text[i] == ']' || text[i] == '}') --depth;
    if (text[i] == separator && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += text[i];
    }
    ++i;
  }
  return parts;
}

std::string trimmed(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return std::string(text);
}

/// Where the expression of the first operand ends, behind its parenthesis.
std::size_t end_of_operand(std::string_view text) {
  char quote = '\0';
  for (std::size_t i = 0, depth = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != '\0') {
      if (c == '\\') {
        ++i;
      } else if (c == quote) {
        quote = '\0';
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(') {
      ++depth;
    } else if (c == ')' && --depth == 0) {
      return i + 1;
    }
  }
  return text.size();
}

AsmOperand operand_of(const std::string& text, bool is_output) {
  AsmOperand operand;
  operand.is_output = is_output;
  std::size_t i = 0;
  if (text[0] == '[') {
    i = text.find(']') + 1;
    operand.name = trimmed(text.substr(1, i - 2));
  }
  const std::size_t open = text.find('(', i);
  if (open == text.npos) throw Error("cannot read the operand " + text + " of asm");
  operand.constraint = contents(std::string_view(text).substr(i, open - i));
  operand.expression = trimmed(text.substr(open + 1, text.rfind(')') - open - 1));
  return operand;
}

// ---- PTX ------------------------------------------------------------------------------------------------

/// A type of PTX.
struct Type {
  std::string cpp;
  int bits = 0;
  bool is_float = false, is_signed = false;
};

std::optional<Type> type_of(const std::string& name) {
  static const std::map<std::string, Type> kTypes = {{"b8", {"U8", 8}},
                                                     {"u8", {"U8", 8}},
                                                     {"s8", {"S8", 8, false, true}},
                                                     {"b16", {"U16", 16}},
                                                     {"u16", {"U16", 16}},
                                                     {"s16", {"S16", 16, false, true}},
                                                     {"b32", {"U32", 32}},
                                                     {"u32", {"U32", 32}},
                                                     {"s32", {"S32", 32, false, true}},
                                                     {"b64", {"U64", 64}},
                                                     {"u64", {"U64", 64}},
                                                     {"s64", {"S64", 64, false, true}},
                                                     {"f32", {"float", 32, true, true}},
                                                     {"f64", {"double", 64, true, true}},
                                                     {"f16", {"Half", 16, true, true}},
                                                     {"bf16", {"Bfloat", 16, true, true}},
                                                     {"f16x2", {"Half2", 32, true, true}},
                                                     {"bf16x2", {"Bfloat2", 32, true, true}},
                                                     {"tf32", {"float", 32, true, true}},
                                                     {"pred", {"bool", 1}}};
  const auto found = kTypes.find(name);
  if (found == kTypes.end()) return std::nullopt;
  return found->second;
}

const std::string kScope = "::gpusim::inl::";
const std::string kDevice = "::gpusim::device::";

/// The C++ name of a type, in the scope of the shim.
std::string cpp(const Type& type) {
  return type.cpp == "float" || type.cpp == "double" || type.cpp == "bool" ? type.cpp : kScope + type.cpp;
}

/// An operand of an instruction.
struct Operand {
  enum class Kind { kValue, kNumber, kAddress, kVector, kSink } kind = Kind::kValue;
  std::string text;            ///< C++
  bool negated = false;        ///< !p, or -x
  std::string offset = "0";    ///< kAddress
  std::vector<Operand> items;  ///< kVector; kAddress: coordinates
  std::string second;          ///< p of d|p
};

struct Lexeme {
  enum class Kind { kName, kNumber, kSign, kEnd } kind = Kind::kEnd;
  std::string text;
};

/// Divides PTX into tokens. A mnemonic with its suffixes is one.
class Scanner {
 public:
  explicit Scanner(std::string text) : text_(std::move(text)) { next(); }
  const Lexeme& token() const { return token_; }
  bool is(std::string_view text) const { return token_.text == text && token_.kind != Lexeme::Kind::kEnd; }
  bool at_end() const { return token_.kind == Lexeme::Kind::kEnd; }
  std::string take() {
    std::string text = token_.text;
    next();
    return text;
  }
  bool take_if(std::string_view text) {
    if (!is(text)) return false;
    next();
    return true;
  }
  void expect(std::string_view text) {
    if (!take_if(text))
      throw Error("expected '" + std::string(text) + "' before '" + token_.text + "' in PTX");
  }

 private:
  void next() {
    skip();
    token_ = {};
    if (at_ >= text_.size()) return;
    const std::size_t begin = at_;
    const char c = text_[at_];
    const auto here = [&](std::size_t ahead) {
      return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
    };
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      token_.kind = Lexeme::Kind::kNumber;
      while (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == '.')) ++at_;
    } else if (is_word(c) || c == '%' || c == '.') {
      token_.kind = Lexeme::Kind::kName;
      ++at_;
      if (here(0) == '[' && c == '%') {  // %[name]
        while (at_ < text_.size() && text_[at_] != ']') ++at_;
        ++at_;
      } else {
        for (;; ++at_) {
          if (is_word(here(0)) || here(0) == '%') continue;
          if (here(0) == '.' && (is_word(here(1)))) continue;
          if (here(0) == ':' && here(1) == ':') {
            ++at_;
            continue;
          }
          break;
        }
      }
    } else {
      token_.kind = Lexeme::Kind::kSign;
      ++at_;
    }
    token_.text = text_.substr(begin, at_ - begin);
  }
  void skip() {
    for (;;) {
      while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
      if (text_.compare(at_, 2, "//") == 0) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (text_.compare(at_, 2, "/*") == 0) {
        at_ = std::min(text_.find("*/", at_) + 2, text_.size());
      } else {
        return;
      }
    }
  }

  std::string text_;
  std::size_t at_ = 0;
  Lexeme token_;
};

class Translator {
 public:
  std::string run(std::string_view statement) {
    parse(statement);
    Scanner scan(ptx_);
    while (!scan.at_end()) translate(scan);
    std::string code = "do { ";
    if (!labels_.empty()) {
      code += "__label__ ";
      for (const std::string& label : labels_) code += (label == *labels_.begin() ? "" : ", ") + label;
      code += "; ";
    }
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      const AsmOperand& o = operands_[i];
      if (by_address_.count(i) != 0 || o.letter() == 'C') continue;
      const std::string type = cpp(type_of_constraint(o));
      if (o.letter() == 'n') {
        code +=
            "[[maybe_unused]] constexpr auto " + local(i) + " = " + kScope + "U64(" + o.expression + "); ";
        continue;
      }
      code += "[[maybe_unused]] " + type + " " + local(i);
      if (o.is_read()) code += " = " + kScope + "input<" + type + ">(" + o.expression + ")";
      code += "; ";
    }
    if (uses_carry_) code += "[[maybe_unused]] bool ptx_carry = false; ";
    code += code_;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (operands_[i].is_output && by_address_.count(i) == 0)
        code += kScope + "set(" + operands_[i].expression + ", " + local(i) + "); ";
    }
    return code + "} while (false)";
  }

 private:
  static std::string local(std::size_t i) { return "ptx_" + std::to_string(i); }
  static Type type_of_constraint(const AsmOperand& o) {
    switch (o.letter()) {
      case 'h': return *type_of("u16");
      case 'r': return *type_of("u32");
      case 'l':
      case 'n': return *type_of("u64");
      case 'f': return *type_of("f32");
      case 'd': return *type_of("f64");
      default: throw Error("the constraint \"" + o.constraint + "\" of asm is not simulated");
    }
  }

  void parse(std::string_view statement) {
    const std::size_t open = statement.find('('), close = statement.rfind(')');
    if (open == statement.npos || close == statement.npos) throw Error("cannot read this asm statement");
    const std::vector<std::string> parts = split(statement.substr(open + 1, close - open - 1), ':');
    ptx_ = contents(parts[0]);
    // "%=" is a number that no other asm statement has. Labels are local here.
    for (std::size_t at; (at = ptx_.find("%=")) != ptx_.npos;) ptx_.replace(at, 2, "0");
    for (std::size_t part = 1; part < parts.size() && part < 3; ++part) {
      for (const std::string& text : split(parts[part], ',')) {
        std::string_view rest = text;
        while (!trimmed(rest).empty()) {  // nvcc needs no comma between two operands
          const std::size_t end = end_of_operand(rest);
          operands_.push_back(operand_of(trimmed(rest.substr(0, end)), part == 1));
          rest.remove_prefix(end);
        }
      }
    }
  }

  // ---- statements -----------------------------------------------------------------------------------------

  void translate(Scanner& scan) {
    if (scan.take_if(";")) return;
    if (scan.take_if("{")) {
      code_ += "{ ";
      scopes_.emplace_back();
      return;
    }
    if (scan.take_if("}")) {
      code_ += "} ";
      if (scopes_.size() > 1) scopes_.pop_back();
      return;
    }
    if (scan.is(".reg")) return declare(scan);
    if (scan.token().kind == Lexeme::Kind::kName && scan.token().text[0] == '.' && !scan.is(".reg"))
      throw Error("the directive " + scan.token().text + " in asm is not simulated");
    std::string guard;
    if (scan.take_if("@")) {
      const bool is_not = scan.take_if("!");
      guard = std::string(is_not ? "!" : "") + value(scan.take());
    }
    if (scan.token().kind != Lexeme::Kind::kName)
      throw Error("cannot read '" + scan.token().text + "' in PTX");
    std::string name = scan.take();
    if (guard.empty() && scan.take_if(":")) {
      labels_.insert(label(name));
      code_ += label(name) + ": ; ";
      return;
    }
    if (name == "bra" || name == "bra.uni") {
      const std::string to = label(scan.take());
      scan.take_if(";");
      labels_.insert(to);
      code_ += guard.empty() ? "goto " + to + "; " : "if (" + guard + ") goto " + to + "; ";
      return;
    }
    std::vector<Operand> operands;
    while (!scan.is(";") && !scan.is("}") && !scan.at_end()) {
      operands.push_back(operand(scan));
      if (!scan.take_if(",")) break;
    }
    if (!scan.is("}") && !scan.at_end()) scan.expect(";");
    const std::string body = instruction(name, operands);
    code_ += guard.empty() ? body : "if (" + guard + ") { " + body + "} ";
  }

  static std::string label(const std::string& name) {
    std::string text = "ptx_label_";
    for (const char c : name) text += is_word(c) && c != '$' ? c : '_';
    return text;
  }

  void declare(Scanner& scan) {
    scan.take();
    std::string name = scan.take();
    if (name == ".v2" || name == ".v4") throw Error("vector registers in asm are not simulated");
    const std::optional<Type> type = type_of(name.substr(1));
    if (!type) throw Error("registers of type " + name + " in asm are not simulated");
    do {
      std::string reg = scan.take();
      const std::string storage =
          cpp(type->bits == 1 ? *type
              : type->is_float && (type->bits == 16 || type->cpp.find('2') != std::string::npos)
                  ? *type_of(type->bits == 16 ? "b16" : "b32")
                  : *type);
      if (scan.take_if("<")) {
        const int count = std::stoi(scan.take());
        scan.expect(">");
        for (int i = 0; i < count; ++i) declare_one(reg + std::to_string(i), storage);
      } else {
        declare_one(reg, storage);
      }
    } while (scan.take_if(","));
    scan.expect(";");
  }
  void declare_one(const std::string& name, const std::string& type) {
    std::string cpp_name = "ptx_r_";
    for (const char c : name) cpp_name += is_word(c) && c != '$' ? c : '_';
    if (name[0] == '%') cpp_name += "_p";
    scopes_.back()[name] = cpp_name;
    code_ += "[[maybe_unused]] " + type + " " + cpp_name + "; ";
  }

  // ---- operands -------------------------------------------------------------------------------------------

  std::size_t index_of_operand(const std::string& text) const {
    if (text[1] == '[') {
      const std::string name = text.substr(2, text.size() - 3);
      for (std::size_t i = 0; i < operands_.size(); ++i)
        if (operands_[i].name == name) return i;
      throw Error("asm has no operand " + name);
    }
    const std::size_t i = std::size_t(std::stoi(text.substr(1)));
    if (i >= operands_.size()) throw Error("asm has no operand " + text);
    return i;
  }
  static bool is_asm_operand(const std::string& text) {
    return text.size() > 1 && text[0] == '%' &&
           (text[1] == '[' || std::isdigit(static_cast<unsigned char>(text[1])) != 0);
  }

  /// The C++ of a register, of an operand of the asm statement or of a special register.
  std::string value(const std::string& text) {
    if (is_asm_operand(text)) return local(index_of_operand(text));
    for (std::size_t s = scopes_.size(); s-- > 0;) {
      const auto found = scopes_[s].find(text);
      if (found != scopes_[s].end()) return found->second;
    }
    std::string name = text;
    while (!name.empty() && name[0] == '%') name.erase(0, 1);
    if (name.size() < text.size() || text == "WARP_SZ") return special(name);
    throw Error("PTX names " + text + ", which this asm statement does not declare");
  }

  static std::string special(const std::string& name) {
    static const std::map<std::string, std::string> kSpecial = {
        {"tid.x", "threadIdx.x"},
        {"tid.y", "threadIdx.y"},
        {"tid.z", "threadIdx.z"},
        {"ntid.x", "blockDim.x"},
        {"ntid.y", "blockDim.y"},
        {"ntid.z", "blockDim.z"},
        {"ctaid.x", "blockIdx.x"},
        {"ctaid.y", "blockIdx.y"},
        {"ctaid.z", "blockIdx.z"},
        {"nctaid.x", "gridDim.x"},
        {"nctaid.y", "gridDim.y"},
        {"nctaid.z", "gridDim.z"},
        {"laneid", "::gpusim::inl::lane()"},
        {"warpid", "(::gpusim::inl::thread_in_block() / 32)"},
        {"nwarpid", "((::gpusim::inl::threads_of_block() + 31) / 32)"},
        {"WARP_SZ", "32u"},
        {"smid", "::gpusim::device::multiprocessor()"},
        {"nsmid", "::gpusim::device::multiprocessors()"},
        {"gridid", "::gpusim::inl::U64(0)"},
        {"lanemask_eq", "(1u << ::gpusim::inl::lane())"},
        {"lanemask_lt", "((1u << ::gpusim::inl::lane()) - 1)"},
        {"lanemask_le", "((2u << ::gpusim::inl::lane()) - 1)"},
        {"lanemask_gt", "(~((2u << ::gpusim::inl::lane()) - 1))"},
        {"lanemask_ge", "(~((1u << ::gpusim::inl::lane()) - 1))"},
        {"clock", "::gpusim::inl::U32(::gpusim::device::clock_cycles())"},
        {"clock_hi", "::gpusim::inl::U32(::gpusim::device::clock_cycles() >> 32)"},
        {"clock64", "::gpusim::device::clock_cycles()"},
        {"globaltimer", "::gpusim::device::clock_nanoseconds()"},
        {"globaltimer_lo", "::gpusim::inl::U32(::gpusim::device::clock_nanoseconds())"},
        {"globaltimer_hi", "::gpusim::inl::U32(::gpusim::device::clock_nanoseconds() >> 32)"},
        {"dynamic_smem_size", "::gpusim::device::dynamic_shared_bytes()"},
        {"cluster_ctarank", "::gpusim::inl::U32(::gpusim::device::cluster_rank())"},
        {"cluster_nctarank",
         "(::gpusim::device::cluster_dim().x * ::gpusim::device::cluster_dim().y * "
         "::gpusim::device::cluster_dim().z)"},
        {"is_explicit_cluster", "::gpusim::device::has_cluster()"}};
    const auto found = kSpecial.find(name);
    if (found != kSpecial.end()) return found->second;
    for (const char* const axis : {"x", "y", "z"}) {
      const std::string dim = std::string("::gpusim::device::cluster_dim().") + axis;
      if (name == std::string("cluster_ctaid.") + axis)
        return std::string("(blockIdx.") + axis + " % " + dim + ")";
      if (name == std::string("cluster_nctaid.") + axis) return dim;
      if (name == std::string("clusterid.") + axis)
        return std::string("(blockIdx.") + axis + " / " + dim + ")";
      if (name == std::string("nclusterid.") + axis)
        return std::string("(gridDim.") + axis + " / " + dim + ")";
    }
    throw Error("the special register %" + name + " is not simulated");
  }

  static std::string number(const std::string& text) {
    if (text.size() > 2 && text[0] == '0' && (text[1] == 'f' || text[1] == 'F'))
      return kScope + "as<float>(" + kScope + "U32(0x" + text.substr(2) + "u))";
    if (text.size() > 2 && text[0] == '0' && (text[1] == 'd' || text[1] == 'D'))
      return kScope + "as<double>(" + kScope + "U64(0x" + text.substr(2) + "ull))";
    if (text.find('.') != text.npos) return text;
    std::string digits = text;
    while (!digits.empty() && (digits.back() == 'U' || digits.back() == 'u')) digits.pop_back();
    return digits + (digits.size() > 9 ? "ull" : "");
  }

  Operand operand(Scanner& scan) {
    Operand o;
    if (scan.take_if("[")) {
      o.kind = Operand::Kind::kAddress;
      o.text = scan.token().kind == Lexeme::Kind::kNumber ? number(scan.take()) : value(scan.take());
      if (scan.is("+") || scan.is("-")) {
        const bool minus = scan.take() == "-";
        const bool twice = scan.take_if("-");
        const bool is_number = scan.token().kind == Lexeme::Kind::kNumber;
        const std::string by = scan.take();
        o.offset = std::string(minus != twice ? "-" : "") +
                   (is_number ? number(by) : "::gpusim::inl::S64(" + value(by) + ")");
      }
      if (scan.take_if(",")) {
        scan.expect("{");
        while (!scan.is("}")) {
          o.items.push_back(operand(scan));
          if (!scan.take_if(",")) break;
        }
        scan.expect("}");
      }
      scan.expect("]");
      return o;
    }
    if (scan.take_if("{")) {
      o.kind = Operand::Kind::kVector;
      while (!scan.is("}")) {
        o.items.push_back(operand(scan));
        if (!scan.take_if(",")) break;
      }
      scan.expect("}");
      return o;
    }
    if (scan.is("!") || scan.is("-")) {
      scan.take();
      o.negated = true;
    }
    if (scan.token().kind == Lexeme::Kind::kNumber) {
      o.kind = Operand::Kind::kNumber;
      o.text = number(scan.take());
    } else if (scan.is("_")) {
      scan.take();
      o.kind = Operand::Kind::kSink;
    } else {
      o.text = value(scan.take());
    }
    if (scan.take_if("|")) o.second = scan.is("_") ? (scan.take(), "") : value(scan.take());
    return o;
  }

  // ---- C++ of operands ------------------------------------------------------------------------------------

  static std::string in(const Operand& o, const Type& type) {
    if (o.kind == Operand::Kind::kAddress || o.kind == Operand::Kind::kSink)
      throw Error("an operand in PTX is of the wrong kind");
    if (type.bits == 1) return std::string(o.negated ? "!" : "") + "bool(" + o.text + ")";
    if (o.kind == Operand::Kind::kVector) return packed(o, type);
    if (o.kind == Operand::Kind::kNumber) {
      const std::string text = (o.negated ? "-" : "") + o.text;
      const bool has_bits = o.text.find("as<") != o.text.npos;
      if (has_bits) return kScope + "as<" + cpp(type) + ">(" + o.text + ")";
      if (type.is_float && type.cpp.find('2') != type.cpp.npos)
        return kScope + "as<" + cpp(type) + ">(" + kScope + "U32(" + text + "))";
      if (type.is_float && type.bits == 16 && text.find('.') == text.npos)
        return kScope + "as<" + cpp(type) + ">(" + kScope + "U16(" + text + "))";
      return cpp(type) + "(" + text + ")";
    }
    const std::string text = kScope + "as<" + cpp(type) + ">(" + o.text + ")";
    return o.negated ? kScope + "negative(" + text + ")" : text;
  }
  /// {low, high} as one number.
  static std::string packed(const Operand& o, const Type& type) {
    const int each = type.bits / int(o.items.size());
    const Type part = *type_of("b" + std::to_string(each));
    std::string text;
    for (std::size_t i = 0; i < o.items.size(); ++i) {
      text += (i == 0 ? "" : " | ") + kScope + "U64(" + in(o.items[i], part) + ") << " +
              std::to_string(int(i) * each);
    }
    return kScope + "as<" + cpp(type) + ">(" + kScope + "U" + std::to_string(type.bits) + "(" + text + "))";
  }
  static std::string out(const Operand& o, const std::string& expression) {
    if (o.kind == Operand::Kind::kSink) return "static_cast<void>(" + expression + "); ";
    if (o.kind == Operand::Kind::kVector) {
      const std::string count = std::to_string(o.items.size());
      std::string text = "{ const auto ptx_whole = " + expression + "; constexpr int ptx_each = " + kScope +
                         "kBits<decltype(ptx_whole)> / " + count + "; ";
      for (std::size_t i = 0; i < o.items.size(); ++i) {
        if (o.items[i].kind == Operand::Kind::kSink) continue;
        text += kScope + "set(" + o.items[i].text + ", ::gpusim::inl::U64(ptx_whole) >> " +
                std::to_string(i) + " * ptx_each & (~::gpusim::inl::U64(0) >> (64 - ptx_each))); ";
      }
      return text + "} ";
    }
    return kScope + "set(" + o.text + ", " + expression + "); ";
  }

  // ---- instructions ---------------------------------------------------------------------------------------

  using Operands = std::vector<Operand>;
  using Parts = std::vector<std::string>;

  static bool has(const Parts& parts, std::string_view part) {
    return std::find(parts.begin(), parts.end(), part) != parts.end();
  }
  static bool has_prefix(const Parts& parts, std::string_view prefix) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](const std::string& p) { return p.substr(0, prefix.size()) == prefix; });
  }
  static std::vector<Type> types_in(const Parts& parts) {
    std::vector<Type> types;
    for (std::size_t i = 1; i < parts.size(); ++i) {
      if (const auto type = type_of(parts[i])) types.push_back(*type);
    }
    return types;
  }
  static const Operand& nth(const Operands& o, std::size_t i, const std::string& name) {
    if (i >= o.size()) throw Error(name + " needs more operands");
    return o[i];
  }

  static std::string pointer(const Operand& o, bool is_shared) {
    if (o.kind != Operand::Kind::kAddress) throw Error("an address in PTX has to be in brackets");
    return kScope + (is_shared ? "shared(" : "generic(") + o.text + ", " + o.offset + ")";
  }

  static bool is_shared(const Parts& p) { return has_prefix(p, "shared"); }

  std::string instruction(const std::string& name, const Operands& o) {
    Parts p;
    for (std::size_t begin = 0; begin <= name.size();) {
      const std::size_t end = std::min(name.find('.', begin), name.size());
      p.push_back(name.substr(begin, end - begin));
      begin = end + 1;
    }
    const std::string& op = p[0];
    const std::vector<Type> types = types_in(p);
    const auto unknown = [&]() -> Error {
      return Error("the PTX instruction " + name + " is not simulated");
    };
    const auto arg = [&](std::size_t i) -> const Operand& { return nth(o, i, name); };
    const auto last_type = [&]() -> const Type& {
      if (types.empty()) throw unknown();
      return types.back();
    };
    const Type u32 = *type_of("u32"), u64 = *type_of("u64"), b32 = *type_of("b32"), pred = *type_of("pred");
    const auto call = [](const std::string& function, const std::vector<std::string>& arguments) {
      std::string text = function + "(";
      for (std::size_t i = 0; i < arguments.size(); ++i) text += (i == 0 ? "" : ", ") + arguments[i];
      return text + ")";
    };

    // -- moves and memory
    if (op == "mov" || op == "ldu") {
      const Type& t = last_type();
      if (t.bits == 1) return out(arg(0), in(arg(1), t));
      return out(arg(0), in(arg(1), t));
    }
    if (op == "ld" || op == "ldu") return load(p, o, last_type(), name);
    if (op == "st") {
      if (has(p, "async")) return store_async(p, o, last_type(), name);
      return store(p, o, last_type());
    }
    if (op == "cvta") {
      const bool to = has(p, "to");
      if (!is_shared(p)) return out(arg(0), in(arg(1), last_type()));
      if (to)
        return out(arg(0), kScope + "U64(" + kDevice + "window_address(" + kScope + "generic(" +
                               in(arg(1), u64) + ")))");
      return out(arg(0), kScope + "U64(" + kScope + "shared(" + in(arg(1), u64) + "))");
    }
    if (op == "isspacep") {
      const std::string inside = kDevice + "is_shared(" + kScope + "generic(" + in(arg(1), u64) + "))";
      return out(arg(0), (is_shared(p) ? "" : "!") + inside);
    }
    if (op == "mapa") {
      if (last_type().bits == 64 && !is_shared(p))
        return out(arg(0), kScope + "map_rank(" + kScope + "generic(" + in(arg(1), u64) + "), " +
                               in(arg(2), u32) + ")");
      return out(arg(0), kDevice + "window_address(" + kScope + "generic(" + kScope + "map_rank(" + kScope +
                             "shared(" + in(arg(1), last_type()) + "), " + in(arg(2), u32) + ")))");
    }
    if (op == "getctarank") {
      return out(arg(0), kScope + "U32(" + kDevice + "rank_of_shared(" + kScope +
                             (is_shared(p) ? "shared(" : "generic(") + in(arg(1), last_type()) + ")))");
    }
    if (op == "prefetch" || op == "prefetchu" || op == "applypriority" || op == "discard" || op == "pmevent")
      return "";
    if (op == "createpolicy") return out(arg(0), kScope + "U64(0)");
    if (op == "atom" || op == "red") {
      if (has(p, "async")) throw unknown();
      return atomic(p, o, last_type(), name);
    }

    // -- barriers and warps
    if (op == "bar" || op == "barrier") return barrier(p, o, name);
    if (op == "membar") return has(p, "cta") ? "__threadfence_block(); " : kDevice + "thread_fence(); ";
    if (op == "fence") {
      if (has_prefix(p, "mbarrier_init")) return kDevice + "fence_mbarrier_init(); ";
      if (has(p, "proxy")) return has_prefix(p, "async") ? kDevice + "fence_proxy_async(); " : "";
      return has(p, "cta") ? "__threadfence_block(); " : kDevice + "thread_fence(); ";
    }
    if (op == "griddepcontrol") {
      return kDevice + (has(p, "wait") ? "depend_on_kernel_before(); " : "let_next_kernel_begin(); ");
    }
    if (op == "shfl") {
      const char how = has(p, "up") ? 'u' : has(p, "down") ? 'd' : has(p, "bfly") ? 'b' : 'i';
      const std::string mask = o.size() > 4 ? in(arg(4), u32) : kDevice + "active_lanes()";
      std::string text = "{ bool ptx_in_range = false; " +
                         out({Operand::Kind::kValue, arg(0).text, false, "0", {}, ""},
                             kScope + "shuffle('" + how + "', " + in(arg(1), b32) + ", " + in(arg(2), u32) +
                                 ", " + in(arg(3), u32) + ", " + mask + ", ptx_in_range)");
      if (!arg(0).second.empty()) text += arg(0).second + " = ptx_in_range; ";
      return text + "} ";
    }
    if (op == "vote") {
      const bool has_mask = has(p, "sync");
      const std::string mask = has_mask ? in(arg(2), u32) : kDevice + "active_lanes()";
      const std::string vote = in(arg(1), pred);
      if (has(p, "ballot")) return out(arg(0), kDevice + "ballot(" + mask + ", " + vote + ")");
      if (has(p, "any")) return out(arg(0), "(" + kDevice + "ballot(" + mask + ", " + vote + ") != 0)");
      if (has(p, "all")) return out(arg(0), "(" + kDevice + "ballot(" + mask + ", !(" + vote + ")) == 0)");
      if (has(p, "uni"))
        return "{ const auto ptx_yes = " + kDevice + "ballot(" + mask + ", " + vote + "); " +
               out(arg(0), "(ptx_yes == 0 || ptx_yes == (" + mask + "))") + "} ";
      throw unknown();
    }
    if (op == "match") {
      const std::string value = in(arg(1), last_type());
      if (has(p, "any")) return out(arg(0), kDevice + "match(" + in(arg(2), u32) + ", " + value + ")");
      std::string text = "{ const unsigned ptx_same = " + kDevice + "match(" + in(arg(2), u32) + ", " +
                         value + "); const bool ptx_all = ptx_same == " + in(arg(2), u32) + "; ";
      text += out({Operand::Kind::kValue, arg(0).text, false, "0", {}, ""}, "(ptx_all ? ptx_same : 0u)");
      if (!arg(0).second.empty()) text += arg(0).second + " = ptx_all; ";
      return text + "} ";
    }
    if (op == "redux") {
      static const std::map<std::string, std::string> kHow = {
          {"add", "kAdd"}, {"min", "kMin"}, {"max", "kMax"}, {"and", "kAnd"}, {"or", "kOr"}, {"xor", "kXor"}};
      if (last_type().is_float) throw unknown();
      for (const auto& [word, how] : kHow) {
        if (has(p, word))
          return out(arg(0), kScope + "U32(" + kDevice + "warp_reduce(" + in(arg(2), u32) + ", " +
                                 in(arg(1), last_type()) + ", " + kDevice + "Reduction::" + how + "))");
      }
      throw unknown();
    }
    if (op == "activemask") return out(arg(0), kDevice + "active_lanes()");
    if (op == "elect") {
      std::string text = "{ const bool ptx_elected = " + kDevice + "elect_sync(); ";
      if (!arg(0).second.empty()) text += arg(0).second + " = ptx_elected; ";
      if (arg(0).kind == Operand::Kind::kValue)
        text += kScope + "set(" + arg(0).text + ", ::gpusim::inl::U32(0)); ";
      return text + "} ";
    }
    if (op == "nanosleep") return "__nanosleep(" + in(arg(0), u32) + "); ";
    if (op == "trap") return kDevice + "trap(); ";
    if (op == "brkpt" || op == "nop") return "";
    if (op == "exit" || op == "ret") return "return; ";

    // -- matrices
    if (op == "ldmatrix" || op == "stmatrix") {
      const bool is_load = op == "ldmatrix";
      if (!has(p, "m8n8") || !has(p, "b16")) throw unknown();
      const int count = has(p, "x4") ? 4 : has(p, "x2") ? 2 : 1;
      const Operand& vector = arg(is_load ? 0 : 1);
      const Operands one{vector};
      const Operands& items = vector.kind == Operand::Kind::kVector ? vector.items : one;
      if (int(items.size()) != count) throw Error(name + " needs " + std::to_string(count) + " registers");
      const std::string row = pointer(arg(is_load ? 1 : 0), is_shared(p));
      const std::string trans = has(p, "trans") ? "true" : "false";
      std::string text = "{ ::gpusim::inl::U32 ptx_m[" + std::to_string(count) + "]";
      if (is_load) {
        text += "; " + kDevice + "load_matrices(" + row + ", " + std::to_string(count) + ", " + trans +
                ", ptx_m); ";
        for (int i = 0; i < count; ++i)
          text += out(items[std::size_t(i)], "ptx_m[" + std::to_string(i) + "]");
      } else {
        text += " = {";
        for (int i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + in(items[std::size_t(i)], b32);
        text += "}; " + kDevice + "store_matrices(" + row + ", " + std::to_string(count) + ", " + trans +
                ", ptx_m); ";
      }
      return text + "} ";
    }
    if (op == "movmatrix") return out(arg(0), kDevice + "transpose_matrix(" + in(arg(1), b32) + ")");
    if (op == "mma") return mma(p, o, name);
    if (op == "wgmma") return wgmma(p, o, name);
    if (op == "setmaxnreg")
      return kDevice + (has(p, "inc") ? "setmaxnreg_inc(" : "setmaxnreg_dec(") + in(arg(0), u32) + "); ";

    // -- asynchronous copies
    if (op == "cp") return copy(p, o, name);
    if (op == "mbarrier") return mbarrier(p, o, name);

    // -- arithmetic
    const Type& t = last_type();
    const auto a = [&](std::size_t i) { return in(arg(i), t); };
    const bool carries_out = has(p, "cc");
    const auto finished = [&](std::string value) {
      if (has(p, "sat") && t.is_float) value = kScope + "saturate(" + value + ")";
      if (has(p, "relu")) value = kScope + "without_negative(" + value + ")";
      return out(arg(0), value);
    };
    if (op == "add" || op == "sub" || op == "addc" || op == "subc") {
      const bool carries_in = op.size() == 4;
      if (!carries_out && !carries_in) return finished(call(kScope + op, {a(1), a(2)}));
      uses_carry_ = true;
      const std::string flag = carries_out ? "ptx_carry" : "ptx_unused";
      const std::string text = out(arg(0), kScope + op.substr(0, 3) + "_with(" + a(1) + ", " + a(2) + ", " +
                                               (carries_in ? "ptx_carry" : "false") + ", " + flag + ")");
      return carries_out ? text : "{ [[maybe_unused]] bool ptx_unused; " + text + "} ";
    }
    if (op == "mul" || op == "mul24" || op == "mad" || op == "mad24" || op == "madc" || op == "fma") {
      const bool adds = op != "mul" && op != "mul24";
      if (t.is_float)
        return finished(adds ? call(kScope + "fma", {a(1), a(2), a(3)}) : call(kScope + "mul", {a(1), a(2)}));
      if (has(p, "wide")) {
        const Type wide = *type_of(std::string(t.is_signed ? "s" : "u") + std::to_string(2 * t.bits));
        const std::string product = kScope + "mul_wide<" + cpp(wide) + ">(" + a(1) + ", " + a(2) + ")";
        return out(arg(0), adds ? call(kScope + "add", {product, in(arg(3), wide)}) : product);
      }
      const std::string product =
          has(p, "hi") ? call(kScope + "mul_hi", {a(1), a(2)}) : call(kScope + "mul", {a(1), a(2)});
      if (!adds) return out(arg(0), product);
      if (!carries_out && op != "madc") return out(arg(0), call(kScope + "add", {product, a(3)}));
      uses_carry_ = true;
      const std::string text = out(arg(0), kScope + "add_with(" + product + ", " + a(3) + ", " +
                                               (op == "madc" ? "ptx_carry" : "false") + ", " +
                                               (carries_out ? "ptx_carry" : "ptx_unused") + ")");
      return carries_out ? text : "{ [[maybe_unused]] bool ptx_unused; " + text + "} ";
    }
    static const std::map<std::string, std::string> kBinary = {
        {"div", "divide"}, {"rem", "rem"}, {"min", "least"}, {"max", "most"}};
    if (const auto f = kBinary.find(op); f != kBinary.end()) {
      std::string text = call(kScope + f->second, {a(1), a(2)});
      if (o.size() > 3) text = call(kScope + f->second, {text, a(3)});
      return finished(text);
    }
    static const std::map<std::string, std::string> kUnary = {{"neg", "negative"},
                                                              {"abs", "absolute"},
                                                              {"ex2", "exp2"},
                                                              {"lg2", "log2"},
                                                              {"rcp", "reciprocal"},
                                                              {"sqrt", "square_root"},
                                                              {"rsqrt", "reciprocal_root"},
                                                              {"sin", "sine"},
                                                              {"cos", "cosine"},
                                                              {"tanh", "tangent_h"},
                                                              {"brev", "reverse_bits"}};
    if (const auto f = kUnary.find(op); f != kUnary.end()) return finished(call(kScope + f->second, {a(1)}));
    if (op == "popc") return out(arg(0), call(kScope + "count_ones", {a(1)}));
    if (op == "clz") return out(arg(0), call(kScope + "leading_zeros", {a(1)}));
    if (op == "bfind")
      return out(arg(0), call(kScope + "find_leading", {a(1), has(p, "shiftamt") ? "true" : "false"}));
    static const std::map<std::string, std::string> kBits = {{"and", " & "}, {"or", " | "}, {"xor", " ^ "}};
    if (const auto f = kBits.find(op); f != kBits.end()) {
      if (t.bits == 1)
        return out(arg(0), "bool((" + in(arg(1), pred) + ")" + f->second + "(" + in(arg(2), pred) + "))");
      return out(arg(0), cpp(t) + "(" + a(1) + f->second + a(2) + ")");
    }
    if (op == "not") return out(arg(0), t.bits == 1 ? "!" + in(arg(1), pred) : cpp(t) + "(~" + a(1) + ")");
    if (op == "cnot") return out(arg(0), cpp(t) + "(" + a(1) + " == 0)");
    if (op == "shl") return out(arg(0), call(kScope + "shift_left", {a(1), in(arg(2), u32)}));
    if (op == "shr") return out(arg(0), call(kScope + "shift_right", {a(1), in(arg(2), u32)}));
    if (op == "shf")
      return out(arg(0), call(kScope + (has(p, "l") ? "funnel_left" : "funnel_right"),
                              {in(arg(1), u32), in(arg(2), u32), in(arg(3), u32),
                               has(p, "wrap") ? "true" : "false"}));
    if (op == "lop3") return out(arg(0), call(kScope + "lookup3", {a(1), a(2), a(3), in(arg(4), u32)}));
    if (op == "bfe")
      return out(arg(0), call(kScope + "extract_field", {a(1), in(arg(2), u32), in(arg(3), u32)}));
    if (op == "bfi")
      return out(arg(0), call(kScope + "insert_field", {a(1), a(2), in(arg(3), u32), in(arg(4), u32)}));
    if (op == "prmt" && p.size() == 2)
      return out(arg(0), call(kScope + "permute", {in(arg(1), u32), in(arg(2), u32), in(arg(3), u32)}));
    if (op == "sad") return out(arg(0), call(kScope + "absolute_difference", {a(1), a(2), a(3)}));
    if (op == "dp4a" && types.size() == 2) {
      const auto byte = [](const Type& of) { return kScope + (of.is_signed ? "S8" : "U8"); };
      const Type sum = *type_of(types[0].is_signed || types[1].is_signed ? "s32" : "u32");
      return out(arg(0), kScope + "dot4<" + byte(types[0]) + ", " + byte(types[1]) + ">(" + in(arg(1), u32) +
                             ", " + in(arg(2), u32) + ", " + in(arg(3), sum) + ")");
    }
    if (op == "selp") return out(arg(0), "(" + in(arg(3), pred) + " ? " + a(1) + " : " + a(2) + ")");
    if (op == "copysign") return out(arg(0), cpp(t) + "(__builtin_copysign(" + a(2) + ", " + a(1) + "))");
    if (op == "setp" || op == "set") return compare(p, o, types, name);
    if (op == "cvt") return convert(p, o, types, name);
    throw unknown();
  }

  static std::string sem(const Parts& p) {
    const bool both = has(p, "acq_rel");
    return kScope + "Sem::" +
           (both                ? "kBoth"
            : has(p, "acquire") ? "kAcquire"
            : has(p, "release") ? "kRelease"
                                : "kRelaxed");
  }

  static std::string load(const Parts& p, const Operands& o, const Type& t, const std::string& name) {
    if (has(p, "param")) throw Error(name + ": parameters are not simulated in asm");
    const int count = has(p, "v8") ? 8 : has(p, "v4") ? 4 : has(p, "v2") ? 2 : 1;
    const std::string at = pointer(nth(o, 1, name), is_shared(p));
    const Operand& to = o[0];
    if (count == 1) {
      if (t.bits >= 32 && (has(p, "relaxed") || has(p, "acquire")) && !has(p, "cta")) {
        const Type bits = *type_of("b" + std::to_string(t.bits));
        return out(
            to, kScope + "atomic(" + sem(p) + ", " + at + ", " + cpp(bits) + "(0), " + kScope + "OpKeep{})");
      }
      const std::string how = has(p, "volatile") && t.bits >= 32 ? "load_volatile<" + cpp(t) + ">(" + at + ")"
                                                                 : "load<" + cpp(t) + ", 1>(" + at + ").x[0]";
      return out(to, kScope + how);
    }
    if (int(to.items.size()) != count) throw Error(name + " needs " + std::to_string(count) + " registers");
    std::string text = "{ const auto ptx_loaded = " + kScope + "load<" + cpp(t) + ", " +
                       std::to_string(count) + ">(" + at + "); ";
    for (std::size_t i = 0; i < to.items.size(); ++i)
      text += out(to.items[i], "ptx_loaded.x[" + std::to_string(i) + "]");
    return text + "} ";
  }

  static std::string store(const Parts& p, const Operands& o, const Type& t) {
    const std::string at = pointer(nth(o, 0, "st"), is_shared(p));
    const Operand& from = nth(o, 1, "st");
    if (from.kind != Operand::Kind::kVector && t.bits >= 32 && (has(p, "relaxed") || has(p, "release")) &&
        !has(p, "cta")) {
      const Type bits = *type_of("b" + std::to_string(t.bits));
      return "static_cast<void>(" + kScope + "atomic(" + sem(p) + ", " + at + ", " + in(from, bits) + ", " +
             kScope + "OpExch{})); ";
    }
    if (from.kind != Operand::Kind::kVector && t.bits >= 32 && has(p, "volatile"))
      return kScope + "store_volatile(" + at + ", " + in(from, t) + "); ";
    const Operands one{from};
    const Operands& items = from.kind == Operand::Kind::kVector ? from.items : one;
    std::string text =
        "{ " + kScope + "Vector<" + cpp(t) + ", " + std::to_string(items.size()) + "> ptx_stored = {{";
    for (std::size_t i = 0; i < items.size(); ++i) text += (i == 0 ? "" : ", ") + in(items[i], t);
    return text + "}}; " + kScope + "store(" + at + ", ptx_stored); } ";
  }

  static std::string store_async(const Parts& p, const Operands& o, const Type& t, const std::string& name) {
    const Operand& from = nth(o, 1, name);
    const Operands one{from};
    const Operands& items = from.kind == Operand::Kind::kVector ? from.items : one;
    std::string text =
        "{ " + kScope + "Vector<" + cpp(t) + ", " + std::to_string(items.size()) + "> ptx_stored = {{";
    for (std::size_t i = 0; i < items.size(); ++i) text += (i == 0 ? "" : ", ") + in(items[i], t);
    return text + "}}; " + kDevice + "store_async(" + pointer(o[0], is_shared(p)) +
           ", &ptx_stored, sizeof ptx_stored, " + kScope + "mbarrier(" + pointer(nth(o, 2, name), true) +
           ")); } ";
  }

  static std::string atomic(const Parts& p, const Operands& o, const Type& t, const std::string& name) {
    const bool returns = p[0] == "atom";
    const std::size_t first = returns ? 1 : 0;
    const std::string at = pointer(nth(o, first, name), is_shared(p));
    static const std::map<std::string, std::string> kOps = {
        {"add", "OpAdd"}, {"min", "OpMin"},   {"max", "OpMax"}, {"and", "OpAnd"}, {"or", "OpOr"},
        {"xor", "OpXor"}, {"exch", "OpExch"}, {"inc", "OpInc"}, {"dec", "OpDec"}};
    const Operand& value = nth(o, first + 1, name);
    const auto result = [&](const std::string& text) {
      return returns ? out(o[0], text) : "static_cast<void>(" + text + "); ";
    };
    if (has(p, "v2") || has(p, "v4")) {
      if (t.cpp != "float" || value.kind != Operand::Kind::kVector)
        throw Error("the PTX instruction " + name + " is not simulated");
      const std::string count = std::to_string(value.items.size());
      std::string text = "{ float ptx_values[" + count + "] = {";
      for (std::size_t i = 0; i < value.items.size(); ++i)
        text += (i == 0 ? "" : ", ") + in(value.items[i], t);
      text += "}; " + kDevice + "atomic_add_vector(reinterpret_cast<float*>(" + at + "), ptx_values, " +
              count + "); ";
      for (std::size_t i = 0; returns && i < o[0].items.size(); ++i)
        text += out(o[0].items[i], "ptx_values[" + std::to_string(i) + "]");
      return text + "} ";
    }
    if (has(p, "cas")) {
      const Type bits = *type_of("b" + std::to_string(t.bits));
      return result(kScope + "compare_and_swap<" + cpp(bits) + ">(" + sem(p) + ", " + at + ", " +
                    in(value, bits) + ", " + in(nth(o, first + 2, name), bits) + ")");
    }
    for (const auto& [word, function] : kOps) {
      if (!has(p, word)) continue;
      return result(kScope + "atomic(" + sem(p) + ", " + at + ", " + in(value, t) + ", " + kScope + function +
                    "{})");
    }
    throw Error("the PTX instruction " + name + " is not simulated");
  }

  static std::string barrier(const Parts& p, const Operands& o, const std::string& name) {
    const Type u32 = *type_of("u32"), pred = *type_of("pred");
    if (has(p, "cluster")) {
      if (has(p, "wait")) return kScope + "cluster_wait(); ";
      return kScope + "cluster_arrive(" + (has(p, "relaxed") ? "true" : "false") + "); ";
    }
    if (has(p, "warp")) return "__syncwarp(" + in(nth(o, 0, name), u32) + "); ";
    if (has(p, "red")) {
      if (in(nth(o, 1, name), u32) != "::gpusim::inl::U32(0)")
        throw Error(name + " is simulated for barrier 0 only");
      const std::string vote = in(o.back(), pred);
      if (has(p, "popc")) return out(o[0], kScope + "U32(__syncthreads_count(" + vote + "))");
      return out(o[0], std::string("(__syncthreads_") + (has(p, "and") ? "and(" : "or(") + vote + ") != 0)");
    }
    if (has(p, "arrive"))
      return kDevice + "barrier_arrive(int(" + in(nth(o, 0, name), u32) + "), int(" +
             in(nth(o, 1, name), u32) + ")); ";
    if (!has(p, "sync")) throw Error("the PTX instruction " + name + " is not simulated");
    if (o.size() == 1) return kScope + "barrier(" + in(o[0], u32) + "); ";
    return kScope + "barrier(" + in(nth(o, 0, name), u32) + ", " + in(nth(o, 1, name), u32) + "); ";
  }

  static std::string compare(const Parts& p, const Operands& o, const std::vector<Type>& types,
                             const std::string& name) {
    static const std::map<std::string, std::string> kOps = {
        {"eq", "=="},  {"ne", "!="}, {"lt", "<"},   {"le", "<="}, {"gt", ">"},   {"ge", ">="},
        {"lo", "<"},   {"ls", "<="}, {"hi", ">"},   {"hs", ">="}, {"equ", "!="}, {"neu", "=="},
        {"ltu", ">="}, {"leu", ">"}, {"gtu", "<="}, {"geu", "<"}};
    const Type& t = types.back();
    if (t.cpp.size() > 4 && t.cpp.find('2') == t.cpp.size() - 1)
      throw Error("the PTX instruction " + name + " is not simulated");
    std::string text;
    const std::string a = in(nth(o, 1, name), t), b = in(nth(o, 2, name), t);
    if (has(p, "num")) text = "(" + a + " == " + a + " && " + b + " == " + b + ")";
    if (has(p, "nan")) text = "(" + a + " != " + a + " || " + b + " != " + b + ")";
    for (const auto& [word, sign] : kOps) {
      if (!has(p, word) || !text.empty()) continue;
      const bool is_unordered = word.size() == 3;
      if (word == "equ")
        text = "!(" + a + " < " + b + " || " + a + " > " + b + ")";
      else if (word == "neu")
        text = "!(" + a + " == " + b + ")";
      else if (is_unordered)
        text = "!(" + a + " " + sign + " " + b + ")";
      else if (word == "ne" && t.is_float)
        text = "(" + a + " < " + b + " || " + a + " > " + b + ")";
      else
        text = "(" + a + " " + sign + " " + b + ")";
    }
    if (text.empty()) throw Error("the PTX instruction " + name + " is not simulated");
    std::string both = "!" + text;
    if (o.size() > 3) {
      const std::string sign = has(p, "and") ? " && " : has(p, "or") ? " || " : " != ";
      const std::string c = "bool(" + in(o[3], *type_of("pred")) + ")";
      both = "(!" + text + sign + c + ")";
      text = "(" + text + sign + c + ")";
    }
    if (p[0] == "set") {
      if (types.size() < 2) throw Error("the PTX instruction " + name + " is not simulated");
      return out(o[0], types[0].is_float ? "(" + text + " ? 1.0f : 0.0f)" : "(" + text + " ? ~0u : 0u)");
    }
    std::string code = out({Operand::Kind::kValue, o[0].text, false, "0", {}, ""}, text);
    if (!o[0].second.empty())
      code = "{ const bool ptx_other = " + both + "; " + code + o[0].second + " = ptx_other; } ";
    return code;
  }

  static std::string convert(const Parts& p, const Operands& o, const std::vector<Type>& types,
                             const std::string& name) {
    const auto round = [&]() -> std::string {
      for (const auto& [word, how] :
           std::initializer_list<std::pair<const char*, const char*>>{{"rn", "kNearest"},
                                                                      {"rni", "kNearest"},
                                                                      {"rz", "kZero"},
                                                                      {"rzi", "kZero"},
                                                                      {"rm", "kDown"},
                                                                      {"rmi", "kDown"},
                                                                      {"rp", "kUp"},
                                                                      {"rpi", "kUp"},
                                                                      {"rna", "kAway"}}) {
        if (has(p, word)) return kScope + "Round::" + how;
      }
      return kScope + "Round::kNone";
    };
    const std::string relu = has(p, "relu") ? "true" : "false";
    if (has(p, "tf32"))
      return out(nth(o, 0, name), kScope + "to_tf32(" + in(nth(o, 1, name), *type_of("f32")) + ")");
    for (const char* const small : {"e4m3x2", "e5m2x2"}) {
      if (!has(p, small)) continue;
      const std::string kind = std::string("__NV_E") + small[1] + "M" + small[3];
      if (p.back() == small) {  // to f16x2
        return out(nth(o, 0, name),
                   kScope + "fp8_to_halves(" + in(nth(o, 1, name), *type_of("u16")) + ", " + kind + ")");
      }
      if (o.size() < 3) throw Error("the PTX instruction " + name + " is not simulated");
      return out(o[0], kScope + "floats_to_fp8(" + in(o[1], *type_of("f32")) + ", " +
                           in(o[2], *type_of("f32")) + ", " + kind + ")");
    }
    if (types.size() < 2) throw Error("the PTX instruction " + name + " is not simulated");
    const Type &to = types[types.size() - 2], &from = types.back();
    if (to.cpp == "Half2" || to.cpp == "Bfloat2") {
      const std::string each = kScope + (to.cpp == "Half2" ? "Half" : "Bfloat");
      return out(nth(o, 0, name), kScope + "pack<" + each + ">(" + in(nth(o, 1, name), from) + ", " +
                                      in(nth(o, 2, name), from) + ", " + relu + ")");
    }
    const bool is_whole = has(p, "rni") || has(p, "rzi") || has(p, "rmi") || has(p, "rpi");
    if (is_whole && to.is_float && from.is_float)
      return out(nth(o, 0, name), kScope + "whole(" + in(nth(o, 1, name), from) + ", " + round() + ")");
    return out(nth(o, 0, name), kScope + "convert<" + cpp(to) + ">(" + in(nth(o, 1, name), from) + ", " +
                                    round() + ", " + (has(p, "sat") ? "true" : "false") + ")");
  }

  std::string mma(const Parts& p, const Operands& o, const std::string& name) {
    const auto unknown = [&] { return Error("the PTX instruction " + name + " is not simulated"); };
    if (has(p, "sp") || o.size() != 4) throw unknown();
    static const std::map<std::string, std::pair<std::string, int>> kElements = {
        {"f16", {"kFloat16", 16}}, {"bf16", {"kBFloat16", 16}}, {"tf32", {"kTf32", 32}},
        {"f64", {"kFloat64", 64}}, {"s8", {"kS8", 8}},          {"u8", {"kU8", 8}},
        {"e4m3", {"kE4m3", 8}},    {"e5m2", {"kE5m2", 8}},      {"f32", {"kFloat32", 32}},
        {"s32", {"kS32", 32}}};
    std::vector<std::string> elements;
    std::string shape;
    for (const std::string& part : p) {
      if (kElements.count(part) != 0) elements.push_back(part);
      if (part[0] == 'm' && part.find('n') != part.npos && part.find('k') != part.npos) shape = part;
    }
    static const std::set<std::string> kShapes = {
        "m16n8k16 f16", "m16n8k8 f16", "m16n8k16 bf16", "m16n8k8 bf16",  "m16n8k8 tf32",
        "m16n8k4 tf32", "m8n8k4 f64",  "m16n8k16 s8",   "m16n8k16 u8",   "m16n8k32 s8",
        "m16n8k32 u8",  "m8n8k16 s8",  "m8n8k16 u8",    "m16n8k32 e4m3", "m16n8k32 e5m2"};
    if (elements.size() != 4 || kShapes.count(shape + " " + elements[1]) == 0) throw unknown();
    const auto items = [](const Operand& operand) {
      return operand.kind == Operand::Kind::kVector ? operand.items : Operands{operand};
    };
    const Type d_type = *type_of(elements[0] == "f32" ? "f32" : elements[0] == "f64" ? "f64" : "b32");
    const Type a_type = *type_of(elements[1] == "f64" ? "f64" : "b32");
    std::string text = "{ ";
    const char* const names[] = {"ptx_d", "ptx_a", "ptx_b", "ptx_c"};
    for (std::size_t i = 0; i < 4; ++i) {
      const Type& t = i == 0 || i == 3 ? d_type : a_type;
      const Operands all = items(o[i]);
      text += cpp(t) + " " + names[i] + "[" + std::to_string(all.size()) + "]";
      if (i != 0) {
        text += " = {";
        for (std::size_t j = 0; j < all.size(); ++j) text += (j == 0 ? "" : ", ") + in(all[j], t);
        text += "}";
      }
      text += "; ";
    }
    if (shape == "m16n8k16" && elements[0] == "f32" && elements[3] == "f32" &&
        kElements.at(elements[1]).second == 16 && elements[1] == elements[2]) {
      text += kDevice + "mma_m16n8k16(" + kDevice +
              "MmaType::" + (elements[1] == "f16" ? "kFloat16" : "kBFloat16") +
              ", ptx_d, ptx_a, ptx_b, ptx_c); ";
    } else {
      const std::size_t n = shape.find('n'), k = shape.find('k');
      text += "static constexpr ::gpusim::device::MmaSpec ptx_spec = {" + shape.substr(1, n - 1) + ", " +
              shape.substr(n + 1, k - n - 1) + ", " + shape.substr(k + 1);
      for (const std::size_t i : {1, 2, 0})
        text += ", ::gpusim::device::Element::" + kElements.at(elements[i]).first;
      text += "}; " + kDevice + "mma_any(ptx_spec, ptx_d, ptx_a, ptx_b, ptx_c); ";
    }
    const Operands all = items(o[0]);
    for (std::size_t j = 0; j < all.size(); ++j) text += out(all[j], "ptx_d[" + std::to_string(j) + "]");
    return text + "} ";
  }

  /// The addresses of operands of the asm statement, as an array: they are not copied.
  std::string addresses(const Operand& vector, const std::string& type, const std::string& name) {
    std::string text = type + "* const " + name + "[" + std::to_string(vector.items.size()) + "] = {";
    for (const Operand& item : vector.items) {
      std::size_t i = 0;
      while (i < operands_.size() && local(i) != item.text) ++i;
      if (i == operands_.size())
        throw Error("registers of wgmma are simulated only as operands of the asm statement");
      by_address_.insert(i);
      text += "&(" + operands_[i].expression + "), ";
    }
    return text + "}; ";
  }

  std::string wgmma(const Parts& p, const Operands& o, const std::string& name) {
    const auto unknown = [&] { return Error("the PTX instruction " + name + " is not simulated"); };
    const Type u64 = *type_of("u64"), u32 = *type_of("u32");
    if (has(p, "fence")) return kDevice + "wgmma_fence(); ";
    if (has(p, "commit_group")) return kDevice + "wgmma_commit(); ";
    if (has(p, "wait_group")) return kDevice + "wgmma_wait_for_all(int(" + in(nth(o, 0, name), u32) + ")); ";
    if (!has(p, "mma_async") || has(p, "sp")) throw unknown();
    const bool is_half = std::count(p.begin(), p.end(), "f16") == 2,
               is_bfloat = std::count(p.begin(), p.end(), "bf16") == 2;
    if (!has(p, "f32") || (!is_half && !is_bfloat)) throw unknown();
    const Operand& d = nth(o, 0, name);
    const Operand& a = nth(o, 1, name);
    if (d.kind != Operand::Kind::kVector) throw unknown();
    const bool in_registers = a.kind == Operand::Kind::kVector;
    // d, a, b, scale-d, imm-scale-a, imm-scale-b, [trans-a,] trans-b
    const auto is_constant_one = [&](const Operand& scale) {
      return "(" + in(scale, *type_of("s32")) + " == 1)";
    };
    const auto bit = [&](std::size_t i) {
      return i < o.size() ? "(" + in(o[i], u32) + " != 0)" : std::string("false");
    };
    std::string text = "{ " + addresses(d, "float", "ptx_d");
    const std::string count = std::to_string(d.items.size());
    if (o.size() > 5)
      text += "static_assert(" + is_constant_one(o[4]) + " && " + is_constant_one(o[5]) +
              ", \"wgmma is simulated with imm-scale 1 only\"); ";
    text += "for (int ptx_i = 0; ptx_i < " + count + "; ++ptx_i) if (ptx_d[ptx_i] != ptx_d[0] + ptx_i) " +
            kDevice + "refuse_scattered_accumulators(); ";
    if (in_registers) text += addresses(a, "const ::gpusim::inl::U32", "ptx_a");
    const std::string scale =
        o.size() > 3 ? "bool(" + (o[3].negated ? "!" + o[3].text : o[3].text) + ")" : "true";
    text += kDevice + "wgmma(" + kDevice + "ProductShape{" + kDevice +
            "MmaType::" + (is_half ? "kFloat16" : "kBFloat16") + ", " + (in_registers ? "false" : bit(6)) +
            ", " + (in_registers ? bit(6) : bit(7)) + "}, ptx_d[0], " + count + ", ";
    text += (in_registers ? kDevice + "wgmma_operand(ptx_a)" : in(a, u64)) + ", " + in(nth(o, 2, name), u64) +
            ", " + scale + "); ";
    return text + "} ";
  }

  static std::string copy(const Parts& p, const Operands& o, const std::string& name) {
    const auto unknown = [&] { return Error("the PTX instruction " + name + " is not simulated"); };
    const Type u32 = *type_of("u32");
    const auto arg = [&](std::size_t i) -> const Operand& { return nth(o, i, name); };
    const bool is_bulk = has(p, "bulk"), reduces = has(p, "reduce");
    if (has(p, "commit_group")) return kDevice + (is_bulk ? "bulk_commit(); " : "copy_commit(); ");
    if (has(p, "wait_all")) return kDevice + "copy_commit(); " + kDevice + "copy_wait(0); ";
    if (has(p, "wait_group")) {
      const std::string pending = "int(" + in(arg(0), u32) + ")";
      if (is_bulk)
        return kDevice + "bulk_wait(" + pending + ", " + (has(p, "read") ? "true" : "false") + "); ";
      return kDevice + "copy_wait(" + pending + "); ";
    }
    if (has(p, "mbarrier") &&
        has(p, "arrive")) {  // when the copies of the thread have landed, which it waits for here
      if (!has(p, "noinc")) return kDevice + "copy_wait(0); ";
      return kDevice + "copy_wait(0); " + kDevice + "mbarrier_arrive(" + kScope + "mbarrier(" +
             pointer(arg(0), is_shared(p)) + ")); ";
    }
    if (has_prefix(p, "multicast"))
      throw Error("multicast::cluster is not simulated: let each block of the cluster load its own copy");
    if (has(p, "prefetch")) return "";
    if (has(p, "im2col")) throw unknown();
    if (!is_bulk) {
      if (!has(p, "async")) throw unknown();
      const std::string bytes = in(arg(2), u32);
      std::string source = bytes;
      if (o.size() > 3 && !(has_prefix(p, "L2::cache_hint") && o.size() == 4)) source = in(arg(3), u32);
      return kDevice + "copy_async(" + pointer(arg(0), true) + ", " + pointer(arg(1), false) + ", " + bytes +
             ", " + source + "); ";
    }
    std::size_t shared_at = p.size(), global_at = p.size(), second_shared = p.size();
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (p[i].substr(0, 6) == "shared") (shared_at == p.size() ? shared_at : second_shared) = i;
      if (p[i] == "global") global_at = i;
    }
    if (has(p, "tensor")) {
      const bool is_load = shared_at < global_at;
      const Operand& box = arg(is_load ? 1 : 0);
      if (reduces && !has(p, "add")) throw unknown();
      std::string text = "{ const int ptx_at[] = {";
      for (std::size_t i = 0; i < box.items.size(); ++i)
        text += (i == 0 ? "" : ", ") + in(box.items[i], *type_of("s32"));
      const std::string map = "reinterpret_cast<const CUtensorMap*>(" + kScope + "generic(" + box.text + "))";
      const std::string rank = std::to_string(box.items.size());
      text += "}; ";
      if (is_load)
        return text + kDevice + "tensor_load(" + pointer(arg(0), true) + ", " + map + ", " + kScope +
               "mbarrier(" + pointer(arg(2), true) + "), ptx_at, " + rank + "); } ";
      return text + kDevice + (reduces ? "tensor_reduce_add(" : "tensor_store(") + map + ", " +
             pointer(arg(1), true) + ", ptx_at, " + rank + "); } ";
    }
    const std::string bytes = "int(" + in(arg(2), u32) + ")";
    if (global_at == p.size()) {  // from shared to shared memory
      if (second_shared == p.size() || reduces) throw unknown();
      return kDevice + "bulk_copy_cluster(" + pointer(arg(0), true) + ", " + pointer(arg(1), true) + ", " +
             bytes + ", " + kScope + "mbarrier(" + pointer(arg(3), true) + ")); ";
    }
    if (shared_at < global_at)
      return kDevice + "bulk_load(" + pointer(arg(0), true) + ", " + pointer(arg(1), false) + ", " + bytes +
             ", " + kScope + "mbarrier(" + pointer(arg(3), true) + ")); ";
    if (!reduces)
      return kDevice + "bulk_store(" + pointer(arg(0), false) + ", " + pointer(arg(1), true) + ", " + bytes +
             "); ";
    if (!has(p, "add") || !has(p, "f32")) throw unknown();
    return kDevice + "bulk_reduce_add(reinterpret_cast<float*>(" + pointer(arg(0), false) +
           "), reinterpret_cast<const float*>(" + pointer(arg(1), true) + "), " + bytes + "); ";
  }

  static std::string mbarrier(const Parts& p, const Operands& o, const std::string& name) {
    const Type u32 = *type_of("u32"), u64 = *type_of("u64");
    const auto arg = [&](std::size_t i) -> const Operand& { return nth(o, i, name); };
    const auto barrier = [&](std::size_t i) { return pointer(arg(i), is_shared(p)); };
    const auto word = [&](std::size_t i) { return kScope + "mbarrier(" + barrier(i) + ")"; };
    if (has(p, "init")) return kDevice + "mbarrier_init(" + word(0) + ", int(" + in(arg(1), u32) + ")); ";
    if (has(p, "inval")) return "";
    if (has(p, "expect_tx") && !has(p, "arrive"))
      return kDevice + "mbarrier_expect_tx(" + word(0) + ", int(" + in(arg(1), u32) + ")); ";
    if (has(p, "arrive") || has(p, "arrive_drop")) {
      if (has(p, "arrive_drop")) throw Error("the PTX instruction " + name + " is not simulated");
      // The state is an operand, except where only a sink makes sense.
      const bool has_state = arg(0).kind != Operand::Kind::kAddress;
      const std::size_t at = has_state ? 1 : 0;
      const bool is_remote =
          has(p, "shared::cluster") && !(has_state && arg(0).kind == Operand::Kind::kValue);
      const std::string count = o.size() > at + 1 ? in(arg(at + 1), u32) : "1";
      if (is_remote && !has(p, "expect_tx"))
        return kScope + "arrive_remote(" + barrier(at) + ", " + count + ", " +
               (has(p, "relaxed") ? "true" : "false") + "); ";
      const std::string call =
          kScope + (has(p, "expect_tx") ? "arrive_expect(" : "arrive(") + barrier(at) + ", " + count + ")";
      return has_state ? out(o[0], call) : "static_cast<void>(" + call + "); ";
    }
    if (has(p, "try_wait") || has(p, "test_wait")) {
      const std::string cluster = has(p, "cluster") ? "true" : "false";
      const std::string parity =
          has(p, "parity") ? "int(" + in(arg(2), u32) + ")" : "int(" + in(arg(2), u64) + ")";
      return out(arg(0), kDevice + "mbarrier_try_wait(" + word(1) + ", " + parity + ", " + cluster + ")");
    }
    throw Error("the PTX instruction " + name + " is not simulated");
  }

  std::string ptx_, code_;
  std::vector<AsmOperand> operands_;
  std::set<std::size_t> by_address_;  ///< operands that are not copied
  std::vector<std::map<std::string, std::string>> scopes_ =
      std::vector<std::map<std::string, std::string>>(1);
  std::set<std::string> labels_;
  bool uses_carry_ = false;
};

}  // namespace ptx

namespace {

/// Whether it is for the CPU: some constraints and instructions belong to no GPU.
bool is_for_cpu(std::string_view statement) {
  for (const std::string_view constraint :
       {"\"=a\"", "\"=b\"", "\"=c\"", "\"=A\"", "\"=m\"", "\"+m\"", "\"=q\"", "\"=g\"", "\"=x\""}) {
    if (statement.find(constraint) != statement.npos) return true;
  }
  const std::size_t quote = statement.find('"');
  std::string_view text = quote == statement.npos ? statement : statement.substr(quote + 1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  for (const std::string_view word :
       {"pause", "mfence", "lfence", "sfence", "rdtsc", "cpuid", "xgetbv", "rep", "\""}) {
    if (text.substr(0, word.size()) == word) return true;
  }
  return false;
}

}  // namespace

TranslatedAsm translate_asm(std::string_view statement) {
  if (is_for_cpu(statement)) return {};
  try {
    return {ptx::Translator().run(statement), ""};
  } catch (const ptx::Error& error) {
    return {"", error.what()};
  } catch (const std::logic_error&) {  // std::stoi
    return {"", "cannot read the PTX of this asm statement"};
  }
}

}  // namespace gpusim::check
