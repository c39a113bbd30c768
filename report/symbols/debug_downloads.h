// Debug information from the servers of DEBUGINFOD_URLS. libdw asks them for each file that has no debug information on
// this machine, and waits for each answer; here all downloads have one limit of time, and a line of progress.
//
// Rejected: DEBUGINFOD_TIMEOUT, which limits each file apart, and only a server that is slow, not one that is silent.
#pragma once

#include <elfutils/libdwfl.h>

#include <functional>
#include <string>

namespace culprit::report {

// While one of these lives, libdw may ask the servers; after the limit, and with a limit of 0, it may not. The time is
// that of the whole process: `culprit top` reads symbols again and again. Thread-safe.
class DebugDownloads {
 public:
  explicit DebugDownloads(unsigned limit_seconds);
  ~DebugDownloads();
  DebugDownloads(const DebugDownloads&) = delete;
  DebugDownloads& operator=(const DebugDownloads&) = delete;
};

// Whether there are servers, so that a debug file may come from one.
bool has_debug_servers();

// Makes the downloads for a file end at the limit. `progress` gets what is being done, in a few words, while this
// thread reads that file; it may be empty.
void limit_downloads(Dwfl* dwfl, const std::function<void(const std::string&)>& progress);

// While one lives, this thread looks for the debug information of the file at `path`.
class DebugDownload {
 public:
  explicit DebugDownload(const std::string& path);
  ~DebugDownload();
  DebugDownload(const DebugDownload&) = delete;
  DebugDownload& operator=(const DebugDownload&) = delete;
};

}  // namespace culprit::report
