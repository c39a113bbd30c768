#include "interpose/process/file_of_run.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "interpose/base/text_writer.h"
#include "interpose/process/options.h"
#include "interpose/system/descriptors.h"
#include "interpose/system/os.h"

namespace culprit {

void* map_file_of_run(const char* run_starts, const char* ending, std::uint64_t bytes, std::uint32_t version) {
  char name[sizeof(Options::run_starts) + 16];
  TextWriter text(name, sizeof(name));
  text << run_starts << ending;
  if (text.cut()) return nullptr;
  const OpenedFile opened = open_high(name, O_RDWR | O_NOFOLLOW, 0);
  if (opened.fd < 0) return nullptr;
  FileId id;
  void* memory = nullptr;
  int unused = 0;
  if (os.identify(opened.fd, &id) == 0 && id.bytes >= bytes)
    memory = os.map(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, opened.fd, 0, &unused);
  os.close_file(opened.fd);
  if (memory == nullptr) return nullptr;
  os.advise(memory, bytes, MADV_DONTFORK);
  if (*static_cast<const std::uint32_t*>(memory) == version) return memory;
  os.unmap(memory, bytes);
  return nullptr;
}

}  // namespace culprit
