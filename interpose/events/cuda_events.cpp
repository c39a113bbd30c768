#include "interpose/events/cuda_events.h"

namespace culprit {

void take_back_cuda_event(Api api, std::uint64_t handle, format::Ref record, CUresult status) {
  {
    Recording recording(Recording::Kind::kQuick);
    Process* process = recording.process();
    if (process == nullptr) return;
    ThreadRecords* own = &thread_state.memory->records;
    if (process->tables.live.take_back_event(record, handle, process->dump, own)) {
      uncount_object_free(*thread_state.dump.counters);
      --thread_state.sums.ended;
    } else {
      record = 0;
    }
  }
  Ending(api, format::Kind::kEvent, handle, record).finish(status);
}

}  // namespace culprit
