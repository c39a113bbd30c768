// The process becomes another one after its first CUDA calls, so that the dump can no longer be opened by its name:
//   other_identity HOW FOLDER COUNT
// Afterwards it makes COUNT allocations, more than fit into the dump as it is then.
#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "tests/guest/programs/guest.h"

namespace {

bool becomes_nobody() {
  return setgroups(0, nullptr) == 0 && setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0;
}

bool enters(const char* folder) { return chroot(folder) == 0 && chdir("/") == 0; }

bool drops_capabilities() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  return syscall(SYS_capset, &header, none) == 0;
}

bool restricts_itself() {
  landlock_ruleset_attr rules = {};
  rules.handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
  const long set = syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
  if (set < 0) return false;
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_landlock_restrict_self, set, 0) == 0 &&
         close(static_cast<int>(set)) == 0;
}

bool pivots(const char* folder) {
  return unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", folder, "tmpfs", 0, nullptr) == 0 && chdir(folder) == 0 &&
         syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0;
}

// Deletes the file of the mapping whose name ends with ".dump": alone there is none. Nothing else is ever deleted.
bool deletes_the_dump() {
  FILE* maps = fopen("/proc/self/maps", "r");
  if (maps == nullptr) return false;
  char line[1024];
  while (fgets(line, sizeof line, maps) != nullptr) {
    line[strcspn(line, "\n")] = '\0';
    const char* path = strchr(line, '/');
    const size_t length = path == nullptr ? 0 : strlen(path);
    if (length > 5 && strcmp(path + length - 5, ".dump") == 0) {
      unlink(path);
      break;
    }
  }
  fclose(maps);
  return true;
}

bool closes_all() { return syscall(SYS_close_range, 3, ~0U, 0) == 0; }

bool becomes(const char* how, const char* folder) {
  const auto is = [&](const char* name) { return strcmp(how, name) == 0; };
  if (is("chroot")) return enters(folder);
  if (is("setuid")) return becomes_nobody();
  if (is("setuid-chroot")) return enters(folder) && becomes_nobody();
  if (is("capabilities")) return drops_capabilities();
  if (is("namespaces")) return unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC) == 0;
  if (is("user")) return unshare(CLONE_NEWUSER) == 0;
  if (is("pivot")) return pivots(folder);
  if (is("deleted")) return deletes_the_dump();
  if (is("closed")) return closes_all();
  if (is("closed-chroot")) return closes_all() && enters(folder);
  if (is("landlock")) return restricts_itself();
  if (is("no-files")) {
    const rlimit none = {0, 0};
    return setrlimit(RLIMIT_NOFILE, &none) == 0;
  }
  return false;
}

}  // namespace

int main(int, char** argv) {
  const long count = atol(argv[3]);
  guest::start_cuda();
  guest::pair();
  if (!becomes(argv[1], argv[2])) {
    guest::say("not here");
    return 0;
  }
  for (long i = 0; i < count; ++i) guest::allocate(512);
  guest::say("%s: %ld allocations", argv[1], count);
  return 0;
}
