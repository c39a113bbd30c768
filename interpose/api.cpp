#include "interpose/api.h"

namespace culprit {

const char* api_name(Api api) {
  switch (api) {
#define HOOK_MAKE(symbol, ...) \
  case Api::symbol:            \
    return #symbol;
#define HOOK_END(symbol, ...) \
  case Api::symbol:           \
    return #symbol;
#define HOOK_CUSTOM(symbol, ...) \
  case Api::symbol:              \
    return #symbol;
#define HOOK_CHECK(symbol, ...) \
  case Api::symbol:             \
    return #symbol;
#include "interpose/hooks.def"
    case Api::kCount:
      break;
  }
  return "";
}

}  // namespace culprit
