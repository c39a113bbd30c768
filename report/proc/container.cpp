#include "report/proc/container.h"

#include <algorithm>
#include <vector>

namespace culprit::report {
namespace {

bool is_hex(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool take_prefix(std::string_view* text, std::string_view prefix) {
  if (text->substr(0, prefix.size()) != prefix) return false;
  text->remove_prefix(prefix.size());
  return true;
}

bool take_suffix(std::string_view* text, std::string_view suffix) {
  if (text->size() < suffix.size() || text->substr(text->size() - suffix.size()) != suffix) return false;
  text->remove_suffix(suffix.size());
  return true;
}

// "docker-<64 digits>.scope" with systemd; without it "<64 digits>" in a folder "docker" or of a pod.
void read_runtime(std::string_view part, std::string_view folder, Container* container) {
  static constexpr struct {
    std::string_view prefix;
    const char* runtime;
  } kPrefixes[] = {{"docker-", "docker"},      {"cri-containerd-", "containerd"},
                   {"nerdctl-", "containerd"}, {"containerd-", "containerd"},
                   {"crio-", "cri-o"},         {"libpod-", "podman"}};
  constexpr std::size_t kIdDigits = 64;
  constexpr std::size_t kShownDigits = 12;
  take_suffix(&part, ".scope");
  const char* runtime = folder == "docker" ? "docker" : folder == "libpod_parent" ? "podman" : "container";
  for (const auto& one : kPrefixes) {
    if (take_prefix(&part, one.prefix)) {
      runtime = one.runtime;
      break;
    }
  }
  // containerd without systemd: "cri-containerd:<id>" after a slice.
  const std::size_t colon = part.rfind(':');
  if (colon != std::string_view::npos) {
    if (part.find("containerd") != std::string_view::npos) runtime = "containerd";
    part.remove_prefix(colon + 1);
  }
  if (part.size() != kIdDigits || !is_hex(part)) return;
  container->runtime = runtime;
  container->id = part.substr(0, kShownDigits);
}

// "pod3f2a...", "kubepods-burstable-pod3f2a_....slice": the UID, with its hyphens restored.
void read_pod(std::string_view part, Container* container) {
  take_suffix(&part, ".slice");
  const std::size_t at = part.rfind("pod");
  if (at == std::string_view::npos || (at != 0 && part.substr(0, 8) != "kubepods")) return;
  std::string uid(part.substr(at + 3));
  std::replace(uid.begin(), uid.end(), '_', '-');
  std::string digits = uid;
  digits.erase(std::remove(digits.begin(), digits.end(), '-'), digits.end());
  if (digits.size() == 32 && is_hex(digits)) container->pod = uid;
}

// Runtimes that use names instead of numbers.
void read_named(std::string_view part, std::string_view folder, Container* container) {
  const auto set = [container](const char* runtime, std::string_view name) {
    if (name.empty()) return;
    container->runtime = runtime;
    container->id = name;
  };
  if (folder == "lxc") set("lxc", part);
  if (take_prefix(&part, "lxc.payload.")) set("lxc", part);
  if (take_prefix(&part, "machine-") && take_suffix(&part, ".scope")) set("nspawn", part);
  if (take_prefix(&part, "job_") && part.find_first_not_of("0123456789") == std::string_view::npos) set("slurm", part);
}

}  // namespace

Container container_of(std::string_view cgroup) {
  Container container;
  std::string_view folder;
  for (std::size_t begin = 0; begin < cgroup.size();) {
    const std::size_t end = std::min(cgroup.find_first_of("/\n", begin), cgroup.size());
    const std::string_view part = cgroup.substr(begin, end - begin);
    // The innermost container counts, so a later part of the path replaces an earlier one.
    read_named(part, folder, &container);
    read_runtime(part, folder, &container);
    read_pod(part, &container);
    folder = part;
    begin = end + 1;
  }
  return container;
}

std::string container_text(const Container& container) {
  std::string text;
  if (!container.id.empty())
    text = (container.runtime == "slurm" ? "slurm job" : container.runtime) + " " + container.id;
  if (!container.name.empty() && container.name != container.id)
    text += (text.empty() ? "" : " ") + std::string("(") + container.name + ")";
  if (!container.pod.empty()) text += (text.empty() ? "" : ", ") + std::string("pod ") + container.pod;
  return text;
}

}  // namespace culprit::report
