#include "report/run/run_starts.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>

#include "interpose/format/run_starts.h"
#include "report/base/descriptor.h"
#include "report/base/environment.h"
#include "report/base/file_error.h"
#include "report/base/log.h"
#include "report/base/words.h"
#include "report/merge/run_file.h"
#include "report/model/report.h"

namespace culprit::report {

using format::FailedStart;
using format::RunStarts;

namespace {

template <std::size_t size>
std::string text_of(const char (&field)[size]) {
  return std::string(field, ::strnlen(field, sizeof(field)));
}

bool is_one_of(const std::string& path, const std::vector<std::string>& dumps) {
  // A number may stand before the extension, if the file existed.
  const std::size_t dot = path.rfind('.');
  const std::string beginning = path.substr(0, dot) + ".";
  return std::any_of(dumps.begin(), dumps.end(), [&](const std::string& dump) {
    return dump == path || dump.compare(0, beginning.size(), beginning) == 0;
  });
}

}  // namespace

std::string reason_without_dump(int error, const std::string& path) {
  const std::string where = path.empty() ? "" : ": " + path;
  if (error == ESPIPE) return "no dump could be made" + where + " is no regular file; choose another --out";
  if (error == ENOMEM)
    return "no dump could be made" + where + " (" + std::strerror(error) + "): raise its limits (ulimit -v, -d)";
  return "no dump could be made" + where + " (" + std::strerror(error) + "); choose another --out";
}

void tell_run_around(int child, const std::string& program) {
  if (!is_set("CULPRIT_RUN_STARTS")) return;
  const Descriptor file(::open(std::getenv("CULPRIT_RUN_STARTS"), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  struct stat info = {};
  // A shorter file would raise SIGBUS.
  if (!file.is_open() || ::fstat(file.get(), &info) != 0 || info.st_size < static_cast<off_t>(sizeof(RunStarts))) {
    log::debug("the run around this one cannot be told of it");
    return;
  }
  void* const mapped = ::mmap(nullptr, sizeof(RunStarts), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return;
  auto* const starts = static_cast<RunStarts*>(mapped);
  const std::uint32_t index = starts->version == format::kRunStartsVersion
                                  ? __atomic_fetch_add(&starts->failed, 1, __ATOMIC_RELAXED)
                                  : RunStarts::kEntries;
  if (index < RunStarts::kEntries) {
    FailedStart& start = starts->entries[index];
    start.error = format::kRunOfItsOwn;
    program.copy(start.program, sizeof(start.program) - 1);
    __atomic_store_n(&start.pid, child, __ATOMIC_RELEASE);
  }
  ::munmap(mapped, sizeof(RunStarts));
}

RunStartsFile::RunStartsFile(const std::string& folder) : path_(folder + "/run-starts") {
  const auto starts = std::make_unique<RunStarts>();
  starts->version = format::kRunStartsVersion;
  std::ofstream file(path_, std::ios::binary);
  file.write(reinterpret_cast<const char*>(starts.get()), sizeof(*starts));
  file.close();
  if (!file) {
    throw FileError(path_ + ": cannot be written (" + std::strerror(errno) + "); " +
                    (errno == EFBIG ? "raise the file size limit (ulimit -f)" : "set TMPDIR to another folder"));
  }
}

std::vector<std::pair<std::string, std::string>> RunStartsFile::variables() const {
  std::vector<std::pair<std::string, std::string>> variables = {{"CULPRIT_RUN_STARTS", path_}};
  if (!socket_.variable().empty()) variables.emplace_back("CULPRIT_RUN_SOCKET", socket_.variable());
  return variables;
}

std::vector<Report> RunStartsFile::reports(const std::vector<std::string>& dumps) {
  const auto starts = std::make_unique<RunStarts>();
  std::ifstream file(path_, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(starts.get()), sizeof(*starts)))
    throw FileError(path_ + ": cannot be read any more: something removed it while the program ran");
  std::vector<Report> reports;
  for (std::uint32_t i = 0; i < starts->failed && i < RunStarts::kEntries; ++i) {
    const FailedStart& start = starts->entries[i];
    const bool complete = start.pid != 0;
    if (complete && start.error == format::kRunOfItsOwn) {
      reports.push_back(report_of_deed(start.pid, text_of(start.program),
                                       "ran under a `culprit run` of its own: what it left behind is in the report of "
                                       "that one only"));
      continue;
    }
    reports.push_back(report_without_dump(
        start.pid, complete ? text_of(start.program) : "",
        complete ? reason_without_dump(start.error, text_of(start.path)) : "no dump could be made"));
  }
  socket_.look();
  std::size_t found = dumps.size();
  for (const FailedStart& start : socket_.starts()) {
    const std::string path = text_of(start.path);
    if (start.error != 0) {
      reports.push_back(report_without_dump(start.pid, text_of(start.program), reason_without_dump(start.error, path)));
    } else if (is_one_of(path, dumps)) {
      found -= found != 0 ? 1 : 0;  // it is not counted in the file
    } else {
      reports.push_back(report_of_deed(start.pid, text_of(start.program),
                                       "recorded into " + path + ", in a root directory or with mounts of its own"));
    }
  }
  const auto add_rest = [&](std::size_t count, const std::string& reason) {
    const std::string processes = plural(count, "more process", "more processes");
    if (count != 0) reports.push_back(report_without_dump(0, processes, processes + " " + reason));
  };
  add_rest(starts->failed > RunStarts::kEntries ? starts->failed - RunStarts::kEntries : 0,
           "could not make a dump, or ran under a `culprit run` of their own");
  add_rest(socket_.more(), "could not make a dump, or recorded where the run does not see it");
  add_rest(starts->recording > found ? starts->recording - found : 0,
           "recorded, but the dump was not found: it was removed, or CULPRIT_OUT was changed");
  const std::string waiting = plural(starts->waiting, "process", "processes");
  if (starts->waiting != 0) {
    reports.push_back(report_without_dump(
        0, waiting,
        waiting + " called CUDA while recording was off (--paused, CULPRIT_START=signal, culprit_stop), and " +
            (starts->waiting == 1 ? "it" : "they") + " never switched it on"));
  }
  return reports;
}

}  // namespace culprit::report
