#include "report/run/obstacles.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

#include "report/base/environment.h"
#include "report/base/shell_words.h"
#include "report/proc/program_file.h"

namespace culprit::report {
namespace {

constexpr std::size_t kHeadBytes = 65536;
constexpr int kMostSteps = 16;  // a script whose interpreter is a script, and so on

// A command that gives the program no LD_PRELOAD, or in which the library's path leads nowhere.
struct Elsewhere {
  const char* names;  // with blanks around each
  const char* fact;
  const char* advice;
};
// clang-format off
constexpr Elsewhere kElsewhere[] = {
    {" sudo su doas pkexec runuser sudoedit ", "removes LD_PRELOAD from the environment of the program",
     "begin with it: sudo culprit run -- ./app"},
    {" docker podman nerdctl crictl lxc machinectl kubectl ", "lets a service start the program, in a container with an environment and files of its own",
     "install culprit in the image and use `culprit run` there, or attach from the host: culprit help containers"},
    {" apptainer singularity enroot ", "starts the program in a container, whose files may lack libculprit.so",
     "bind culprit's folder into the container, or use `culprit run` there: culprit help containers"},
    {" snap flatpak ", "starts the program in a sandbox with mounts of its own, where libculprit.so is not",
     "run the program outside of the sandbox, or attach to it: culprit attach PID"},
    {" chroot nsenter unshare bwrap firejail proot ", "may start the program where other files are mounted and libculprit.so is not",
     "use `culprit run` inside"},
    {" ssh rsh mosh ", "starts the program on another machine", "use `culprit run` there"},
    {" sbatch bsub qsub ", "hands a script to a queue, which starts it later", "write `culprit run` into the script: culprit help jobs"},
    {" systemctl systemd-run service at batch ", "lets a service start the program, with an environment of its own",
     "write `culprit run` into the service, or attach to the process: culprit attach PID"},
    {" gdb cuda-gdb lldb valgrind qemu-x86_64 box64 ", "starts the program by itself, and may keep LD_PRELOAD from it",
     "begin with culprit inside of it: set environment LD_PRELOAD in the debugger, or attach: culprit attach PID"},
};
// Commands that start the program behind their options with the environment that they have.
constexpr char kTransparent[] =
    " env nice nohup timeout stdbuf taskset numactl time setsid ionice chrt setarch xvfb-run mpirun mpiexec orterun prterun srun "
    "torchrun accelerate deepspeed nsys ncu culprit ";
// clang-format on

bool is_in(std::string_view names, const std::string& name) {
  return !name.empty() && names.find(" " + name + " ") != std::string_view::npos;
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The file that a shell would start; empty: there is none.
std::string found_program(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (name.find('/') != std::string::npos) return fs::exists(name, ignored) ? name : "";
  std::istringstream folders(value_or("PATH", "/usr/local/bin:/usr/bin:/bin"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string path = (folder.empty() ? "." : folder) + "/" + name;
    if (fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

std::string head_of(const std::string& path) {
  std::string head(kHeadBytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return head;
}

class Examiner {
 public:
  explicit Examiner(const Starter& starter) : starter_(starter) {}

  void examine(std::vector<std::string> words) {
    for (int step = 0; step < kMostSteps && !words.empty(); ++step) {
      const std::string path = found_program(words.front());
      if (path.empty()) {
        if (step == 0) result.start_errno = ENOENT;
        return;
      }
      if (::access(path.c_str(), X_OK) != 0 || std::filesystem::is_directory(path)) {
        if (step == 0) result.start_errno = EACCES;
        return;
      }
      result.files.push_back(path);
      words = look_at(path, words);
    }
  }

  Examination result;

 private:
  void add(const std::string& fact, const std::string& advice) { result.obstacles.push_back({fact, advice}); }

  // Returns the command that the file starts in turn; empty: none is known.
  std::vector<std::string> look_at(const std::string& path, const std::vector<std::string>& words) {
    const std::string name = file_name(path);
    for (const Elsewhere& row : kElsewhere) {
      if (!is_in(row.names, name)) continue;
      add(name + " " + row.fact, row.advice);
      return {};
    }
    if (is_of_a_sandbox(path)) return {};
    look_at_rights(path);
    const ProgramFile file = read_program(head_of(path));
    if (file.kind == ProgramFile::Kind::kScript) return interpreter_of(file, words);
    if (file.kind == ProgramFile::Kind::kElf) look_at_program(path, file);
    if (name == "env") look_at_env(words);
    return is_in(kTransparent, name) ? program_behind(words) : std::vector<std::string>();
  }

  // A snap's program is a link to snap itself, one of flatpak a script that calls flatpak.
  bool is_of_a_sandbox(const std::string& path) {
    std::error_code ignored;
    const std::string real = std::filesystem::canonical(path, ignored).string();
    const bool snap = path.compare(0, 10, "/snap/bin/") == 0 || file_name(real) == "snap";
    const bool flatpak = path.find("/flatpak/exports/bin/") != std::string::npos;
    if (!snap && !flatpak) return false;
    add(path + " is a program of " + (snap ? "snap" : "flatpak") +
            ": it runs in a sandbox with mounts of its own, where libculprit.so is not",
        "install the program without the sandbox, or attach to it: culprit attach PID");
    return true;
  }

  // The kernel then tells the loader to ignore LD_PRELOAD (AT_SECURE, ld.so(8)), unless the rights bring nothing new.
  void look_at_rights(const std::string& path) {
    struct stat facts = {};
    struct statvfs mount = {};
    if (::stat(path.c_str(), &facts) != 0) return;
    const std::string ignores = ": the loader ignores LD_PRELOAD";
    const bool counts = ::statvfs(path.c_str(), &mount) != 0 || (mount.f_flag & ST_NOSUID) == 0;
    if (counts && (facts.st_mode & S_ISUID) != 0 && facts.st_uid != starter_.user)
      add(path + " is setuid" + ignores, "run a copy without the bit, as its owner: cp " + shell_path(path) + " copy");
    if (counts && (facts.st_mode & S_ISGID) != 0 && (facts.st_mode & S_IXGRP) != 0 && facts.st_gid != starter_.group)
      add(path + " is setgid" + ignores, "run a copy without the bit, in its group: cp " + shell_path(path) + " copy");
    const bool has_capabilities = ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
    if (counts && has_capabilities && starter_.user != 0)
      add(path + " has file capabilities (setcap)" + ignores, "run a copy, which has none, or as root");
  }

  void look_at_program(const std::string& path, const ProgramFile& file) {
    if (!file.for_this_processor) {
      add(path + " is a program for another processor, or of 32 bits: libculprit.so is for " + kThisMachineName, "");
    } else if (file.loader.empty()) {
      add(path + " is a static program: it runs without the loader, which would load libculprit.so",
          "link it dynamically with libc (the CUDA runtime may stay static)");
    } else if (file.loader.find("ld-musl") != std::string::npos) {
      add(path + " runs on musl: libculprit.so needs glibc", "build it for a system with glibc");
    }
  }

  static std::vector<std::string> interpreter_of(const ProgramFile& file, const std::vector<std::string>& words) {
    if (file.interpreter.empty()) return {};
    std::vector<std::string> command = {file.interpreter};
    if (!file.argument.empty()) {
      std::istringstream argument(file.argument);
      for (std::string word; argument >> word;) command.push_back(word);
    }
    command.insert(command.end(), words.begin(), words.end());
    return command;
  }

  void look_at_env(const std::vector<std::string>& words) {
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string& word = words[i];
      const bool all = word == "-" || word == "-i" || word == "--ignore-environment";
      const bool one =
          word == "--unset=LD_PRELOAD" || (word == "-u" && i + 1 < words.size() && words[i + 1] == "LD_PRELOAD");
      const bool other = word.compare(0, 11, "LD_PRELOAD=") == 0;
      if (all || one) add("env " + word + " removes LD_PRELOAD", "begin with it: env -i culprit run -- ./app");
      if (other)
        add("env sets another LD_PRELOAD",
            "set it before culprit, which adds its library to it: " + word + " culprit run -- ./app");
      if (all || one || other) return;
    }
  }

  // The first word behind the options that is a program.
  static std::vector<std::string> program_behind(const std::vector<std::string>& words) {
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string& word = words[i];
      if (word.empty() || word[0] == '-' || word.find('=') != std::string::npos) continue;
      const std::string path = found_program(word);
      std::error_code ignored;
      if (!path.empty() && std::filesystem::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0)
        return {words.begin() + static_cast<std::ptrdiff_t>(i), words.end()};
    }
    return {};
  }

  Starter starter_;
};

}  // namespace

Examination examine_program(const std::vector<std::string>& command, const Starter& starter) {
  Examiner examiner(starter);
  examiner.examine(command);
  return std::move(examiner.result);
}

std::vector<Obstacle> examine_library(const std::string& path) {
  std::vector<Obstacle> obstacles;
  struct statvfs mount = {};
  if (::statvfs(path.c_str(), &mount) == 0 && (mount.f_flag & ST_NOEXEC) != 0)
    obstacles.push_back({path + " lies on a file system that is mounted noexec: the loader cannot load it",
                         "copy culprit's folder to another file system"});
  return obstacles;
}

}  // namespace culprit::report
