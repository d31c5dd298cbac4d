#include "gpusim/runtime/recorder.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "gpusim/runtime/arena.hpp"
#include "gpusim/runtime/ending.hpp"
#include "gpusim/runtime/session.hpp"
#include "gpusim/runtime/sites.hpp"
#include "gpusim/runtime/symbols.hpp"

namespace gpusim::record {
namespace {

[[noreturn]] void refuse(const char* name, const std::string& value, const std::string& what) {
  std::fprintf(stderr, "gpusim: %s=%s: %s\n", name, value.c_str(), what.c_str());
  std::exit(2);
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// A whole number that is all of the text.
std::optional<unsigned> number(std::string_view text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == text.npos) return parts;
    begin = end + 1;
  }
}

/// "1,0,0;5" -> {1, 0, 0}, {5, 0, 0}
std::optional<std::vector<Dim3>> blocks_of(const std::string& text) {
  std::vector<Dim3> blocks;
  for (const std::string_view part : split(text, ';')) {
    const std::vector<std::string_view> numbers = split(part, ',');
    std::array<unsigned, 3> block{};
    if (numbers.size() > block.size()) return std::nullopt;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto value = number(numbers[i]);
      if (!value) return std::nullopt;
      block[i] = *value;
    }
    blocks.push_back({block[0], block[1], block[2]});
  }
  return blocks;
}

/// Why a file cannot be written; empty if it can.
std::string why_not_writable(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  if (access(folder.c_str(), F_OK) != 0) return "there is no folder " + folder;
  if (access(folder.c_str(), W_OK | X_OK) != 0) return "files in " + folder + " cannot be written";
  if (path.ends_with('/') || access((path + "/.").c_str(), F_OK) == 0) return "this is a folder";
  return "";
}

}  // namespace

std::uint64_t bytes_of_type(const std::string& type) {
  const std::size_t digits = type.find_first_of("0123456789");
  const auto bits = number(digits == type.npos ? "" : std::string_view(type).substr(digits));
  return bits ? *bits / 8 : 1;
}

Recorder* Recorder::instance_ = Recorder::from_environment();

Recorder* Recorder::from_environment() {
  Settings settings{.path = variable("GPUSIM_RECORD")};
  if (const std::string element = variable("GPUSIM_RECORD_WRITER"); !element.empty()) {
    settings.writer_of = Element::of(element);
    if (!settings.writer_of)
      refuse("GPUSIM_RECORD_WRITER", element, "should be an element like o[0,1,17,5], or a byte like o:4420");
  }
  // Of several ranks, which mpirun has started in the same environment, the first one records.
  if (const std::string rank = variable("OMPI_COMM_WORLD_RANK"); !rank.empty() && rank != "0") return nullptr;
  if (settings.path.empty()) return settings.writer_of ? new Recorder(std::move(settings)) : nullptr;
  if (const std::string why = why_not_writable(settings.path); !why.empty())
    refuse("GPUSIM_RECORD", settings.path, why);
  if (const std::string debug = variable("GPUSIM_DEBUG"); !debug.empty() && debug != "0")
    refuse("GPUSIM_RECORD", settings.path, "there is no recording with GPUSIM_DEBUG=" + debug);
  if (const std::string blocks = variable("GPUSIM_RECORD_BLOCKS"); !blocks.empty()) {
    const auto known = blocks_of(blocks);
    if (!known) refuse("GPUSIM_RECORD_BLOCKS", blocks, "should be blocks like \"0,0,0;1,0,0\"");
    settings.blocks = *known;
  }
  if (const std::string events = variable("GPUSIM_RECORD_EVENTS"); !events.empty()) {
    const auto most = number(events);
    if (!most || *most == 0) refuse("GPUSIM_RECORD_EVENTS", events, "should be a number from 1 on");
    settings.most_events = *most;
  }
  if (const std::string launch = variable("GPUSIM_RECORD_LAUNCH"); !launch.empty()) {
    const auto which = number(launch);
    if (!which) refuse("GPUSIM_RECORD_LAUNCH", launch, "should be a number from 0 on: 0 is the first launch");
    settings.launch = int(*which);
  }
  at_end([] {  // after everything else that is done at exit
    if (instance_ == nullptr || instance_->exit_status_ == 0) return;
    std::fflush(nullptr);
    end_process(instance_->exit_status_);
  });
  return new Recorder(std::move(settings));
}

BlockRecord* Recorder::begin_block(const Dim3& block) {
  if (settings_.path.empty() || (settings_.launch && *settings_.launch != launch_)) return nullptr;
  const auto is_chosen = [&](const Dim3& b) { return b.x == block.x && b.y == block.y && b.z == block.z; };
  if (std::none_of(settings_.blocks.begin(), settings_.blocks.end(), is_chosen)) return nullptr;
  const std::lock_guard lock(mutex_);
  BlockRecord& record = *blocks_.emplace_back(std::make_unique<BlockRecord>(settings_.most_events));
  record.launch = launch_;
  record.block = block;
  return &record;
}

std::optional<Element> Element::of(const std::string& text) {
  Element element{.text = text};
  const std::size_t at = text.find_first_of("[:");
  if (at == 0 || at == text.npos) return std::nullopt;
  element.tensor = text.substr(0, at);
  const bool is_byte = text[at] == ':';
  if (!is_byte && text.back() != ']') return std::nullopt;
  const std::string_view numbers =
      std::string_view(text).substr(at + 1, text.size() - at - (is_byte ? 1 : 2));
  for (const std::string_view part : split(numbers, ',')) {
    const auto value = number(part);
    if (!value) return std::nullopt;
    element.index.push_back(*value);
  }
  if (!is_byte) return element;
  if (element.index.size() != 1) return std::nullopt;
  element.byte = std::uint64_t(element.index[0]);
  element.index.clear();
  return element;
}

/// The address of the element; 0, and the reason, if there is none.
static std::uintptr_t address_of(const Element& element, std::string& why) {
  const auto lower = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return char(std::tolower(c)); });
    return text;
  };
  const Arena& arena = Arena::instance();
  std::string names;
  for (std::size_t id = arena.allocation_count(); --id > 0;) {
    const Allocation& a = arena.allocation(std::uint32_t(id));
    if (!a.live) continue;
    names = a.name + (names.empty() ? "" : ", ") + names;
    if (lower(a.name) != lower(element.tensor)) continue;
    why.clear();
    std::uint64_t offset = element.byte;
    const std::uintptr_t begin = a.tensor != 0 ? a.tensor : a.begin;
    if (!element.index.empty()) {
      bool inside = a.shape.size() == element.index.size();
      for (std::size_t d = 0; d < a.shape.size() && inside; ++d) {
        inside = element.index[d] < a.shape[d];
        offset = offset * std::uint64_t(a.shape[d]) + std::uint64_t(element.index[d]);
      }
      if (!inside) {
        std::string shape;
        for (const std::int64_t length : a.shape)
          shape += (shape.empty() ? "" : ", ") + std::to_string(length);
        why = shape.empty()
                  ? "the program does not tell the shape of " + a.name + ": name a byte, " + a.name + ":0"
                  : a.name + " has the shape [" + shape + "]";
        return 0;
      }
      offset *= bytes_of_type(a.type);
    }
    if (begin + offset < a.end) return begin + offset;
    why = a.name + " has " + std::to_string(a.end - begin) + " bytes";
    return 0;
  }
  why = "there is no tensor of this name, but " + names;
  return 0;
}

void Recorder::end_launch(const device::Launch& launch, std::uint32_t first_block) {
  if (!settings_.writer_of) return;
  const std::uintptr_t address = address_of(*settings_.writer_of, writer_unknown_);
  if (address == 0) return;
  Arena& arena = Arena::instance();
  const auto user = arena.grid_races().writer(address - arena.base());
  if (!user) return;
  const Dim3 grid{launch.grid.x, launch.grid.y, launch.grid.z},
      block{launch.block.x, launch.block.y, launch.block.z};
  const auto text = [](const Dim3& d) {
    return std::to_string(d.x) + "," + std::to_string(d.y) + "," + std::to_string(d.z);
  };
  const std::uintptr_t pc = pc_of_site(user->site());
  const auto calls = inlined_calls({pc})[pc].lines;
  writer_ = "block " + text(grid.at(block_of(*user, launch, first_block))) + " of launch " +
            std::to_string(launch_) + ", thread " +
            text(block.at(std::uint64_t(user->thread() % kMaxThreads))) +
            (calls.empty() ? "" : ", at " + calls.front());
}

/// When the program ends.
void Recorder::tell_writer() const {
  if (!settings_.writer_of) return;
  const std::string& element = settings_.writer_of->text;
  if (!writer_.empty()) {
    std::fprintf(stderr, "gpusim: %s was last written by %s\n", element.c_str(), writer_.c_str());
  } else {
    const std::string why = writer_unknown_.empty() ? "no block has written it" : writer_unknown_;
    std::fprintf(stderr, "gpusim: GPUSIM_RECORD_WRITER=%s: %s\n", element.c_str(), why.c_str());
  }
}

void Recorder::add_race(const FindingKey& key, const Example& example) {
  const std::lock_guard lock(mutex_);
  SiteNumbers sites;
  const Arena& arena = Arena::instance();
  const std::uint32_t array = arena.find(example.address, 1);
  const auto offset = std::uint32_t(example.address - arena.allocation(array).begin);
  const auto find = [&](std::uint64_t block, int thread, std::uintptr_t pc) {
    for (const auto& record : blocks_) {
      if (record->launch != launch_ || record->linear != block) continue;
      return std::pair(record.get(), record->find(sites.of(pc), thread / kWarpSize, 1u << thread % kWarpSize,
                                                  array, offset));
    }
    return std::pair<BlockRecord*, std::uint32_t>(nullptr, kNone);
  };
  auto [block, event] = find(example.block, example.thread, key.pc);
  auto [rival_block, rival_event] = find(example.rival_block, example.rival_thread, key.rival_pc);
  RecordedDefect defect{key, example, event, rival_event, rival_block};
  int thread = example.thread;
  std::uintptr_t pc = key.pc;
  if (block == nullptr) {  // seen from the other one
    if (rival_block == nullptr) return;
    std::swap(block, rival_block);
    std::swap(defect.event, defect.rival_event);
    defect.rival_block = nullptr;
    thread = example.rival_thread;
    pc = key.rival_pc;
  }
  if (!block->known_defects.insert(key).second) return;
  block->add({.kind = Kind::kDefect,
              .warp = std::uint8_t(thread / kWarpSize),
              .site = sites.of(pc),
              .lanes = 1u << thread % kWarpSize,
              .array = std::uint32_t(block->defects.size()),
              .link = defect.event,
              .time = defect.event == kNone ? 0 : block->events[defect.event].time});
  block->defects.push_back(std::move(defect));
}

std::size_t AccessPattern::Hash::operator()(const AccessPattern& pattern) const {
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(&pattern), sizeof pattern});
}

std::uint32_t BlockRecord::add(const Event& event) {
  if (events.size() >= most_events_ && event.kind != Kind::kDefect) {
    ++left_out;
    return kNone;
  }
  events.push_back(event);
  return std::uint32_t(events.size() - 1);
}

std::uint32_t BlockRecord::pattern(const AccessPattern& pattern) {
  const auto [it, is_new] = pattern_numbers_.try_emplace(pattern, std::uint32_t(patterns.size()));
  if (is_new) patterns.push_back(pattern);
  return it->second;
}

std::uint32_t BlockRecord::product(const Product& product) {
  const auto [it, is_new] = product_numbers_.try_emplace(product, std::uint32_t(products.size()));
  if (is_new) products.push_back(product);
  return it->second;
}

std::uint32_t BlockRecord::find(std::uint32_t site, int warp, std::uint32_t lanes, std::uint32_t array,
                                std::uint32_t offset) const {
  for (std::size_t i = events.size(); i-- > 0;) {
    const Event& e = events[i];
    const bool is_use = e.kind != Kind::kDefect && e.kind != Kind::kGoOn && e.kind != Kind::kCopyLands;
    if (!is_use || e.site != site || (warp >= 0 && e.warp != warp) || (e.lanes & lanes) == 0) continue;
    if (array == kNone) return std::uint32_t(i);
    if (e.kind != Kind::kAccess || e.array != array) continue;
    const AccessPattern& p = patterns[e.pattern];
    for (std::uint32_t rest = e.lanes & lanes; rest != 0; rest &= rest - 1) {
      const std::uint32_t begin = e.offset + std::uint32_t(p.offsets[std::size_t(std::countr_zero(rest))]);
      if (offset + 4 > begin && offset < begin + p.size) return std::uint32_t(i);
    }
  }
  return kNone;
}

std::uint32_t BlockRecord::go_on(int warp, std::uint32_t time) {
  std::uint32_t& now = now_[std::size_t(warp)];
  return now = std::max(now, time);
}

std::uint32_t BlockRecord::same_in_batch(const Event& event) const {
  for (std::size_t i = batch_; i < events.size(); ++i) {
    Event same = events[i];
    if ((same.lanes & event.lanes) != 0) continue;
    same.lanes = event.lanes;
    same.time = event.time;
    if (std::memcmp(&same, &event, sizeof event) == 0) return std::uint32_t(i);
  }
  return kNone;
}

}  // namespace gpusim::record
