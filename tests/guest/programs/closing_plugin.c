// Opened with RTLD_DEEPBIND, this library calls libc's function whatever is preloaded.
#include <dlfcn.h>

int close_in_plugin(void* library) { return dlclose(library); }
