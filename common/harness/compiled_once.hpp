/// @file
/// Templates of the standard library that every chapter.cu needs, compiled once, in the harness: a part of
/// the chapters' precompiled headers.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/chapter.hpp"

#ifndef FA_COMPILED_ONCE  // compiled_once.cpp compiles them
#define FA_COMPILED_ONCE extern
#endif

FA_COMPILED_ONCE template class std::basic_string<char>;
FA_COMPILED_ONCE template class std::map<std::string, void*>;
FA_COMPILED_ONCE template class std::vector<std::int64_t>;
FA_COMPILED_ONCE template class std::vector<fa::DType>;
FA_COMPILED_ONCE template std::string std::operator+(const char*, const std::string&);
FA_COMPILED_ONCE template std::string std::operator+(const std::string&, const char*);
FA_COMPILED_ONCE template std::string std::operator+(std::string&&, const char*);
FA_COMPILED_ONCE template std::string std::operator+(std::string&&, std::string&&);

FA_COMPILED_ONCE template class std::vector<fa::Variant<fa::Softmax>>;
FA_COMPILED_ONCE template class std::function<void(const fa::Softmax::Args&, cudaStream_t)>;
FA_COMPILED_ONCE template class std::function<fa::Traffic(const fa::Softmax::Shape&)>;
FA_COMPILED_ONCE template class std::function<fa::DeviceNeeds(const fa::Softmax::Shape&)>;
FA_COMPILED_ONCE template class std::function<std::optional<fa::Refusal>(const fa::Softmax::Shape&)>;
FA_COMPILED_ONCE template class std::function<std::vector<fa::TensorSpec>(const fa::Softmax::Shape&)>;
FA_COMPILED_ONCE template class std::function<std::optional<std::string>(const fa::Softmax::Shape&,
                                                                         const fa::TensorMap&)>;
