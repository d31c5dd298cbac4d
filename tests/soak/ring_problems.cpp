// Problems for chapter 13, one after another in the same processes: mpirun -n R soak_ch13_ring FILE
//
// Each line of FILE is a command line. Prints its number and its exit status, and what it printed if that is
// not 0.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "13_ring/gpus.hpp"
#include "13_ring/ranks.hpp"
#include "13_ring/run.hpp"

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  fa::ch13::Ranks& ranks = fa::ch13::Ranks::start(argc, argv);
  if (const auto error = ranks.agree(fa::ch13::take_gpu(ranks))) ranks.end_all(*error);
  fa::ch13::ignore_nvlink();
  std::ifstream problems(argc == 2 ? argv[1] : "");
  if (!problems) ranks.end_all({2, "soak_ch13_ring must be followed by a file of command lines"});
  std::string line;
  for (int number = 1; std::getline(problems, line); ++number) {
    std::istringstream stream(line);
    std::vector<std::string> words{"ch13_ring"};
    words.insert(words.end(), std::istream_iterator<std::string>(stream), {});
    std::vector<const char*> given;
    for (const std::string& word : words) given.push_back(word.c_str());
    std::ostringstream printed;
    const int status = fa::ch13::run_rank(int(given.size()), given.data(), printed, printed);
    if (ranks.rank() != 0) continue;
    std::cout << number << ' ' << status << std::endl;
    if (status != 0) std::cout << printed.str() << std::flush;
  }
  ranks.finish(0);
}
