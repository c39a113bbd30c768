#include "report/command_run.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <optional>
#include <stdexcept>

#include "report/child_process.h"
#include "report/exit_codes.h"
#include "report/run_dumps.h"

namespace culprit {
namespace {

constexpr char kDefaultPattern[] = "culprit.%n.%p.dump";

std::uint64_t realtime_ns() {
  std::timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000ULL + static_cast<std::uint64_t>(now.tv_nsec);
}

// Finds libculprit.so beside this executable: in lib of the installed or built tree. Throws std::runtime_error.
std::string find_library() {
  namespace fs = std::filesystem;
  std::string path;
  const char* chosen = std::getenv("CULPRIT_LIBRARY");
  if (chosen != nullptr && chosen[0] != '\0') {
    path = fs::absolute(chosen).string();
    if (!fs::exists(path)) throw std::runtime_error(path + ": no such file; CULPRIT_LIBRARY must name libculprit.so");
  } else {
    const fs::path root = fs::read_symlink("/proc/self/exe").parent_path().parent_path();
    for (const char* folder : {"lib", CULPRIT_INSTALL_LIBDIR, "lib64"}) {
      const fs::path candidate = root / folder / "libculprit.so";
      if (path.empty() && fs::exists(candidate)) path = candidate.string();
    }
    if (path.empty()) {
      throw std::runtime_error((root / "lib/libculprit.so").string() +
                               ": no such file; keep culprit and libculprit.so in one tree, or set CULPRIT_LIBRARY");
    }
  }
  if (path.find_first_of(" :") != std::string::npos) {
    throw std::runtime_error(path +
                             ": LD_PRELOAD cannot hold a path with spaces or colons; move the tree, or set "
                             "CULPRIT_LIBRARY to a link elsewhere");
  }
  return path;
}

std::string preload_value(const std::string& library) {
  const char* present = std::getenv("LD_PRELOAD");
  return present != nullptr && present[0] != '\0' ? library + ":" + present : library;
}

// Reads the dumps; those that cannot be read are named on stderr.
std::vector<Report> read_dumps(const std::vector<std::string>& paths, const OutputOptions& options, bool* unreadable) {
  std::vector<Report> reports;
  for (const std::string& path : paths) {
    try {
      reports.push_back(load_for_output(path, options));
    } catch (const DumpError& error) {
      std::cerr << "culprit: " << error.what() << "\n";
      *unreadable = true;
    }
  }
  return reports;
}

int start_failure(const std::string& command, int error) {
  std::cerr << "culprit: " << command << ": " << std::strerror(error) << "\n";
  return error == ENOENT ? kExitNotFound : kExitNotExecutable;
}

// The part of the exit code that is ours: what the reports say.
int report_run(const std::vector<std::string>& paths, const RunCommand& command, bool kept) {
  bool unreadable = false;
  const std::vector<Report> reports = read_dumps(paths, command.output, &unreadable);
  if (paths.empty()) {
    std::cerr
        << "culprit: no CUDA call was seen: the program made none, or it is static or setuid, so that nothing can be "
           "preloaded into it\n";
  }
  // Whoever reads JSON or a file expects one, also when it says that there was nothing.
  if (!reports.empty() || command.output.format == "json" || !command.output.output.empty()) {
    const int written = write_reports(reports, command.output, DefaultStream::kStderr, kept);
    if (written != kExitFine) return written;
  }
  if (unreadable) return kExitUnreadable;
  const int found = verdict(reports, command.output);
  if (found != kExitFine || reports.empty()) return found;
  for (const Report& report : reports) {
    if (report.hook_called) return kExitFine;
  }
  return kExitNoHook;
}

}  // namespace

void add_run_command(CLI::App* app, RunCommand* command) {
  app->add_flag("--keep", command->keep,
                "Keep the dumps: in the working directory, or where --out or CULPRIT_OUT says");
  app->add_option("--out", command->out,
                  "Keep the dumps as PATTERN: %p pid, %h host, %n executable, %q{VAR} environment")
      ->type_name("PATTERN");
  app->add_option("--depth", command->depth, "Frames kept of a stack, 0 for no stacks (default 64)")
      ->check(CLI::Range(0, 256))
      ->type_name("N");
  app->add_option("--log", command->log, "Diagnostics of libculprit.so on stderr")
      ->check(CLI::IsMember({"off", "error", "warn", "info", "debug"}))
      ->type_name("LEVEL");
  add_output_options(app, &command->output);
}

int run_run_command(const RunCommand& command) {
  std::optional<TemporaryFolder> folder;
  std::string pattern;
  std::string library;
  try {
    library = find_library();
    const char* present = std::getenv("CULPRIT_OUT");
    if (!command.out.empty()) {
      pattern = absolute_pattern(command.out);
    } else if (command.keep) {
      pattern = absolute_pattern(present != nullptr && present[0] != '\0' ? present : kDefaultPattern);
    } else {
      folder.emplace();
      pattern = folder->path() + "/" + kDefaultPattern;
    }
  } catch (const std::exception& error) {
    std::cerr << "culprit: " << error.what() << "\n";
    return kExitUnreadable;
  }

  std::vector<std::pair<std::string, std::string>> environment = {
      {"LD_PRELOAD", preload_value(library)}, {"CULPRIT_OUT", pattern}, {"CULPRIT_QUIET", "1"}};
  if (command.depth) environment.emplace_back("CULPRIT_DEPTH", std::to_string(*command.depth));
  if (!command.log.empty()) environment.emplace_back("CULPRIT_LOG", command.log);

  const std::uint64_t start = realtime_ns();
  const ChildResult child = run_child(command.command, environment);
  if (child.start_errno != 0) return start_failure(command.command.front(), child.start_errno);

  const bool kept = !folder.has_value();
  const int found = report_run(find_dumps(pattern, start), command, kept);
  folder.reset();
  if (child.signalled) return die_like_child(child.code);
  return child.code != 0 ? child.code : found;
}

}  // namespace culprit
