#include "gpusim/runtime/allowed.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>

namespace gpusim {
namespace {

struct Word {
  std::string_view text;
  std::vector<DefectKind> kinds;
};
const std::vector<Word>& words() {
  static const std::vector<Word> all = {
      {"race", {DefectKind::kRace}},
      {"memcheck", {DefectKind::kOutOfBounds, DefectKind::kMisaligned}},
      {"uninitialized", {DefectKind::kUninitializedRead}},
      {"divergence", {DefectKind::kBarrierDivergence}},
      {"misuse", {DefectKind::kMisuse}},
      {"fence", {DefectKind::kMissingFence}},
      {"wgmma", {DefectKind::kWgmma}},
      {"note", {DefectKind::kNote}},
  };
  return all;
}

std::string list_of_words() {
  std::string list;
  for (const Word& word : words()) list += (list.empty() ? "" : ", ") + std::string(word.text);
  return list;
}

}  // namespace

bool Allowed::contains(const std::string& place, DefectKind kind) {
  const std::size_t colon = place.rfind(':');
  if (colon == place.npos) return false;
  const Lines& lines = lines_of(place.substr(0, colon));
  const auto line = lines.find(std::atoi(place.c_str() + colon + 1));
  return line != lines.end() && line->second.contains(kind);
}

const Allowed::Lines& Allowed::lines_of(const std::string& path) {
  const auto [file, is_new] = files_.try_emplace(path);
  if (!is_new) return file->second;
  constexpr std::string_view kMark = "gpusim: allow";
  std::ifstream in(path);
  std::string text;
  for (int number = 1; std::getline(in, text); ++number) {
    const std::size_t comment = text.find("//");
    const std::size_t mark = comment == text.npos ? comment : text.find(kMark, comment);
    if (mark == text.npos) continue;
    std::string what = text.substr(mark + kMark.size());
    std::replace(what.begin(), what.end(), ',', ' ');
    std::istringstream list(what);
    std::string unknown;
    bool is_empty = true;
    for (std::string name; unknown.empty() && list >> name; is_empty = false) {
      if (std::isalpha(static_cast<unsigned char>(name[0])) == 0)
        break;  // a reason, in brackets or after a dash
      const bool ends = name.back() == ':' || name.back() == '.' || name.back() == ';';
      if (ends) name.pop_back();
      const auto word =
          std::find_if(words().begin(), words().end(), [&](const Word& w) { return w.text == name; });
      if (word == words().end()) {
        unknown = name;
      } else {
        file->second[number].insert(word->kinds.begin(), word->kinds.end());
      }
      if (ends) break;
    }
    if (unknown.empty() && !is_empty) continue;
    mistakes_.push_back("Note: \"gpusim: allow" + (unknown.empty() ? "" : " " + unknown) + "\" at " +
                        path.substr(path.rfind('/') + 1) + ":" + std::to_string(number) +
                        " silences nothing: the words are " + list_of_words());
  }
  return file->second;
}

}  // namespace gpusim
