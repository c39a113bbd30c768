#include "report/doctor/kernel_log.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <sstream>

#include "report/base/descriptor.h"
#include "report/doctor/gpu_facts.h"
#include "report/run/child_process.h"

namespace culprit::report {
namespace {

constexpr char kMarker[] = "NVRM: Xid (PCI:";
// More than a kernel's buffer holds; a journal is read up to here.
constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr std::size_t kMostXids = 1000;
constexpr auto kPatience = std::chrono::seconds(5);

struct Meaning {
  unsigned number;
  const char* meaning;
  const char* advice;
};
constexpr Meaning kMeanings[] = {
#define XID(number, meaning, advice) {number, meaning, advice},
#include "report/doctor/xid.def"
};

using Visit = std::function<void(const std::string& line, std::optional<double> seconds)>;

// Reads all records of /dev/kmsg, one by one: "6,1234,5678901,-;text\n KEY=value\n". For tests: of a file, too. Returns
// 0 or an errno.
int read_device(const std::string& path, const Visit& visit) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  if (!file.is_open()) return errno;
  char part[16384];
  std::string text;
  std::size_t bytes = 0;
  while (bytes < kMostBytes) {
    const ssize_t count = ::read(file.get(), part, sizeof(part));
    if (count < 0 && (errno == EINTR || errno == EPIPE)) continue;  // EPIPE: records were overwritten meanwhile
    if (count < 0 && errno != EAGAIN && bytes == 0) return errno;
    if (count <= 0) break;
    bytes += static_cast<std::size_t>(count);
    text.append(part, static_cast<std::size_t>(count));
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t semicolon = line.find(';');
    const std::size_t first = line.find(',');
    const std::size_t second = first == std::string::npos ? first : line.find(',', first + 1);
    if (semicolon == std::string::npos || second == std::string::npos || second > semicolon) continue;
    const double microseconds = std::strtod(line.c_str() + second + 1, nullptr);
    visit(line.substr(semicolon + 1), microseconds / 1e6);
  }
  return 0;
}

// The output of a command; nothing when it fails or takes too long.
std::optional<std::string> output_of(const std::vector<std::string>& command) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const Descriptor output(ends[0]);
  Descriptor input(ends[1]);
  const ForkedChild child = start_child(command, {{"LC_ALL", "C"}}, [&] {
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    ::dup2(null, STDIN_FILENO);
    ::dup2(null, STDERR_FILENO);
    ::dup2(ends[1], STDOUT_FILENO);
  });
  input.close();
  if (child.pid < 0) return std::nullopt;
  std::string text;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  bool whole = false;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd wait = {output.get(), POLLIN, 0};
    if (left.count() <= 0 || text.size() > kMostBytes) break;
    const int ready = ::poll(&wait, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    char part[16384];
    const ssize_t count = ::read(output.get(), part, sizeof(part));
    if (count < 0 && errno == EINTR) continue;
    whole = count == 0;
    if (count <= 0) break;
    text.append(part, static_cast<std::size_t>(count));
  }
  if (!whole) ::kill(child.pid, SIGKILL);
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (child.error != 0 || !whole || !WIFEXITED(status)) return std::nullopt;
  // 1: no line matches, or nothing may be read; both write nothing.
  if (WEXITSTATUS(status) > 1) return std::nullopt;
  return text;
}

// False when the journal cannot be read. Without a match journalctl ends with 1, and so it does when no file of the
// journal may be opened: a second question, which always has an answer, tells the two apart.
bool read_journal(const Visit& visit) {
  const std::vector<std::string> command = {"journalctl", "--dmesg", "--quiet", "--no-pager",
                                            "--output=short-monotonic"};
  const auto with = [&](const char* option) {
    std::vector<std::string> longer = command;
    longer.emplace_back(option);
    return output_of(longer);
  };
  const std::optional<std::string> text = with("--grep=NVRM: Xid");
  if (!text) return false;
  if (text->empty()) return !with("--lines=1").value_or("").empty();
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t bracket = line.find('[');
    std::optional<double> seconds;
    if (bracket == 0) seconds = std::strtod(line.c_str() + 1, nullptr);
    visit(line, seconds);
  }
  return true;
}

bool same(const Xid& a, const Xid& b) { return a.pci == b.pci && a.number == b.number && a.pid == b.pid; }

}  // namespace

std::optional<double> age_of(const Xid& xid, double uptime_seconds) {
  if (!xid.last_seconds || *xid.last_seconds > uptime_seconds) return std::nullopt;
  return uptime_seconds - *xid.last_seconds;
}

std::optional<Xid> parse_xid(const std::string& text) {
  // "NVRM: Xid (PCI:0000:06:00): 31, pid=1234, name=python3, Ch 00000010, intr 00000000. MMU Fault: ..."
  const std::size_t marker = text.find(kMarker);
  if (marker == std::string::npos) return std::nullopt;
  const std::size_t begin = marker + sizeof(kMarker) - 1;
  const std::size_t end = text.find(')', begin);
  if (end == std::string::npos || end - begin > 24) return std::nullopt;
  Xid xid;
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  if (std::sscanf(text.substr(begin, end - begin).c_str(), "%x:%x:%x", &domain, &bus, &device) != 3)
    return std::nullopt;
  xid.pci = pci_text(domain, bus, device);
  std::size_t at = text.find_first_not_of("): ", end);
  if (at == std::string::npos || std::strchr("0123456789", text[at]) == nullptr) return std::nullopt;
  xid.number = static_cast<unsigned>(std::strtoul(text.c_str() + at, nullptr, 10));
  at = text.find(',', at);
  std::string rest = at == std::string::npos ? "" : text.substr(at + 1);
  const auto field = [&rest](const std::string& name) {
    const std::size_t found = rest.find(name + "=");
    if (found == std::string::npos || rest.find_first_not_of(' ') != found) return std::string();
    const std::size_t comma = rest.find(',', found);
    std::string value =
        rest.substr(found + name.size() + 1, comma == std::string::npos ? comma : comma - found - name.size() - 1);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    if (value.size() > 1 && value.front() == '\'' && value.back() == '\'') value = value.substr(1, value.size() - 2);
    return value;
  };
  const std::string pid = field("pid");
  if (!pid.empty() && pid.find_first_not_of("0123456789") == std::string::npos)
    xid.pid = static_cast<std::uint32_t>(std::strtoul(pid.c_str(), nullptr, 10));
  xid.process = field("name");
  if (xid.process == "<unknown>") xid.process.clear();
  const std::size_t word = rest.find_first_not_of(' ');
  xid.detail = word == std::string::npos ? "" : rest.substr(word);
  for (const Meaning& one : kMeanings) {
    if (one.number != xid.number) continue;
    xid.meaning = one.meaning;
    xid.advice = one.advice;
  }
  xid.count = 1;
  return xid;
}

KernelLog read_kernel_log(const std::string& device) {
  KernelLog log;
  const Visit visit = [&log](const std::string& line, std::optional<double> seconds) {
    std::optional<Xid> xid = parse_xid(line);
    if (!xid) return;
    xid->last_seconds = seconds;
    const auto known =
        std::find_if(log.xids.begin(), log.xids.end(), [&](const Xid& other) { return same(other, *xid); });
    if (known != log.xids.end()) {
      xid->count += known->count;
      log.xids.erase(known);
    }
    if (log.xids.size() < kMostXids) log.xids.push_back(std::move(*xid));
  };
  const int error = read_device(device, visit);
  log.source = device;
  if (error != 0) {
    log.source = "journalctl";
    if (!read_journal(visit)) {
      log.source.clear();
      log.problem = device + ": " + std::strerror(error) + ", and journalctl shows nothing";
    }
  }
  std::reverse(log.xids.begin(), log.xids.end());
  return log;
}

}  // namespace culprit::report
