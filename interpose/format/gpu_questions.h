// Questions about GPUs that the processes of one `culprit run` ask it, and its answers. cuMemGetInfo is of all
// processes on a device; NVML alone knows the bytes of each, and must not be loaded in the program. A file of fixed
// size beside that of run_starts.h, which the library maps for as long as it records. Each side takes what it finds
// there as hostile.
#pragma once

#include <cstdint>

namespace culprit::format {

constexpr std::uint32_t kGpuQuestionsVersion = 1;
constexpr char kGpuQuestionsEnding[] = ".gpus";  // after the name of the file in CULPRIT_RUN_STARTS

// Why NVML's figure of the process is not known. Extended at its end only: dumps have it.
enum class GpuProblem : std::uint32_t {
  kNone = 0,
  kNoRun = 1,         // no `culprit run` started the process
  kNotReached = 2,    // its file is not there: another node or container, another root directory or user
  kLate = 3,          // the answer did not come in time
  kNoTime = 4,        // questions have had their share of the time
  kInCapture = 5,     // or another thread was asking
  kNoNvml = 6,        // NVML cannot be used
  kNotShown = 7,      // it does not show the device
  kNoList = 8,        // or not its processes
  kOtherNumbers = 9,  // it names processes by the numbers of another PID namespace
  kNotListed = 10,    // the process is not in the list
  kNoFigure = 11,     // it has no figure for the process
  kTooMany = 12,      // processes ask at the same time
  kInHandler = 13,    // the call was made in a signal handler
};
constexpr GpuProblem kLastGpuProblem = GpuProblem::kInHandler;

struct GpuNeighbour {
  std::uint32_t pid;
  char name[28];  // NUL-terminated; empty: not known
  std::uint64_t bytes;
};

// NVML's account of a device at one moment.
struct GpuAccount {
  static constexpr std::uint32_t kLargest = 3;
  GpuProblem problem;
  std::uint32_t others;  // processes; known if `own_bytes` is
  std::uint64_t own_bytes;
  std::uint64_t others_bytes;  // of those that NVML has a figure for
  GpuNeighbour largest[kLargest];
};
static_assert(sizeof(GpuAccount) == 144);

// The place of one process.
struct GpuQuestion {
  std::uint32_t pid;    // 0: free. The process stores its number there, the command 0 when it has ended
  std::uint32_t ready;  // the fields before `asked` are those of this process
  std::uint64_t pid_namespace;
  std::uint64_t start_ticks;
  std::uint8_t uuid[16];
  std::uint32_t mig;       // 1: the UUID is a MIG instance's
  std::uint32_t names;     // 1: those of the largest neighbours are wanted
  std::uint32_t asked;     // the number of the question, stored last
  std::uint32_t answered;  // of the question that the answer is for, stored last; a futex
  GpuAccount answer;
};
static_assert(sizeof(GpuQuestion) == 200);

struct GpuQuestions {
  static constexpr std::uint32_t kPlaces = 64;
  std::uint32_t version;
  std::uint32_t calls;   // changes with each question; a futex
  std::uint32_t wanted;  // 1: a process records, and will ask
  std::uint32_t reserved;
  GpuQuestion places[kPlaces];
};

}  // namespace culprit::format
