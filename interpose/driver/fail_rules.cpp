#include "interpose/driver/fail_rules.h"

#include <cuda.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "interpose/format/dump_format.h"

namespace culprit {
namespace {

// "cuMemcpyDtoH_v2_ptds" -> the length of "cuMemcpyDtoH".
std::size_t versionless_length(const char* name) {
  std::size_t length = std::strlen(name);
  if (length > 5 && (std::strcmp(name + length - 5, "_ptsz") == 0 || std::strcmp(name + length - 5, "_ptds") == 0))
    length -= 5;
  if (length > 3 && name[length - 3] == '_' && name[length - 2] == 'v' && name[length - 1] >= '0' &&
      name[length - 1] <= '9')
    length -= 3;
  return length;
}

bool names(const char* asked, std::size_t length, const char* symbol) {
  if (std::strncmp(asked, symbol, length) != 0) return false;
  return symbol[length] == '\0' || versionless_length(symbol) == length;
}

// A whole number from 1 to `most` that ends exactly at `end`.
bool parse_number(const char* text, const char* end, int base, std::uint64_t most, std::uint64_t* value) {
  // Sixteen hexadecimal digits are 64 bits; for longer numbers strtoull would return the largest one.
  if (text == end || (base == 16 && end - text > 16) || text[0] == '-' || text[0] == '+' || text[0] == ' ')
    return false;
  char* stop = nullptr;
  *value = std::strtoull(text, &stop, base);
  return stop == end && *value >= 1 && *value <= most;
}

bool starts_with(const char* text, const char* end, const char* prefix, const char** rest) {
  std::size_t length = std::strlen(prefix);
  *rest = text + length;
  return static_cast<std::size_t>(end - text) >= length && std::strncmp(text, prefix, length) == 0;
}

bool parse_call(const char* text, const char* end, FailRule* rule) {
  const auto* first = static_cast<const char*>(std::memchr(text, ':', static_cast<std::size_t>(end - text)));
  if (first == nullptr) return false;
  const auto* second = static_cast<const char*>(std::memchr(first + 1, ':', static_cast<std::size_t>(end - first - 1)));
  std::uint64_t nth = 0;
  std::uint64_t code = 0;
  if (second == nullptr || !parse_number(first + 1, second, 10, 0xffffffff, &nth) ||
      !parse_number(second + 1, end, 10, 0x7fffffff, &code))
    return false;
  rule->kind = FailRule::Kind::kCall;
  rule->nth = static_cast<std::uint32_t>(nth);
  rule->code = static_cast<std::int32_t>(code);
  bool known = false;
  for (int i = 0; i < kApiCount; ++i) {
    rule->applies[i] = names(text, static_cast<std::size_t>(first - text), api_name(static_cast<Api>(i)));
    known = known || rule->applies[i];
  }
  return known;
}

bool parse_rule(const char* text, const char* end, FailRule* rule) {
  *rule = {};
  const char* rest = nullptr;
  std::uint64_t number = 0;
  bool is_site = starts_with(text, end, "alloc-site:", &rest);
  if (!is_site && !starts_with(text, end, "alloc:", &rest)) return parse_call(text, end, rule);
  if (!parse_number(rest, end, is_site ? 16 : 10, is_site ? UINT64_MAX : 0xffffffff, &number)) return false;
  rule->kind = is_site ? FailRule::Kind::kAllocationSite : FailRule::Kind::kAllocation;
  rule->nth = is_site ? 1 : static_cast<std::uint32_t>(number);
  rule->site = is_site ? number : 0;
  rule->code = CUDA_ERROR_OUT_OF_MEMORY;
  for (int i = 0; i < kApiCount; ++i) rule->applies[i] = allocates_memory(static_cast<Api>(i));
  return true;
}

}  // namespace

bool FailRules::need_sites() const {
  bool needed = note_sites;
  for (int i = 0; i < count; ++i) needed = needed || rules[i].kind == FailRule::Kind::kAllocationSite;
  return needed;
}

bool parse_fail_rules(const char* text, FailRules* rules) {
  rules->count = 0;
  rules->note_sites = false;
  if (text == nullptr || text[0] == '\0') return true;
  bool good = std::strlen(text) <= static_cast<std::size_t>(FailRules::kMostText);
  while (good) {
    const char* end = strchrnul(text, ',');
    const char* rest = nullptr;
    if (starts_with(text, end, "sites", &rest) && rest == end) {
      rules->note_sites = true;
    } else {
      good = rules->count < FailRules::kMost && parse_rule(text, end, &rules->rules[rules->count++]);
    }
    if (*end == '\0') break;
    text = end + 1;
  }
  if (good) return true;
  rules->count = 0;
  rules->note_sites = false;
  return false;
}

bool allocates_memory(Api api) {
  static constexpr bool kAllocates[] = {
#define HOOK_ANY(...) false,
// Some calls map memory that was allocated before: their rows have 0 bytes.
#define HOOK_MAKE(symbol, parameters, arguments, kind, made_handle, bytes, ...) \
  is_physical(format::Kind::kind) && std::string_view(#bytes) != "0",
#define HOOK_CUSTOM(symbol, parameters, arguments, flags) ((flags)&kAllocate) != 0,
#include "interpose/driver/hooks.def"
  };
  static_assert(sizeof(kAllocates) == static_cast<std::size_t>(kApiCount));
  return kAllocates[static_cast<int>(api)];
}

}  // namespace culprit
