#include "gpusim/runtime/whereabouts.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <utility>

namespace gpusim {
namespace {

constexpr std::size_t kMostRanges = 4;

/// What threads in one place do, as a predicate: "wait in __syncwarp() at kernel.cuh:48".
std::string predicate(const Whereabouts& where, unsigned mask, bool many, const SourceLine& line) {
  switch (where.state) {
    case Whereabouts::State::kWaits: {
      std::string text = (many ? "wait in " : "waits in ") + call_at(line);
      if (where.mask == 0 || where.mask == mask) return text;
      std::array<char, 32> with;
      std::snprintf(with.data(), with.size(), " with mask 0x%08x", where.mask);
      return text + with.data();
    }
    case Whereabouts::State::kRuns: return (many ? "keep running at " : "keeps running at ") + line.text;
    case Whereabouts::State::kReturned: return many ? "have returned" : "has returned";
    case Whereabouts::State::kPassed:
      return (many ? "have gone on to " : "has gone on to ") + line.text + ", and returned";
    case Whereabouts::State::kExecuted: return many ? "have executed it" : "has executed it";
  }
  return "?";
}

}  // namespace

std::string list(const std::vector<int>& members, const std::function<std::string(int)>& name_of) {
  std::vector<std::pair<int, int>> ranges;
  for (const int member : members) {
    if (!ranges.empty() && ranges.back().second == member - 1) {
      ranges.back().second = member;
    } else {
      ranges.emplace_back(member, member);
    }
  }
  std::size_t left_out = 0;
  for (std::size_t i = kMostRanges; i < ranges.size(); ++i)
    left_out += std::size_t(ranges[i].second - ranges[i].first + 1);
  const std::size_t shown = std::min(ranges.size(), kMostRanges);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    const auto [first, last] = ranges[i];
    text += i == 0 ? "" : i + 1 == shown && left_out == 0 ? " and " : ", ";
    text += name_of(first);
    if (last != first) text += " to " + name_of(last);
  }
  return left_out == 0 ? text : text + " and " + std::to_string(left_out) + " more";
}

std::string call_at(const SourceLine& line) {
  return (line.built_in.empty() ? "a call" : line.built_in + "()") + " at " + line.text;
}

std::string describe(const std::vector<Group>& groups, const std::string& what,
                     const std::function<std::string(int)>& name_of,
                     const std::function<SourceLine(std::uintptr_t)>& line_of) {
  const unsigned mask = groups.front().where.mask;
  const auto words = [&](const Group& group, bool many) {
    if (group.where == groups.front().where && group.where.state == Whereabouts::State::kWaits)
      return std::string(many ? "wait there" : "waits there");
    return predicate(group.where, mask, many, line_of(group.where.pc));
  };
  std::string text;
  std::vector<bool> done(groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (done[i]) continue;
    std::vector<int> members;
    for (std::size_t j = i; j < groups.size(); ++j) {  // several instructions may have the same line
      if (groups[j].of != groups[i].of || words(groups[j], true) != words(groups[i], true)) continue;
      done[j] = true;
      members.insert(members.end(), groups[j].members.begin(), groups[j].members.end());
    }
    std::sort(members.begin(), members.end());
    const bool many = members.size() > 1;
    text += "\n    " + what + (many ? "s " : " ") + list(members, name_of) + groups[i].of + " " +
            words(groups[i], many);
  }
  return text;
}

}  // namespace gpusim
