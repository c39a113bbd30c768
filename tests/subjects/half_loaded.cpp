// A process that looks as if the loader were mapping libculprit.so: the file's first bytes over its whole length, then
// its code, and no data yet. Stays so for longer than `culprit run` takes from one look to the next. Prints "mapped".
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc == 1) {
    const char* library = getenv("LD_PRELOAD");
    if (library == nullptr) return 2;
    char* const words[] = {argv[0], const_cast<char*>(library), nullptr};
    unsetenv("LD_PRELOAD");
    execv("/proc/self/exe", words);
    return 3;
  }
  const int file = open(argv[1], O_RDONLY);
  struct stat facts = {};
  if (file < 0 || fstat(file, &facts) != 0) return 4;
  void* mapped = mmap(nullptr, facts.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  if (mapped == MAP_FAILED) return 5;
  char* begin = static_cast<char*>(mapped);
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(begin);
  const auto* segments = reinterpret_cast<const Elf64_Phdr*>(begin + header->e_phoff);
  for (int i = 0; i < header->e_phnum; ++i) {
    const Elf64_Phdr& one = segments[i];
    if (one.p_type == PT_LOAD && (one.p_flags & PF_X) != 0 &&
        mmap(begin + one.p_vaddr, one.p_filesz, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file,
             static_cast<off_t>(one.p_offset)) == MAP_FAILED)
      return 6;
  }
  usleep(1200000);
  puts("mapped");
  return 0;
}
