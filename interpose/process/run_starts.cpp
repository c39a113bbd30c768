#include "interpose/process/run_starts.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "interpose/base/descriptors.h"
#include "interpose/base/keep_errno.h"
#include "interpose/base/os.h"
#include "interpose/base/own_stack.h"
#include "interpose/base/placement.h"
#include "interpose/base/process_names.h"
#include "interpose/base/raw_calls.h"
#include "interpose/base/restrictions.h"
#include "interpose/base/store_release.h"
#include "interpose/base/text_writer.h"
#include "interpose/format/run_starts.h"
#include "interpose/process/log.h"
#include "interpose/process/variables.h"

namespace culprit {

using format::RunStarts;

// Read by `culprit run` from outside.
extern "C" {
__attribute__((visibility("default"))) std::int32_t culprit_api_start_state = 0;
}

namespace {

void describe(format::FailedStart* start, int error, const char* path) {
  start->error = error;
  program_path(start->program, sizeof(start->program));
  copy_text(start->path, sizeof(start->path), path);
}

void note_failure(RunStarts* starts, int pid, int error, const char* path) {
  const std::uint32_t index = __atomic_fetch_add(&starts->failed, 1, __ATOMIC_RELAXED);
  if (index >= RunStarts::kEntries) return;
  describe(&starts->entries[index], error, path);
  store_release(&starts->entries[index].pid, pid);
}

// Calls work(starts). Returns false when the file cannot be reached.
template <typename Work>
bool change_file(const char* name, Work work) {
  const OpenedFile file = open_high(name, O_RDWR | O_NOFOLLOW, 0);
  if (file.fd < 0) return false;
  FileId id;
  RunStarts* starts = nullptr;
  int unused = 0;
  // A shorter file would raise SIGBUS.
  if (os.identify(file.fd, &id) == 0 && id.bytes >= sizeof(RunStarts))
    starts = static_cast<RunStarts*>(
        os.map(nullptr, sizeof(RunStarts), PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0, &unused));
  os.close_file(file.fd);
  if (starts == nullptr) return false;
  const bool same_version = starts->version == format::kRunStartsVersion;
  if (same_version) work(starts);
  os.unmap(starts, sizeof(RunStarts));
  return same_version;
}

std::atomic<int> waits;  // this process is counted in RunStarts::waiting; a fork child of it is not counted again

bool store_in_file(const Options& options, int pid, int error, const char* path) {
  return change_file(options.run_starts, [&](RunStarts* starts) {
    if (waits.exchange(0) != 0) __atomic_fetch_sub(&starts->waiting, 1, __ATOMIC_RELAXED);
    if (error == 0) {
      __atomic_fetch_add(&starts->recording, 1, __ATOMIC_RELAXED);
    } else {
      note_failure(starts, pid, error, path);
    }
  });
}

// The parts of the variable; see format/run_starts.h.
struct RunSocket {
  const char* name;
  const char* token;
  int filters;
};

bool parse_socket(const char* text, RunSocket* socket) {
  constexpr std::size_t kLength = format::kRunTokenBytes;
  if (std::strlen(text) < 2 * kLength + 3 || text[kLength] != '-' || text[2 * kLength + 1] != '-') return false;
  char* end = nullptr;
  *socket = {text, text + kLength + 1, static_cast<int>(std::strtol(text + 2 * kLength + 2, &end, 10))};
  return *end == '\0';
}

// Without waiting: the queue of the socket may be full.
bool send_message(const Options& options, int pid, int error, const char* path) {
  RunSocket target;
  if (!parse_socket(options.run_socket, &target)) return false;
  look_at_restrictions();
  if (calls_restricted() && seccomp_filters() != target.filters) return false;
  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  constexpr std::size_t kPrefix = sizeof(format::kRunSocketPrefix) - 1;
  std::memcpy(address.sun_path + 1, format::kRunSocketPrefix, kPrefix);
  std::memcpy(address.sun_path + 1 + kPrefix, target.name, format::kRunTokenBytes);
  constexpr std::size_t kAddressBytes = offsetof(struct sockaddr_un, sun_path) + 1 + kPrefix + format::kRunTokenBytes;
  format::RunMessage message = {};
  message.version = format::kRunStartsVersion;
  std::memcpy(message.token, target.token, sizeof(message.token));
  message.start.pid = pid;
  describe(&message.start, error, path);
  const int fd = datagram_socket();
  if (fd < 0) return false;
  const long sent =
      system_call(SYS_sendto, fd, &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL, &address, kAddressBytes);
  os.close_file(fd);
  return sent == static_cast<long>(sizeof(message));
}

std::size_t folder_length(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? 0 : static_cast<std::size_t>(slash - path);
}

}  // namespace

void note_run_start(const Options& options, int pid, int error, const char* path) {
  std::int32_t state = format::kStartTold;
  if (options.run_starts[0] != '\0' && !store_in_file(options, pid, error, path) &&
      !send_message(options, pid, error, path))
    state = error != 0 ? error : format::kUntoldRecording;
  __atomic_store_n(&culprit_api_start_state, state, __ATOMIC_RELEASE);
}

void tell_no_memory() {
  on_own_stack([] {
    const Variables variables(nullptr);
    Options options;  // on this stack: there is no other memory
    read_options(variables, &options);
    warn_no_memory(options);
    note_run_start(options, static_cast<int>(getpid()), ENOMEM, "");
  });
}

void note_waiting() {
  if (CULPRIT_LIKELY(waits.load(std::memory_order_relaxed) != 0) || waits.exchange(1) != 0) return;
  KeepErrno keep;
  on_own_stack([] {
    const Variables variables;
    const char* name = variables.value("CULPRIT_RUN_STARTS");
    if (name == nullptr) return;
    change_file(name, [](RunStarts* starts) { __atomic_fetch_add(&starts->waiting, 1, __ATOMIC_RELAXED); });
  });
}

bool is_in_folder_of_run(const Options& options, const char* path) {
  const std::size_t length = folder_length(options.run_starts);
  return length != 0 && folder_length(path) == length && std::strncmp(path, options.run_starts, length) == 0;
}

}  // namespace culprit
