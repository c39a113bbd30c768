/* libculprit_kokkos.so: a tool library of Kokkos that tells the preloaded libculprit.so of each View.
 *
 *     KOKKOS_TOOLS_LIBS=/usr/lib/libculprit_kokkos.so culprit run -- ./app
 *
 * Older versions of Kokkos read KOKKOS_PROFILE_LIBRARY instead.
 *
 * Kokkos calls these functions after it allocated memory, and before it frees it. Their names and parameters are
 * Kokkos's interface for tools (Kokkos_Profiling_C_Interface.h), declared here so that nothing of Kokkos is needed to
 * build. A library of its own and no part of libculprit.so, because Kokkos opens it by its name and would otherwise
 * find these functions in every program that has the library.
 */
#include "interpose/include/culprit.h"

#define EXPORTED __attribute__((visibility("default")))

struct SpaceHandle {
  char name[64]; /* "Cuda", "CudaUVM", "CudaHostPinned"; "Host" and others have no memory that culprit records */
};

void kokkosp_allocate_data(struct SpaceHandle space, const char* label, const void* address, uint64_t bytes);
void kokkosp_deallocate_data(struct SpaceHandle space, const char* label, const void* address, uint64_t bytes);

static int is_cuda(const struct SpaceHandle* space) {
  return space->name[0] == 'C' && space->name[1] == 'u' && space->name[2] == 'd' && space->name[3] == 'a';
}

EXPORTED void kokkosp_allocate_data(struct SpaceHandle space, const char* label, const void* address, uint64_t bytes) {
  if (is_cuda(&space)) culprit_region_add(address, bytes, label);
}

EXPORTED void kokkosp_deallocate_data(struct SpaceHandle space, const char* label, const void* address,
                                      uint64_t bytes) {
  (void)label;
  (void)bytes;
  if (is_cuda(&space)) culprit_region_end(address);
}
