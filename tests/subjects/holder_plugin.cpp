// A library that keeps a pointer which the program allocated.
#include <map>
#include <string>

static void* kept_by_plugin = nullptr;
static thread_local void* t_kept_by_plugin = nullptr;
thread_local void* t_exported[2] = {};
static thread_local std::map<std::string, void*> t_map;

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED void keep_pointer(void* pointer) { kept_by_plugin = pointer; }
EXPORTED void* kept_pointer() { return kept_by_plugin; }
EXPORTED void keep_thread_local(void* pointer) { t_kept_by_plugin = pointer; }
EXPORTED void* kept_thread_local() { return t_kept_by_plugin; }
EXPORTED void keep_exported(void* pointer) { t_exported[1] = pointer; }
EXPORTED void keep_in_map(void* pointer) { t_map["weights"] = pointer; }
