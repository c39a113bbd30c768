#include "interpose/process/rooms_above.h"

namespace culprit {

RoomsAbove rooms_above;

}  // namespace culprit
