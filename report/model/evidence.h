// A fact about why memory was not freed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interpose/format/dump_file.h"
#include "report/model/causes.h"
#include "report/model/thread_info.h"

namespace culprit::report {

struct Frame;
struct ResolvedStack;
struct Variable;

// One fact about why memory was not freed. A group keeps all its evidence; its cause is the first, in the order of
// Cause, that any of it points to.
struct Evidence {
  EvidenceType type = EvidenceType::kFailedFree;
  Cause points_to = Cause::kNeverFreed;  // kNeverFreed: for information, decides nothing
  std::string api;  // of the refused (failed free) or failed (error return) call, or of the one that ended the context
  int code = 0;     // failed free, error return: CUresult
  std::string code_name;  // "CUDA_ERROR_INVALID_VALUE"
  std::uint64_t handle = 0;
  std::uint64_t count = 0;
  std::uint64_t time_ns = 0;             // of the last event
  std::uint64_t first_ns = 0;            // of the first event; 0: not known
  const ResolvedStack* stack = nullptr;  // of the refused, failed or ending call, or of the throw

  // Exception.
  std::string exception;  // type, demangled; empty: not known
  std::string what;       // of the first exception; empty when it is not a std::exception
  const ResolvedStack* caught = nullptr;
  bool uncaught = false;   // the exception terminated the program
  bool forced = false;     // not an exception: pthread_exit or cancellation unwound the thread
  bool rethrown = false;   // passed on by `throw;` or std::rethrow_exception
  bool ambiguous = false;  // the catching function has another handler of the same type, which may be the real one
  // Exception, error return: the frame that owned the memory and was left; nullptr: not known.
  const Frame* owner = nullptr;

  bool injected = false;    // error return: culprit made the call fail
  std::uint64_t bytes = 0;  // error return: the size of the failed allocation

  const Variable* variable = nullptr;  // held
  std::uint64_t offset = 0;            // held: offset of the (first) pointer in the module's file
  bool middle = false;                 // held: by a pointer into the middle
  bool yields = false;                 // held through the heap, perhaps by a stale copy: an exception or an error
                                       // return decides before it
  std::uint64_t indirectly = 0;        // lost: how many of `count` memory that is lost too refers to
  bool now = false;                    // lost: in a process that runs, not at exit
  std::string path;                    // held through the heap: the way to the first allocation, "[3]->buffer"

  std::optional<ThreadInfo> thread;  // exception, error return: of the event; thread ended: the ended thread
  std::vector<format::Ref> records;  // the records in the dump
};

}  // namespace culprit::report
