// A library that is loaded into its own namespace (dlmopen) or with RTLD_DEEPBIND calls CUDA:
// other_namespace dlmopen|deepbind PLUGIN
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int, char** argv) {
  void* library = strcmp(argv[1], "dlmopen") == 0 ? dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW | RTLD_LOCAL)
                                                  : dlopen(argv[2], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (library == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    return 3;
  }
  auto use = reinterpret_cast<int (*)()>(dlsym(library, "use_cuda_in_plugin"));
  if (use == nullptr) return 3;
  printf("the plugin returned %d\n", use());
  return 0;
}
