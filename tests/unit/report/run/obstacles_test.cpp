// Why nothing would be recorded of a program: `culprit why`.
#include "report/run/obstacles.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"
#include "tests/unit/report/shell.h"

using namespace culprit::report;
using namespace culprit::test;

namespace {

const Starter kMe = {::geteuid(), ::getegid()};

std::string program(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
  const std::string path = folder.file(name);
  std::ofstream(path) << text;
  REQUIRE(::chmod(path.c_str(), 0755) == 0);
  return path;
}

// The facts, one after the other; "" when nothing stands against it.
std::string facts(const std::vector<std::string>& command, const Starter& starter = kMe) {
  std::string text;
  for (const Obstacle& obstacle : examine_program(command, starter).obstacles) text += obstacle.fact + "\n";
  return text;
}

}  // namespace

TEST_CASE("an ordinary program has no obstacle", "[report][why]") {
  const Examination shell = examine_program({"sh", "-c", "true"}, kMe);
  CHECK(shell.obstacles.empty());
  CHECK(shell.start_errno == 0);
  REQUIRE(shell.files.size() == 1);
  CHECK(has(shell.files[0], "/sh"));
}

TEST_CASE("a program that cannot be started is no riddle", "[report][why]") {
  TemporaryFolder folder;
  CHECK(examine_program({"no-such-program"}, kMe).start_errno == ENOENT);
  CHECK(examine_program({folder.file("none")}, kMe).start_errno == ENOENT);
  CHECK(examine_program({folder.path().string()}, kMe).start_errno == EACCES);
  std::ofstream(folder.file("data")) << "x";
  CHECK(examine_program({folder.file("data")}, kMe).start_errno == EACCES);
}

TEST_CASE("programs without glibc's loader are named", "[report][why]") {
  TemporaryFolder folder;
  std::string elf = file_text("/proc/self/exe").substr(0, 4096);
  const std::size_t at = elf.find("/ld-linux");
  REQUIRE(at != std::string::npos);
  CHECK(facts({program(folder, "own", elf)}).empty());

  std::string musl = elf;
  musl.replace(at, 9, "/ld-musl-");
  CHECK(has(facts({program(folder, "musl", musl)}), "musl runs on musl: libculprit.so needs glibc"));
  std::string none = elf;
  none[56] = none[57] = 0;  // e_phnum: no program header, so no PT_INTERP
  CHECK(has(facts({program(folder, "static", none)}), "static is a static program: it runs without the loader"));
  std::string small = elf;
  small[4] = 1;  // ELFCLASS32
  CHECK(has(facts({program(folder, "small", small)}), "small is a program for another processor, or of 32 bits"));
  CHECK(has(facts({program(folder, "cut", elf.substr(0, 20))}), "another processor"));
  CHECK(facts({program(folder, "text", "just words\n")}).empty());
}

TEST_CASE("rights of a program's file make the loader ignore LD_PRELOAD", "[report][why]") {
  TemporaryFolder folder;
  struct statvfs mount = {};
  REQUIRE(::statvfs(folder.path().c_str(), &mount) == 0);
  if ((mount.f_flag & ST_NOSUID) != 0) {
    WARN("the folder for temporary files is mounted nosuid");
    return;
  }
  const std::string path = program(folder, "app", file_text("/proc/self/exe").substr(0, 4096));
  const Starter other = {kMe.user + 1, kMe.group + 1};
  CHECK(facts({path}, other).empty());
  REQUIRE(::chmod(path.c_str(), 04755) == 0);
  CHECK(has(facts({path}, other), "app is setuid: the loader ignores LD_PRELOAD"));
  CHECK(facts({path}).empty());  // the owner gets no new rights
  REQUIRE(::chmod(path.c_str(), 02755) == 0);
  CHECK(has(facts({path}, other), "app is setgid: the loader ignores LD_PRELOAD"));
  REQUIRE(::chmod(path.c_str(), 02745) == 0);  // without the right of the group it means something else
  CHECK(facts({path}, other).empty());
}

TEST_CASE("file capabilities make the loader ignore LD_PRELOAD", "[report][why]") {
  TemporaryFolder folder;
  const std::string path = program(folder, "app", file_text("/proc/self/exe").substr(0, 4096));
  // struct vfs_cap_data: revision 2, CAP_SYS_NICE (23) permitted.
  const std::uint32_t capability[] = {0x02000000, 1U << 23, 0, 0, 0};
  struct statvfs mount = {};
  REQUIRE(::statvfs(path.c_str(), &mount) == 0);
  if ((mount.f_flag & ST_NOSUID) != 0 ||
      ::setxattr(path.c_str(), "security.capability", capability, sizeof(capability), 0) != 0) {
    WARN("this user, or this file system, gives a file no capabilities");
    return;
  }
  CHECK(has(facts({path}, {1000, 1000}), "app has file capabilities (setcap): the loader ignores LD_PRELOAD"));
  CHECK(facts({path}, {0, 0}).empty());  // root gets no new rights
}

TEST_CASE("commands and scripts are followed to the program that they start", "[report][why]") {
  TemporaryFolder folder;
  std::string elf = file_text("/proc/self/exe").substr(0, 4096);
  elf[56] = elf[57] = 0;
  const std::string app = program(folder, "app", elf);
  const std::string fact = app + " is a static program";
  CHECK(has(facts({"env", "A=b", "nice", "-n", "5", app, "x"}), fact));
  CHECK(has(facts({program(folder, "start", "#!" + app + " -x\n")}), fact));
  CHECK(has(facts({program(folder, "by_env", "#!/usr/bin/env -S " + app + "\n")}), fact));
  CHECK(facts({"env", "--version"}).empty());
  // A script that is its own interpreter.
  const std::string endless = folder.file("endless");
  CHECK(facts({program(folder, "endless", "#!" + endless + "\n")}).empty());

  CHECK(has(facts({"env", "-i", app}), "env -i removes LD_PRELOAD"));
  CHECK(has(facts({"env", "-u", "LD_PRELOAD", app}), "env -u removes LD_PRELOAD"));
  CHECK(has(facts({"env", "LD_PRELOAD=/x.so", app}), "env sets another LD_PRELOAD"));
}

TEST_CASE("commands that start a program elsewhere are named", "[report][why]") {
  TemporaryFolder folder;
  const std::pair<const char*, const char*> rows[] = {{"sudo", "sudo removes LD_PRELOAD"},
                                                      {"docker", "docker lets a service start the program"},
                                                      {"apptainer", "apptainer starts the program in a container"},
                                                      {"flatpak", "flatpak starts the program in a sandbox"},
                                                      {"ssh", "ssh starts the program on another machine"},
                                                      {"sbatch", "sbatch hands a script to a queue"},
                                                      {"systemd-run", "systemd-run lets a service start"},
                                                      {"nsenter", "nsenter may start the program where other files"}};
  for (const auto& [name, fact] : rows) {
    INFO(name);
    const Examination found = examine_program({program(folder, name, "x"), "app"}, kMe);
    REQUIRE(found.obstacles.size() == 1);
    CHECK(has(found.obstacles[0].fact, fact));
    CHECK_FALSE(found.obstacles[0].advice.empty());
  }
  // A snap's program is a link to snap.
  program(folder, "snap", "x");
  std::filesystem::create_symlink(folder.file("snap"), folder.file("player"));
  CHECK(has(facts({folder.file("player")}), "player is a program of snap"));
}

TEST_CASE("a library on a file system without the right to execute is an obstacle", "[report][why]") {
  struct statvfs mount = {};
  REQUIRE(::statvfs("/proc", &mount) == 0);
  CHECK(examine_library("/proc/version").size() == ((mount.f_flag & ST_NOEXEC) != 0 ? 1U : 0U));
  CHECK(examine_library("/proc/self/exe").empty());
}

TEST_CASE("culprit run names the obstacle when it has seen no CUDA call", "[report][why]") {
  TemporaryFolder folder;
  const std::string sudo = program(folder, "sudo", "#!/bin/sh\n");
  const std::string run = "CULPRIT_LIBRARY=/lib/x86_64-linux-gnu/libm.so.6 CULPRIT run -- ";
  const Finished named = shell(run + sudo + " app");
  CHECK(has(named.err,
            "no CUDA call was seen: sudo removes LD_PRELOAD from the environment of the program (culprit why "));
  CHECK(has(shell(run + "true").err, "no CUDA call was seen: the program made none, or nothing could be preloaded"));
}

TEST_CASE("culprit why says it with an exit code", "[report][why]") {
  TemporaryFolder folder;
  const std::string any = "CULPRIT_LIBRARY=/dev/null ";
  const Finished fine = shell(any + "CULPRIT why -- sh -c true");
  CHECK(fine.exit_code == 0);
  CHECK(has(fine.out, "culprit why · sh -c true\nnothing stands against recording it\n   looked at  "));
  CHECK(has(fine.out, "\n   next       culprit run --require-cuda -- sh -c true\n"));
  const Finished bad = shell(any + "CULPRIT why " + program(folder, "sudo", "x") + " app");
  CHECK(bad.exit_code == 1);
  CHECK(has(bad.out, "\nNOT RECORDED: sudo removes LD_PRELOAD"));
  CHECK(has(bad.out, "\n   instead    begin with it: sudo culprit run -- ./app\n"));
  CHECK(shell(any + "CULPRIT why /no/such/program").exit_code == 127);
  CHECK(shell(any + "CULPRIT why " + folder.path().string()).exit_code == 126);
  CHECK(shell(any + "CULPRIT why").exit_code == 2);
  CHECK(shell("CULPRIT_LIBRARY=/no/such/library.so CULPRIT why -- true").exit_code == 3);

  const Finished process = shell("sleep 60 & CULPRIT why $!; echo $?; kill $!");
  CHECK(has(process.out, "NOT RECORDED: process "));
  CHECK(has(process.out, "does not run under culprit: libculprit.so is not in it\n   instead    culprit attach "));
  CHECK(has(process.out, "\n1\n"));
  CHECK(shell("CULPRIT why 4000000").exit_code == 3);
}
