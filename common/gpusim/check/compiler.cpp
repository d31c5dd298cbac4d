#include "gpusim/check/compiler.hpp"

#include <spawn.h>
#include <sys/wait.h>

#include <fstream>
#include <iostream>
#include <iterator>

extern char** environ;

namespace gpusim::check {

int run(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0) {
    std::cerr << "gpusim_check_kernels: cannot run " << words[0] << '\n';
    return 1;
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

std::string contents_of(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace gpusim::check
