#include "gpusim/check/cuda_source.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <regex>
#include <sstream>
#include <utility>

#include "gpusim/check/compiler.hpp"
#include "gpusim/check/front_end.hpp"
#include "gpusim/check/tokens.hpp"

namespace gpusim::check {
namespace {

bool is_source(const std::string& word) {
  return !word.starts_with("-") &&
         (word.ends_with(".cu") || word.ends_with(".cpp") || word.ends_with(".cc") ||
          word.ends_with(".cxx") || word.ends_with(".c") || word.ends_with(".C"));
}

/// The text after the preprocessor; nothing if that fails. @param file  for it
std::optional<std::string> preprocessed(std::vector<std::string> words, const std::string& file,
                                        const std::vector<std::string>& more) {
  std::replace(words.begin(), words.end(), std::string("-c"), std::string("-E"));
  *(std::find(words.begin(), words.end(), "-o") + 1) = file;
  words.insert(words.end(), {"-fpch-preprocess", "-D__CUDACC__", "-D__NVCC__", "-D__CUDACC_VER_MAJOR__=12",
                             "-D__CUDACC_VER_MINOR__=8", "-D__CUDACC_VER_BUILD__=0"});
  words.insert(words.end(), more.begin(), more.end());
  if (run(words) != 0) return std::nullopt;
  return contents_of(file);
}

/// The line of a file that includes a header.
int line_with(const std::string& file, const std::string& header) {
  std::istringstream in(contents_of(file));
  int number = 1;
  for (std::string line; std::getline(in, line); ++number) {
    if (line.find("include") != line.npos && line.find(header) != line.npos) return number;
  }
  return 1;
}

/// Whether a source includes a header of an installed CUDA toolkit, which does not go together with the
/// simulator's. Says which one it is, as the compiler does of headers that are missing.
bool has_foreign_header(const std::string& text) {
  static const std::regex kNames(
      "(.*/"
      ")((cu(da|blas|rand|sparse|fft|solver|dnn|tensor|pti|Complex|vid|file)|npp|nvrtc|nvml|nvJit|nvToolsExt|"
      "device_|driver_|vector_|texture_|surface_|sm_)\\w*\\.h|(thrust|cub|cuda|nv|crt|cooperative_groups|"
      "cccl)/.*)");
  for (std::size_t at = text.find("\n# 1 \""); at != text.npos; at = text.find("\n# 1 \"", at + 1)) {
    const std::size_t open = at + 6, close = text.find('"', open), end = text.find('\n', close);
    const std::string file = text.substr(open, close - open);
    if (text.substr(close, end - close).find(" 1") == text.npos || file.find("/gpusim/") != file.npos)
      continue;
    std::smatch parts;
    if (!std::regex_match(file, parts, kNames)) continue;
    const std::string folder = parts[1];
    if (!std::filesystem::exists(folder + "crt/host_defines.h") &&
        !std::filesystem::exists(folder + "../crt/host_defines.h"))
      continue;
    const std::string name = parts[2], source = place_of(text, at - 1).file;
    std::cerr << source << ':' << line_with(source, name) << ":1: fatal error: " << name
              << ": No such file or directory\n";
    return true;
  }
  return false;
}

}  // namespace

std::optional<CudaSource> rewrite_source(std::vector<std::string>& words, const std::string& object,
                                         const std::string& architecture) {
  const std::string text = object + ".ii";
  std::vector<std::string> second, more;
  CudaSource source;
  Rewritten result;
  for (bool has_asm = false;; has_asm = true) {  // once more, with what inline PTX becomes
    std::optional<std::string> host = preprocessed(words, text, more);
    if (!host || has_foreign_header(*host)) return std::nullopt;
    if (depends_on_architecture(*host)) {
      std::vector<std::string> for_device = more;
      for_device.insert(for_device.end(), {"-D__CUDA_ARCH__=" + architecture, "-w"});
      if (architecture == "900") for_device.emplace_back("-D__CUDA_ARCH_FEAT_SM90_ALL");
      const std::optional<std::string> device = preprocessed(words, text, for_device);
      if (!device) return std::nullopt;
      Merged merged = merge_passes(*host, *device);
      host = std::move(merged.text);
      source.host_only = std::move(merged.host_only);
    }
    result = rewrite_cuda(*host);
    if (!result.has_asm || has_asm) break;
    more = {"-include", "gpusim_inline_ptx.h"};
  }
  for (const std::string& error : result.errors) std::cerr << error << '\n';
  if (!result.errors.empty()) return std::nullopt;
  source.constexpr_functions = std::move(result.constexpr_functions);
  source.dynamic_arrays = std::move(result.dynamic_arrays);
  std::ofstream(text) << result.text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "-include" || words[i] == "-MF" || words[i] == "-MT" || words[i] == "-MQ") {
      ++i;
    } else if (is_source(words[i])) {
      second.push_back(text);
    } else if (words[i] != "-MD" && words[i] != "-MMD") {
      second.push_back(words[i]);
    }
  }
  second.emplace_back("-fpreprocessed");
  words = second;
  return source;
}

}  // namespace gpusim::check
