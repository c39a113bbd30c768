#include "interpose/dump/unused_records.h"

#include "interpose/system/own_memory.h"

namespace culprit {

using format::Ref;

namespace {
constexpr std::uint32_t kUnitsOfPage = UnusedRecords::kPage / format::kRefUnit;
constexpr std::uint32_t kUnitsOfRecord = sizeof(format::AllocationRecord) / format::kRefUnit;
}  // namespace

bool UnusedRecords::make_regions(std::uint64_t number) {
  constexpr std::uint64_t kFirst = kPage / sizeof(void*);
  int error = 0;
  if (number >= region_capacity_) {
    std::uint64_t capacity = region_capacity_ == 0 ? kFirst : region_capacity_;
    while (capacity <= number) capacity *= 2;
    void* larger = regions_ == nullptr
                       ? map_private(capacity * sizeof(void*), &error)
                       : enlarge_private(regions_, region_capacity_ * sizeof(void*), capacity * sizeof(void*));
    if (larger == nullptr) return false;
    regions_ = static_cast<Region**>(larger);
    region_capacity_ = capacity;
  }
  if (regions_[number] == nullptr) regions_[number] = static_cast<Region*>(map_private(sizeof(Region), &error));
  if (regions_[number] == nullptr) return false;
  if (number >= region_count_) region_count_ = number + 1;
  return true;
}

// nullptr when it has no record.
UnusedRecords::Region* UnusedRecords::region_at(std::uint64_t number) {
  return number < region_count_ ? regions_[number] : nullptr;
}

bool UnusedRecords::add(Ref ref) {
  const std::uint64_t number = ref / kUnitsOfPage / kPages;
  Region* region = region_at(number);
  if (region == nullptr) {
    if (!make_regions(number)) return false;
    region = regions_[number];
  }
  const std::uint32_t page = ref / kUnitsOfPage % kPages;
  region->unused[page] |= std::uint64_t{1} << ref / kUnitsOfRecord % kOfPage;
  if (region->is_idle(page)) {
    ++region->idle;
    ++idle_;
  }
  if (page < region->first || region->count == 0) region->first = page;
  ++region->count;
  if (number < lowest_ || count_ == 0) lowest_ = number;
  ++count_;
  return true;
}

std::uint32_t UnusedRecords::take(Ref* to, std::uint32_t count) {
  std::uint32_t taken = 0;
  for (; taken < count && count_ != 0; ++lowest_) {
    Region* region = region_at(lowest_);
    if (region == nullptr) continue;
    for (; taken < count && region->count != 0; ++region->first) {
      std::uint64_t& unused = region->unused[region->first];
      if (unused != 0 && region->is_idle(region->first)) {
        --region->idle;
        --idle_;
      }
      const std::uint64_t page = lowest_ * kPages + region->first;
      for (; unused != 0 && taken < count; unused &= unused - 1, --region->count, --count_)
        to[taken++] = static_cast<Ref>(page * kUnitsOfPage +
                                       static_cast<std::uint32_t>(__builtin_ctzll(unused)) * kUnitsOfRecord);
      if (unused != 0) return taken;
    }
    if (region->count != 0) return taken;
  }
  return taken;
}

UnusedRecords::Run UnusedRecords::take_idle(std::uint64_t pages) {
  constexpr std::uint64_t kSpare = 256;  // 1 MiB
  constexpr std::uint64_t kAtOnce = 256;
  if (idle_ <= kSpare || idle_ * 2 <= pages - holes_) return {0, 0};
  const std::uint64_t most = idle_ - kSpare < kAtOnce ? idle_ - kSpare : kAtOnce;
  for (std::uint64_t number = region_count_; number > 0; --number) {
    Region* region = regions_[number - 1];
    if (region == nullptr || region->idle == 0) continue;
    std::uint32_t end = kPages;
    while (!region->is_idle(end - 1)) --end;
    std::uint32_t begin = end;
    while (begin > 0 && end - begin < most && region->is_idle(begin - 1)) region->unused[--begin] = 0;
    const std::uint32_t run = end - begin;
    region->idle -= run;
    idle_ -= run;
    region->count -= run * kOfPage;
    count_ -= run * kOfPage;
    return {(number - 1) * kPages + begin, run};
  }
  return {0, 0};
}

void UnusedRecords::add_pages(Run run) {
  for (std::uint32_t i = 0; i < run.pages * kOfPage; ++i) add(run.first() + i * kUnitsOfRecord);
}

void UnusedRecords::add_holes(Run run) {
  Region* region = regions_[run.page / kPages];
  for (std::uint32_t i = 0; i < run.pages; ++i) {
    const auto page = static_cast<std::uint32_t>(run.page % kPages) + i;
    region->holes[page / 64] |= std::uint64_t{1} << page % 64;
  }
  region->hole_count += run.pages;
  holes_ += run.pages;
}

UnusedRecords::Run UnusedRecords::take_holes() {
  constexpr std::uint32_t kMost = 16;
  if (holes_ == 0) return {0, 0};
  std::uint64_t number = 0;
  while (regions_[number] == nullptr || regions_[number]->hole_count == 0) ++number;
  Region* region = regions_[number];
  std::uint32_t begin = 0;
  while (!region->is_hole(begin)) ++begin;
  std::uint32_t end = begin;
  for (; end < kPages && end - begin < kMost && region->is_hole(end); ++end)
    region->holes[end / 64] &= ~(std::uint64_t{1} << end % 64);
  region->hole_count -= end - begin;
  holes_ -= end - begin;
  return {number * kPages + begin, end - begin};
}

void UnusedRecords::free_memory() {
  for (std::uint64_t i = 0; i < region_count_; ++i) {
    if (regions_[i] != nullptr) unmap_private(regions_[i], sizeof(Region));
  }
  if (regions_ != nullptr) unmap_private(regions_, region_capacity_ * sizeof(void*));
  *this = {};
}

}  // namespace culprit
