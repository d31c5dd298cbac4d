/// @file
/// The file of a recording: README.md describes it.
#include <errno.h>  // program_invocation_short_name
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <tuple>

#include "gpusim/runtime/arena.hpp"
#include "gpusim/runtime/emulated.hpp"
#include "gpusim/runtime/ending.hpp"
#include "gpusim/runtime/recorder.hpp"
#include "gpusim/runtime/sites.hpp"
#include "gpusim/runtime/symbols.hpp"

namespace gpusim::record {
namespace {

/// JSON text, piece by piece.
class Json {
 public:
  static std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') {
        result += std::string("\\") + c;
      } else if (c == '\n') {
        result += "\\n";
      } else if (static_cast<unsigned char>(c) < 0x20) {
        result += ' ';
      } else {
        result += c;
      }
    }
    return result + "\"";
  }
  static std::string of(const std::string& text) { return quoted(text); }
  static std::string of(const char* text) { return quoted(text); }
  static std::string of(bool value) { return value ? "true" : "false"; }
  static std::string of(const Dim3& d) { return list(std::vector<unsigned>{d.x, d.y, d.z}); }
  template <class T>
  requires std::is_arithmetic_v<T>
  static std::string of(T value) { return std::to_string(value); }
  template <class T>
  static std::string list(const T& values) {
    std::string text;
    for (const auto& value : values) text += (text.empty() ? "" : ",") + of(value);
    return "[" + text + "]";
  }
};

/// {"a": 1, "b": [..]}
class Object {
 public:
  template <class T>
  Object& add(const char* key, const T& value) {
    return raw(key, Json::of(value));
  }
  Object& raw(const char* key, const std::string& json) {
    text_ += (text_.empty() ? "\"" : ",\"") + std::string(key) + "\":" + json;
    return *this;
  }
  std::string text() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

std::string join(const std::vector<std::string>& objects) {
  std::string text;
  for (const std::string& object : objects) text += (text.empty() ? "\n" : ",\n") + object;
  return "[" + text + "]";
}

/// Numbers for things that are equal if their JSON is.
class Table {
 public:
  std::uint32_t number(const std::string& json) {
    const auto [it, is_new] = numbers_.try_emplace(json, std::uint32_t(objects_.size()));
    if (is_new) objects_.push_back(json);
    return it->second;
  }
  std::string text() const { return join(objects_); }

 private:
  std::map<std::string, std::uint32_t> numbers_;
  std::vector<std::string> objects_;
};

std::string or_null(std::uint32_t number) { return number == kNone ? "null" : std::to_string(number); }

const char* name_of(BarrierKind kind) {
  switch (kind) {
    case BarrierKind::kBlock: return "block";
    case BarrierKind::kWarp: return "warp";
    case BarrierKind::kMbarrier: return "mbarrier";
    case BarrierKind::kNamed: return "named";
    case BarrierKind::kCluster: return "cluster";
    case BarrierKind::kCopies: return "copies";
    case BarrierKind::kBulk: return "bulk";
    case BarrierKind::kProducts: return "products";
  }
  return "?";
}

/// How many events each section keeps: all, or as many as fit if all sections that are longer get the same.
std::vector<std::size_t> shares(const std::vector<std::unique_ptr<BlockRecord>>& sections, std::size_t most) {
  std::vector<std::size_t> order(sections.size()), kept(sections.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return sections[a]->events.size() < sections[b]->events.size();
  });
  for (std::size_t i = 0; i < order.size(); ++i) {
    kept[order[i]] = std::min(sections[order[i]]->events.size(), most / (order.size() - i));
    most -= kept[order[i]];
  }
  return kept;
}

/// A return address at the beginning of the kernel.
std::uintptr_t inside_kernel(const BlockRecord& block) {
  return reinterpret_cast<std::uintptr_t>(block.kernel) + 1;
}

/// Where the tensor begins that is in an allocation.
std::uintptr_t begin_of(const Allocation& a) { return a.tensor != 0 ? a.tensor : a.begin; }

/// The variables of shared memory that the block has used, in order. A program may have several dynamic ones.
std::vector<SharedArray> used_variables(const BlockRecord& block) {
  std::vector<SharedArray> variables = block.variables;
  std::sort(variables.begin(), variables.end(),
            [](const auto& one, const auto& other) { return one.begin < other.begin; });
  std::vector<bool> used(variables.size());
  const auto use = [&](std::uint32_t offset) {
    for (std::size_t i = 0; i < variables.size(); ++i)
      if (offset - variables[i].begin < variables[i].bytes) used[i] = true;
  };
  for (const Event& event : block.events)
    if (event.kind == Kind::kAccess && event.array >= Event::kOfBlock && event.array != kNone)
      use(event.offset);
  for (const Copy& copy : block.copies) use(std::uint32_t(copy.copy.shared - block.shared_begin));
  std::vector<SharedArray> result;
  for (std::size_t i = 0; i < variables.size(); ++i)
    if (used[i]) result.push_back(std::move(variables[i]));
  return result;
}

/// Puts the file together.
class File {
 public:
  std::string contents(std::vector<std::unique_ptr<BlockRecord>>& blocks, std::size_t most);

 private:
  struct Place {
    std::uint32_t array, offset;
  };
  struct Known {
    std::uint32_t begin, end, array;
    std::string name;
  };

  void find_sites(const std::vector<std::unique_ptr<BlockRecord>>& blocks);
  std::uint32_t site(std::uint32_t raw);
  std::uint32_t site_of_pc(std::uintptr_t pc);
  std::uint32_t global_array(std::uint32_t allocation);
  void add_shared_arrays(const BlockRecord& block);
  Place place(std::uint32_t raw_array, std::uint32_t offset);
  std::string kernel_name(const BlockRecord& block) const;
  std::string name_of_barrier(const Barrier& barrier) const;
  std::string text_of(const BlockRecord& block, const Copy& copy, std::uint32_t first_barrier);
  std::string text_of(const Operand& operand);
  std::string text_of(const Product& product);
  std::vector<std::uint32_t> add_defects(const BlockRecord& block);
  void add_section(const BlockRecord& block, std::size_t kept);

  std::unordered_map<std::uintptr_t, Calls> calls_;
  FunctionsByAddress functions_;
  ArrayNames names_;
  std::map<std::uint32_t, std::uint32_t> site_numbers_, global_numbers_;
  Table sites_, patterns_;
  std::vector<std::string> sections_, arrays_, barriers_, copies_, products_, defects_;
  std::vector<Known> shared_;  ///< of this section, by begin
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t>
      cluster_arrays_;  ///< by rank and own array
  std::vector<Event> events_;
  /// The first event of each block, and how many it keeps.
  std::map<const BlockRecord*, std::pair<std::uint32_t, std::size_t>> layout_;
  using DefectId =
      std::tuple<const BlockRecord*, DefectKind, Space, std::uint8_t, std::uint32_t, std::uint32_t>;
  std::map<DefectId, std::uint32_t> defect_numbers_;
  std::unique_ptr<DefectText> text_;
};

/// The places of all events, looked up at once.
void File::find_sites(const std::vector<std::unique_ptr<BlockRecord>>& blocks) {
  std::set<std::uintptr_t> pcs;
  for (const auto& block : blocks) {
    pcs.insert(inside_kernel(*block));
    for (const Event& event : block->events) {
      if (event.site != kNone) pcs.insert(pc_of_site(std::uint16_t(event.site)));
    }
    for (const Barrier& barrier : block->barriers) pcs.insert(barrier.name.pc);
    for (const RecordedDefect& defect : block->defects) pcs.insert({defect.key.pc, defect.key.rival_pc});
  }
  pcs.erase(0);
  const std::vector<std::uintptr_t> all(pcs.begin(), pcs.end());
  calls_ = inlined_calls(all);
  functions_ = functions_around(all);
}

std::uint32_t File::site_of_pc(std::uintptr_t pc) {
  if (pc == 0) return kNone;
  const auto it = calls_.find(pc);
  Calls calls = it == calls_.end() ? Calls() : it->second;
  for (std::string& line : calls.lines) line = std::filesystem::path(line).lexically_normal();
  return sites_.number(Object().raw("lines", Json::list(calls.lines)).add("built_in", calls.built_in).text());
}

std::uint32_t File::site(std::uint32_t raw) {
  if (raw == kNone) return kNone;
  const auto [it, is_new] = site_numbers_.try_emplace(raw, 0);
  if (is_new) it->second = site_of_pc(pc_of_site(std::uint16_t(raw)));
  return it->second;
}

std::uint32_t File::global_array(std::uint32_t allocation) {
  const auto [it, is_new] = global_numbers_.try_emplace(allocation, std::uint32_t(arrays_.size()));
  if (is_new) {
    const Allocation& a = Arena::instance().allocation(allocation);
    Object array;
    array.add("space", "global").add("name", a.name);
    std::uint64_t bytes = a.end - begin_of(a);
    if (a.tensor != 0) {
      bytes = bytes_of_type(a.type);
      for (const std::int64_t length : a.shape) bytes *= std::uint64_t(length);
      array.raw("shape", Json::list(a.shape)).add("type", a.type);
    }
    arrays_.push_back(array.add("bytes", bytes).text());
  }
  return it->second;
}

void File::add_shared_arrays(const BlockRecord& block) {
  shared_.clear();
  cluster_arrays_.clear();
  const std::vector<SharedArray> variables = used_variables(block);
  if (variables.empty()) return;
  const std::uint32_t lowest = variables.front().begin;
  const std::uintptr_t window = (block.shared_begin + lowest) / 1024 * 1024;  // so that banks are right
  const std::uintptr_t pc = inside_kernel(block);
  const auto add = [&](const SharedArray& a) {
    shared_.push_back({a.begin, a.begin + a.bytes, std::uint32_t(arrays_.size()), a.name});
    Object array;
    array.add("space", "shared").add("name", a.name).add("bytes", a.bytes);
    if (!a.shape.empty()) array.raw("shape", Json::list(a.shape));
    if (a.element_bytes != 0) array.add("element_bytes", a.element_bytes);
    if (a.row_bytes != 0) array.add("row_bytes", a.row_bytes);
    if (a.rows.period != 0) {
      array.raw("layout", Object()
                              .add("period", a.rows.period)
                              .add("columns", a.rows.columns)
                              .raw("places", Json::list(a.rows.places))
                              .text());
    }
    array.add("section", sections_.size()).add("begin", block.shared_begin + a.begin - window);
    arrays_.push_back(array.text());
  };
  const ThreadNumbers numbers{{0, 0, 0}, block.block_dim, block.parameters};
  for (const SharedArray& v : variables) {
    std::vector<SharedArray> parts;  // in order
    for (const SharedArray& member : block.members) {
      if (member.begin < v.begin || member.begin >= v.begin + v.bytes) continue;
      SharedArray& part = parts.emplace_back(member);
      part.name = without_indices(names_.element(pc, member.first, numbers));
    }
    std::sort(parts.begin(), parts.end(),
              [](const auto& one, const auto& other) { return one.begin < other.begin; });
    if (parts.empty()) {
      for (const ArrayNames::Part& part : names_.parts(pc, v.variable, v.bytes, numbers)) {
        parts.push_back({.name = part.name,
                         .begin = v.begin + std::uint32_t(part.begin),
                         .bytes = std::uint32_t(part.end - part.begin),
                         .shape = part.dimensions,
                         .element_bytes = part.element_bytes,
                         .row_bytes = part.row_bytes,
                         .rows = part.rows});
      }
    }
    SharedArray rest{.name = v.name, .begin = v.begin};  // what has no other name
    for (const SharedArray& part : parts) {
      rest.bytes = part.begin - rest.begin;
      if (part.begin > rest.begin) add(rest);
      add(part);
      rest.begin = part.begin + part.bytes;
    }
    rest.bytes = v.begin + v.bytes - rest.begin;
    if (rest.bytes > 0) add(rest);
  }
}

File::Place File::place(std::uint32_t raw_array, std::uint32_t offset) {
  if (raw_array == kNone) return {kNone, offset};
  if (raw_array < Event::kOfBlock) {
    const Allocation& a = Arena::instance().allocation(raw_array);
    return {global_array(raw_array), offset - std::uint32_t(begin_of(a) - a.begin)};
  }
  const Known* last = nullptr;  // an access out of bounds belongs to the array before it
  for (const Known& known : shared_) {
    if (offset >= known.begin) last = &known;
    if (offset >= known.begin && offset < known.end) break;
  }
  if (last == nullptr) return {kNone, offset};
  if (raw_array == Event::kShared) return {last->array, offset - last->begin};
  const std::uint32_t rank = raw_array - Event::kOfBlock;
  const auto [it, is_new] = cluster_arrays_.try_emplace({rank, last->array}, std::uint32_t(arrays_.size()));
  if (is_new) {
    arrays_.push_back(Object()
                          .add("space", "cluster")
                          .add("name", last->name)
                          .add("bytes", last->end - last->begin)
                          .add("section", sections_.size())
                          .add("cluster_rank", rank)
                          .text());
  }
  return {it->second, offset - last->begin};
}

std::string File::kernel_name(const BlockRecord& block) const {
  const auto it = functions_.find(inside_kernel(block));
  return it == functions_.end() || it->second.empty() ? "kernel" : it->second.back();
}

std::string File::name_of_barrier(const Barrier& barrier) const {
  const Piece& piece = barrier.name;
  if (piece.is_call) {
    const auto it = calls_.find(piece.pc);
    return it == calls_.end() ? "a call" : it->second.built_in;
  }
  if (piece.place.variable.empty()) return piece.text;
  const std::string name = names_.element(piece.pc, piece.place, barrier.numbers);
  return name.empty() ? piece.text : name;
}

std::string File::text_of(const BlockRecord& block, const Copy& copy, std::uint32_t first_barrier) {
  const BulkCopy& c = copy.copy;
  constexpr const char* kKinds[] = {"load", "store", "reduce"};
  constexpr int kSwizzles[] = {0, 32, 64, 128};
  // Runs of bytes that have the same length and distance are one entry.
  struct Runs {
    std::uint64_t global, bytes, count, stride, box, box_stride;
  };
  std::vector<Runs> runs;
  const std::uint32_t tensor = copy.allocation == 0 ? kNone : global_array(copy.allocation);
  const std::uintptr_t begin = begin_of(Arena::instance().allocation(copy.allocation));
  std::uint64_t inside = 0;
  c.for_each_run([&](std::uintptr_t global, std::size_t offset, std::size_t bytes) {
    inside += bytes;
    const std::uint64_t at = global - begin;
    if (!runs.empty()) {
      Runs& last = runs.back();
      if (last.count == 1 && last.bytes == bytes) {
        last.stride = at - last.global;
        last.box_stride = offset - last.box;
      }
      if (last.bytes == bytes && at == last.global + last.count * last.stride &&
          offset == last.box + last.count * last.box_stride) {
        ++last.count;
        return;
      }
    }
    runs.push_back({at, bytes, 1, 0, offset, 0});
  });
  std::string lists;
  for (const Runs& r : runs) {
    lists += (lists.empty() ? "" : ",") + Json::list(std::vector<std::uint64_t>{
                                              r.global, r.bytes, r.count, r.stride, r.box, r.box_stride});
  }
  Object text;
  text.add("kind", kKinds[int(c.kind)]).raw("tensor", or_null(tensor));
  if (c.is_tensor()) {
    std::vector<std::int64_t> at, box;
    for (int d = 0; d < c.map.rank; ++d) {
      at.push_back(c.at[std::size_t(d)]);
      box.push_back(c.map.count(d));
    }
    text.raw("coordinates", Json::list(at)).raw("box", Json::list(box));
    text.add("element_bytes", int(c.map.element_bytes));
  }
  const Place shared = place(Event::kShared, std::uint32_t(c.shared - block.shared_begin));
  return text.raw("runs", "[" + lists + "]")
      .raw("shared", or_null(shared.array))
      .add("shared_offset", shared.offset)
      .add("bytes", c.bytes)
      .add("global_bytes", inside)
      .add("swizzle", c.is_tensor() && c.map.swizzle < 4 ? kSwizzles[c.map.swizzle] : 0)
      .raw("barrier", or_null(copy.barrier == kNone ? kNone : copy.barrier + first_barrier))
      .text();
}

std::string File::text_of(const Operand& operand) {
  if (operand.in_registers) return Json::quoted("registers");
  const Place at = place(Event::kShared, operand.offset);
  return Object()
      .raw("array", or_null(at.array))
      .add("offset", at.offset)
      .add("major", operand.mn_major ? "mn" : "k")
      .add("swizzle", operand.swizzle)
      .add("leading", operand.leading)
      .add("stride", operand.stride)
      .add("base_offset", operand.base_offset)
      .text();
}

std::string File::text_of(const Product& product) {
  return Object()
      .add("m", product.m)
      .add("n", product.n)
      .add("k", product.k)
      .add("type", product.type == device::MmaType::kFloat16 ? "f16" : "bf16")
      .raw("a", text_of(product.a))
      .raw("b", text_of(product.b))
      .text();
}

/// The numbers of the defects of a block. To a reader, several instructions on one line are one.
std::vector<std::uint32_t> File::add_defects(const BlockRecord& block) {
  std::vector<std::uint32_t> numbers;
  const auto in_file = [&](const BlockRecord* of, std::uint32_t event) {
    const auto it = layout_.find(of);
    return it == layout_.end() || event >= it->second.second ? kNone : it->second.first + event;
  };
  for (const RecordedDefect& d : block.defects) {
    const std::uint32_t site = site_of_pc(d.key.pc), rival_site = site_of_pc(d.key.rival_pc);
    const auto [low, high] = std::minmax(site, rival_site);
    const auto [it, is_new] = defect_numbers_.try_emplace(
        DefectId{&block, d.key.kind, d.key.space, d.key.rule, low, high}, std::uint32_t(defects_.size()));
    numbers.push_back(it->second);
    if (!is_new) continue;
    const BlockRecord* const rival_block = d.rival_block != nullptr ? d.rival_block : &block;
    defects_.push_back(Object()
                           .add("kind", gpusim::name_of(d.key.kind))
                           .add("message", text_->of(d.key, d.example))
                           .raw("event", or_null(in_file(&block, d.event)))
                           .raw("rival_event", or_null(in_file(rival_block, d.rival_event)))
                           .raw("site", or_null(site))
                           .raw("rival_site", or_null(rival_site))
                           .add("thread", d.example.thread)
                           .add("rival_thread", d.example.rival_thread)
                           .text());
  }
  return numbers;
}

void File::add_section(const BlockRecord& block, std::size_t kept) {
  add_shared_arrays(block);
  const auto begin = std::uint32_t(events_.size());
  const auto first_barrier = std::uint32_t(barriers_.size());
  const auto rebased = [&](std::uint32_t event) { return event < kept ? begin + event : kNone; };
  for (const Barrier& barrier : block.barriers) {
    barriers_.push_back(
        Object().add("kind", name_of(barrier.kind)).add("name", name_of_barrier(barrier)).text());
  }
  std::vector<std::uint32_t> patterns;
  for (const AccessPattern& p : block.patterns) {
    patterns.push_back(patterns_.number(Object()
                                            .add("size", p.size)
                                            .raw("offsets", Json::list(p.offsets))
                                            .add("bytes", p.bytes)
                                            .add("sectors", p.sectors)
                                            .add("wavefronts", p.wavefronts)
                                            .add("ideal", p.ideal)
                                            .text()));
  }
  const auto first_copy = std::uint32_t(copies_.size()), first_product = std::uint32_t(products_.size());
  for (const Copy& copy : block.copies) copies_.push_back(text_of(block, copy, first_barrier));
  for (const Product& product : block.products) products_.push_back(text_of(product));
  const std::vector<std::uint32_t> defects = add_defects(block);
  for (std::size_t i = 0; i < block.events.size(); ++i) {
    Event event = block.events[i];
    if (i >= kept && event.kind != Kind::kDefect) continue;
    event.site = site(event.site);
    switch (event.kind) {
      case Kind::kAccess: {
        const Place at = place(event.array, event.offset);
        event.array = at.array;
        event.offset = at.offset;
        event.pattern = patterns[event.pattern];
        break;
      }
      case Kind::kOp:
        if (event.flags == std::uint8_t(Op::kMma)) event.array += first_product;
        if (event.flags == std::uint8_t(Op::kBarrierInit)) event.array += first_barrier;
        break;
      case Kind::kProductBegins: event.array += first_product; break;
      case Kind::kCopyBegins:
      case Kind::kCopyLands: event.array += first_copy; break;
      case Kind::kGroupLanded:
      case Kind::kWait:
      case Kind::kGoOn:
      case Kind::kArrive:
      case Kind::kCommit: event.array += first_barrier; break;
      case Kind::kDefect: event.array = defects[event.array]; break;
      case Kind::kProductFinished:
      case Kind::kEnd: break;
    }
    if (event.link != kNone) event.link = rebased(event.link);
    events_.push_back(event);
  }
  sections_.push_back(
      Object()
          .add("launch", block.launch)
          .add("kernel", kernel_name(block))
          .add("grid", block.grid)
          .add("block_dim", block.block_dim)
          .add("block", block.block)
          .add("cluster_rank", block.rank)
          .add("warps", block.warps)
          .add("begin", begin)
          .add("end", events_.size())
          .add("complete", !block.abandoned && kept == block.events.size() && block.left_out == 0)
          .add("abandoned", block.abandoned)
          .add("left_out", block.events.size() - (events_.size() - begin) + block.left_out)
          .text());
}

std::string File::contents(std::vector<std::unique_ptr<BlockRecord>>& blocks, std::size_t most) {
  std::stable_sort(blocks.begin(), blocks.end(), [](const auto& one, const auto& other) {
    return std::tie(one->launch, one->linear) < std::tie(other->launch, other->linear);
  });
  find_sites(blocks);
  const std::vector<std::size_t> kept = shares(blocks, most);
  std::vector<std::pair<const FindingKey*, const Example*>> findings;
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::vector<Event>& events = blocks[i]->events;
    layout_[blocks[i].get()] = {next, kept[i]};
    next += std::uint32_t(kept[i]);
    next += std::uint32_t(std::count_if(events.begin() + std::ptrdiff_t(kept[i]), events.end(),
                                        [](const Event& event) { return event.kind == Kind::kDefect; }));
    for (const RecordedDefect& defect : blocks[i]->defects)
      findings.emplace_back(&defect.key, &defect.example);
  }
  text_ = std::make_unique<DefectText>(findings);
  for (std::size_t i = 0; i < blocks.size(); ++i) add_section(*blocks[i], kept[i]);
  std::string header = Object()
                           .add("format", 1)
                           .add("program", static_cast<const char*>(program_invocation_short_name))
                           .add("device", emulated_device().name)
                           .add("event_count", events_.size())
                           .raw("sections", join(sections_))
                           .raw("sites", sites_.text())
                           .raw("arrays", join(arrays_))
                           .raw("patterns", patterns_.text())
                           .raw("barriers", join(barriers_))
                           .raw("copies", join(copies_))
                           .raw("products", join(products_))
                           .raw("defects", join(defects_))
                           .text();
  while (header.size() % 4 != 0) header += ' ';
  std::string result = "GPUSIMR1";
  const auto length = std::uint32_t(header.size());
  result.append(reinterpret_cast<const char*>(&length), sizeof length);
  result += header;
  result.append(reinterpret_cast<const char*>(events_.data()), events_.size() * sizeof(Event));
  return result;
}

}  // namespace

std::string Recorder::contents() {
  const std::lock_guard lock(mutex_);
  Arena::instance().find_names();
  return File().contents(blocks_, settings_.most_events);
}

void Recorder::write_at_exit() {
  static const bool once = [] {
    at_end([] {
      if (instance() == nullptr) return;  // it was that of a test
      instance()->tell_writer();
      instance()->write();
    });
    return true;
  }();
  static_cast<void>(once);
}

void Recorder::write() {
  if (settings_.path.empty()) return;
  const auto fail = [&](int status, const char* name, const std::string& value, const std::string& what) {
    std::fprintf(stderr, "gpusim: %s=%s: %s\n", name, value.c_str(), what.c_str());
    exit_status_ = status;
  };
  std::string missing;
  for (const Dim3& wanted : settings_.blocks) {
    const bool found = std::any_of(blocks_.begin(), blocks_.end(), [&](const auto& record) {
      const Dim3& b = record->block;
      return b.x == wanted.x && b.y == wanted.y && b.z == wanted.z;
    });
    if (!found) {
      missing += (missing.empty() ? "" : ";") + std::to_string(wanted.x) + "," + std::to_string(wanted.y) +
                 "," + std::to_string(wanted.z);
    }
  }
  if (settings_.launch && *settings_.launch > launch_) {
    fail(1, "GPUSIM_RECORD_LAUNCH", std::to_string(*settings_.launch),
         "there are " + std::to_string(launch_ + 1) + " launches, from 0 on");
  } else if (!missing.empty()) {
    fail(1, "GPUSIM_RECORD_BLOCKS", missing, "no launch has such a block");
  }
  if (blocks_.empty()) return;
  const std::string data = contents();
  const std::string part = settings_.path + ".part" + std::to_string(getpid());
  std::FILE* const file = std::fopen(part.c_str(), "wb");
  bool done = file != nullptr && std::fwrite(data.data(), 1, data.size(), file) == data.size();
  if (file != nullptr) done = std::fclose(file) == 0 && done;
  done = done && std::rename(part.c_str(), settings_.path.c_str()) == 0;
  if (done) return;
  fail(2, "GPUSIM_RECORD", settings_.path, std::string("cannot be written: ") + std::strerror(errno));
  std::remove(part.c_str());
}

}  // namespace gpusim::record
