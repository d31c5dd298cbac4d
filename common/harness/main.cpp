/// @file
/// main() of every chapter; the chapter itself is what describe_chapter() returns.

#include <cstdio>
#include <iostream>

#include "harness/chapter.hpp"
#include "harness/program.hpp"

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what kernels print is seen even if one of them crashes
  return fa::run_program(fa::describe_chapter(), argc, argv, std::cout, std::cerr);
}
