#include "table.hpp"

#include <fmt/format.h>

#include <iterator>

namespace fa::ch13 {
namespace {

/// "k_in.1": a dot and the number follow the name where there are several.
std::string names_of(const std::vector<View>& views) {
  std::string names;
  for (const View& view : views) {
    if (!names.empty()) names += ' ';
    names += name_of(view.buffer);
    if (view.buffer.number > 0) names += fmt::format(".{}", view.buffer.number);
  }
  return names;
}

std::string rest_of(const Operation& op) {
  if (op.kind == Kind::kSend) return fmt::format("{} to rank {}", names_of(op.reads), op.peer);
  if (op.kind == Kind::kReceive) return fmt::format("{} from rank {}", names_of(op.writes), op.peer);
  const std::string arrow = op.writes.empty() ? "" : op.reads.empty() ? "-> " : " -> ";
  return names_of(op.reads) + arrow + names_of(op.writes);
}

}  // namespace

std::string table_of(const std::string& method, const Share& share, const std::vector<Plan>& plans) {
  std::string table;
  const auto to = std::back_inserter(table);
  for (std::size_t pass = 0; pass < plans.size(); ++pass) {
    fmt::format_to(to, "{}, {}, rank {} of {}\n", method, pass == 0 ? "forward" : "backward", share.rank,
                   share.R());
    for (std::size_t step = 0; step < plans[pass].size(); ++step) {
      std::string first = fmt::format("step {}", step);
      for (const Operation& op : plans[pass][step]) {
        fmt::format_to(to, "  {:<8}{:<14}{}\n", first, kKinds[int(op.kind)], rest_of(op));
        first.clear();
      }
    }
    table += '\n';
  }
  return table;
}

}  // namespace fa::ch13
