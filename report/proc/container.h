// The container, pod or batch job that a process belongs to, according to the path of its control group.
#pragma once

#include <string>
#include <string_view>

namespace culprit::report {

struct Container {
  std::string runtime;  // "docker", "containerd", "cri-o", "podman", "lxc", "nspawn", "slurm"; "container": unknown
  std::string id;       // the first 12 digits, as the runtimes' own tools print it, or a name
  std::string pod;      // UID of the Kubernetes pod
  std::string name;     // host name inside, in Kubernetes the pod's name; filled in by read_proc
  bool found() const { return !id.empty() || !pod.empty(); }
};

// Reads the text of /proc/PID/cgroup, of version 1 or 2. A process outside of containers gets an empty one.
Container container_of(std::string_view cgroup);

// "docker 1f2e3d4c5b6a (trainer-0), pod 3f2a..."; empty for none.
std::string container_text(const Container& container);

}  // namespace culprit::report
