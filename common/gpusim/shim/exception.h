/// @file
/// <exception.h> of CUDA's samples, as programs use it.
#pragma once

#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>

template <class Base>
class Exception : public Base {
 public:
  static void throw_it(const char* file, int line, const char* detail = "-") {
    throw Exception(std::string("Exception in file '") + file + "' in line " + std::to_string(line) + "\n" +
                    detail);
  }
  Exception(const std::string& text) : Base(text) {}
};

template <class E>
void handleException(const E& exception) {
  std::cerr << exception.what() << std::endl;
  std::exit(EXIT_FAILURE);
}
#define RUNTIME_EXCEPTION(message) Exception<std::runtime_error>::throw_it(__FILE__, __LINE__, message)
