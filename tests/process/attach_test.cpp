// `culprit attach` and `culprit detach`: the recorded events, and that the process is afterwards in its original state.
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "tests/catch.h"
#include "tests/process/attached.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

namespace fs = std::filesystem;

fs::path python_runtime() { return (culprit_path().parent_path() / "../simcuda/libcudart.so.13").lexically_normal(); }

// With three leaks in the middle of the last round.
void attach_again_and_again(pid_t pid, const std::string& dump, int rounds) {
  if (on_gpu()) rounds = 10;  // NVIDIA's libraries take longer to search
  for (int i = 0; i < rounds; ++i) {
    INFO("round " << i);
    attach_and_detach(pid, dump, [&] {
      if (i == rounds - 1) tell(pid, 3);
    });
    if (i == 0 || i == rounds - 1) check_runs_alone(pid);
    if (i != rounds - 1) fs::remove(dump);
  }
}

}  // namespace

TEST_CASE("the exit of an attached program is seen, by quick_exit too", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  for (const char* how : {"return", "quick_exit"}) {
    INFO(how);
    const std::string dump = folder.file(how);
    check_fine(run_alone("attach_target", {how}, [&](pid_t pid) {
      const Finished attached = run_culprit({"attach", std::to_string(pid), "--out", dump, "--timeout", "60s"});
      INFO(attached.err);
      CHECK(attached.exit_code == 0);
    }));
    CHECK(read_report(dump).json.at("process").at("ended") == "exit");
  }
}

TEST_CASE("only allocations between attach and detach are recorded", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const std::string dump = folder.path() / "x.dump";
  const Run run = run_alone("attach_target", {}, [&](pid_t pid) {
    tell(pid, 2);
    const Finished attached = run_culprit({"attach", std::to_string(pid), "--out", dump, "--timeout", "60s"});
    INFO(attached.err);
    CHECK(attached.exit_code == 0);
    CHECK(has(attached.err, "culprit detach " + std::to_string(pid)));
    tell(pid, "xxxkdetq");
    CHECK(read_report(dump).json.at("process").at("ended") == "running");
    const Finished detached = run_culprit({"detach", std::to_string(pid), "--timeout", "60s"});
    INFO(detached.err);
    CHECK(detached.exit_code == 0);
    tell(pid, "xetqx");
    check_runs_alone(pid);
  });
  check_fine(run);
  const Report report = read_report(dump);
  const std::vector<Group> leaks = report.through("leak_after");
  REQUIRE(leaks.size() == 1);
  CHECK(leaks[0].count == 3);
  CHECK(leaks[0].bytes == 60003);
  CHECK(leaks[0].api == "cudaMalloc");
  CHECK(report.through("leak_before").empty());
  // Freeing memory from before the attach is not an error, whether the driver accepts it or refuses.
  CHECK(report.error_count() == 0);
  CHECK(report.json.at("summary").at("unknown_frees") >= 1);
  CHECK(report.json.at("summary").at("unknown_refusals") == 1);
  CHECK(report.json.at("summary").at("dropped") == 0);
  const nlohmann::json& span = report.json.at("recording").at("spans").at(0);
  CHECK(span.at("read") == "begin");
  CHECK(span.at("used_bytes") >= 11001 + 12001 + 2 * 20001);
  const auto only = [&](const std::string& function) {
    const std::vector<Group> groups = report.through(function);
    INFO(function);
    REQUIRE(groups.size() == 1);
    CHECK(groups[0].count == 1);
    return groups[0];
  };
  const Group lost = only("leak_by_exception");
  CHECK(lost.cause == "exception");
  CHECK(has(lost.json.dump(), "the residual is NaN"));
  CHECK(has(lost.json.dump(), "\"caught\""));
  CHECK(has(only("leak_in_thread").json.at("threads").dump(), "\"ended\":true"));
  CHECK(has(only("leak_and_exit_thread").json.at("evidence").dump(), "\"forced\":true"));
  CHECK(report.json.at("process").at("attached") == "redirect");
  CHECK(report.json.at("process").at("detached") == true);
}

// Any thread may be borrowed for the reading, also one that has never called CUDA.
TEST_CASE("the memory in use at an attach is read in a thread without a context, too", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const std::string dump = folder.path() / "x.dump";
  const Run run = run_alone("attach_target", {"apart"}, [&](pid_t pid) {
    const Finished attached = run_culprit({"attach", std::to_string(pid), "--out", dump, "--timeout", "60s"});
    INFO(attached.err);
    CHECK(attached.exit_code == 0);
    tell(pid, "t");
  });
  check_fine(run);
  const nlohmann::json span = read_report(dump).json.at("recording").at("spans").at(0);
  CHECK(span.at("read") == "begin");
  CHECK(span.at("used_bytes") >= 12001 + 13001);
}

TEST_CASE("attach to and detach from a C++ program 200 times", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const std::string dump = folder.path() / "x.dump";
  std::size_t mappings = 0;
  std::size_t descriptors = 0;
  const auto count = [](const fs::path& path) {
    const fs::directory_iterator entries(path);
    return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
  };
  const Run run = run_alone("attach_target", {}, [&](pid_t pid) {
    const fs::path proc = "/proc/" + std::to_string(pid);
    descriptors = count(proc / "fd");
    attach_again_and_again(pid, dump, 200);
    // Far fewer than one per round: the program may open some of its own.
    CHECK(count(proc / "fd") < descriptors + 20);
    const std::string maps = file_text(proc / "maps");
    mappings = static_cast<std::size_t>(std::count(maps.begin(), maps.end(), '\n'));
  });
  check_fine(run);
  if (!on_gpu()) CHECK(mappings < 250);  // a mapping left by each attach would show
  const std::vector<Group> leaks = read_report(dump).through("leak_after");
  REQUIRE(leaks.size() == 1);
  CHECK(leaks[0].count == 3);
}

TEST_CASE("a thread that is past its end may be the one that attaches and detaches", "[attach]") {
  const TemporaryFolder folder;
  const Run run =
      run_alone("attach_at_end", {library_path().string(), (folder.path() / "x.dump").string()}, [](pid_t) {});
  INFO("stderr: " << run.err);
  CHECK_FALSE(run.timed_out);
  CHECK(run.exit_code == 0);
  CHECK(run.out == "ready\ndone\n");
}

TEST_CASE("attach to and detach from a Python program 50 times", "[attach]") {
  if (!may_trace()) return;
  if (on_gpu()) {
    WARN("skipped: loads the simulated runtime; tests/gpu/attach.py is its counterpart");
    return;
  }
  const TemporaryFolder folder;
  const std::string dump = folder.path() / "x.dump";
  const Run run =
      run_alone("/usr/bin/env", {"python3", subject_path("attach_target.py").string(), python_runtime().string()},
                [&](pid_t pid) { attach_again_and_again(pid, dump, 50); });
  check_fine(run);
  std::uint64_t leaked = 0;
  for (const Group& group : read_report(dump).leaks) {
    if (group.bytes == 3 * 20001) leaked += group.count;
  }
  CHECK(leaked == 3);
}

TEST_CASE("a Python program that culprit attached to has its Python lines in the stacks", "[attach]") {
  if (!may_trace()) return;
  if (on_gpu()) {
    WARN("skipped: loads the simulated runtime; tests/gpu/attach.py is its counterpart");
    return;
  }
  const TemporaryFolder folder;
  const std::string dump = folder.file("x.dump");
  const std::string script = subject_path("attach_target.py").string();
  const Run run = run_alone("/usr/bin/env", {"python3", script, python_runtime().string()}, [&](pid_t pid) {
    const Finished attached = run_culprit({"attach", std::to_string(pid), "--out", dump, "--timeout", "60s"});
    INFO(attached.err);
    CHECK(attached.exit_code == 0);
    tell(pid, 3);
  });
  check_fine(run);
  const std::vector<Group> leaks = read_report(dump).through("leak_after");
  REQUIRE(leaks.size() == 1);
  CHECK(leaks[0].count == 3);
  std::string lines;
  for (const nlohmann::json& frame : leaks[0].json.at("stack")) {
    if (frame.at("language") == "python" && frame.at("file") == script)
      lines += frame.at("function").get<std::string>() + ":" + frame.at("line").dump() + " ";
  }
  CHECK(lines == "allocate:13 leak_after:20 <module>:40 ");
}

TEST_CASE("a signal to culprit in the middle of attaching leaves the process as it was", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const Run run = run_alone("attach_target", {}, [&](pid_t pid) {
    const std::string number = std::to_string(pid);
    for (int i = 0; i < 24; ++i) {
      const pid_t attacher = start_culprit({"attach", number, "--out", (folder.path() / "x.%p.dump").string()});
      usleep(static_cast<useconds_t>(i) * 1500);
      constexpr int kSignals[] = {SIGTERM, SIGINT, SIGHUP};
      kill(attacher, kSignals[i % 3]);
      waitpid(attacher, nullptr, 0);
      check_runs_alone(pid);
      run_culprit({"detach", number});  // when it came too late
    }
  });
  check_fine(run);
}

TEST_CASE("culprit killed after any of its steps leaves the process as it was", "[attach]") {
  if (!may_trace()) return;
  const int stride = on_gpu() ? 7 : 1;  // NVIDIA's libraries take longer to search
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{{"computing"}, {}}) {
    const TemporaryFolder folder;
    int kills = 0;
    int last_step = 1;
    const Run run = run_alone("attach_target", arguments, [&](pid_t pid) {
      const std::string number = std::to_string(pid);
      const std::string dump = folder.path() / "x.dump";
      if (arguments.empty()) {  // the library is there already
        CHECK(run_culprit({"attach", number, "--out", (folder.path() / "first.dump").string()}).exit_code == 0);
        CHECK(run_culprit({"detach", number}).exit_code == 0);
      }
      for (int tries = 0; tries < 400; ++tries) {
        const Finished attached =
            run_culprit({"attach", number, "--out", dump},
                        {{"LD_PRELOAD", subject_path("die_at_ptrace.so")}, {"DIE_AT", std::to_string(last_step)}});
        INFO("to be killed after step " << last_step << ": " << attached.err);
        check_runs_alone(pid);
        if (attached.exit_code == 0) break;
        if (contains(attached.err, "was killed")) {
          ++kills;
          last_step += stride;
        } else {
          // The thread that was abandoned at the last kill has finished the call.
          REQUIRE(has(attached.err, "is attached already"));
          run_culprit({"detach", number});
        }
      }
      CHECK(run_culprit({"detach", number}).exit_code == 0);
      CHECK(kills * stride > 15);
    });
    check_fine(run);
  }
}

TEST_CASE("slots that the loader fills and constants are replaced and put back", "[attach]") {
  if (!may_trace()) return;
  const std::vector<std::vector<std::string>> subjects = {
      {"attach_linked_lazy"}, {"attach_linked_now"}, {"attach_linked_now", "sealed"}};
  for (const std::vector<std::string>& words : subjects) {
    INFO(words.front() << " " << words.size());
    const TemporaryFolder folder;
    const std::string dump = folder.path() / "x.dump";
    const Run run = run_alone(words.front(), {words.begin() + 1, words.end()}, [&](pid_t pid) {
      CHECK(run_culprit({"attach", std::to_string(pid), "--out", dump}).exit_code == 0);
      tell(pid, 3);
      CHECK(run_culprit({"detach", std::to_string(pid)}).exit_code == 0);
    });
    check_fine(run);
    const Report report = read_report(dump);
    for (const char* function : {"leak_linked", "leak_constant", "leak_on_stack"}) {
      INFO(function);
      const std::vector<Group> leaks = report.through(function);
      REQUIRE(leaks.size() == 1);
      CHECK(leaks[0].count == 1);
    }
    CHECK(report.leaked_count() == 3);
  }
}

TEST_CASE("children of an attached process run as before and are not recorded", "[attach]") {
  if (!may_trace()) return;
  if (on_gpu()) {
    WARN("skipped: NVIDIA's driver does not work in a child of an initialized parent");
    return;
  }
  const TemporaryFolder folder;
  const Run run = run_alone("attach_fork", {}, [&](pid_t pid) {
    const std::string pattern = (folder.path() / "x.%p.dump").string();
    CHECK(run_culprit({"attach", std::to_string(pid), "--out", pattern, "--timeout", "60s"}).exit_code == 0);
    tell(pid, 5);
    CHECK(run_culprit({"detach", std::to_string(pid), "--timeout", "60s"}).exit_code == 0);
    tell(pid, 2);
  });
  check_fine(run);
  const fs::path dump = folder.path() / ("x." + std::to_string(run.pid) + ".dump");
  const fs::directory_iterator files(folder.path());
  CHECK(std::distance(begin(files), end(files)) == 1);
  const std::vector<Group> leaks = read_report(dump).through("leak_in_parent");
  REQUIRE(leaks.size() == 1);
  CHECK(leaks[0].count == 5);
}

// The process with this program's name below `pid`, or that one.
pid_t named_below(pid_t pid, const std::string& name) {
  const std::string folder = "/proc/" + std::to_string(pid);
  if (file_text(folder + "/comm") == name + "\n") return pid;
  std::istringstream children(file_text(folder + "/task/" + std::to_string(pid) + "/children"));
  for (pid_t child = 0; children >> child;) {
    const pid_t found = named_below(child, name);
    if (found != 0) return found;
  }
  return 0;
}

TEST_CASE("a process in a container is attached from outside", "[attach]") {
  if (!may_trace()) return;
  // The container has other files at the library's path.
  const TemporaryFolder folder;
  const std::string here = folder.path();
  fs::copy_file(library_path(), folder.path() / "libculprit.so");
  const auto in_container = [&](const std::string& command) {
    const std::string all = "mount -t tmpfs none " + here + " && " + command;
    return std::vector<std::string>{"unshare", "--mount", "--pid", "--fork", "/bin/sh", "-c", all};
  };
  const std::string program = "exec " + subject_path("attach_target").string();
  RunOptions alone;
  alone.preload = false;
  const Run probe = run_preloaded("/usr/bin/env", in_container(program + " waiting"), alone);
  if (probe.exit_code != 0) {
    WARN("skipped: the program does not run in a name space of its own here: " << probe.err);
    return;
  }
  const Run run = run_alone("/usr/bin/env", in_container(program), [&](pid_t above) {
    const pid_t pid = named_below(above, "attach_target");
    REQUIRE(pid != 0);
    const std::string number = std::to_string(pid);
    const std::map<std::string, std::string> library = {{"CULPRIT_LIBRARY", here + "/libculprit.so"}};
    const Finished relative = run_culprit({"attach", number, "--out", "relative.dump"}, library);
    CHECK(has(relative.err, "must be a path of its own"));
    const Finished attached = run_culprit({"attach", number, "--out", here + "/%p.dump"}, library);
    INFO(attached.err);
    REQUIRE(attached.exit_code == 0);
    // It has another pid inside.
    const std::string inside = status_of(pid, "NSpid").substr(number.size() + 1);
    const std::string dump = "/proc/" + number + "/root" + here + "/" + inside + ".dump";
    CHECK(has(attached.err, dump));
    tell(pid, 3);
    const Finished detached = run_culprit({"detach", number}, library);
    INFO(detached.err);
    CHECK(detached.exit_code == 0);
    const std::vector<Group> leaks = read_report(dump).through("leak_after");
    REQUIRE(leaks.size() == 1);
    CHECK(leaks[0].count == 3);
    // The copy in the container is removed.
    CHECK(has(file_text("/proc/" + number + "/maps"), "/libculprit.so (deleted)"));
    check_runs_alone(pid);
  });
  check_fine(run);
}

TEST_CASE("attach names the users that may trace a process", "[attach]") {
  if (!may_trace() || getuid() != 0) return;
  constexpr uid_t kNobody = 65534;
  const auto refused = [](pid_t pid, const std::function<void()>& before, const std::string& because) {
    ProgramOptions options;
    options.environment = {{"LD_PRELOAD", ""}, {"CULPRIT_LIBRARY", library_path().string()}};
    options.before_exec = before;
    const Finished finished = run_program({culprit_path().string(), "attach", std::to_string(pid)}, options);
    if (finished.exit_code == 127) return;  // the tests are in a folder that the user may not read
    INFO(finished.err);
    CHECK(finished.exit_code == 3);
    CHECK(has(finished.err, because));
    check_runs_alone(pid);
  };
  const auto become_nobody = [] {
    if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(126);
  };
  const Run of_root = run_alone("attach_fork", {}, [&](pid_t pid) {
    refused(pid, become_nobody, "belongs to root: run culprit as that user, or as root");
    refused(
        pid, [] { prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE); }, "it needs the capability SYS_PTRACE");
    refused(
        pid,
        [] {
          sock_filter code[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                                {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_ptrace},
                                {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
                                {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
          const sock_fprog filter = {4, code};
          prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
        },
        "a seccomp filter around culprit forbids it");
  });
  check_fine(of_root);
  RunOptions options;
  options.preload = false;
  options.before_exec = become_nobody;
  options.when_ready = [&](pid_t pid) { refused(pid, become_nobody, "it has made itself undumpable"); };
  const Run undumpable = run_preloaded("attach_target", {"undumpable"}, options);
  if (undumpable.exit_code != 127) check_fine(undumpable);
}

TEST_CASE("attach gives up where nothing can be loaded", "[attach]") {
  if (!may_trace()) return;
  const std::string library = subject_path("attach_slow_library.so").string();
  const Run alone = run_alone("attach_blocked", {"alone", library}, [&](pid_t pid) {
    const Finished attached = run_culprit({"attach", std::to_string(pid), "--timeout", "300ms"});
    CHECK(attached.exit_code == 3);
    CHECK(has(attached.err, "came to a point where a call can be injected"));
    check_runs_alone(pid);
  });
  check_fine(alone);
  const Run other = run_alone("attach_blocked", {"other", library}, [&](pid_t pid) {
    const Finished attached = run_culprit({"attach", std::to_string(pid), "--timeout", "300ms"});
    INFO(attached.err);
    CHECK(attached.exit_code == 3);
    CHECK(has(attached.err, "is loading a library"));
    check_runs_alone(pid);
  });
  check_fine(other);
  const Run parent = run_alone("attach_blocked", {"vfork", library}, [&](pid_t pid) {
    const Finished attached = run_culprit({"attach", std::to_string(pid), "--timeout", "300ms"});
    INFO(attached.err);
    CHECK(attached.exit_code == 3);
    CHECK(has(attached.err, "in vfork, which a stop would interrupt"));
    check_runs_alone(pid);
  });
  check_fine(parent);
}

TEST_CASE("a thread that waits in system calls goes on waiting", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const std::string dump = folder.path() / "x.dump";
  const Run run = run_alone("attach_target", {"waiting"}, [&](pid_t pid) {
    for (int i = 0; i < 10; ++i) {
      attach_and_detach(pid, dump);
      fs::remove(dump);
    }
    check_runs_alone(pid);
  });
  check_fine(run);
}

TEST_CASE("the dump of an attached process is whole however that ends", "[attach]") {
  if (!may_trace()) return;
  for (const bool killed : {false, true}) {
    INFO(killed);
    const TemporaryFolder folder;
    const std::string dump = folder.path() / "x.dump";
    const Run run = run_alone("attach_target", {}, [&](pid_t pid) {
      CHECK(run_culprit({"attach", std::to_string(pid), "--out", dump}).exit_code == 0);
      tell(pid, 3);
      if (killed) kill(pid, SIGKILL);
    });
    if (killed) CHECK(run.signal == SIGKILL);
    if (!killed) check_fine(run);
    const Report report = read_report(dump);
    CHECK(report.json.at("process").at("ended") == (killed ? "unknown" : "exit"));
    CHECK(report.json.at("process").at("detached") == false);
    const std::vector<Group> leaks = report.through("leak_after");
    REQUIRE(leaks.size() == 1);
    CHECK(leaks[0].count == 3);
  }
}

TEST_CASE("attach and detach say why they can do nothing", "[attach]") {
  if (!may_trace()) return;
  const auto refused = [](const std::vector<std::string>& words, const std::string& because) {
    const Finished finished = run_culprit(words);
    INFO(finished.err);
    CHECK(finished.exit_code == (because.find("usage") == 0 ? 2 : 3));
    CHECK(finished.out.empty());
    if (finished.exit_code == 3) CHECK(has(finished.err, because));
  };
  refused({"attach"}, "usage");
  refused({"attach", "x"}, "usage");
  refused({"attach", "1", "--for", "1y"}, "usage");
  refused({"attach", "4194304"}, "there is no process");
  const Run run = run_alone("attach_fork", {}, [&](pid_t pid) {
    const std::string number = std::to_string(pid);
    refused({"detach", number}, "is not attached");
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc/" + number + "/task")) {
      const std::string thread = entry.path().filename();
      if (thread != number) refused({"attach", thread}, "is a thread of process " + number);
    }
    refused({"attach", number, "--out", "/proc/nowhere/x.dump"}, "the dump cannot be created");
    if (!on_gpu()) {
      refused({"attach", number, "--backend", "cupti"}, "has no libcupti, and none was found: set CULPRIT_CUPTI");
      const Finished taken = run_culprit({"attach", number, "--backend", "cupti"},
                                         {{"CULPRIT_CUPTI", subject_path("fake_cupti.so").string()}});
      INFO(taken.err);
      CHECK(taken.exit_code == 3);
      CHECK(has(taken.err, "another tool holds CUPTI"));
    }
    kill(pid, SIGSTOP);
    for (int i = 0; i < 20000 && status_of(pid, "State")[0] != 'T'; ++i) usleep(1000);
    refused({"attach", number}, "is stopped");
    kill(pid, SIGCONT);
    for (int i = 0; i < 20000 && status_of(pid, "State")[0] == 'T'; ++i) usleep(1000);
    const long seized = ptrace(PTRACE_SEIZE, pid, nullptr, nullptr);
    REQUIRE(seized == 0);
    refused({"attach", number}, "is traced by");
    REQUIRE(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
    int status = 0;
    REQUIRE(waitpid(pid, &status, __WALL) == pid);
    REQUIRE(ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
    const TemporaryFolder folder;
    const std::string dump = folder.path() / "x.dump";
    REQUIRE(run_culprit({"attach", number, "--out", dump}).exit_code == 0);
    refused({"attach", number}, "is attached already");
    REQUIRE(run_culprit({"detach", number}).exit_code == 0);
    refused({"detach", number}, "is not attached");
  });
  check_fine(run);
  const Run fixed = run_alone("static_program", {}, [&](pid_t pid) {
    refused({"attach", std::to_string(pid)}, "is a static program");
  });
  check_fine(fixed);
  RunOptions preloaded;
  preloaded.when_ready = [&](pid_t pid) {
    refused({"attach", std::to_string(pid)}, "runs under libculprit.so from its start");
    refused({"detach", std::to_string(pid)}, "runs under libculprit.so from its start");
  };
  CHECK(run_preloaded("churn_live", {}, preloaded).exit_code == 0);
}

}  // namespace culprit::test
