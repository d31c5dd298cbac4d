#include "gpusim/check/debug_info.hpp"

#include <cstring>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace gpusim::check {
namespace {

// Numbers from the DWARF 5 standard, section 7.
enum Tag : std::uint64_t { kInlinedSubroutine = 0x1d, kCompileUnit = 0x11, kSubprogram = 0x2e };
enum Attribute : std::uint64_t {
  kSibling = 0x01,
  kName = 0x03,
  kStatementList = 0x10,
  kLowPc = 0x11,
  kAbstractOrigin = 0x31,
  kArtificial = 0x34,
  kDeclarationFile = 0x3a,
  kSpecification = 0x47,
  kCallFile = 0x58,
  kCallLine = 0x59,
  kLinkageName = 0x6e,
};
enum Form : std::uint64_t {
  kAddress = 0x01,
  kBlock2 = 0x03,
  kBlock4 = 0x04,
  kData2 = 0x05,
  kData4 = 0x06,
  kData8 = 0x07,
  kString = 0x08,
  kBlock = 0x09,
  kBlock1 = 0x0a,
  kData1 = 0x0b,
  kFlag = 0x0c,
  kSignedData = 0x0d,
  kStringOffset = 0x0e,
  kUnsignedData = 0x0f,
  kReferenceAddress = 0x10,
  kReference1 = 0x11,
  kReference2 = 0x12,
  kReference4 = 0x13,
  kReference8 = 0x14,
  kReferenceUnsigned = 0x15,
  kSectionOffset = 0x17,
  kExpression = 0x18,
  kFlagPresent = 0x19,
  kData16 = 0x1e,
  kLineStringOffset = 0x1f,
  kImplicitConstant = 0x21,
  // clang++: numbers of strings, addresses and lists, which are not looked up.
  kStringNumber = 0x1a,
  kAddressNumber = 0x1b,
  kLocationsNumber = 0x22,
  kRangesNumber = 0x23,
  kStringNumber1 = 0x25,
  kStringNumber4 = 0x28,
  kAddressNumber1 = 0x29,
  kAddressNumber4 = 0x2c,
};
enum LineContent : std::uint64_t { kPath = 1, kDirectory = 2 };

/// Reads a section from an offset on.
class Reader {
 public:
  Reader(const std::string& bytes, std::size_t at) : bytes_(bytes), at_(at) {}

  std::size_t at() const { return at_; }
  void skip(std::size_t count) { at_ += count; }

  std::uint64_t fixed(std::size_t size) {
    std::uint64_t value = 0;
    if (at_ + size > bytes_.size()) throw std::runtime_error("debug information ends too early");
    std::memcpy(&value, bytes_.data() + at_, size);
    at_ += size;
    return value;
  }
  std::uint64_t variable() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const std::uint64_t byte = fixed(1);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }
  std::string_view string() {
    const std::string_view text = bytes_.data() + at_;
    at_ += text.size() + 1;
    return text;
  }

 private:
  const std::string& bytes_;
  std::size_t at_;
};

}  // namespace

struct Value {
  std::uint64_t number = 0;
  std::string_view text;
};

struct Specification {
  std::uint64_t attribute, form;
  std::int64_t constant = 0;
};

struct Abbreviation {
  std::uint64_t tag = 0;
  bool has_children = false;
  std::vector<Specification> attributes;
};

struct DebugInfo::Unit {
  std::size_t begin = 0, first_entry = 0, end = 0;
  std::map<std::uint64_t, Abbreviation> abbreviations;
  std::vector<std::string> files;
};

struct DebugInfo::Entry {
  const Abbreviation* kind = nullptr;  ///< null: the end of a list of children
  std::map<std::uint64_t, Value> values;

  std::uint64_t number(std::uint64_t attribute) const {
    const auto it = values.find(attribute);
    return it == values.end() ? 0 : it->second.number;
  }
  std::string text(std::uint64_t attribute) const {
    const auto it = values.find(attribute);
    return it == values.end() ? "" : std::string(it->second.text);
  }
};

namespace {

std::map<std::uint64_t, Abbreviation> read_abbreviations(const std::string& section, std::size_t offset) {
  std::map<std::uint64_t, Abbreviation> all;
  Reader in(section, offset);
  while (const std::uint64_t code = in.variable()) {
    Abbreviation& a = all[code];
    a.tag = in.variable();
    a.has_children = in.fixed(1) != 0;
    for (;;) {
      Specification s{in.variable(), in.variable()};
      if (s.form == kImplicitConstant) s.constant = std::int64_t(in.variable());
      if (s.attribute == 0 && s.form == 0) break;
      a.attributes.push_back(s);
    }
  }
  return all;
}

/// The value of an attribute. References within a unit are relative to its beginning.
Value read_value(Reader& in, const Specification& s, const std::string& strings,
                 const std::string& line_strings) {
  const auto text_of = [](const std::string& section, std::size_t offset) {
    return Value{0, offset < section.size() ? std::string_view(section.data() + offset) : ""};
  };
  const auto skip = [&](std::size_t count) {
    in.skip(count);
    return Value{};
  };
  switch (s.form) {
    case kAddress:
    case kData8:
    case kReference8: return {in.fixed(8), {}};
    case kData4:
    case kStringNumber4:
    case kAddressNumber4:
    case kReference4:
    case kReferenceAddress:
    case kSectionOffset: return {in.fixed(4), {}};
    case kStringNumber1 + 1:
    case kAddressNumber1 + 1:
    case kData2:
    case kReference2: return {in.fixed(2), {}};
    case kStringNumber1 + 2:
    case kAddressNumber1 + 2: return {in.fixed(3), {}};
    case kStringNumber1:
    case kAddressNumber1:
    case kData1:
    case kReference1:
    case kFlag: return {in.fixed(1), {}};
    case kSignedData:
    case kUnsignedData:
    case kStringNumber:
    case kAddressNumber:
    case kLocationsNumber:
    case kRangesNumber:
    case kReferenceUnsigned: return {in.variable(), {}};
    case kString: return {0, in.string()};
    case kStringOffset: return text_of(strings, in.fixed(4));
    case kLineStringOffset: return text_of(line_strings, in.fixed(4));
    case kFlagPresent: return {1, {}};
    case kImplicitConstant: return {std::uint64_t(s.constant), {}};
    case kBlock1: return skip(in.fixed(1));
    case kBlock2: return skip(in.fixed(2));
    case kBlock4: return skip(in.fixed(4));
    case kBlock:
    case kExpression: return skip(in.variable());
    case kData16: return skip(16);
    default: throw std::runtime_error("unknown form in the debug information");
  }
}

}  // namespace

DebugInfo::DebugInfo(const ObjectFile& object)
    : info_(object.debug_section(".debug_info")),
      abbreviations_(object.debug_section(".debug_abbrev")),
      strings_(object.debug_section(".debug_str")),
      line_strings_(object.debug_section(".debug_line_str")),
      lines_(object.debug_section(".debug_line")) {
  for (std::size_t at = 0; at < info_.size();) {
    const std::size_t end = at + 4 + Reader(info_, at).fixed(4);
    read_unit(at, end);
    at = end;
  }
}

DebugInfo::~DebugInfo() = default;

void DebugInfo::read_unit(std::size_t begin, std::size_t end) {
  constexpr std::uint64_t kCompilation = 1;
  Reader in(info_, begin + 4);
  const std::uint64_t version = in.fixed(2);
  if (version < 4 || version > 5) return;
  if (version == 5 && in.fixed(1) != kCompilation) return;
  if (version == 5) in.skip(1);  // bytes of an address
  const std::size_t abbreviations = in.fixed(4);
  if (version == 4) in.skip(1);
  auto unit = std::make_unique<Unit>();
  unit->begin = begin;
  unit->first_entry = in.at();
  unit->end = end;
  unit->abbreviations = read_abbreviations(abbreviations_, abbreviations);
  std::size_t at = unit->first_entry;
  const Entry top = entry_at(*unit, at);
  if (top.kind == nullptr || top.kind->tag != kCompileUnit) return;
  unit->files = file_names(top.number(kStatementList));
  find_functions(*unit);
  units_.push_back(std::move(unit));
}

DebugInfo::Entry DebugInfo::entry_at(const Unit& unit, std::size_t& at) const {
  Reader in(info_, at);
  Entry entry;
  if (const std::uint64_t code = in.variable()) {
    entry.kind = &unit.abbreviations.at(code);
    for (const Specification& s : entry.kind->attributes) {
      entry.values[s.attribute] = read_value(in, s, strings_, line_strings_);
    }
  }
  at = in.at();
  return entry;
}

void DebugInfo::find_functions(const Unit& unit) {
  for (std::size_t at = unit.first_entry; at < unit.end;) {
    const std::size_t begin = at;
    const Entry entry = entry_at(unit, at);
    if (entry.kind == nullptr || entry.kind->tag != kSubprogram) continue;
    if (const std::uint64_t address = entry.number(kLowPc)) functions_[address] = {&unit, begin};
    if (const std::uint64_t sibling = entry.number(kSibling)) at = unit.begin + sibling;
  }
}

/// Collects what has been inlined into the entry at `at`, and moves on to the next entry.
void DebugInfo::collect(const Unit& unit, std::size_t& at, std::vector<InlinedCall>& calls) const {
  const Entry entry = entry_at(unit, at);
  std::vector<InlinedCall>* inside = &calls;
  // g++ does not name some functions that it has written itself: those that return the address of a thread_local variable.
  if (entry.kind->tag == kInlinedSubroutine && entry.values.contains(kAbstractOrigin)) {
    const auto file = [&](std::uint64_t n) { return n < unit.files.size() ? unit.files[n] : std::string(); };
    std::size_t origin_at = unit.begin + entry.number(kAbstractOrigin);
    Entry origin = entry_at(unit, origin_at);
    if (const std::uint64_t declaration =
            origin.number(kSpecification)) {  // of a member of a namespace, at -g2
      std::size_t declared_at = unit.begin + declaration;
      origin.values.merge(entry_at(unit, declared_at).values);
    }
    const std::string mangled = origin.text(kLinkageName);
    calls.push_back({mangled.empty() ? origin.text(kName) : mangled,
                     file(origin.number(kDeclarationFile)),
                     origin.number(kArtificial) != 0,
                     {file(entry.number(kCallFile)), int(entry.number(kCallLine))},
                     {}});
    inside = &calls.back().inside;
  }
  if (!entry.kind->has_children) return;
  for (;;) {
    std::size_t child = at;
    if (entry_at(unit, child).kind == nullptr) {
      at = child;
      return;
    }
    collect(unit, at, *inside);
  }
}

std::vector<InlinedCall> DebugInfo::inlined_into(std::uint64_t function) const {
  std::vector<InlinedCall> calls;
  const auto it = functions_.find(function);
  if (it == functions_.end()) return calls;
  std::size_t at = it->second.second;
  collect(*it->second.first, at, calls);
  return calls;
}

std::vector<std::string> DebugInfo::file_names(std::size_t line_table) const {
  std::vector<std::string> names;
  if (lines_.empty()) return names;
  Reader in(lines_, line_table + 4);
  if (in.fixed(2) != 5) return names;
  in.skip(2 + 4);  // sizes of an address and a segment selector, length of the header
  in.skip(5);
  const std::uint64_t first_special = in.fixed(1);
  in.skip(first_special - 1);  // operands of each opcode

  std::vector<std::string> directories;
  for (const bool is_file : {false, true}) {
    std::vector<Specification> format(in.fixed(1));
    for (Specification& s : format) s = {in.variable(), in.variable()};
    for (std::uint64_t count = in.variable(); count > 0; --count) {
      std::string path;
      std::uint64_t directory = 0;
      for (const Specification& s : format) {
        const Value value = read_value(in, s, strings_, line_strings_);
        if (s.attribute == kPath) path = value.text;
        if (s.attribute == kDirectory) directory = value.number;
      }
      const bool relative = is_file && path.substr(0, 1) != "/" && directory < directories.size();
      (is_file ? names : directories).push_back(relative ? directories[directory] + "/" + path : path);
    }
  }
  return names;
}

}  // namespace gpusim::check
