/// @file
/// The processes that mpirun has started. Data travels over NCCL; this is for everything else: who is there,
/// whether all agree, and how all end.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "attention/refusal.hpp"

namespace fa::ch13 {

/// Why a run cannot go on, in one line.
struct Error {
  int status;  ///< exit status: 1 wrong, 2 arguments, 3 device
  std::string reason;
  std::optional<Refusal> refusal = std::nullopt;  ///< if it is one
  std::string variant = {};                       ///< which refuses the problem
};

class Ranks {
 public:
  /// Starts MPI; without mpirun, this process is the only one.
  static Ranks& start(int& argc, char**& argv);
  /// The one that was started.
  static Ranks& instance();

  int rank() const { return rank_; }
  int count() const { return count_; }
  /// This rank among those of its host, and how many they are.
  int local_rank() const { return local_rank_; }
  int local_count() const { return local_count_; }
  const std::string& host() const { return host_; }

  /// The same bytes on all ranks: those of rank 0.
  void broadcast(void* data, std::size_t bytes);

  /// What each rank gives, on all ranks.
  std::vector<std::string> all(const std::string& mine);
  /// The same for numbers: those of all ranks, one rank after the other.
  std::vector<double> all(const std::vector<double>& mine);

  /// The error of the lowest failing rank, on every rank; empty if none failed.
  std::optional<Error> agree(const std::optional<Error>& mine);

  void barrier() { agree(std::nullopt); }

  /// Ends this rank with a status. If it is not 0, rank 0 has said why, and mpirun ends those that go on.
  [[noreturn]] void finish(int status);

  /// Prints one line, on behalf of all ranks, and ends them all.
  [[noreturn]] void end_all(const Error& error);

 private:
  Ranks(int& argc, char**& argv);

  int rank_ = 0, count_ = 1, local_rank_ = 0, local_count_ = 1;
  std::string host_;
};

}  // namespace fa::ch13
