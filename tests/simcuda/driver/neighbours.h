// The part of the devices that other processes use (tests/simcuda/neighbours.h). All functions do nothing without
// SIMCUDA_NEIGHBOURS.
#pragma once

#include "tests/simcuda/driver/driver_state.h"

namespace simcuda {

// Call when this process's driver starts.
void join_neighbours();
// Reads what the other processes use into Device::others. Call with the lock held, like the next.
void read_neighbours(DriverState& state);
// Tells the other processes what this one uses.
void tell_neighbours(const DriverState& state);

}  // namespace simcuda
