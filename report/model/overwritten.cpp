#include "report/model/overwritten.h"

namespace culprit::report {

const char* overwritten_place_name(OverwrittenPlace place) {
  switch (place) {
    case OverwrittenPlace::kVariable:
      return "variable";
    case OverwrittenPlace::kMember:
      return "member";
    case OverwrittenPlace::kValue:
      return "value";
    case OverwrittenPlace::kLocal:
      return "local";
    case OverwrittenPlace::kInBlock:
      return "block";
  }
  return "variable";
}

}  // namespace culprit::report
