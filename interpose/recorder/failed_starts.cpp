#include "interpose/recorder/failed_starts.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "interpose/base/descriptors.h"
#include "interpose/base/os.h"
#include "interpose/base/store_release.h"
#include "interpose/base/text_writer.h"
#include "interpose/format/failed_starts.h"

namespace culprit {

using format::FailedStarts;

void note_failed_start(const Options& options, int pid, int error, const char* path) {
  if (options.failed_starts[0] == '\0') return;
  const OpenedFile file = open_high(options.failed_starts, O_RDWR | O_NOFOLLOW, 0);
  if (file.fd < 0) return;
  FileId id;
  FailedStarts* starts = nullptr;
  int unused = 0;
  // A shorter file would raise SIGBUS.
  if (os.identify(file.fd, &id) == 0 && id.bytes >= sizeof(FailedStarts))
    starts = static_cast<FailedStarts*>(
        os.map(nullptr, sizeof(FailedStarts), PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0, &unused));
  os.close_file(file.fd);
  if (starts == nullptr) return;
  if (starts->version == format::kFailedStartsVersion) {
    const std::uint32_t index = __atomic_fetch_add(&starts->count, 1, __ATOMIC_RELAXED);
    if (index < FailedStarts::kEntries) {
      format::FailedStart& entry = starts->entries[index];
      entry.error = error;
      copy_text(entry.path, sizeof(entry.path), path);
      store_release(&entry.pid, pid);
    }
  }
  os.unmap(starts, sizeof(FailedStarts));
}

}  // namespace culprit
