#include "interpose/events/short_lives.h"

namespace culprit {

namespace {

template <format::Kind kind>
bool take_back(Process& process, std::uint64_t handle, format::Ref record) {
  return process.tables.live.take_back<kind>(record, handle, process.dump, &thread_state.memory->records);
}

}  // namespace

void take_back_short_life(Api api, format::Kind kind, std::uint64_t handle, format::Ref record, CUresult status) {
  {
    Recording recording(Recording::Kind::kQuick);
    Process* process = recording.process();
    if (process == nullptr) return;
    const bool is_stream = kind == format::Kind::kStream;
    if (is_stream ? take_back<format::Kind::kStream>(*process, handle, record)
                  : take_back<format::Kind::kEvent>(*process, handle, record)) {
      uncount_object_free(*thread_state.dump.counters);
      --thread_state.sums.ended;
      if (is_stream) note_stream_stays(*process, *process->dump.at<format::AllocationRecord>(record));
    } else {
      record = 0;
    }
  }
  Ending(api, kind, handle, record).finish(status);
}

}  // namespace culprit
