// How long `culprit attach` and `culprit detach` stop a thread of a program with many threads and much memory:
//
//     attach_stop CULPRIT LIBRARY [THREADS [GIB]]      default: 200 threads, 2 GiB
//
// Prints the longest stop of an attach and of a detach, in nanoseconds, as culprit says them, the time of the attach,
// and what it is for each GiB.
#include <cuda.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

[[noreturn]] void fail(const std::string& why) {
  fprintf(stderr, "attach_stop: %s\n", why.c_str());
  exit(1);
}

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

// "... for at most 2.61 ms" in nanoseconds.
double longest_stop(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) fail("popen");
  std::string text;
  char line[1024];
  while (fgets(line, sizeof(line), pipe) != nullptr) text += line;
  if (pclose(pipe) != 0) fail(text);
  const std::size_t at = text.find("at most ");
  char unit[8] = {};
  double value = 0;
  if (at == std::string::npos || sscanf(text.c_str() + at, "at most %lf %7s", &value, unit) != 2) fail(text);
  const std::map<std::string, double> units = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  const auto found = units.find(unit);
  if (found == units.end()) fail(text);
  return value * found->second;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return 2;
  const int threads = count > 3 ? atoi(arguments[3]) : 200;
  const double gib = count > 4 ? atof(arguments[4]) : 2;
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  CUcontext context;
  if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate(&context, nullptr, 0, 0) != CUDA_SUCCESS) fail("no driver");
  const auto bytes = static_cast<std::size_t>(gib * 1073741824.0);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("no memory");
  memset(memory, 0x2a, bytes);
  // A table of entry points, as frameworks have them.
  auto* table = static_cast<std::uint64_t*>(memory);
  for (int i = 0; i < 10000; ++i) table[i * 37] = reinterpret_cast<std::uint64_t>(&cuMemAlloc);
  std::atomic<bool> stop{false};
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&] {
      while (!stop.load()) usleep(50000);
    });
  }
  const std::string pid = std::to_string(getpid());
  const std::string dump = "/tmp/culprit-attach-stop." + pid + ".dump";
  const std::string start = std::string("CULPRIT_LIBRARY='") + arguments[2] + "' '" + arguments[1] + "' ";
  const double begin = now();
  const double attach = longest_stop(start + "attach " + pid + " --timeout 60s --out " + dump);
  const double took = now() - begin;
  const double detach = longest_stop(start + "detach " + pid + " --timeout 60s");
  unlink(dump.c_str());
  stop = true;
  for (std::thread& thread : all) thread.join();
  printf("attach_stop=%.0f\ndetach_stop=%.0f\nattach=%.0f\nattach_gib=%.0f\n", attach, detach, took, took / gib);
  return 0;
}
