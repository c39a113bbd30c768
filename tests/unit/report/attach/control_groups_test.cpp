// Facts from the cgroups of a process, in a fake tree.
#include "report/attach/control_groups.h"

#include <filesystem>
#include <fstream>

#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

using culprit::report::frozen_control_group;
using culprit::report::full_control_group;

namespace {

constexpr std::uint64_t kNeeded = 16 << 20;

struct Groups : culprit::test::TemporaryFolder {
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = path() / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string root() const { return path().string(); }
};

}  // namespace

TEST_CASE("a memory cgroup at its limit is found, also above the process's own", "[attach]") {
  const Groups groups;
  const std::string membership = "0::/a/b\n";
  CHECK(full_control_group(membership, groups.root(), kNeeded).empty());
  groups.write("a/b/memory.max", "max\n");
  groups.write("a/b/memory.current", "1000000000\n");
  groups.write("a/memory.max", "1000000000\n");
  groups.write("a/memory.current", "990000000\n");
  groups.write("a/memory.stat", "anon 990000000\nfile 0\ninactive_file 0\nactive_file 0\n");
  CHECK(full_control_group(membership, groups.root(), kNeeded) == "/a");
  CHECK(full_control_group("0::/other\n", groups.root(), kNeeded).empty());
  groups.write("a/memory.stat", "anon 900000000\ninactive_file 10000000\nactive_file 10000000\n");
  CHECK(full_control_group(membership, groups.root(), kNeeded).empty());
  groups.write("memory.max", "5000000\n");  // of a container, which sees its own group as the root
  groups.write("memory.current", "4000000\n");
  CHECK(full_control_group("0::/\n", groups.root(), kNeeded) == "/");
}

TEST_CASE("a memory cgroup of the first version at its limit is found", "[attach]") {
  const Groups groups;
  const std::string membership = "9:name=systemd:/\n4:cpu,memory:/job\n0::/\n";
  groups.write("memory/job/memory.limit_in_bytes", "268435456\n");
  groups.write("memory/job/memory.usage_in_bytes", "268000000\n");
  groups.write("memory/job/memory.stat", "inactive_file 9\ntotal_inactive_file 0\ntotal_active_file 4096\n");
  CHECK(full_control_group(membership, groups.root(), kNeeded) == "/job");
  groups.write("memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(full_control_group(membership, groups.root(), kNeeded).empty());
}

TEST_CASE("a process of a container that was paused is found", "[attach]") {
  const Groups groups;
  const std::string membership = "6:freezer:/docker/1\n0::/docker/1\n";
  CHECK(frozen_control_group(membership, groups.root()).empty());
  groups.write("docker/1/cgroup.events", "populated 1\nfrozen 0\n");
  groups.write("freezer/docker/1/freezer.state", "THAWED\n");
  CHECK(frozen_control_group(membership, groups.root()).empty());
  groups.write("freezer/docker/1/freezer.state", "FROZEN\n");
  CHECK(frozen_control_group(membership, groups.root()) == "/docker/1");
  groups.write("docker/1/cgroup.events", "populated 1\nfrozen 1\n");
  CHECK(frozen_control_group("0::/docker/1\n", groups.root()) == "/docker/1");
  groups.write("unified/docker/2/cgroup.events", "populated 1\nfrozen 1\n");
  CHECK(frozen_control_group("0::/docker/2\n", groups.root()) == "/docker/2");
}
