#include "gpusim/check/device_pass.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "gpusim/check/tokens.hpp"

namespace gpusim::check {
namespace {

/// A declaration: tokens [begin, end). The body, if it has one, is [body, close].
struct Chunk {
  std::size_t begin, end;
  std::size_t body = 0, close = 0;
  bool is_container =
      false;         ///< a namespace, an extern "C" block or a class: what it contains are declarations
  std::string text;  ///< its tokens
  std::string head;  ///< those before the body
};

class Pass {
 public:
  explicit Pass(std::string_view source) : text(source), tokens(tokens_of(source)) {}

  std::string words(std::size_t begin, std::size_t end) const {
    std::string result;
    for (std::size_t i = begin; i < end; ++i) {
      result += tokens[i].text;
      result += ' ';
    }
    return result;
  }

  /// The declarations between two tokens.
  std::vector<Chunk> chunks(std::size_t begin, std::size_t end) const {
    std::vector<Chunk> result;
    while (begin < end) {
      Chunk chunk = chunk_at(begin, end);
      chunk.text = words(chunk.begin, chunk.end);
      chunk.head = words(chunk.begin, chunk.body != 0 ? chunk.body : chunk.end);
      begin = chunk.end;
      result.push_back(std::move(chunk));
    }
    return result;
  }

  std::string_view text;
  std::vector<Token> tokens;

 private:
  Chunk chunk_at(std::size_t begin, std::size_t end) const {
    Chunk chunk{begin, end};
    bool is_class = false, is_scope = false, has_parameters = false, has_value = false;
    for (std::size_t i = begin; i < end; ++i) {
      const Token& t = tokens[i];
      if (t.is("class") || t.is("struct") || t.is("union") || t.is("enum")) is_class = !has_parameters;
      if (t.is("namespace") || (t.is("\"C\"") && i > 0 && tokens[i - 1].is("extern"))) is_scope = true;
      if (t.is("template") && i + 1 < end && tokens[i + 1].is("<")) {
        i = std::min(closing(tokens, i + 1), end - 1);  // class, in its parameters, begins no class
      } else if (t.is("=")) {
        has_value = true;
      } else if (t.is("(") || t.is("[")) {
        const bool is_attribute = i > 0 && (tokens[i - 1].is("__attribute__") || tokens[i - 1].is("alignas"));
        has_parameters |= t.is("(") && !is_attribute;
        i = std::min(closing(tokens, i), end - 1);
      } else if (t.is(";")) {
        chunk.end = i + 1;
        return chunk;
      } else if (t.is("{")) {
        const std::size_t close = std::min(closing(tokens, i), end - 1);
        const bool goes_on = close + 1 < end && (tokens[close + 1].is(",") || tokens[close + 1].is("{"));
        if (!has_value && !goes_on) {
          chunk.body = i;
          chunk.close = close;
          chunk.is_container = (is_class || is_scope) && !has_parameters;
          if (is_scope || has_parameters || !is_class) {
            chunk.end = close + 1;
            return chunk;
          }
        }
        i = close;
      }
    }
    return chunk;
  }
};

class Merger {
 public:
  Merger(std::string_view host, std::string_view device) : host_(host), device_(device) {}

  Merged run() {
    merge(0, host_.tokens.size(), 0, device_.tokens.size());
    return {edits_.apply(host_.text), std::move(host_only_)};
  }

 private:
  void merge(std::size_t host_begin, std::size_t host_end, std::size_t device_begin, std::size_t device_end) {
    const std::vector<Chunk> host = host_.chunks(host_begin, host_end);
    const std::vector<Chunk> device = device_.chunks(device_begin, device_end);
    std::size_t h = 0, d = 0;
    while (h < host.size() || d < device.size()) {
      if (h < host.size() && d < device.size() && host[h].text == device[d].text) {
        ++h;
        ++d;
        continue;
      }
      const auto [next_h, next_d] = next_common(host, h, device, d);
      merge_runs(host, h, next_h, device, d, next_d, host_end);
      h = next_h;
      d = next_d;
    }
  }

  /// Where both go on with the same declaration: the nearest one.
  static std::pair<std::size_t, std::size_t> next_common(const std::vector<Chunk>& host, std::size_t h,
                                                         const std::vector<Chunk>& device, std::size_t d) {
    for (std::size_t distance = 1; h + d + distance <= host.size() + device.size(); ++distance) {
      for (std::size_t in_host = 0; in_host <= distance; ++in_host) {
        const std::size_t a = h + in_host, b = d + distance - in_host;
        if (a < host.size() && b < device.size() && host[a].text == device[b].text) return {a, b};
      }
    }
    return {host.size(), device.size()};
  }

  /// Declarations that differ.
  void merge_runs(const std::vector<Chunk>& host, std::size_t h, std::size_t h_end,
                  const std::vector<Chunk>& device, std::size_t d, std::size_t d_end,
                  std::size_t end_of_container) {
    const bool has_host = h < h_end;
    std::map<std::size_t, std::size_t> partners;  // of the device's declarations
    for (; h < h_end; ++h) {
      const Chunk& mine = host[h];
      std::size_t other = d;
      while (other < d_end && (partners.contains(other) || device[other].head != mine.head)) ++other;
      if (other < d_end && mine.body != 0 && device[other].body != 0) {
        partners[other] = h;
        merge_pair(mine, device[other]);
      } else if (has_tag(mine.head, "device")) {  // only the host's pass has this function of the device
        const std::size_t end = host_.tokens[mine.end - 1].end();
        edits_.replace(host_.tokens[mine.begin].begin, end, marker(place_of(host_.text, end)));
      }
    }
    for (std::size_t other = d; other < d_end; ++other) {
      const Chunk& theirs = device[other];
      if (partners.contains(other) || (has_host && !is_of_device(theirs.head))) continue;
      const auto next = partners.upper_bound(other);
      const std::size_t before = next != partners.end() ? next->second : h_end;
      insert(theirs.begin, theirs.end - 1,
             position(before < host.size() ? host[before].begin : end_of_container));
    }
  }

  void merge_pair(const Chunk& host, const Chunk& device) {
    if (host.is_container && device.is_container) {
      merge(host.body + 1, host.close, device.body + 1, device.close);
    } else if (has_tag(host.head, "kernel")) {
      const std::size_t at = host_.tokens[host.body].begin, end = host_.tokens[host.close].end();
      edits_.replace(at, end, with_markers(device.body, device.close, end));
    } else if (has_tag(host.head, "device")) {
      const Token& open = host_.tokens[host.body];
      const Token& close = host_.tokens[host.close];
      edits_.insert(open.begin,
                    "{ if (__builtin_is_constant_evaluated() || ::gpusim::device::is_on_host()) ");
      edits_.insert(close.end(), " else " + with_markers(device.body, device.close, close.end()) + "}");
      const Place first = place_of(host_.text, open.begin), last = place_of(host_.text, close.begin);
      host_only_.push_back({first.file, first.line, last.line});
    }
  }

  static bool has_tag(const std::string& head, const std::string& tag) {
    return head.find("abi_tag ( \"" + tag + "\" )") != head.npos;
  }
  static bool is_of_device(const std::string& head) {
    return has_tag(head, "kernel") || has_tag(head, "device") || has_tag(head, "constant");
  }

  /// A position in the host's text.
  std::size_t position(std::size_t token) const {
    return token < host_.tokens.size() ? host_.tokens[token].begin : host_.text.size();
  }

  void insert(std::size_t first, std::size_t last, std::size_t at) {
    edits_.insert(at, with_markers(first, last, at));
  }

  /// Tokens of the device's text, with the lines that they have there; the host's text goes on at `after`.
  std::string with_markers(std::size_t first, std::size_t last, std::size_t after) const {
    const std::size_t begin = device_.tokens[first].begin, end = device_.tokens[last].end();
    return marker(place_of(device_.text, begin)) + std::string(device_.text.substr(begin, end - begin)) +
           marker(place_of(host_.text, std::min(after, host_.text.size() - 1)));
  }
  static std::string marker(const Place& place) {
    return "\n# " + std::to_string(place.line) + " \"" + place.file + "\"\n";
  }

  Pass host_, device_;
  Edits edits_;
  std::vector<LineRange> host_only_;
};

}  // namespace

Merged merge_passes(std::string_view host, std::string_view device) { return Merger(host, device).run(); }

bool depends_on_architecture(std::string_view preprocessed) {
  std::set<std::string> files;
  for (std::size_t at = 0; at < preprocessed.size();) {
    const std::size_t end = std::min(preprocessed.find('\n', at), preprocessed.size());
    const std::string_view line = preprocessed.substr(at, end - at);
    const std::size_t open = line.find('"'), close = line.rfind('"');
    if (line.starts_with("# ") && open < close && line.substr(close).find('3') == line.npos)
      files.insert(std::string(line.substr(open + 1, close - open - 1)));
    at = end + 1;
  }
  return std::any_of(files.begin(), files.end(), [](const std::string& file) {
    if (!std::filesystem::is_regular_file(file))
      return false;  // the folder in which the compiler runs is there, too
    std::ifstream in(file);
    const std::string text(std::istreambuf_iterator<char>(in), {});
    return text.find("__CUDA_ARCH__") != text.npos;
  });
}

}  // namespace gpusim::check
