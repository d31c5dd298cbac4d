/// @file
/// main() of every chapter; the chapter itself is what describe_chapter() returns.

#include <iostream>

#include "harness/chapter.hpp"
#include "harness/program.hpp"

int main(int argc, char** argv) {
  return fa::run_program(fa::describe_chapter(), argc, argv, std::cout, std::cerr);
}
