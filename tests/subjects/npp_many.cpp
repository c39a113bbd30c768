// A library that has the name of one of NVIDIA's: its data lead to so many chunks of the heap that marking them takes
// longer than the share of the search, and each of them has the handle, as libcuda's copies of handles do.
#include <vector>

namespace {
std::vector<void**>* g_chunks;
}

extern "C" __attribute__((visibility("default"))) void keep_many(void* handle, int count) {
  g_chunks = new std::vector<void**>;
  for (int i = 0; i < count; ++i) g_chunks->push_back(new void* [3] { handle, nullptr, nullptr });
}
