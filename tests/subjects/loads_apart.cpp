// Loads the library named by the second argument in a way that preloaded libraries do not see, and calls it:
// "deepbind" (RTLD_DEEPBIND), "namespace" (dlmopen) or "plain". A third argument "own": first calls CUDA through the
// runtime, which it loads by name, and leaks 20001 bytes. Prints the library's result.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

static void* required(void* found) {
  if (found != nullptr) return found;
  std::fprintf(stderr, "%s\n", dlerror());
  std::exit(3);
}

static void leak_itself() {
  void* runtime = required(dlopen("libcudart.so.13", RTLD_NOW));
  auto* allocate = reinterpret_cast<int (*)(void**, std::size_t)>(required(dlsym(runtime, "cudaMalloc")));
  void* pointer = nullptr;
  if (allocate(&pointer, 20001) != 0) std::exit(4);
}

int main(int argc, char** argv) {
  if (argc > 3 && std::strcmp(argv[3], "own") == 0) leak_itself();
  void* library = std::strcmp(argv[1], "namespace") == 0
                      ? dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW)
                      : dlopen(argv[2], std::strcmp(argv[1], "deepbind") == 0 ? RTLD_NOW | RTLD_DEEPBIND : RTLD_NOW);
  auto* work = reinterpret_cast<int (*)()>(required(dlsym(required(library), "apart_work")));
  std::printf("worked: %d\n", work());
  return 0;
}
