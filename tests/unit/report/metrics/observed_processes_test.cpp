// Looks at dumps again and again, one text for many requests, and the address to listen on.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "report/metrics/fresh_text.h"
#include "report/metrics/listen_address.h"
#include "report/metrics/observed_processes.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/shell.h"

using namespace culprit::format;
using namespace culprit::report;
using namespace std::chrono_literals;
using culprit::test::DumpBuilder;
using culprit::test::has;
using culprit::test::shell;
using culprit::test::TemporaryFolder;

namespace {

void write_counts(const std::string& path, std::uint64_t allocations, std::uint64_t start_ns) {
  DumpBuilder dump;
  dump.header().allocations = allocations;
  dump.header().start_realtime_ns = start_ns;
  dump.write(path);
}

std::uint64_t allocations_now(ObservedProcesses* processes) {
  const Observation observation = processes->look();
  REQUIRE(observation.processes.size() == 1);
  return observation.processes.front().allocations;
}

}  // namespace

TEST_CASE("a counter goes down only with another process", "[report][metrics]") {
  TemporaryFolder folder;
  const std::string path = folder.file("a.dump");
  write_counts(path, 10, 5);
  ObservedProcesses processes({path}, SampleLimits());
  CHECK(allocations_now(&processes) == 10);
  write_counts(path, 9, 5);
  CHECK(allocations_now(&processes) == 10);
  write_counts(path, 12, 5);
  CHECK(allocations_now(&processes) == 12);
  write_counts(path, 3, 6);
  CHECK(allocations_now(&processes) == 3);
}

TEST_CASE("two dumps of one pid are one process", "[report][metrics]") {
  TemporaryFolder folder;
  write_counts(folder.file("a.dump"), 10, 5);
  write_counts(folder.file("b.dump"), 20, 6);
  write_counts(folder.file("c.dump"), 30, 4);
  ObservedProcesses processes({folder.file("a.dump"), folder.file("b.dump"), folder.file("c.dump")}, SampleLimits());
  CHECK(allocations_now(&processes) == 20);
}

TEST_CASE("a target that is gone has no series any more", "[report][metrics]") {
  TemporaryFolder folder;
  const std::string path = folder.file("a.dump");
  write_counts(path, 10, 5);
  ObservedProcesses processes({path}, SampleLimits());
  CHECK_NOTHROW(processes.check_targets());
  std::filesystem::remove(path);
  CHECK_THROWS_AS(processes.check_targets(), DumpError);
  CHECK(processes.look().processes.empty());
}

TEST_CASE("requests at one time share a text", "[report][metrics]") {
  FreshText text;
  std::atomic<int> made = 0;
  std::thread maker([&] {
    text.serve([&] {
      ++made;
      std::this_thread::sleep_for(20ms);
      return Exposition{"p", "o"};
    });
  });
  std::vector<std::thread> clients;
  std::atomic<int> right = 0;
  for (int i = 0; i < 50; ++i) {
    clients.emplace_back([&] {
      for (int k = 0; k < 20; ++k) {
        const auto got = text.get(10s);
        if (got != nullptr && got->prometheus == "p") ++right;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  CHECK(right == 1000);
  CHECK(made <= 20);
  text.stop();
  maker.join();
  std::this_thread::sleep_for(1100ms);
  CHECK(text.get(10ms) == nullptr);
}

TEST_CASE("a text that takes too long is not waited for", "[report][metrics]") {
  FreshText text;
  CHECK(text.get(1ms) == nullptr);
  std::thread maker([&] {
    text.serve([&] {
      std::this_thread::sleep_for(300ms);
      return Exposition();
    });
  });
  CHECK(text.get(10ms) == nullptr);
  CHECK(text.get(30s) != nullptr);
  text.stop();
  maker.join();
}

TEST_CASE("metrics are served on the loopback address unless another one is named", "[report][metrics]") {
  ListenAddress address;
  CHECK((parse_listen_address("9400", &address) && address.text() == "127.0.0.1:9400"));
  CHECK((parse_listen_address("localhost:1", &address) && address.text() == "127.0.0.1:1"));
  CHECK((parse_listen_address("0.0.0.0:9400", &address) && address.text() == "0.0.0.0:9400"));
  CHECK((parse_listen_address("[::1]:9400", &address) && address.text() == "[::1]:9400"));
  for (const char* wrong : {"", ":", ":9400", "9400s", "+9400", "9400,9401", "127.0.0.1", "127.0.0.1:", "::1:9400",
                            "127.0.0.1:65536", "127.0.0.1:-1", "example.com:80", "[::1]", "[x]:1", "1:2:3"}) {
    INFO(wrong);
    CHECK_FALSE(parse_listen_address(wrong, &address));
  }
}

TEST_CASE("culprit metrics writes a file that is whole, or says why it cannot", "[report][metrics]") {
  TemporaryFolder folder;
  const std::string dump = folder.file("a.dump");
  write_counts(dump, 10, 5);
  const std::string file = folder.file("culprit.prom");
  CHECK(shell("CULPRIT metrics " + dump).out.find("culprit_allocations_total{pid=\"4242\"} 10\n") != std::string::npos);
  CHECK(shell("CULPRIT metrics " + dump + " --textfile " + file).exit_code == 0);
  CHECK(has(shell("ls " + folder.path().string() + "; cat " + file).out,
            "a.dump\nculprit.prom\n# HELP culprit_processes "));
  CHECK(shell("CULPRIT metrics " + dump + " --textfile /nonexistent/a").exit_code == 3);
  CHECK(shell("CULPRIT metrics /nonexistent").exit_code == 3);
  CHECK(has(shell("CULPRIT metrics 999999999").err, "there is no process 999999999"));
  CHECK(shell("CULPRIT metrics --listen 192.0.2.1:9 " + dump).exit_code == 3);
  CHECK(has(shell("CULPRIT metrics --listen example.com:80").err, "is neither a port nor ADDRESS:PORT"));
  CHECK(shell("CULPRIT metrics --every 5s").exit_code == 2);
  CHECK(shell("CULPRIT metrics --listen 0 --textfile x").exit_code == 2);
}
