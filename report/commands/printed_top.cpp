// Prints what processes hold now, away from a terminal or for as many looks as were asked for.
#include "report/commands/printed_top.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "report/base/clock.h"
#include "report/base/descriptor.h"
#include "report/base/environment.h"
#include "report/base/exit_codes.h"
#include "report/base/host_name.h"
#include "report/base/log.h"
#include "report/base/terminal.h"
#include "report/base/words.h"
#include "report/cuda/kinds.h"
#include "report/doctor/device_table.h"
#include "report/doctor/inside.h"
#include "report/doctor/nvml_question.h"
#include "report/findings/headline.h"
#include "report/judge/balances.h"
#include "report/judge/load_report.h"
#include "report/model/not_recorded.h"
#include "report/model/report.h"
#include "report/proc/proc_facts.h"
#include "report/proc/process_folder.h"
#include "report/proc/target_process.h"
#include "report/render/text/palette.h"
#include "report/render/text/render_balance.h"
#include "report/render/text/render_sharing.h"
#include "report/screen/live_model.h"
#include "report/screen/live_reader.h"
#include "report/screen/top_json.h"
#include "report/select/grouped_rows.h"
#include "report/symbols/shared_symbols.h"
#include "report/symbols/symbol_cache.h"
#include "report/symbols/symbolizer.h"

namespace culprit::report {
namespace {

std::string why_nothing_yet(const TargetProcess& process) {
  if (!process.waits_for_signal) return "it has made no CUDA call";
  if (process.ignores_signal) return "it ignores signal " + process.signal_name + ": " + other_signal_advice();
  return "recording begins with its next CUDA call after culprit start " + std::to_string(process.pid);
}

// The source of the dump, which is opened anew each time because it grows.
class Source {
 public:
  // Throws DumpError when the target is a process that has no dump.
  explicit Source(const std::string& target) : path_(target) {
    if (target.find_first_not_of("0123456789") != std::string::npos || target.size() > 9) return;
    process_ = find_target(kProc, static_cast<std::uint32_t>(std::stoul(target)));
    std::string& problem = process_->problem;
    if (process_->without_library) {
      problem += ": culprit attach " + target + " records its allocations from then on";
    } else if (!problem.empty() && process_->dump.empty() && problem.find(": name one of") == std::string::npos) {
      problem += "; of a process that has ended name the dump";
    } else if (process_->detached) {
      problem = "process " + target + " was detached, and records nothing: culprit attach " + target +
                " records again; of what it has recorded name the dump";
    } else if (problem.empty() && process_->dump.empty()) {
      problem = "process " + target + " has recorded nothing yet: " + why_nothing_yet(*process_);
    }
    if (!process_->problem.empty()) throw DumpError(DumpProblem::kCannotOpen, process_->problem);
  }

  // The process; empty: the target is a dump.
  std::optional<std::uint32_t> pid() const {
    return process_ ? std::optional<std::uint32_t>(process_->pid) : std::nullopt;
  }

  // The prefix of the process's files: in a container they are below its own root.
  std::string sysroot() const { return process_ ? ProcessFolder(kProc, process_->pid).living().root() : ""; }

  Report read(const LoadOptions& options) const {
    if (!process_) return load_report(path_, options);
    const Descriptor file(open_in_process(kProc, process_->pid, process_->dump));
    // The process has ended, but its dump may still be readable.
    if (!file.is_open() && ::access(process_->dump.c_str(), R_OK) == 0) return load_report(process_->dump, options);
    if (!file.is_open())
      throw DumpError(DumpProblem::kCannotOpen, "process " + std::to_string(process_->pid) +
                                                    " has ended, and its dump is gone: culprit run --keep keeps it");
    return load_report("/proc/self/fd/" + std::to_string(file.get()), options);
  }

 private:
  std::string path_;
  std::optional<TargetProcess> process_;
};

std::uint64_t age_of(const Report& report) {
  if (report.snapshot_ns != 0) return report.snapshot_ns;
  if (report.process.status.ended != Ended::kRunning) return report.process.end_time_ns;
  const std::uint64_t ns = realtime_ns();
  return ns > report.process.start_realtime_ns ? ns - report.process.start_realtime_ns : 0;
}

std::string change_text(std::uint64_t now, std::uint64_t before) {
  if (now == before) return "";
  return now > before ? "+" + format_bytes(now - before) : "-" + format_bytes(before - now);
}

// NVML's figures, and the dumps of all processes that record. A library that did not answer once is not asked again.
class Figures {
 public:
  // `pid`: empty when it is not known.
  explicit Figures(std::optional<std::uint32_t> pid) : pid_(pid) {}

  // At most once in a second, and for at most a twentieth of the time: a question takes the driver's locks, and dumps
  // may be large. `own`: the report of the process itself; nullptr: there is none.
  void read(const Report* own) {
    const auto begin = std::chrono::steady_clock::now();
    if (!users_.problem.empty() || begin < next_) return;
    users_ = ask_for_users(&question_);
    std::map<std::uint32_t, InsideByGpu> insides;
    const std::string proc = value_or("CULPRIT_PROC", kProc);
    for (const Recorder& recorder : users_.recorders) {
      insides[recorder.pid] = own != nullptr && recorder.pid == pid_ ? inside_of(*own, recorder.dump, users_)
                                                                     : looks_.look(proc, recorder, users_);
    }
    tables_ = tables_of(users_, insides);
    const auto end = std::chrono::steady_clock::now();
    next_ = end + std::max<std::chrono::steady_clock::duration>(std::chrono::seconds(1), (end - begin) * 20);
  }
  Charge of(const DeviceInfo& device) const {
    return pid_ ? charge_of(users_, device.uuid, *pid_) : Charge{std::nullopt, "name the process, not its dump"};
  }
  const std::vector<DeviceTable>& tables() const { return tables_; }
  const std::string& problem() const { return users_.problem; }

 private:
  const std::optional<std::uint32_t> pid_;
  NvmlQuestion question_;
  GpuUsers users_;
  RepeatedLook looks_;
  std::vector<DeviceTable> tables_;
  std::chrono::steady_clock::time_point next_;
};

// Prints the current state, and the changes since the last one.
class Top {
 public:
  explicit Top(const PrintedTop& command) : command_(command) {}

  std::string breakdown(const Report& report, const Figures& figures) {
    std::ostringstream out;
    std::string words;
    for (const std::string& word : report.process.command) words += (words.empty() ? "" : " ") + printable(word);
    out << "culprit top · " << cut_to_width(words, 100) << " [" << report.process.pid << "] · "
        << ended_name(report.process.status.ended) << ", " << format_time(age_of(report))
        << " after its first CUDA call"
        << (report.recording.off ? " · recording is off: new allocations are not seen until culprit start" : "")
        << "\n";
    for (const std::string& reason : reasons_not_known(report)) out << "NOT KNOWN: " << reason << "\n";
    std::string findings;
    for (const std::string& one : headline_findings(report))
      findings += (findings.empty() ? "" : " · ") + in_capitals(one);
    if (!findings.empty()) out << findings << "\n";
    for (const Total& total : report.summary.totals) {
      out << (total.device ? "GPU " + std::to_string(*total.device) : "host") << "   " << format_bytes(total.bytes)
          << " " << kind_name(total.kind) << " (" << total.count << "x)\n";
    }
    print_balances(report, figures, out);
    render_own_sharings(report, out);
    const std::vector<GroupedRow> rows = grouped_rows(report, command_.by, true);
    const bool again = drawn_;
    out << "\n"
        << padded_to_width("BYTES", 11) << padded_to_width(again ? "CHANGE" : "", again ? 12 : 0)
        << padded_to_width("COUNT", 9) << "WHERE\n";
    std::map<std::string, std::uint64_t> now;
    std::size_t shown = 0;
    HiddenTotal rest;
    for (const GroupedRow& row : rows) {
      now[row.key] += row.total.bytes;
      if (shown++ >= command_.rows) {
        rest.groups += 1;
        rest.bytes += row.total.bytes;
        continue;
      }
      out << padded_to_width(format_bytes(row.total.bytes), 11);
      if (again) out << padded_to_width(change_text(row.total.bytes, before_[row.key]), 12);
      out << padded_to_width(std::to_string(row.total.allocations) + "x", 9) << row.text << "\n";
    }
    if (rest.groups != 0) out << "and " << rest.groups << " more, " << format_bytes(rest.bytes) << ": --rows\n";
    if (rows.empty()) out << (is_complete(report) ? "(nothing is held)\n" : "(nothing that was recorded is held)\n");
    before_ = std::move(now);
    drawn_ = true;
    return out.str();
  }

 private:
  // Of now, while the process runs, and all processes of the GPUs that it uses.
  void print_balances(const Report& report, const Figures& figures, std::ostream& out) const {
    constexpr std::size_t kIndent = 8;
    for (const DeviceInfo& device : report.devices) {
      const Charge charge = figures.of(device);
      const std::optional<Balance> balance = balance_now(report, device.ordinal, charge.bytes);
      if (!balance) continue;
      const std::string gpu = padded_to_width("GPU " + std::to_string(device.ordinal), kIndent);
      render_balance_items(*balance, gpu, kIndent, out);
      out << (balance->items.empty() ? gpu : std::string(kIndent, ' ')) << charge_text(*balance, charge.problem)
          << "\n";
      if (const DeviceTable* const table = table_of(figures.tables(), device.uuid))
        render_table(*table, palette_, kIndent, out);
    }
  }

  const Palette palette_{wants_colours(STDOUT_FILENO)};
  const PrintedTop& command_;
  std::map<std::string, std::uint64_t> before_;
  bool drawn_ = false;
};

// 0: no limit.
unsigned looks_of(const PrintedTop& command, bool terminal) {
  return command.times != 0 ? command.times : terminal ? 0 : 1;
}

// A terminal shows the newest look alone.
void begin_look(bool terminal, unsigned look) {
  const std::string name = value_or("TERM", "dumb");
  if (terminal && name != "dumb") std::cout << "\x1b[H\x1b[J";
  if ((!terminal || name == "dumb") && look > 1) std::cout << "\n";
}

// All processes of each GPU. Returns kExitUnreadable when NVML cannot be used.
int run_top_of_machine(const PrintedTop& command) {
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  const unsigned times = looks_of(command, terminal);
  const Palette palette(wants_colours(STDOUT_FILENO));
  Figures figures(std::nullopt);
  for (unsigned look = 1;; ++look) {
    figures.read(nullptr);
    if (!figures.problem().empty()) {
      log::error("the processes of the GPUs are not known: " + figures.problem() + " (culprit doctor reads /proc)");
      return kExitUnreadable;
    }
    begin_look(terminal, look);
    std::cout << palette.title("culprit top") << " · " << printable(host_name()) << " · all processes of each GPU\n";
    for (const DeviceTable& table : figures.tables()) {
      std::cout << "\n";
      render_table(table, palette, 0, std::cout);
    }
    if (figures.tables().empty()) std::cout << "NVML shows no GPU here\n";
    std::cout << std::flush;
    if (look == times) return kExitFine;
    std::this_thread::sleep_for(std::chrono::duration<double>(command.interval));
  }
}

// A process, or a dump, that is read many times; only new addresses are looked up.
class PrintedTarget {
 public:
  PrintedTarget(const std::string& target, const PrintedTop& command)
      : source_(target),
        symbols_([this](std::vector<ModuleSymbols>& modules) { look_up_symbols(modules, symbol_options_); }),
        top_(command),
        figures_(source_.pid()) {
    symbol_options_.sysroot = source_.sysroot();
    symbol_options_.cache_folder = symbol_cache_folder();
    options_.lookup = [this](std::vector<ModuleSymbols>& modules) { symbols_.look_up(modules); };
    options_.judge.strict = true;  // all live memory, including caches and libraries
  }
  PrintedTarget(const PrintedTarget&) = delete;
  PrintedTarget& operator=(const PrintedTarget&) = delete;
  ~PrintedTarget() = default;

  bool is_over() const { return over_; }

  // Throws DumpError at the first look only. "": the process has ended, and its dump is gone.
  std::string look() {
    Report report;
    try {
      report = source_.read(options_);
    } catch (const DumpError& error) {
      if (!read_) throw;
      over_ = true;
      log::note(error.what());
      return "";
    }
    read_ = true;
    if (report.process.status.ended == Ended::kRunning) figures_.read(&report);
    over_ = report.process.status.ended != Ended::kRunning || report.snapshot_ns != 0;
    return top_.breakdown(report, figures_);
  }

 private:
  Source source_;
  SymbolOptions symbol_options_;
  SharedSymbols symbols_;
  LoadOptions options_;
  Top top_;
  Figures figures_;
  bool read_ = false;
  bool over_ = false;
};

int print_targets(const PrintedTop& command) try {
  std::vector<std::unique_ptr<PrintedTarget>> targets;
  targets.reserve(command.targets.size());
  for (const std::string& target : command.targets) targets.push_back(std::make_unique<PrintedTarget>(target, command));
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  const unsigned times = looks_of(command, terminal);
  for (unsigned look = 1;; ++look) {
    std::string text;
    bool over = true;
    for (const std::unique_ptr<PrintedTarget>& target : targets) {
      if (target->is_over()) continue;
      const std::string part = target->look();
      text += (text.empty() || part.empty() ? "" : "\n") + part;
      over = over && target->is_over();
    }
    if (!text.empty()) {
      begin_look(terminal, look);
      std::cout << text << std::flush;
    }
    if (look == times || over) return kExitFine;
    std::this_thread::sleep_for(std::chrono::duration<double>(command.interval));
  }
} catch (const DumpError& error) {
  log::error(error.what());
  return kExitUnreadable;
}

}  // namespace

int print_top(const PrintedTop& command) {
  return command.targets.empty() ? run_top_of_machine(command) : print_targets(command);
}

int print_top_json(const PrintedTop& command) try {
  LiveReader reader(command.targets);
  reader.check_targets();
  LiveModel model;
  LiveChoice choice;
  choice.by = command.by;
  for (unsigned look = 1;; ++look) {
    model.add(reader.look());
    render_top_json(model, choice, command.rows, host_name(), std::cout);
    std::cout << std::flush;
    if (look >= command.times) return kExitFine;
    std::this_thread::sleep_for(std::chrono::duration<double>(command.interval));
  }
} catch (const DumpError& error) {
  log::error(error.what());
  return kExitUnreadable;
}

}  // namespace culprit::report
