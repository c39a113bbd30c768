#include "report/model/balance.h"

namespace culprit::report {

const char* balance_name(BalancePart part) {
  switch (part) {
#define BALANCE_PART(enumerator, name, words, advice) \
  case BalancePart::enumerator:                       \
    return name;
#include "report/model/balance.def"
  }
  return "rest";
}

const char* balance_words(BalancePart part) {
  switch (part) {
#define BALANCE_PART(enumerator, name, words, advice) \
  case BalancePart::enumerator:                       \
    return words;
#include "report/model/balance.def"
  }
  return "";
}

const char* balance_advice(BalancePart part) {
  switch (part) {
#define BALANCE_PART(enumerator, name, words, advice) \
  case BalancePart::enumerator:                       \
    return advice;
#include "report/model/balance.def"
  }
  return "";
}

const char* moment_name(format::Moment moment) {
  switch (moment) {
    case format::Moment::kPeak:
      return "peak";
    case format::Moment::kOutOfMemory:
      return "out-of-memory";
    case format::Moment::kExit:
      return "exit";
    case format::Moment::kNone:
      return "now";
  }
  return "unknown";
}

std::int64_t Balance::explained() const {
  std::int64_t bytes = 0;
  for (const BalanceItem& item : items) bytes += item.what == BalancePart::kRest ? 0 : item.bytes;
  return bytes;
}

BalancePart part_of(format::DriverMemory what) {
  switch (what) {
#define DRIVER_MEMORY(number, enumerator) \
  case format::DriverMemory::enumerator:  \
    return BalancePart::enumerator;
#include "interpose/format/driver_memory.def"
    case format::DriverMemory::kNone:
      break;
  }
  return BalancePart::kRest;
}

}  // namespace culprit::report
