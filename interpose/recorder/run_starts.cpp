#include "interpose/recorder/run_starts.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "interpose/base/descriptors.h"
#include "interpose/base/os.h"
#include "interpose/base/process_names.h"
#include "interpose/base/store_release.h"
#include "interpose/base/text_writer.h"
#include "interpose/format/run_starts.h"

namespace culprit {

using format::RunStarts;

namespace {

void note_failure(RunStarts* starts, int pid, int error, const char* path) {
  const std::uint32_t index = __atomic_fetch_add(&starts->failed, 1, __ATOMIC_RELAXED);
  if (index >= RunStarts::kEntries) return;
  format::FailedStart& entry = starts->entries[index];
  entry.error = error;
  program_path(entry.program, sizeof(entry.program));
  copy_text(entry.path, sizeof(entry.path), path);
  store_release(&entry.pid, pid);
}

}  // namespace

void note_run_start(const Options& options, int pid, int error, const char* path) {
  if (options.run_starts[0] == '\0') return;
  const OpenedFile file = open_high(options.run_starts, O_RDWR | O_NOFOLLOW, 0);
  if (file.fd < 0) return;
  FileId id;
  RunStarts* starts = nullptr;
  int unused = 0;
  // A shorter file would raise SIGBUS.
  if (os.identify(file.fd, &id) == 0 && id.bytes >= sizeof(RunStarts))
    starts = static_cast<RunStarts*>(
        os.map(nullptr, sizeof(RunStarts), PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0, &unused));
  os.close_file(file.fd);
  if (starts == nullptr) return;
  if (starts->version == format::kRunStartsVersion) {
    if (error == 0) {
      __atomic_fetch_add(&starts->recording, 1, __ATOMIC_RELAXED);
    } else {
      note_failure(starts, pid, error, path);
    }
  }
  os.unmap(starts, sizeof(RunStarts));
}

}  // namespace culprit
