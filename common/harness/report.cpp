#include "harness/report.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string_view>

#include "harness/text.hpp"

namespace fa {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWidest = 100;

// ---- the table

/// A column: two lines of heading, and a text for each variant, or nothing if it is not known.
struct Column {
  std::string heading, subheading;
  std::optional<std::string> (*cell)(const VariantResult&);
  bool left_aligned = false;
};

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk: return "ok";
    case Verdict::kFailsAsDeclared: return "declared";
    case Verdict::kSkipped: return "skipped";
    case Verdict::kTrafficDiffers: return "TRAFFIC";
    case Verdict::kWrong: return "WRONG";
    case Verdict::kDefects: return "DEFECTS";
    case Verdict::kDidNotRun: return "FAILED";
  }
  return "?";
}

/// All digits, if they fit into nine columns.
std::string bytes_cell(std::int64_t bytes) {
  return bytes < 1'000'000'000 ? std::to_string(bytes) : in_bytes(double(bytes));
}

/// All digits, if they fit into six columns.
std::string count_cell(std::int64_t count) {
  return count < 1'000'000 ? std::to_string(count) : with_prefix(double(count));
}

/// The output with the largest ratio of relative error to tolerance.
const TensorCheck* worst(const VariantResult& result) {
  if (!result.check || result.check->tensors.empty()) return nullptr;
  const auto badness = [](const auto& tensor) {
    if (tensor.second.measure != Measure::kRelL2) return -1.0;
    const double ratio = tensor.second.rel_l2 / tensor.second.tolerance;
    return std::isnan(ratio) ? HUGE_VAL : ratio;
  };
  const auto& tensors = result.check->tensors;
  return &std::max_element(tensors.begin(), tensors.end(), [&](const auto& a, const auto& b) {
            return badness(a) < badness(b);
          })->second;
}

using Cell = std::optional<std::string>;

Cell counted_cell(const VariantResult& result, std::int64_t Counters::*count) {
  return result.counted ? Cell(count_cell((*result.counted).*count)) : std::nullopt;
}

/// The bytes of all ranks and steps; nothing if those of one are not known.
Cell links_cell(const VariantResult& result, std::optional<std::int64_t> (*bytes_of)(const LinkBytes&)) {
  if (result.links.empty()) return std::nullopt;
  std::int64_t sum = 0;
  for (const auto& steps : result.links) {
    for (const LinkBytes& step : steps) {
      const std::optional<std::int64_t> bytes = bytes_of(step);
      if (!bytes) return std::nullopt;
      sum += *bytes;
    }
  }
  return bytes_cell(sum);
}

Cell time_cell(const VariantResult& result, double Timing::*ms) {
  return result.bench ? Cell(fmt::format("{:.4g}", result.bench->time.*ms)) : std::nullopt;
}

const std::vector<Column>& columns() {
  static const std::vector<Column> kColumns = {
      {"", "variant", [](const VariantResult& r) { return Cell(r.name); }, true},
      {"relative", "error/limit",
       [](const VariantResult& r) {
         const TensorCheck* check = worst(r);
         return check ? Cell(scientific(check->rel_l2) + "/" + scientific(check->tolerance)) : std::nullopt;
       }},
      {"work-", "space",
       [](const VariantResult& r) {
         return r.workspace_bytes > 0 ? Cell(bytes_cell(std::int64_t(r.workspace_bytes))) : std::nullopt;
       }},
      {"HBM bytes", "predicted",
       [](const VariantResult& r) {
         if (r.skipped) return Cell();
         return Cell((r.predicted.at_least() ? ">= " : "") + bytes_cell(r.predicted.bytes()));
       }},
      {"HBM bytes", "counted",
       [](const VariantResult& r) {
         return r.counted ? Cell(bytes_cell(r.counted->traffic.bytes())) : std::nullopt;
       }},
      {"link bytes", "predicted",
       [](const VariantResult& r) {
         return links_cell(r, [](const LinkBytes& b) { return std::optional(b.predicted); });
       }},
      {"link bytes", "counted",
       [](const VariantResult& r) { return links_cell(r, [](const LinkBytes& b) { return b.counted; }); }},
      {"sector", "use",
       [](const VariantResult& r) {
         const auto use = r.counted ? r.counted->sector_efficiency() : std::nullopt;
         return use ? Cell(fmt::format("{:.1f}%", 100 * *use)) : std::nullopt;
       }},
      {"bank", "confl.",
       [](const VariantResult& r) {
         return r.counted ? Cell(count_cell(r.counted->shared.conflicts())) : std::nullopt;
       }},
      {"bar-", "riers", [](const VariantResult& r) { return counted_cell(r, &Counters::barriers); }},
      {"shuf-", "fles", [](const VariantResult& r) { return counted_cell(r, &Counters::shuffles); }},
      {"over-", "waited",
       [](const VariantResult& r) {
         return r.counted && r.counted->over_waited > 0 ? Cell(count_cell(r.counted->over_waited))
                                                        : std::nullopt;
       }},
      {"de-", "fects",
       [](const VariantResult& r) {
         return r.counted ? Cell(std::to_string(r.defects.size())) : std::nullopt;
       }},
      {"median", "ms", [](const VariantResult& r) { return time_cell(r, &Timing::median_ms); }},
      {"min", "ms", [](const VariantResult& r) { return time_cell(r, &Timing::min_ms); }},
      {"max", "ms", [](const VariantResult& r) { return time_cell(r, &Timing::max_ms); }},
      {"", "GB/s",
       [](const VariantResult& r) {
         return r.bench ? Cell(fmt::format("{:.4g}", r.bench->gb_per_s)) : std::nullopt;
       }},
      {"of", "copy",
       [](const VariantResult& r) {
         return r.bench ? Cell(fmt::format("{:.1f}%", 100 * r.bench->share_of_copy)) : std::nullopt;
       }},
      {"", "TFLOP/s",
       [](const VariantResult& r) {
         return r.bench && r.bench->tflops ? Cell(fmt::format("{:.4g}", *r.bench->tflops)) : std::nullopt;
       }},
      {"of", "ideal",
       [](const VariantResult& r) {
         return r.bench && r.bench->parts
                    ? Cell(fmt::format("{:.3f}", r.bench->parts->ideal_ms / r.bench->time.median_ms))
                    : std::nullopt;
       }},
      {"", "verdict", [](const VariantResult& r) { return Cell(name_of(r.verdict())); }, true},
  };
  return kColumns;
}

/// Writes the columns that at least one variant has a value for.
void print_table(std::ostream& out, const std::vector<VariantResult>& variants) {
  struct Printed {
    const Column* column;
    std::vector<std::string> cells;  // headings first
    std::size_t width = 0;
  };
  std::vector<Printed> printed;
  std::size_t total = 0;
  for (const Column& column : columns()) {
    Printed next{&column, {column.heading, column.subheading}};
    bool known = false;
    for (const VariantResult& variant : variants) {
      const Cell cell = column.cell(variant);
      known = known || cell;
      next.cells.push_back(cell.value_or("-"));
    }
    if (!known) continue;
    for (const std::string& cell : next.cells) next.width = std::max(next.width, cell.size());
    total += next.width;
    printed.push_back(std::move(next));
  }
  const std::size_t gap = total + 2 * (printed.size() - 1) <= kWidest ? 2 : 1;
  for (std::size_t row = 0; row < variants.size() + 2; ++row) {
    std::string line;
    for (const Printed& column : printed) {
      if (!line.empty() || &column != &printed.front()) line.append(gap, ' ');
      line += column.column->left_aligned ? fmt::format("{:<{}}", column.cells[row], column.width)
                                          : fmt::format("{:>{}}", column.cells[row], column.width);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    if (line.empty()) continue;  // no column has a first line of heading
    out << line << '\n';
  }
}

/// Writes what is wrong with a variant, and what is declared to be wrong.
void print_remarks(std::ostream& out, const VariantResult& result) {
  for (const std::string& complaint : result.complaints())
    fmt::print(out, "{}: {}\n", result.name, complaint);
  if (!result.known_failure || !result.check || result.check->passed()) return;
  fmt::print(out, "{}: fails as declared: {}\n", result.name, *result.known_failure);
  for (const auto& [name, check] : result.check->tensors) {
    if (!check.passed) fmt::print(out, "  {}\n", describe_wrong(name, check));
  }
}

/// Writes what each rank has sent in each of its steps.
void print_links(std::ostream& out, const std::vector<VariantResult>& variants) {
  bool first = true;
  for (const VariantResult& result : variants) {
    for (std::size_t rank = 0; rank < result.links.size(); ++rank) {
      if (std::exchange(first, false)) fmt::print(out, "\nbytes to other ranks, step by step\n");
      std::string steps;
      for (const LinkBytes& step : result.links[rank])
        steps += fmt::format(" {:>11}", bytes_cell(step.counted.value_or(step.predicted)));
      if (rank < result.measured_link_bytes.size())
        steps += fmt::format("   NVLink: {}", bytes_cell(result.measured_link_bytes[rank]));
      fmt::print(out, "  {:<12} rank {}{}\n", rank == 0 ? result.name : "", rank, steps);
    }
  }
}

/// Writes which variants were skipped, one line for each reason.
void print_skipped(std::ostream& out, const std::vector<VariantResult>& variants) {
  std::vector<std::pair<std::string, std::string>> names_by_reason;
  for (const VariantResult& result : variants) {
    if (!result.skipped) continue;
    const auto same = std::find_if(names_by_reason.begin(), names_by_reason.end(),
                                   [&](const auto& known) { return known.first == result.skipped->reason; });
    if (same == names_by_reason.end()) {
      names_by_reason.emplace_back(result.skipped->reason, result.name);
    } else {
      same->second += ", " + result.name;
    }
  }
  for (const auto& [reason, names] : names_by_reason) fmt::print(out, "skipped: {}: {}\n", names, reason);
}

void print_defects(std::ostream& out, const VariantResult& result) {
  for (const Defect& defect : result.defects) {
    fmt::print(out, "\n{}: {}\n", result.name, defect.kind);
    std::string_view rest = defect.message;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      fmt::print(out, "========= {}\n", rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
}

/// "softmax", "rows=64", ..., "seed=0,", "on", "simulator".
std::vector<std::string> describe_problem(const Report& report) {
  std::vector<std::string> words = {report.problem.name};
  for (const auto& [name, length] : report.problem.sizes) words.push_back(fmt::format("{}={}", name, length));
  for (const auto& [name, value] : report.problem.inputs) {
    if (const double* number = std::get_if<double>(&value)) {
      words.push_back(fmt::format("{}={:.4g}", name, *number));
    } else if (const bool* flag = std::get_if<bool>(&value)) {
      if (*flag) words.push_back(name);
    } else {
      words.push_back(std::visit(
          [&option = name](const auto& known) { return fmt::format("{}={}", option, known); }, value));
    }
  }
  words.back() += ',';
  words.push_back("on " + report.device);
  return words;
}

// ---- JSON

Json to_json(const WrongIndices& axis) {
  Json json = {{"length", axis.length},  {"count", axis.count}, {"first", axis.first},
               {"last", axis.last},      {"step", axis.step},   {"period", axis.period},
               {"ranges", Json::array()}};
  for (const IndexRange& range : axis.ranges)
    json["ranges"].push_back(Json::array({range.first, range.last}));
  return json;
}

Json to_json(const Relocation& rule) {
  Json json = {{"tensor", rule.tensor}, {"is_input", rule.is_input},          {"element", rule.element},
               {"source", rule.source}, {"relation", name_of(rule.relation)}, {"share", rule.share}};
  if (rule.axis >= 0) json["axis"] = rule.axis;
  if (rule.by != 0 || rule.relation == Relation::kFixed) json["by"] = rule.by;
  if (!rule.offset.empty()) json["offset"] = rule.offset;
  return json;
}

Json to_json(const WrongPattern& pattern) {
  Json json = {{"unwritten", pattern.unwritten},
               {"not_a_number", pattern.not_a_number},
               {"zeros", pattern.zeros},
               {"factor_per_line", pattern.factor_per_line},
               {"axes", Json::array()}};
  if (pattern.factor) json["factor"] = *pattern.factor;
  if (pattern.difference) json["difference"] = *pattern.difference;
  for (const WrongIndices& axis : pattern.axes) json["axes"].push_back(to_json(axis));
  if (pattern.holds) json["holds"] = to_json(*pattern.holds);
  return json;
}

/// JSON has no NaN and no infinity, so these become the words "nan", "inf" and "-inf".
Json number_or_word(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : fmt::format("{}", value);
}

Json to_json(const TensorCheck& check) {
  Json json = {{"rel_l2", check.rel_l2},
               {"max_abs", check.max_abs},
               {"measure", name_of(check.measure)},
               {"tolerance", check.tolerance}};
  if (check.first_wrong) {
    json["wrong_elements"] = check.wrong_elements;
    json["first_wrong"] = {{"index", check.first_wrong->index},
                           {"got", number_or_word(check.first_wrong->got)},
                           {"expected", number_or_word(check.first_wrong->expected)}};
    if (!check.first_wrong->inputs.empty()) json["first_wrong"]["inputs"] = check.first_wrong->inputs;
  }
  if (check.pattern) {
    json["pattern"] = to_json(*check.pattern);
  }
  return json;
}

Json to_json(const Check& check, const std::optional<std::string>& known_failure) {
  Json json = {{"passed", check.passed()}};
  if (!check.passed() && known_failure) json["known_failure"] = *known_failure;
  for (const auto& [name, tensor] : check.tensors) json["tensors"][name] = to_json(tensor);
  for (const AsIf& each : check.as_if)
    json["as_if"].push_back({{"change", each.change}, {"outputs", each.outputs}});
  return json;
}

Json to_json(const Traffic& traffic) {
  Json json = {{"read_bytes", traffic.read_bytes()},
               {"write_bytes", traffic.write_bytes()},
               {"tensors", Json::object()}};
  for (const auto& [name, bytes] : traffic.tensors) {
    json["tensors"][name] = {{"read_bytes", bytes.read_bytes}, {"write_bytes", bytes.write_bytes}};
    if (bytes.at_least) json["tensors"][name]["at_least"] = true;
  }
  if (traffic.at_least()) json["at_least"] = true;
  if (const auto& tiles = traffic.tiles) {
    json["tiles"] = {{"queries", tiles->queries}, {"keys", tiles->keys}, {"kinds", tiles->kinds}};
  }
  return json;
}

Json to_json(const VariantResult& result) {
  Json json = {{"name", result.name}};
  if (result.skipped) {
    json["skipped"] = {{"reason", result.skipped->reason},
                       {"device_too_old", result.skipped->device_too_old}};
    return json;
  }
  if (result.failure) json["failure"] = *result.failure;
  if (result.fault) json["fault"] = *result.fault;
  json["workspace_bytes"] = result.workspace_bytes;
  if (result.check) json["check"] = to_json(*result.check, result.known_failure);
  json["traffic"]["predicted"] = to_json(result.predicted);
  if (result.counted) {
    const Counters& counted = *result.counted;
    Json& traffic = json["traffic"]["counted"] = to_json(counted.traffic);
    traffic["read_sectors"] = counted.read_sectors;
    traffic["write_sectors"] = counted.write_sectors;
    traffic["atomic_sectors"] = counted.atomic_sectors;
    traffic["read_requests"] = counted.read_requests;
    traffic["write_requests"] = counted.write_requests;
    json["shared"] = {{"bytes_per_block", counted.shared.bytes_per_block},
                      {"load_wavefronts", counted.shared.load_wavefronts},
                      {"load_wavefronts_ideal", counted.shared.load_wavefronts_ideal},
                      {"store_wavefronts", counted.shared.store_wavefronts},
                      {"store_wavefronts_ideal", counted.shared.store_wavefronts_ideal}};
    json["ops"] = {{"mma", counted.mma},
                   {"wgmma", counted.wgmma},
                   {"mma_units", counted.mma_units},
                   {"barriers", counted.barriers},
                   {"shuffles", counted.shuffles},
                   {"votes", counted.votes},
                   {"bulk_loads", counted.bulk_loads},
                   {"bulk_stores", counted.bulk_stores},
                   {"bulk_load_bytes", counted.bulk_load_bytes},
                   {"mbarrier_waits", counted.mbarrier_waits},
                   {"mbarrier_arrivals", counted.mbarrier_arrivals},
                   {"named_barriers", counted.named_barriers},
                   {"votes_beside_products", counted.votes_beside_products},
                   {"accesses_beside_products", counted.accesses_beside_products},
                   {"arrivals_beside_products", counted.arrivals_beside_products},
                   {"steps_before_arrivals", counted.steps_before_arrivals},
                   {"arrivals_before_waits", counted.arrivals_before_waits},
                   {"named_barrier_threads", counted.named_barrier_threads},
                   {"kernels_beside_transfers", counted.kernels_beside_transfers},
                   {"over_waited", counted.over_waited}};
    if (!counted.early_waits.empty()) json["early_waits"] = counted.early_waits;
    if (!counted.blocks_of_function.empty()) json["blocks_of_function"] = counted.blocks_of_function;
    json["defects"] = Json::array();
  }
  for (const auto& steps : result.links) {
    Json rank = Json::array();
    for (const LinkBytes& step : steps) {
      Json bytes = {{"predicted_bytes", step.predicted}};
      if (step.counted) bytes["counted_bytes"] = *step.counted;
      rank.push_back(bytes);
    }
    json["links"].push_back(rank);
  }
  if (!result.measured_link_bytes.empty()) json["measured_link_bytes"] = result.measured_link_bytes;
  for (const Defect& defect : result.defects) {
    json["defects"].push_back({{"kind", defect.kind}, {"message", defect.message}, {"count", defect.count}});
  }
  if (result.bench) {
    const Timing& time = result.bench->time;
    json["time_ms"] = {
        {"median", time.median_ms}, {"min", time.min_ms}, {"max", time.max_ms}, {"repeats", time.repeats}};
    json["gb_per_s"] = result.bench->gb_per_s;
    json["share_of_copy"] = result.bench->share_of_copy;
    if (const auto& parts = result.bench->parts) {
      json["ideal_ms"] = parts->ideal_ms;
      json["own_ms"] = parts->own_ms;
      json["rest_ms"] = parts->rest_ms;
    }
    if (result.bench->tflops) json["tflops"] = *result.bench->tflops;
  }
  return json;
}

}  // namespace

bool Report::ok() const {
  return std::all_of(variants.begin(), variants.end(),
                     [](const VariantResult& result) { return result.ok(); });
}

void print(std::ostream& out, const Report& report) {
  fmt::print(out, "{}: {}\n{}\n\n", report.chapter, report.title,
             in_lines(describe_problem(report), kWidest));
  print_table(out, report.variants);
  if (report.copy_gb_per_s) {
    fmt::print(out, "\ncopy from device to device, in the same run: {:.4g} GB/s read and written\n",
               *report.copy_gb_per_s);
  }
  print_links(out, report.variants);
  bool first = true;
  for (const VariantResult& result : report.variants) {
    if (result.verdict() == Verdict::kOk) continue;
    if (std::exchange(first, false)) out << '\n';
    print_remarks(out, result);
  }
  print_skipped(out, report.variants);
  for (const std::string& remark : report.remarks) fmt::print(out, "{}\n", remark);
  bool defects = false;
  for (const VariantResult& result : report.variants) {
    print_defects(out, result);
    defects |= !result.defects.empty();
  }
  if (defects && !report.debug_command.empty()) fmt::print(out, "\ngdb: {}\n", report.debug_command);
}

std::string to_json(const Report& report) {
  Json json = {{"chapter", report.chapter}, {"backend", report.backend}, {"device", report.device}};
  json["problem"]["name"] = report.problem.name;
  for (const auto& [name, length] : report.problem.sizes) json["problem"][name] = length;
  for (const auto& [name, value] : report.problem.inputs) {
    std::visit([&, &option = name](const auto& known) { json["problem"][option] = known; }, value);
  }
  for (const TensorSpec& tensor : report.problem.tensors) {
    json["tensors"][tensor.name] = {{"shape", tensor.shape}, {"bytes", tensor.bytes()}};
  }
  if (report.copy_gb_per_s) json["copy_gb_per_s"] = *report.copy_gb_per_s;
  if (!report.remarks.empty()) json["remarks"] = report.remarks;
  json["variants"] = Json::array();
  for (const VariantResult& result : report.variants) json["variants"].push_back(to_json(result));
  constexpr int kIndent = 2;
  // A file name may contain bytes that are not UTF-8.
  return json.dump(kIndent, ' ', false, Json::error_handler_t::replace);
}

std::string to_json(const UsageError& error) {
  Json refused = {{"text", error.what()}};
  if (const auto* why = dynamic_cast<const Refused*>(&error)) {
    refused = {{"text", why->refusal.text}, {"reason", name_of(why->refusal.reason)}};
    if (!why->variant.empty()) refused["variant"] = why->variant;
  }
  return Json{{"refused", refused}}.dump();
}

}  // namespace fa
