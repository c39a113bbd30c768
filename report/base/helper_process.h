// A copy of this process that works beside it, for the processes of a run, until it is ended: what it does may hang or
// crash.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <string>

#include "report/base/descriptor.h"
#include "report/base/forked_child.h"
#include "report/base/log.h"

namespace culprit::report {

// Makes the file at `path`, with room on the disk, and maps it, shared: zeros, and its version. nullptr, with errno: it
// cannot be made.
template <typename File>
File* make_shared_file(const std::string& path, std::uint32_t version) {
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  // A page that cannot be written later would end a process.
  if (!file.is_open() || ::posix_fallocate(file.get(), 0, sizeof(File)) != 0) return nullptr;
  void* memory = ::mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* made = static_cast<File*>(memory);
  made->version = version;
  return made;
}

class HelperProcess {
 public:
  HelperProcess() = default;
  // Ends it, and waits for that, 50 ms at most.
  ~HelperProcess();
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

  // Starts it, from a process with one thread. `work` does not return. All signals are blocked in it, because those of
  // a terminal are for the program; it ends with its parent, leaves no core, and has no descriptors.
  void start(const std::function<void()>& work);
  // Starts work(File*), with the file of make_shared_file() whose path is `begin` and `ending`. A failure is a message
  // for debugging that begins with `without`. Never throws.
  template <typename File, typename Work>
  void start_with_file(const std::string& begin, const char* ending, std::uint32_t version, const char* without,
                       Work work) {
    try {
      auto* const file = make_shared_file<File>(begin + ending, version);
      if (file == nullptr) {
        log::debug(std::string(without) + ": " + std::strerror(errno));
        return;
      }
      start([&] { work(file); });
      ::munmap(file, sizeof(File));
    } catch (const std::exception& error) {
      log::debug(without, error);
    }
  }
  // Ends it, without a wait.
  void end() const;

 private:
  ForkedChild child_;
};

}  // namespace culprit::report
