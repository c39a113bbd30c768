// The dump is truncated, removed, renamed or made inaccessible while the program continues:
// harmed_dump truncate|half|unlink|rename|chmod PAIRS: each of its four rounds makes so many
#include <sys/stat.h>

#include "tests/guest/programs/guest.h"

namespace {

// The first mapped file whose name ends in ".dump"; empty when there is none, as without the library.
void find_dump(char* path, size_t room) {
  path[0] = '\0';
  FILE* maps = fopen("/proc/self/maps", "r");
  HOLDS(maps != nullptr);
  char line[4352];
  while (fgets(line, sizeof line, maps) != nullptr && path[0] == '\0') {
    const char* name = strchr(line, '/');
    const size_t length = name == nullptr ? 0 : strcspn(name, "\n");
    if (length > 5 && length < room && memcmp(name + length - 5, ".dump", 5) == 0) {
      memcpy(path, name, length);
      path[length] = '\0';
    }
  }
  fclose(maps);
}

void use_cuda(uint64_t from, uint64_t pairs) {
  for (uint64_t i = 0; i < pairs; ++i) guest::pair_by_path(from + i, 16);
  try {
    throw 1;
  } catch (int) {
  }
  guest::allocate(11001);
}

}  // namespace

int main(int, char** argv) {
  const uint64_t pairs = strtoull(argv[2], nullptr, 10);
  guest::start_cuda();
  use_cuda(0, pairs);
  char path[4096];
  find_dump(path, sizeof path);
  guest::figure("found", path[0] != '\0');
  if (path[0] != '\0') {
    const char* how = argv[1];
    char other[4112];
    snprintf(other, sizeof other, "%s.moved", path);
    struct stat status;
    HOLDS(stat(path, &status) == 0);
    if (strcmp(how, "truncate") == 0) HOLDS(truncate(path, 0) == 0);
    if (strcmp(how, "half") == 0) HOLDS(truncate(path, status.st_size / 2) == 0);
    if (strcmp(how, "unlink") == 0) HOLDS(unlink(path) == 0);
    if (strcmp(how, "rename") == 0) HOLDS(rename(path, other) == 0);
    if (strcmp(how, "chmod") == 0) HOLDS(chmod(path, 0) == 0);
  }
  for (uint64_t i = 1; i < 4; ++i) use_cuda(i * 50000, pairs);
  guest::say("the program went on");
  return 7;
}
