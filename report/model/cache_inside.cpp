#include "report/model/cache_inside.h"

#include <algorithm>

namespace culprit::report {

const char* idle_reason_name(IdleReason reason) {
  switch (reason) {
#define IDLE_REASON(enumerator, name, words) \
  case IdleReason::enumerator:               \
    return name;
#include "report/model/idle_reasons.def"
  }
  return "not-known";
}

const char* idle_reason_words(IdleReason reason) {
  switch (reason) {
#define IDLE_REASON(enumerator, name, words) \
  case IdleReason::enumerator:               \
    return words;
#include "report/model/idle_reasons.def"
  }
  return "";
}

const CacheInside* same_cache(const std::vector<CacheInside>& caches, const CacheInside& wanted) {
  const auto of_same_moment = [&](const CacheInside& one) {
    return one.pool == wanted.pool && (one.taken == "out-of-memory") == (wanted.taken == "out-of-memory");
  };
  const auto found = std::find_if(caches.begin(), caches.end(), of_same_moment);
  return found == caches.end() ? nullptr : &*found;
}

}  // namespace culprit::report
