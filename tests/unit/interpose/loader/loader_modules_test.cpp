#include "interpose/loader/loader_modules.h"

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "tests/catch.h"

using namespace culprit;

namespace {

void sleep_ms(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

bool is_visited(const char* name) {
  return any_loaded_module([&](const struct dl_phdr_info& module) {
    return module.dlpi_name != nullptr && std::strstr(module.dlpi_name, name) != nullptr;
  });
}

}  // namespace

TEST_CASE("the close of a library waits for a walk whose thread has lost its processor", "[loader]") {
  std::atomic<bool> begun{false};
  std::atomic<bool> read{false};
  std::thread walker([&] {
    any_loaded_module([&](const struct dl_phdr_info&) {
      begun = true;
      sleep_ms(300);
      read = true;
      return true;
    });
  });
  while (!begun) sleep_ms(1);
  begin_unloading(nullptr);
  CHECK(read);
  end_unloading(nullptr);
  walker.join();
}

TEST_CASE("a thread that closes a library in a walk of its own waits for nothing", "[loader]") {
  const auto begin = std::chrono::steady_clock::now();
  any_loaded_module([&](const struct dl_phdr_info&) {
    begin_unloading(nullptr);
    end_unloading(nullptr);
    return true;
  });
  // Against the 2 s that it would wait for another thread.
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(2));
}

TEST_CASE("a walk beside a close that does not end leaves out that library", "[loader]") {
  const std::string name = "libm.so.6";
  void* handle = dlopen(name.c_str(), RTLD_NOW);
  REQUIRE(handle != nullptr);
  REQUIRE(is_visited("libm.so"));
  std::atomic<bool> closing{false};
  std::atomic<bool> stop{false};
  std::thread closer([&] {
    begin_unloading(handle);
    closing = true;
    while (!stop) sleep_ms(1);
    end_unloading(handle);
  });
  while (!closing) sleep_ms(1);
  CHECK_FALSE(is_visited("libm.so"));
  CHECK(is_visited("libc.so"));
  stop = true;
  closer.join();
  CHECK(is_visited("libm.so"));
  dlclose(handle);
}
