#include "gpusim/nccl/board.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace gpusim::nccl {

Board::Board(void* memory, int ranks, int rank)
    : shared_(static_cast<Shared*>(memory)),
      entries_(reinterpret_cast<Entry*>(static_cast<char*>(memory) + sizeof(Shared))),
      ranks_(ranks),
      rank_(rank) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(Shared) % alignof(Entry) == 0);
}

std::size_t Board::bytes(int ranks) { return sizeof(Shared) + std::size_t(ranks) * sizeof(Entry); }

Half Board::issue(Verb verb, int peer, std::int64_t bytes) {
  Entry& mine = entry(rank_);
  std::atomic<std::int64_t>& issued = mine.issued[int(verb)][peer];
  const std::int64_t number = issued.load() + 1;
  mine.sizes[int(verb)][peer][number % kRemembered] = bytes;
  issued = number;
  return {verb, peer, bytes, number};
}

bool Board::is_matched(const Half& half) const { return is_matched(rank_, half); }

bool Board::is_matched(int rank, const Half& half) const {
  return entry(half.peer).issued[int(partner_of(half.verb))][rank] >= half.number;
}

std::int64_t Board::partner_bytes(const Half& half) const {
  return entry(half.peer).sizes[int(partner_of(half.verb))][rank_][half.number % kRemembered];
}

void Board::wait_for(const std::vector<Half>& halves) {
  if (halves.size() > kMostHalves) throw std::length_error("too many transfers in a group");
  Entry& mine = entry(rank_);
  std::copy(halves.begin(), halves.end(), mine.halves);
  mine.count = std::int32_t(halves.size());
  ++mine.turn;
}

void Board::go_on() { ++entry(rank_).turn; }

void Board::leave() { entry(rank_).has_left = true; }

std::vector<Half> Board::missing(int rank) const {
  const Entry& of = entry(rank);
  const std::uint64_t turn = of.turn;
  if (turn % 2 == 0) return {};
  std::vector<Half> halves(of.halves, of.halves + of.count);
  std::erase_if(halves, [&](const Half& half) { return is_matched(rank, half); });
  // It may have gone on while we read. If not, what was missing is still missing: only the peer can issue it.
  return of.turn == turn ? halves : std::vector<Half>();
}

/// Whether the last rank of the path waits, directly or through others, for the first one. If so, the path
/// becomes the circle.
bool Board::find_circle(int rank, std::vector<int>& path) const {
  for (const Half& half : missing(rank)) {
    if (half.peer == path.front()) return true;
    if (std::find(path.begin(), path.end(), half.peer) != path.end()) continue;
    path.push_back(half.peer);
    if (find_circle(half.peer, path)) return true;
    path.pop_back();
  }
  return false;
}

/// "rank 0 sends 64 bytes to rank 1": what a rank waits for, of what it wants from a peer.
std::string Board::describe(int rank, int peer) const {
  for (const Half& half : missing(rank)) {
    if (half.peer != peer) continue;
    const std::string bytes = std::to_string(half.bytes) + " bytes";
    const std::string self = "rank " + std::to_string(rank), other = "rank " + std::to_string(peer);
    switch (half.verb) {
      case Verb::kSend: return self + " sends " + bytes + " to " + other;
      case Verb::kReceive: return self + " receives " + bytes + " from " + other;
      case Verb::kGather: return self + (half.bytes == 0 ? " waits for " : " gathers with ") + other;
    }
  }
  return "";
}

std::optional<std::string> Board::deadlock() const {
  for (const Half& half : missing(rank_)) {
    if (!entry(half.peer).has_left || is_matched(half)) continue;
    return describe(rank_, half.peer) + ", which has left the communicator";
  }
  std::vector<int> circle = {rank_};
  if (!find_circle(rank_, circle)) return std::nullopt;
  if (*std::min_element(circle.begin(), circle.end()) != rank_) return std::nullopt;
  std::string text;
  bool only_sends = true, receive_as_well = false;
  for (std::size_t i = 0; i < circle.size(); ++i) {
    const std::string half = describe(circle[i], circle[(i + 1) % circle.size()]);
    if (half.empty()) return std::nullopt;
    only_sends = only_sends && half.find(" sends ") != half.npos;
    const std::vector<Half> halves = missing(circle[i]);
    receive_as_well = receive_as_well || std::any_of(halves.begin(), halves.end(), [](const Half& each) {
                        return each.verb == Verb::kReceive;
                      });
    text += (i == 0 ? "deadlock: " : ", ") + half;
  }
  if (!only_sends) return text + ": each waits for the other, and no rank can go on";
  return text + (receive_as_well ? ": nobody receives these, because each waits until its own group is over"
                                 : ": nobody receives, because each waits until its send is over");
}

void Board::fail(const std::string& reason) {
  std::int32_t nobody = 0;
  if (!shared_->failing.compare_exchange_strong(nobody, 1)) {
    while (shared_->failing != 2) std::this_thread::yield();  // another rank is still writing its reason
    return;
  }
  std::strncpy(shared_->text, reason.c_str(), kTextBytes - 1);
  shared_->failing = 2;
}

std::optional<std::string> Board::failure() const {
  if (shared_->failing != 2) return std::nullopt;
  return std::string(shared_->text);
}

}  // namespace gpusim::nccl
