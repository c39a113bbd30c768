// The processes of a run without a dump (interpose/format/run_starts.h).
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "report/model/report.h"
#include "report/run/run_socket.h"

namespace culprit::report {

class RunStartsFile {
 public:
  // Makes the file in `folder`. Throws FileError.
  explicit RunStartsFile(const std::string& folder);

  // The variables of the environment that name the file and a socket to the library.
  std::vector<std::pair<std::string, std::string>> variables() const;

  // Takes messages from the socket: to be called from time to time, because its queue is short.
  void look() { socket_.look(); }

  // A report without content for each process that recorded nothing, with the reason in `dropped`. When there were more
  // than the file has entries for, one stands for the rest; and one for the processes that recorded without any of the
  // `dumps`, which were found. Throws FileError.
  std::vector<Report> reports(const std::vector<std::string>& dumps);

 private:
  std::string path_;
  RunSocket socket_;
};

// When this command runs inside of another `culprit run`: tells that one of processes that record here, and so not
// there. `child`: of the command `program`.
void tell_run_around(int child, const std::string& program);

// Why a process with this errno has no dump; `path`: of the dump, if that is known.
std::string reason_without_dump(int error, const std::string& path);

}  // namespace culprit::report
