#include "gpusim/runtime/source_text.hpp"

#include <fstream>

namespace gpusim {

std::string source_line(const std::string& path, int line) {
  std::ifstream file(path);
  std::string text;
  for (int number = 0; number < line; ++number) {
    if (!std::getline(file, text)) return "";
  }
  return text;
}

}  // namespace gpusim
