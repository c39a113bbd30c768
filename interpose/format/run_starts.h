// The processes of one `culprit run`: a file of fixed size, made by the command and named by CULPRIT_RUN_STARTS. The
// library maps it when recording starts, and counts the process there: a full disk or a file size limit cannot prevent
// that. So the command knows of processes without a dump. A process that cannot reach the file sends a message.
#pragma once

#include <cstdint>

namespace culprit::format {

constexpr std::uint32_t kRunStartsVersion = 1;

// A process that could not make its dump.
struct FailedStart {
  std::int32_t pid;    // stored last; 0: the entry is not complete
  std::int32_t error;  // an errno
  char program[512];   // NUL-terminated, as the path
  char path[4096];     // of the dump
};

// A datagram for the socket that CULPRIT_RUN_SOCKET names, from a process that cannot reach the file: after setuid, in
// another root directory, or with other mounts. Abstract sockets have no path; they belong to a network namespace.
// The variable: NAME-TOKEN-FILTERS. The socket's address is a NUL, kRunSocketPrefix and NAME. Messages without TOKEN
// are not of the run: names are known to all users of the machine. FILTERS: how many seccomp filters the command has. A
// process with as many has the same ones, which let the command itself use a socket.
constexpr char kRunSocketPrefix[] = "culprit-";
constexpr std::uint32_t kRunTokenBytes = 32;  // of NAME, and of TOKEN

struct RunMessage {
  std::uint32_t version;
  std::uint32_t reserved;
  char token[kRunTokenBytes];
  FailedStart start;  // error 0: the process records, at `path`
};

// Values of culprit_api_start_state, a variable of the library that the command reads in processes that live: 0 = no
// call so far, kStartTold = the file or a message tells the rest. Without both: kUntoldRecording, or an errno.
constexpr std::int32_t kStartTold = 1 << 16;
constexpr std::int32_t kUntoldRecording = kStartTold + 1;

// FailedStart::error of a command that a `culprit run` or `culprit sweep` inside of this run started, and whose
// processes recorded: what they left behind is known there only.
constexpr std::int32_t kRunOfItsOwn = kStartTold + 2;

struct RunStarts {
  static constexpr std::uint32_t kEntries = 15;
  std::uint32_t version;
  std::uint32_t recording;  // processes that made their dump
  std::uint32_t failed;     // processes that could not, also those beyond kEntries
  std::uint32_t waiting;    // processes that called CUDA while recording was off, and have not recorded since
  FailedStart entries[kEntries];
};

}  // namespace culprit::format
