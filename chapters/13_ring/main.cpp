/// @file
/// main() of each rank: mpirun --quiet -n 4 ch13_ring ...
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "gpus.hpp"
#include "ranks.hpp"
#include "run.hpp"

namespace {

using fa::ch13::Error;
using fa::ch13::Ranks;

/// What all ranks must have in common.
std::string joined(int argc, char** argv) {
  std::string text;
  for (int i = 1; i < argc; ++i) text += std::string(argv[i]) + '\0';
  return text;
}

std::optional<Error> find_different_arguments(Ranks& ranks, const std::string& mine) {
  const std::vector<std::string> all = ranks.all(mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) {
      return Error{2, "rank " + std::to_string(rank) +
                          " has other arguments than rank 0: give all ranks the same ones"};
    }
  }
  return std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Ranks& ranks = Ranks::start(argc, argv);
  const bool speaks = ranks.rank() == 0;
  const auto end_together = [&](const Error& error) {
    if (speaks) std::cerr << "error: " << error.reason << "\n";
    ranks.finish(error.status);
  };
  if (const auto error = find_different_arguments(ranks, joined(argc, argv))) end_together(*error);
  if (const auto error = ranks.agree(fa::ch13::take_gpu(ranks))) end_together(*error);

  ranks.finish(fa::ch13::run_rank(argc, argv, std::cout, std::cerr));
}
