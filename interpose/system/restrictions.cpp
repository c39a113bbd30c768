#include "interpose/system/restrictions.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "interpose/system/kernel_clock.h"
#include "interpose/system/own_files.h"

namespace culprit {
namespace {

std::atomic<bool> restricted;
std::atomic<bool> locked;
std::atomic<bool> raises_limits;
std::atomic<int> filters{-1};
std::atomic<std::uint64_t> threads;
std::atomic<std::uint64_t> descriptor_table;
std::atomic<std::uint64_t> looked_at;  // in hundredths of a second

constexpr std::uint64_t kTenMs = 10000000;

// Whether the number after `field` is not 0.
bool is_set(const char* text, const char* field) {
  const char* place = std::strstr(text, field);
  if (place == nullptr) return false;
  for (place += std::strlen(field); *place == ' ' || *place == '\t' || *place == '0'; ++place) {
  }
  return *place >= '1' && *place <= '9';
}

// Stores the decimal number after `field`, where there is one.
void read_number(const char* text, const char* field, std::atomic<std::uint64_t>* number) {
  if (const char* place = std::strstr(text, field))
    number->store(std::strtoull(place + std::strlen(field), nullptr, 10), std::memory_order_relaxed);
}

// Whether the effective capabilities, a hexadecimal number, contain CAP_SYS_RESOURCE.
bool has_resource_right(const char* text) {
  constexpr char kField[] = "\nCapEff:";
  constexpr unsigned kSysResource = 24;
  const char* place = std::strstr(text, kField);
  if (place == nullptr) return false;
  return (std::strtoull(place + sizeof(kField) - 1, nullptr, 16) >> kSysResource & 1) != 0;
}

}  // namespace

__thread RestrictionsLook restrictions_look __attribute__((tls_model("initial-exec")));

void look_at_restrictions() {
  const std::uint64_t now = tick_ns() / kTenMs;
  if (restrictions_look == RestrictionsLook::kDone && looked_at.load(std::memory_order_relaxed) == now) return;
  looked_at.store(now, std::memory_order_relaxed);
  char text[4096];
  if (read_own_file("status", text, sizeof(text)) == 0) return;
  if (restrictions_look == RestrictionsLook::kOnce) restrictions_look = RestrictionsLook::kDone;
  if (is_set(text, "\nSeccomp:")) restricted.store(true, std::memory_order_relaxed);
  constexpr char kFilters[] = "\nSeccomp_filters:";
  if (const char* place = std::strstr(text, kFilters))
    filters.store(static_cast<int>(std::strtol(place + sizeof(kFilters) - 1, nullptr, 10)), std::memory_order_relaxed);
  if (is_set(text, "\nVmLck:")) locked.store(true, std::memory_order_relaxed);
  raises_limits.store(has_resource_right(text), std::memory_order_relaxed);
  read_number(text, "\nThreads:", &threads);
  read_number(text, "\nFDSize:", &descriptor_table);
}

bool calls_restricted() { return restricted.load(std::memory_order_relaxed); }

bool calls_restricted_now() {
  if (calls_restricted()) return true;
  if (looked_at.load(std::memory_order_relaxed) != tick_ns() / kTenMs) look_at_restrictions();
  return calls_restricted();
}

bool may_raise_limits() { return raises_limits.load(std::memory_order_relaxed); }

int seccomp_filters() { return filters.load(std::memory_order_relaxed); }

std::uint64_t threads_seen() { return threads.load(std::memory_order_relaxed); }

std::uint64_t descriptor_table_seen() { return descriptor_table.load(std::memory_order_relaxed); }

bool memory_locked() { return locked.load(std::memory_order_relaxed); }

}  // namespace culprit
