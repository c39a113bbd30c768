#include "report/model/regions.h"

#include <algorithm>

#include "report/base/byte_size.h"
#include "report/base/printable.h"
#include "report/base/words.h"
#include "report/dump/allocation_groups.h"
#include "report/dump/dump_reader.h"

namespace culprit::report {
namespace {

constexpr std::size_t kShownNames = 3;

std::string name_of(const Dump& dump, format::Ref ref) {
  format::MarkRecord record;
  return dump.mark(ref, &record) ? std::string(dump.string(record.name)) : std::string();
}

void put_in_order(std::map<std::string, std::uint64_t>&& counts, std::vector<NameShare>* names) {
  names->clear();
  for (auto& [name, count] : counts) names->push_back({name, count});
  std::stable_sort(names->begin(), names->end(),
                   [](const NameShare& left, const NameShare& right) { return left.count > right.count; });
}

}  // namespace

std::vector<NameShare> name_shares(const Dump& dump, const std::map<format::Ref, std::uint64_t>& counts) {
  std::map<std::string, std::uint64_t> by_name;
  for (const auto& [ref, count] : counts) {
    const std::string name = name_of(dump, ref);
    if (!name.empty()) by_name[name] += count;
  }
  std::vector<NameShare> names;
  put_in_order(std::move(by_name), &names);
  return names;
}

std::vector<HeapUse> heap_uses(const Dump& dump, const AllocationGroup& group) {
  std::vector<HeapUse> uses;
  for (const HeapRecordUse& heap : group.heaps) {
    const HeapUse use = {name_of(dump, heap.name), 1, heap.bytes, heap.used_bytes, heap.largest_hole, heap.regions};
    merge_heaps({use}, &uses);
  }
  return uses;
}

void merge_names(const std::vector<NameShare>& from, std::vector<NameShare>* into) {
  if (from.empty()) return;
  std::map<std::string, std::uint64_t> counts;
  for (const NameShare& share : from) counts[share.name] += share.count;
  for (const NameShare& share : *into) counts[share.name] += share.count;
  put_in_order(std::move(counts), into);
}

void merge_heaps(const std::vector<HeapUse>& from, std::vector<HeapUse>* into) {
  for (const HeapUse& use : from) {
    const auto at = std::lower_bound(into->begin(), into->end(), use,
                                     [](const HeapUse& left, const HeapUse& right) { return left.name < right.name; });
    if (at == into->end() || at->name != use.name) {
      into->insert(at, use);
      continue;
    }
    at->count += use.count;
    at->bytes += use.bytes;
    at->used_bytes += use.used_bytes;
    at->largest_hole = std::max(at->largest_hole, use.largest_hole);
    at->regions += use.regions;
  }
}

std::string names_text(const std::vector<NameShare>& names, std::uint64_t count) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kShownNames; ++i) {
    text += (i == 0 ? "\"" : "; \"") + printable(names[i].name) + "\"";
    if (names[i].count != count) text += " (" + std::to_string(names[i].count) + "x)";
  }
  if (names.size() > kShownNames) text += "; and " + std::to_string(names.size() - kShownNames) + " more";
  return text;
}

std::string heap_text(const HeapUse& heap) {
  const std::uint64_t idle = heap.bytes - heap.used_bytes;
  std::string text = heap.name.empty() ? "" : "\"" + printable(heap.name) + "\": ";
  if (heap.count > 1) text += std::to_string(heap.count) + " heaps, ";
  text += format_bytes(heap.used_bytes) + " of " + format_bytes(heap.bytes) + " in " +
          plural(heap.regions, "region", "regions");
  if (idle != 0) text += ", " + format_bytes(idle) + " idle, largest hole " + format_bytes(heap.largest_hole);
  return text;
}

}  // namespace culprit::report
