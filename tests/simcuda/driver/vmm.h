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

// The content of a descriptor, for another process: the object's size and place. Contents of memory are not shared.
struct SharedDescription {
  std::uint64_t magic = 0x6572616873;
  std::uint64_t pool = 0;  // of a pool: its name in the exporter; 0: physical memory
  std::uint64_t bytes = 0;
  std::int64_t device = 0;
  CUmemAllocationProp properties{};
  CUmemPoolProps pool_properties{};
};

// A descriptor that identifies an object inside this process (dup and SCM_RIGHTS keep it), or -1. *inode receives its
// identity.
int make_shareable_descriptor(const SharedDescription& description, ino_t* inode);
// False when the descriptor is none of these.
bool read_description(int descriptor, SharedDescription* description);
ino_t descriptor_inode(int descriptor);
void forget_exports(DriverState& state, const Object* object);

// cuMemUnmap of one mapping.
void end_mapping(DriverState& state, Allocation& mapping);

}  // namespace simcuda
