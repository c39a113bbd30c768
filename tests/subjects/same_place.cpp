// Opens and closes two libraries in turn, so that each lies where the other one was: same_place HOW FIRST OTHER. Each
// leaks once in each of two rounds, from the same call of this program.
//   own        closed by the program's dlclose()
//   libc       closed by libc's own, which no preloaded library sees
//   namespace  opened by dlmopen() in another namespace, closed by libc's own dlclose
//   fork       as `libc`, in a child that has the parent's first library open
//   code       as `own`; in between a copy of the first library's code lies there, as a just-in-time compiler writes it
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/subjects/check.h"

namespace {

int (*close_library)(void*) = dlclose;
bool apart;

using Work = void (*)(cudaError_t (*)(void**, size_t));

struct Library {
  void* handle;
  Work work;
};

Library open_library(const char* path) {
  Library library;
  library.handle = apart ? dlmopen(LM_ID_NEWLM, path, RTLD_NOW) : dlopen(path, RTLD_NOW);
  if (library.handle == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    exit(3);
  }
  library.work = reinterpret_cast<Work>(dlsym(library.handle, "twin_work"));
  return library;
}

// Whatever is mapped for the first call must not lie in the place of a closed library.
void start() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 512));
  CHECKED(cudaFree(pointer));
}

SUBJECT_FUNCTION void use(Work work) {
  work(cudaMalloc);
  asm volatile("" ::: "memory");
}

// Copies the memory of an open library, closes it and puts the copy in its place.
struct Copy {
  char* begin = nullptr;
  size_t bytes = 0;

  void take_place_of(const Library& library) {
    struct Range {
      const struct link_map* map;
      ElfW(Addr) end;
    } range = {static_cast<const struct link_map*>(library.handle), 0};
    dl_iterate_phdr(
        [](struct dl_phdr_info* info, size_t, void* data) {
          auto* found = static_cast<Range*>(data);
          if (info->dlpi_addr != found->map->l_addr) return 0;
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            const ElfW(Phdr)& header = info->dlpi_phdr[i];
            if (header.p_type == PT_LOAD) found->end = info->dlpi_addr + header.p_vaddr + header.p_memsz;
          }
          return 1;
        },
        &range);
    begin = reinterpret_cast<char*>(range.map->l_addr);
    bytes = (range.end - range.map->l_addr + 4095) & ~size_t{4095};
    void* kept = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(kept, begin, bytes);
    close_library(library.handle);
    void* place = mmap(begin, bytes, PROT_READ | PROT_WRITE | PROT_EXEC,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (place != begin) exit(4);
    memcpy(begin, kept, bytes);
    munmap(kept, bytes);
  }
  void leave() const { munmap(begin, bytes); }
};

void take_turns(const char* first_path, const char* other_path, bool copied) {
  for (int round = 0; round < 2; ++round) {
    const Library first = open_library(first_path);
    use(first.work);
    if (copied) {
      Copy copy;
      copy.take_place_of(first);
      use(first.work);
      copy.leave();
    } else {
      close_library(first.handle);
    }
    const Library other = open_library(other_path);
    if (other.work != first.work) {
      fprintf(stderr, "the other library lies elsewhere: %p, %p\n", reinterpret_cast<void*>(other.work),
              reinterpret_cast<void*>(first.work));
      exit(4);
    }
    use(other.work);
    close_library(other.handle);
  }
}

}  // namespace

int main(int, char** argv) {
  const char* how = argv[1];
  if (strcmp(how, "own") != 0 && strcmp(how, "code") != 0)
    close_library = reinterpret_cast<int (*)(void*)>(dlsym(dlopen("libc.so.6", RTLD_NOW), "dlclose"));
  apart = strcmp(how, "namespace") == 0;
  start();
  if (strcmp(how, "fork") == 0) {
    const Library first = open_library(argv[2]);
    use(first.work);
    const pid_t child = fork();
    if (child != 0) {
      int status = 0;
      waitpid(child, &status, 0);
      return WEXITSTATUS(status);
    }
    close_library(first.handle);
    start();
  }
  take_turns(argv[2], argv[3], strcmp(how, "code") == 0);
  return 0;
}
