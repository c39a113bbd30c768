// A library that keeps a pointer which the program allocated.
static void* kept_by_plugin = nullptr;

extern "C" __attribute__((visibility("default"))) void keep_pointer(void* pointer) { kept_by_plugin = pointer; }

extern "C" __attribute__((visibility("default"))) void* kept_pointer() { return kept_by_plugin; }
