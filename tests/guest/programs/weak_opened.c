// Without a reference to dlopen() or dlsym(): a library that it is linked to opens another one, PATH, which has weak
// references to CUDA's functions: weak_opened PATH
#include <stddef.h>

void* open_and_find(const char* path, const char* name);  // weak_opener.c

int main(int argc, char** argv) {
  if (argc != 2) return 3;
  void (*show)(void) = (void (*)(void))open_and_find(argv[1], "show_in_library");
  if (show == NULL) return 3;
  show();
  return 0;
}
