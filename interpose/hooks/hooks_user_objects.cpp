// User objects: counted references, some of which a graph may take over.
#include "interpose/events/events.h"
#include "interpose/hooks/hooks.h"
#include "interpose/process/process.h"
#include "interpose/process/recording.h"

namespace culprit {
namespace {

using format::Kind;

// Adds to the references that the program itself owns. Returns the references left, -1 for an unknown object.
long add_references(CUuserObject object, long amount) {
  long left = -1;
  record_on_own_stack([&](Process& process) {
    SpinGuard guard(process.hooks.references_lock);
    format::Ref ref =
        process.tables.live.find(space_of(Kind::kUserObject), handle(object), format::kNoDevice, process.dump);
    if (ref == 0) return;
    auto* record = process.dump.at<format::AllocationRecord>(ref);
    record->extra += static_cast<std::uint64_t>(amount);
    left = static_cast<long>(record->extra);
  });
  return left;
}

}  // namespace

namespace custom {

CUresult cuUserObjectCreate(decltype(&::cuUserObjectCreate) call, CUuserObject* object_out, void* ptr, CUhostFn destroy,
                            unsigned int initialRefcount, unsigned int flags) {
  CUresult status = call(object_out, ptr, destroy, initialRefcount, flags);
  if (status == CUDA_SUCCESS)
    note_made({Api::cuUserObjectCreate, Kind::kUserObject, made(object_out), 0, initialRefcount});
  return status;
}

CUresult cuUserObjectRetain(decltype(&::cuUserObjectRetain) call, CUuserObject object, unsigned int count) {
  CUresult status = call(object, count);
  if (status == CUDA_SUCCESS) add_references(object, count);
  return status;
}

CUresult cuUserObjectRelease(decltype(&::cuUserObjectRelease) call, CUuserObject object, unsigned int count) {
  if (add_references(object, -static_cast<long>(count)) > 0) {
    CUresult status = call(object, count);
    if (status != CUDA_SUCCESS) add_references(object, count);
    return status;
  }
  Ending ending(Api::cuUserObjectRelease, Kind::kUserObject, handle(object));
  CUresult status = call(object, count);
  ending.finish(status);
  if (status != CUDA_SUCCESS) add_references(object, count);
  return status;
}

// With CU_GRAPH_USER_OBJECT_MOVE the graph takes over references of the program, and will release them.
CUresult cuGraphRetainUserObject(decltype(&::cuGraphRetainUserObject) call, CUgraph graph, CUuserObject object,
                                 unsigned int count, unsigned int flags) {
  CUresult status = call(graph, object, count, flags);
  if (status != CUDA_SUCCESS || (flags & CU_GRAPH_USER_OBJECT_MOVE) == 0) return status;
  if (add_references(object, -static_cast<long>(count)) == 0) {
    Ending ending(Api::cuGraphRetainUserObject, Kind::kUserObject, handle(object));
    ending.finish(status);
  }
  return status;
}

}  // namespace custom
}  // namespace culprit
