#include "interpose/process/rooms_above.h"

namespace culprit {

CULPRIT_AT_LOAD RoomsAbove rooms_above;

}  // namespace culprit
