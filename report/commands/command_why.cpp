// culprit why -- COMMAND...: why `culprit run` would record nothing of a program, without starting it.
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/base/exit_codes.h"
#include "report/base/log.h"
#include "report/base/printable.h"
#include "report/base/shell_words.h"
#include "report/commands/commands.h"
#include "report/proc/process_folder.h"
#include "report/proc/target_process.h"
#include "report/run/obstacles.h"
#include "report/run/preload.h"

namespace culprit::report {
namespace {

int write(const std::string& subject, const std::vector<std::string>& files, const std::vector<Obstacle>& obstacles) {
  std::cout << "culprit why · " << subject << "\n";
  for (const Obstacle& obstacle : obstacles) {
    std::cout << "NOT RECORDED: " << printable(obstacle.fact) << "\n";
    if (!obstacle.advice.empty()) std::cout << "   instead    " << printable(obstacle.advice) << "\n";
  }
  if (!obstacles.empty()) return kExitFound;
  std::cout << "nothing stands against recording it\n";
  for (const std::string& file : files) std::cout << "   looked at  " << shell_path(file) << "\n";
  std::cout << "   next       culprit run --require-cuda -- " << subject << "\n";
  return kExitFine;
}

int explain_program(const std::vector<std::string>& command) {
  const Examination examination = examine_program(command, {::geteuid(), ::getegid()});
  if (examination.start_errno != 0) {
    log::error(command.front() + ": " + std::strerror(examination.start_errno));
    return examination.start_errno == ENOENT ? kExitNotFound : kExitNotExecutable;
  }
  std::vector<Obstacle> obstacles = examination.obstacles;
  for (Obstacle& obstacle : examine_library(find_library())) obstacles.push_back(std::move(obstacle));
  return write(shell_command(command), examination.files, obstacles);
}

// A process that runs already.
int explain_process(std::uint32_t pid) {
  const TargetProcess target = find_target(kProc, pid);
  if (!target.problem.empty() && !target.without_library) {
    log::error(target.problem);
    return kExitUnreadable;
  }
  const std::string name = "process " + std::to_string(pid);
  if (!target.dump.empty()) {
    std::cout << "culprit why · " << name << "\nit is recorded: culprit report " << shell_path(target.dump) << "\n";
    return kExitFine;
  }
  std::vector<Obstacle> obstacles;
  if (target.without_library) {
    const std::string file = ProcessFolder(kProc, pid).link("exe");
    obstacles = examine_program({file}, {::geteuid(), ::getegid()}).obstacles;
    obstacles.push_back({target.problem + ": libculprit.so is not in it", "culprit attach " + std::to_string(pid)});
  } else if (target.waits_for_signal) {
    obstacles.push_back({"recording was not switched on yet", "culprit start " + std::to_string(pid)});
  } else {
    obstacles.push_back({name + " has libculprit.so, and has called no CUDA function so far", ""});
  }
  return write(name, {}, obstacles);
}

}  // namespace

Action declare_why(OptionList* options) {
  const auto words = std::make_shared<std::vector<std::string>>();
  options->takes_program(words.get(), "culprit why -- sudo ./app; culprit why 4242 (a process that runs)");
  return [words] {
    const std::optional<std::uint32_t> pid = words->size() == 1 ? whole_number(words->front()) : std::nullopt;
    return pid ? explain_process(*pid) : explain_program(*words);
  };
}

}  // namespace culprit::report
