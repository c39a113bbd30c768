// Virtual memory management: address ranges, physical memory and the mappings between them.
#pragma once

#include <sys/types.h>

#include "tests/simcuda/driver/driver_state.h"

namespace simcuda {

// Physical memory. It lives until its handle references and its mappings are all gone.
struct Physical : Object {
  static constexpr ObjectType kType = ObjectType::kPhysical;
  Physical() : Object(kType) {}
  void release(DriverState& state) override;

  CUmemAllocationProp properties{};
  int device = -1;  // -1: host memory (CU_MEM_LOCATION_TYPE_HOST and HOST_NUMA)
  std::size_t bytes = 0;
  void* backing = nullptr;  // the pages that every mapping shows
  unsigned references = 1;  // handles
  unsigned mappings = 0;
};

struct Multicast : Object {
  static constexpr ObjectType kType = ObjectType::kMulticast;
  Multicast() : Object(kType) {}

  CUmulticastObjectProp properties{};
  std::vector<int> devices;
};

// A descriptor that identifies `object` inside this process (dup and SCM_RIGHTS keep it), or -1. *inode receives its
// identity.
int make_shareable_descriptor(ino_t* inode);
ino_t descriptor_inode(int descriptor);
void forget_exports(DriverState& state, const Object* object);

// cuMemUnmap of one mapping.
void end_mapping(DriverState& state, Allocation& mapping);

}  // namespace simcuda
