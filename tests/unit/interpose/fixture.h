// A dump in a temporary folder, for tests of recording.
#pragma once

#include <sys/mman.h>

#include "interpose/dump/dump_writer.h"
#include "tests/support/temporary_folder.h"

namespace culprit {

// Memory as the tracker has it: zero, and never constructed. Its destructor closes the tables, because their address
// space counts.
template <typename T>
class Zeroed {
 public:
  Zeroed()
      : object_(static_cast<T*>(mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
  }
  ~Zeroed() {
    end(object_, 0);
    munmap(static_cast<void*>(object_), sizeof(T));
  }
  Zeroed(const Zeroed&) = delete;
  Zeroed& operator=(const Zeroed&) = delete;
  T* operator->() { return object_; }
  T& operator*() { return *object_; }

 private:
  template <typename U>
  static auto end(U* object, int) -> decltype(object->close()) {
    return object->close();
  }
  template <typename U>
  static void end(U*, long) {}

  T* object_;
};

using test::TemporaryFolder;

// Restores the operating system's calls after a test that made some of them fail.
class RealOs {
 public:
  RealOs() : saved_(os) {}
  ~RealOs() { os = saved_; }
  RealOs(const RealOs&) = delete;
  RealOs& operator=(const RealOs&) = delete;

 private:
  OsCalls saved_;
};

// Fills what is mapped ahead, so that the file grows by the next chunk. Returns whether it could.
inline bool use_up_room(DumpWriter& dump) {
  std::uint64_t bytes = 0;
  const std::uint64_t room = dump.file_size() - dump.size();
  return room == 0 || dump.allocate_chunk(format::ChunkType::kStrings, room, &bytes) != 0;
}

}  // namespace culprit
