#include "report/model/cache_inside.h"

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

}  // namespace culprit::report
