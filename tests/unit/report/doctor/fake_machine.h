// Shared by the tests of `culprit doctor`: a fake NVML and a fake /proc tree.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "report/doctor/diagnosis.h"
#include "report/doctor/explain.h"
#include "report/doctor/inside.h"
#include "report/doctor/kernel_log.h"
#include "report/doctor/nvml.h"
#include "report/doctor/nvml_users.h"
#include "report/dump/run_dumps.h"
#include "report/proc/driver_module.h"
#include "tests/support/environment_variable.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

namespace culprit::test {

using namespace culprit::report;

// A process of the fake /proc tree.
struct FakeProcess {
  std::uint32_t pid = 0;
  std::string name = "app";
  char state = 'S';
  std::uint32_t parent = 1;
  std::uint32_t group = 0;           // 0: its own
  std::vector<std::string> files;    // link targets of its descriptors
  std::vector<std::string> maps;     // lines of /proc/PID/maps
  std::vector<std::string> command;  // empty: its name
  std::string cgroup = "0::/user.slice\n";
  std::uint64_t start_ticks = 100;
  unsigned long flags = 0;
  std::uint32_t own_number = 0;  // in a PID namespace of its own; 0: it has none
};

inline FakeProcess cuda_process(std::uint32_t pid, const std::string& name, unsigned gpu = 0) {
  FakeProcess process;
  process.pid = pid;
  process.name = name;
  process.files = {"/dev/null", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia" + std::to_string(gpu)};
  return process;
}

inline bool any_has(const std::vector<std::string>& lines, const std::string& part) {
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) { return contains(line, part); });
}

// Drops root's right to read everything, for as long as it lives.
class AsNobody {
 public:
  AsNobody() : root_(::geteuid() == 0) {
    constexpr uid_t kNobody = 65534;
    if (root_ && ::seteuid(kNobody) != 0) std::abort();
  }
  ~AsNobody() {
    if (root_ && ::seteuid(0) != 0) std::abort();
  }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;

 private:
  const bool root_;
};

class FakeMachine {
 public:
  FakeMachine() {
    std::filesystem::create_directories(proc() + "/99/ns");
    std::filesystem::create_symlink("pid:[4026531836]", proc() + "/99/ns/pid");
    std::filesystem::create_symlink("99", proc() + "/self");
    write(proc() + "/uptime", "10000.00 1.00\n");
    FakeProcess init;
    init.pid = 1;
    init.name = "systemd";
    init.parent = 0;
    add(init);
    ::chmod(folder_.path().c_str(), 0755);
  }

  std::string proc() const { return folder_.file("proc"); }
  std::string path() const { return folder_.path(); }
  std::string nvml_file() const { return folder_.file("nvml"); }
  std::string kernel_log() const { return folder_.file("kmsg"); }

  // Records of /dev/kmsg.
  void set_kernel_log(const std::string& text) const { write(kernel_log(), text); }
  // The lines of fake_nvml.cpp.
  void set_nvml(const std::string& text) const { write(nvml_file(), text); }

  void add(const FakeProcess& process) const {
    const std::string folder = proc() + "/" + std::to_string(process.pid);
    write(folder + "/stat", stat_line(process.pid, process));
    std::string numbers = std::to_string(process.pid);
    if (process.own_number != 0) numbers += "\t" + std::to_string(process.own_number);
    write(folder + "/status", "Name:\t" + process.name + "\nUid:\t0\t0\t0\t0\nNSpid:\t" + numbers + "\n");
    write(folder + "/cgroup", process.cgroup);
    std::string command;
    for (const std::string& word : process.command) command += word + '\0';
    write(folder + "/cmdline", command.empty() ? process.name + '\0' : command);
    std::string maps;
    for (const std::string& line : process.maps) maps += line + "\n";
    write(folder + "/maps", maps);
    std::filesystem::create_directories(folder + "/fd");
    int number = 0;
    for (const std::string& file : process.files)
      std::filesystem::create_symlink(file, folder + "/fd/" + std::to_string(number++));
  }
  // Adds a thread other than the main one.
  void add_thread(std::uint32_t pid, std::uint32_t tid, char state, const std::vector<std::string>& files) const {
    FakeProcess thread;
    thread.state = state;
    const std::string folder = proc() + "/" + std::to_string(pid) + "/task/" + std::to_string(tid);
    write(folder + "/stat", stat_line(tid, thread));
    std::filesystem::create_directories(folder + "/fd");
    int number = 0;
    for (const std::string& file : files)
      std::filesystem::create_symlink(file, folder + "/fd/" + std::to_string(number++));
  }
  void write_in(std::uint32_t pid, const std::string& name, const std::string& text) const {
    write(proc() + "/" + std::to_string(pid) + "/" + name, text);
  }
  void remove(std::uint32_t pid) const { std::filesystem::remove_all(proc() + "/" + std::to_string(pid)); }
  void forbid(std::uint32_t pid, const std::string& name) const {
    ::chmod((proc() + "/" + std::to_string(pid) + "/" + name).c_str(), 0);
  }
  // culprit runs in a container that has a PID namespace of its own.
  void enter_namespace() const {
    std::filesystem::remove(proc() + "/99/ns/pid");
    std::filesystem::create_symlink("pid:[4026532345]", proc() + "/99/ns/pid");
  }

  static void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }

  NvmlFacts nvml() const {
    const EnvironmentVariable file("CULPRIT_FAKE_NVML", nvml_file());
    return read_nvml(CULPRIT_FAKE_NVML_LIBRARY);
  }
  // `as_nobody`: /proc is read without root's rights.
  Diagnosis diagnose(bool as_nobody = false) const {
    const NvmlFacts facts = nvml();
    std::set<std::uint32_t> named;
    for (const GpuFacts& gpu : facts.gpus) {
      for (const GpuProcess& process : gpu.processes) named.insert(process.pid);
    }
    std::optional<AsNobody> without_rights;
    if (as_nobody) without_rights.emplace();
    const ProcFacts processes = read_proc(proc(), named);
    SystemFacts machine;
    machine.name = "node7";
    machine.driver = read_driver_module(proc());
    if (std::filesystem::exists(kernel_log())) machine.log = read_kernel_log(kernel_log());
    machine.mps_pipes = mps_pipes;
    return explain(facts, processes, look_inside(processes, users_of(facts, processes)), machine);
  }
  std::string mps_pipes;

 private:
  static std::string stat_line(std::uint32_t pid, const FakeProcess& process) {
    const std::uint32_t group = process.group != 0 ? process.group : pid;
    std::string line = std::to_string(pid) + " (" + process.name + ") " + process.state + " " +
                       std::to_string(process.parent) + " " + std::to_string(group) + " " + std::to_string(group) +
                       " 0 -1 " + std::to_string(process.flags);
    for (int field = 10; field < 22; ++field) line += " 0";
    return line + " " + std::to_string(process.start_ticks) + " 0 0\n";
  }

  TemporaryFolder folder_;
};

}  // namespace culprit::test
