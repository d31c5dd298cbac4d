#include "results.hpp"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace fa::ch13 {
namespace {

using Json = nlohmann::json;

/// The counts that add up.
std::vector<std::int64_t*> numbers_of(Counters& c) {
  return {&c.read_sectors,
          &c.write_sectors,
          &c.atomic_sectors,
          &c.read_requests,
          &c.write_requests,
          &c.shared.load_wavefronts,
          &c.shared.load_wavefronts_ideal,
          &c.shared.store_wavefronts,
          &c.shared.store_wavefronts_ideal,
          &c.mma,
          &c.wgmma,
          &c.mma_units,
          &c.barriers,
          &c.shuffles,
          &c.votes,
          &c.bulk_loads,
          &c.bulk_stores,
          &c.bulk_load_bytes,
          &c.mbarrier_waits,
          &c.mbarrier_arrivals,
          &c.named_barriers,
          &c.votes_beside_products,
          &c.accesses_beside_products,
          &c.arrivals_beside_products,
          &c.steps_before_arrivals,
          &c.arrivals_before_waits,
          &c.named_barrier_threads,
          &c.kernels_beside_transfers,
          &c.over_waited};
}

Json to_json(const VariantResult& result) {
  Json json = {{"workspace", result.workspace_bytes}};
  if (result.counted) {
    Counters counted = *result.counted;
    for (const std::int64_t* number : numbers_of(counted)) json["numbers"].push_back(*number);
    json["bytes_per_block"] = counted.shared.bytes_per_block;
    json["counted"] = Json::object();
    for (const auto& [name, bytes] : counted.traffic.tensors)
      json["counted"][name] = {bytes.read_bytes, bytes.write_bytes};
  }
  json["predicted"] = Json::object();
  for (const auto& [name, bytes] : result.predicted.tensors)
    json["predicted"][name] = {bytes.read_bytes, bytes.write_bytes};
  json["links"] = Json::array();
  for (const auto& steps : result.links) {
    for (const LinkBytes& step : steps) json["links"].push_back({step.predicted, step.counted.value_or(-1)});
  }
  json["measured"] = result.measured_link_bytes;
  json["defects"] = Json::array();
  for (const Defect& defect : result.defects)
    json["defects"].push_back({defect.kind, defect.message, defect.count});
  return json;
}

void add(Traffic& to, const Json& tensors) {
  for (const auto& [name, bytes] : tensors.items()) {
    to.tensors[name].read_bytes += bytes[0].get<std::int64_t>();
    to.tensors[name].write_bytes += bytes[1].get<std::int64_t>();
  }
}

void add(VariantResult& to, int rank, const Json& from, bool has_links) {
  to.workspace_bytes = std::max(to.workspace_bytes, from["workspace"].get<std::size_t>());
  add(to.predicted, from["predicted"]);
  if (from.contains("numbers")) {
    if (!to.counted) to.counted.emplace();
    const std::vector<std::int64_t*> numbers = numbers_of(*to.counted);
    for (std::size_t i = 0; i < numbers.size(); ++i) *numbers[i] += from["numbers"][i].get<std::int64_t>();
    to.counted->shared.bytes_per_block =
        std::max(to.counted->shared.bytes_per_block, from["bytes_per_block"].get<std::int64_t>());
    add(to.counted->traffic, from["counted"]);
  }
  if (has_links) {
    std::vector<LinkBytes>& steps = to.links.emplace_back();
    for (const Json& step : from["links"]) {
      const auto counted = step[1].get<std::int64_t>();
      steps.push_back({step[0].get<std::int64_t>(), counted < 0 ? std::nullopt : std::optional(counted)});
    }
  }
  for (const Json& bytes : from["measured"]) to.measured_link_bytes.push_back(bytes.get<std::int64_t>());
  for (const Json& defect : from["defects"]) {
    to.defects.push_back({defect[0].get<std::string>(),
                          "rank " + std::to_string(rank) + ": " + defect[1].get<std::string>(),
                          defect[2].get<std::int64_t>()});
  }
}

}  // namespace

VariantResult sum_of_ranks(Ranks& ranks, const VariantResult& mine) {
  VariantResult sum{.name = mine.name};
  int rank = 0;
  for (const std::string& text :
       ranks.all(to_json(mine).dump(-1, ' ', false, Json::error_handler_t::replace)))
    add(sum, rank++, Json::parse(text), !mine.links.empty());
  return sum;
}

}  // namespace fa::ch13
