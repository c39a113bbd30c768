#include "report/doctor/render_doctor_text.h"

#include <cmath>
#include <cstdio>

#include "report/base/shell_words.h"
#include "report/base/words.h"
#include "report/doctor/diagnosis.h"
#include "report/render/text/palette.h"
#include "report/render/text/render_balance.h"

namespace culprit::report {
namespace {

constexpr std::size_t kWidth = 110;
constexpr std::size_t kIndent = 3;
constexpr std::size_t kTextColumn = 13;

std::string age_text(double seconds) {
  const auto whole = static_cast<unsigned long long>(seconds);
  char text[48];
  if (whole < 60) {
    std::snprintf(text, sizeof(text), "%llu s", whole);
  } else if (whole < 3600) {
    std::snprintf(text, sizeof(text), "%llu min", whole / 60);
  } else if (whole < 86400) {
    std::snprintf(text, sizeof(text), "%llu h %llu min", whole / 3600, whole / 60 % 60);
  } else {
    std::snprintf(text, sizeof(text), "%llu d %llu h", whole / 86400, whole / 3600 % 24);
  }
  return text;
}

const char* title_of(const Holder& holder) {
  switch (holder.kind) {
    case HolderKind::kProcess:
      return "process";
    case HolderKind::kGhost:
      return "GHOST";
    case HolderKind::kReusedPid:
      return "GHOST, NUMBER RE-USED";
    case HolderKind::kZombie:
      return "ZOMBIE";
    case HolderKind::kStuck:
      return "STUCK";
    case HolderKind::kHidden:
      return "NUMBER ONLY";
    case HolderKind::kFilesOnly:
      return "files open";
  }
  return "process";
}

std::string command_text(const ProcessFacts& process) {
  constexpr std::size_t kLongest = 90;
  std::string text;
  for (const std::string& word : process.command) text += (text.empty() ? "" : " ") + word;
  if (text.empty()) text = process.name;
  return cut_to_width(printable(text), kLongest, "...");
}

class Renderer {
 public:
  Renderer(const Diagnosis& diagnosis, bool colours, std::ostream& out)
      : diagnosis_(diagnosis), palette_(colours), out_(out) {}

  void render() {
    out_ << palette_.title("culprit doctor") << " · " << printable(diagnosis_.host);
    if (!diagnosis_.driver.empty()) out_ << " · driver " << printable(diagnosis_.driver);
    if (diagnosis_.open_modules) out_ << (*diagnosis_.open_modules ? ", open modules" : ", proprietary modules");
    if (!diagnosis_.cuda.empty()) out_ << " · CUDA " << printable(diagnosis_.cuda);
    if (diagnosis_.nvml) out_ << " · " << plural(diagnosis_.gpus.size(), "GPU", "GPUs");
    out_ << "\n";
    print_known_issues();
    for (const GpuDiagnosis& gpu : diagnosis_.gpus) print_gpu(gpu);
    if (!diagnosis_.xids.empty()) {
      out_ << "\n" << palette_.title("Xid errors of GPUs that are not shown") << "\n";
      for (const Xid& xid : diagnosis_.xids) print_xid(xid);
    }
    print_mps();
    if (!diagnosis_.holders.empty()) {
      out_ << "\n" << palette_.title("processes that have a GPU's files open") << "\n";
      for (const Holder& holder : diagnosis_.holders) print_holder(holder, nullptr);
    }
    if (!diagnosis_.unseen.empty()) {
      out_ << "\n" << palette_.warn("not seen") << "\n";
      for (const std::string& line : diagnosis_.unseen) wrapped(line, kIndent);
    }
  }

 private:
  // Prints `text` wrapped, on lines that begin with `indent` blanks.
  void wrapped(const std::string& text, std::size_t indent) {
    const std::string shown = printable(text);
    std::size_t column = 0;
    for (std::size_t begin = 0; begin < shown.size();) {
      const std::size_t end = std::min(shown.find(' ', begin), shown.size());
      const std::string word = shown.substr(begin, end - begin);
      const std::size_t columns = columns_of(word);
      const bool fits = column + 1 + columns <= kWidth;
      if (column == 0 || !fits) {
        out_ << (column == 0 ? "" : "\n") << std::string(indent, ' ');
        column = indent;
      } else {
        out_ << ' ';
        ++column;
      }
      out_ << word;
      column += columns;
      begin = end + 1;
    }
    out_ << "\n";
  }

  void print_known_issues() {
    if (diagnosis_.driver.empty()) return;
    if (diagnosis_.known_issues.empty()) {
      labelled("known", "no problem of this driver: none of the " + std::to_string(known_issues_in_table()) +
                            " in culprit's table is of " + diagnosis_.driver);
    }
    for (const KnownIssue& issue : diagnosis_.known_issues) {
      labelled("known", issue.problem + (issue.remedy.empty() ? "" : "; " + issue.remedy));
      out_ << std::string(kTextColumn, ' ') << palette_.faint(issue.source) << "\n";
    }
  }

  // "Xid 31, 3x, 12 min ago, process 4242 (python3): a GPU memory page fault; compute-sanitizer finds the access".
  void print_xid(const Xid& xid) {
    std::string text = std::to_string(xid.number);
    if (xid.count > 1) text += ", " + std::to_string(xid.count) + "x";
    const std::optional<double> age = age_of(xid, diagnosis_.uptime_seconds);
    if (age) text += (xid.count > 1 ? ", last " : ", ") + age_text(*age) + " ago";
    if (xid.pid)
      text += ", process " + std::to_string(*xid.pid) + (xid.process.empty() ? "" : " (" + xid.process + ")");
    text +=
        ": " + (xid.meaning.empty() ? xid.detail.empty() ? "see https://docs.nvidia.com/deploy/xid-errors/" : xid.detail
                                    : xid.meaning);
    if (!xid.advice.empty()) text += "; " + xid.advice;
    labelled("Xid", text);
  }

  void print_xids(const std::vector<Xid>& xids) {
    constexpr std::size_t kShown = 5;
    for (std::size_t i = 0; i < xids.size() && i < kShown; ++i) print_xid(xids[i]);
    if (xids.size() > kShown)
      labelled("", "and " + plural(xids.size() - kShown, "older one", "older ones") + ": --format json");
  }

  // The processes that must end before a reset; only where a reset is named as a way out.
  void print_reset(const GpuDiagnosis& one) {
    if (!advises_reset(one)) return;
    std::string text;
    const std::size_t count = one.reset.pids.size();
    if (count == 0) {
      text = one.reset.complete ? "would hit no process" : "would hit no process that can be seen from here";
    } else {
      text = "would hit " + plural(count, "process", "processes") + ": " + pids_text(one.reset.pids) +
             "; nvidia-smi refuses it while they run";
      if (!one.reset.complete) text += "; there may be more that cannot be seen from here";
    }
    labelled("reset", text);
  }

  // The first few; "" between numbers.
  static std::string pids_text(const std::vector<std::uint32_t>& pids) {
    constexpr std::size_t kShown = 12;
    std::string text;
    for (std::size_t i = 0; i < pids.size() && i < kShown; ++i) text += (i == 0 ? "" : ", ") + std::to_string(pids[i]);
    return pids.size() > kShown ? text + " and " + std::to_string(pids.size() - kShown) + " more" : text;
  }

  void print_mps() {
    if (diagnosis_.mps.empty() && diagnosis_.mps_clients.empty()) return;
    out_ << "\n" << palette_.title("MPS") << "  CUDA's Multi-Process Service: its clients share one server's context\n";
    for (const MpsDaemon& daemon : diagnosis_.mps) {
      std::string text = daemon.pid ? std::to_string(*daemon.pid) : "its process cannot be seen from here";
      if (!daemon.user.empty()) text += " · " + daemon.user;
      if (!daemon.pipes.empty()) text += " · " + daemon.pipes + (daemon.pipes_by_default ? " (the default)" : "");
      labelled("control", text);
      if (!daemon.servers.empty()) labelled("server", pids_text(daemon.servers));
    }
    labelled("clients", diagnosis_.mps_clients.empty() ? "none that NVML names" : pids_text(diagnosis_.mps_clients));
    for (const MpsDaemon& daemon : diagnosis_.mps) {
      const std::string pipes = daemon.pipes.empty() || daemon.pipes_by_default
                                    ? ""
                                    : "CUDA_MPS_PIPE_DIRECTORY=" + shell_word(daemon.pipes) + " ";
      for (const std::uint32_t server : daemon.servers)
        labelled("next", "echo get_client_list " + std::to_string(server) + " | " + pipes + "nvidia-cuda-mps-control");
    }
  }

  void print_gpu(const GpuDiagnosis& one) {
    const GpuFacts& gpu = one.gpu;
    out_ << "\n"
         << palette_.title("GPU " + std::to_string(gpu.index)) << "  " << printable(gpu.name) << "  "
         << palette_.faint(printable(gpu.uuid)) << "\n";
    std::string memory = "memory not reported";
    if (gpu.memory) {
      memory = palette_.title(format_bytes(gpu.memory->used()) + " used") + " of " + format_bytes(gpu.memory->total) +
               " · " + format_bytes(gpu.memory->free) + " free · " + format_bytes(gpu.memory->reserved) +
               " reserved by the driver";
    }
    out_ << std::string(kIndent, ' ') << memory << "\n";
    print_modes(gpu);
    for (const MigDevice& mig : gpu.mig_devices) print_mig(gpu, mig);
    for (const DeviceTable& table : one.tables) {
      if (table.rows.empty() && table.uncharged.value_or(0) == 0) continue;
      out_ << "\n";
      render_table(table, palette_, kIndent, out_);
    }
    for (const Holder& holder : one.holders) print_holder(holder, &gpu);
    const bool advised = advises_reset(one);
    if (!one.findings.empty() || !one.xids.empty() || !one.next.empty() || advised) out_ << "\n";
    for (const std::string& finding : one.findings) labelled("note", finding);
    print_xids(one.xids);
    print_reset(one);
    bool first = true;
    for (const std::string& command : one.next) {
      out_ << std::string(kIndent, ' ') << padded_to_width(first ? "next" : "", kTextColumn - kIndent)
           << palette_.title(printable(command)) << "\n";
      first = false;
    }
    for (const std::string& link : one.answers) labelled("why", link);
  }

  void print_modes(const GpuFacts& gpu) {
    std::string text = "compute mode " + std::string(compute_mode_name(gpu.compute_mode));
    if (gpu.persistence) text += std::string(" · persistence ") + (*gpu.persistence ? "on" : "off");
    if (gpu.ecc) text += std::string(" · ECC ") + (*gpu.ecc ? "on" : "off");
    if (gpu.retired_pages.value_or(0) != 0) text += " · " + plural(*gpu.retired_pages, "retired page", "retired pages");
    if (gpu.remapped_rows.value_or(0) != 0) text += " · " + plural(*gpu.remapped_rows, "remapped row", "remapped rows");
    if (gpu.mig) text += " · MIG";
    out_ << std::string(kIndent, ' ') << palette_.faint(text) << "\n";
  }

  void print_mig(const GpuFacts& gpu, const MigDevice& mig) {
    std::string text = "MIG " + std::to_string(mig.index);
    if (mig.gpu_instance) text += "  instance " + std::to_string(*mig.gpu_instance);
    text += "  " + printable(mig.name);
    if (mig.memory) text += "  " + format_bytes(mig.memory->used()) + " used of " + format_bytes(mig.memory->total);
    text += "  " + plural(use_of(gpu, mig).processes, "process", "processes");
    out_ << std::string(kIndent, ' ') << text << "  " << palette_.faint(printable(mig.uuid)) << "\n";
  }

  // "10.7 GiB  98%  GHOST  761".
  void print_holder(const Holder& holder, const GpuFacts* gpu) {
    std::string bytes = holder.bytes ? format_bytes(*holder.bytes) : holder.use ? "? B" : "";
    std::string line = padded_to_width(bytes, kTextColumn - kIndent);
    if (holder.bytes && gpu != nullptr && gpu->memory && gpu->memory->total != 0) {
      const double share = 100.0 * static_cast<double>(*holder.bytes) / static_cast<double>(gpu->memory->total);
      line += std::to_string(std::lround(share)) + "%  ";
    }
    const std::string title = title_of(holder);
    const bool ordinary = holder.kind == HolderKind::kProcess || holder.kind == HolderKind::kFilesOnly;
    line += (ordinary ? title : palette_.bad(title)) + "  " + palette_.title(std::to_string(holder.pid));
    if (holder.process) line += "  " + command_text(*holder.process);
    out_ << "\n" << std::string(kIndent, ' ') << line << "\n";
    std::string facts = about(holder);
    if (!facts.empty()) out_ << std::string(kTextColumn, ' ') << palette_.faint(facts) << "\n";
    if (!holder.explanation.empty()) wrapped(holder.explanation, kTextColumn);
    if (holder.process) print_kernel_stacks(*holder.process);
    for (const ProcessFacts& keeper : holder.keepers) print_keeper(keeper);
    if (holder.inside && gpu == nullptr && !holder.inside->gpu.empty())
      out_ << std::string(kTextColumn, ' ') << printable(holder.inside->gpu) << "\n";
    if (holder.inside) print_inside(holder);
  }

  void print_kernel_stacks(const ProcessFacts& process) {
    constexpr std::size_t kShown = 8;
    for (const StuckThread& thread : process.stuck_threads) {
      for (std::size_t i = 0; i < thread.kernel_stack.size() && i < kShown; ++i)
        out_ << std::string(kTextColumn, ' ') << "  " << palette_.faint(printable(thread.kernel_stack[i])) << "\n";
    }
  }

  std::string about(const Holder& holder) {
    std::string text;
    const auto add = [&text](const std::string& part) {
      if (!part.empty()) text += (text.empty() ? "" : " · ") + part;
    };
    add(holder.role);
    if (holder.process) {
      const ProcessFacts& process = *holder.process;
      add(printable(process.user));
      add(printable(container_text(process.container)));
      if (process.age_seconds) add("started " + age_text(*process.age_seconds) + " ago");
      if (!process.parent_name.empty())
        add("parent " + std::to_string(process.parent) + " (" + printable(process.parent_name) + ")");
    }
    if (holder.gpu_instance) add("MIG instance " + std::to_string(*holder.gpu_instance));
    return text;
  }

  void print_keeper(const ProcessFacts& keeper) {
    std::string text = "keeper " + std::to_string(keeper.pid) + "  " + command_text(keeper);
    if (!keeper.user.empty()) text += " · " + printable(keeper.user);
    const std::string container = container_text(keeper.container);
    if (!container.empty()) text += " · " + printable(container);
    if (keeper.age_seconds) text += " · started " + age_text(*keeper.age_seconds) + " ago";
    out_ << std::string(kTextColumn, ' ') << text << "\n";
  }

  void print_inside(const Holder& holder) {
    const Inside& inside = *holder.inside;
    const std::string blank(kTextColumn, ' ');
    if (!inside.problem.empty()) {
      wrapped("runs under culprit, but its dump cannot be read: " + inside.problem, kTextColumn);
      return;
    }
    std::string text = format_bytes(inside.live_bytes) + " live";
    if (inside.lost_bytes != 0) text += " · " + palette_.bad(format_bytes(inside.lost_bytes) + " lost");
    if (inside.cached_bytes != 0) text += " · " + format_bytes(inside.cached_bytes) + " cached";
    if (inside.pool_bytes != 0) text += " · " + format_bytes(inside.pool_bytes) + " kept by its memory pool";
    if (holder.bytes && *holder.bytes >= inside.known())
      text += " · " + format_bytes(*holder.bytes - inside.known()) + " context, modules and the rest";
    if (holder.bytes && *holder.bytes < inside.known())
      text += " · more than NVML charges: managed memory may lie on the host";
    out_ << blank << text << "\n";
    if (inside.balance) {
      render_balance_items(*inside.balance, blank + "now ", kTextColumn + kIndent, out_);
      wrapped(charge_text(*inside.balance, inside.charge.problem), kTextColumn);
    }
    for (const Inside::Stack& stack : inside.stacks) {
      out_ << blank << "  " << padded_to_width(format_bytes(stack.bytes), 10) << stack.count << "x  "
           << printable(stack.api) << "  " << printable(stack.place)
           << (stack.cause.empty() ? "" : "  " + palette_.warn(stack.cause)) << "  " << palette_.faint(stack.id)
           << "\n";
    }
    constexpr std::size_t kShown = 5;
    for (std::size_t i = 0; i < inside.shared.size() && i < kShown; ++i)
      wrapped("shared: " + inside.shared[i], kTextColumn);
    if (inside.shared.size() > kShown)
      out_ << blank << "and " << inside.shared.size() - kShown << " more shared: --format json\n";
  }

  void labelled(const std::string& label, const std::string& text) {
    out_ << std::string(kIndent, ' ') << padded_to_width(label, kTextColumn - kIndent);
    // The first line begins after the label.
    const std::size_t room = kWidth - kTextColumn;
    const std::string shown = printable(text);
    const std::string fits = cut_to_width(shown, room);
    if (fits.size() != shown.size()) {
      const std::size_t space = shown.rfind(' ', fits.size());
      if (space != std::string::npos) {
        out_ << shown.substr(0, space) << "\n";
        wrapped(shown.substr(space + 1), kTextColumn);
        return;
      }
    }
    out_ << shown << "\n";
  }

  const Diagnosis& diagnosis_;
  const Palette palette_;
  std::ostream& out_;
};

}  // namespace

void render_doctor_text(const Diagnosis& diagnosis, bool colours, std::ostream& out) {
  Renderer(diagnosis, colours, out).render();
}

}  // namespace culprit::report
