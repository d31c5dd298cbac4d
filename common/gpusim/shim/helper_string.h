/// @file
/// <helper_string.h> of CUDA's samples, as programs use it: options of the form `-name=value`.
#pragma once

#include <strings.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#ifndef EXIT_WAIVED
#define EXIT_WAIVED 2
#endif
#define STRCASECMP strcasecmp
#define STRNCASECMP strncasecmp
#define STRCPY(to, size, from) strcpy(to, from)
#define FOPEN(file, name, mode) (file = fopen(name, mode))
#define FOPEN_FAIL(result) (result == NULL)
#define SSCANF sscanf
#define SPRINTF sprintf

/// The number of leading characters that are `delimiter`.
inline int stringRemoveDelimiter(char delimiter, const char* text) {
  int count = 0;
  while (text[count] == delimiter) ++count;
  return text[count] == '\0' ? 0 : count;
}

namespace gpusim::samples {

/// The text after `-name`, which begins with '=' if there is a value; null if the option is not given. The
/// last one counts.
inline const char* find_option(int count, const char** words, const char* name) {
  const char* found = nullptr;
  const std::size_t length = std::strlen(name);
  for (int i = 1; i < count; ++i) {
    const char* word = words[i] + stringRemoveDelimiter('-', words[i]);
    if (strncasecmp(word, name, length) == 0 && (word[length] == '\0' || word[length] == '='))
      found = word + length;
  }
  return found;
}
inline const char* value_of_option(int count, const char** words, const char* name) {
  const char* const found = find_option(count, words, name);
  return found == nullptr ? nullptr : *found == '=' ? found + 1 : found;
}

}  // namespace gpusim::samples

inline bool checkCmdLineFlag(const int count, const char** words, const char* name) {
  return gpusim::samples::find_option(count, words, name) != nullptr;
}
template <class T>
bool getCmdLineArgumentValue(const int count, const char** words, const char* name, T* value) {
  const char* const text = gpusim::samples::value_of_option(count, words, name);
  if (text == nullptr) return false;
  *value = T(std::atof(text));
  return true;
}
inline int getCmdLineArgumentInt(const int count, const char** words, const char* name) {
  const char* const text = gpusim::samples::value_of_option(count, words, name);
  return text == nullptr ? 0 : std::atoi(text);
}
inline float getCmdLineArgumentFloat(const int count, const char** words, const char* name) {
  const char* const text = gpusim::samples::value_of_option(count, words, name);
  return text == nullptr ? 0.0f : float(std::atof(text));
}
inline bool getCmdLineArgumentString(const int count, const char** words, const char* name, char** value) {
  const char* const text = gpusim::samples::value_of_option(count, words, name);
  *value = const_cast<char*>(text);
  return text != nullptr;
}
inline int getFileExtension(char* name, char** extension) {
  const std::string text = name;
  const std::size_t dot = text.rfind('.');
  *extension = name + (dot == std::string::npos ? text.size() : dot + 1);
  return int(*extension - name);
}

/// Where a file of data is: here, beside the program, or in a folder "data" of one of these. @return  to be
/// released with free(); null if it is nowhere
inline char* sdkFindFilePath(const char* name, const char* program) {
  const std::string path = program == nullptr ? "" : program;
  const std::string folder = path.find('/') == std::string::npos ? "" : path.substr(0, path.rfind('/') + 1);
  for (const std::string& base : {std::string(), folder}) {
    for (const char* below : {"", "data/", "../data/", "../../data/", "../"}) {
      const std::string file = base + below + name;
      if (std::ifstream(file).good()) return strdup(file.c_str());
    }
  }
  return nullptr;
}
