// Situation 4: handlers that call CUDA wherever they interrupt, and calls that never return.
#include "tests/catch.h"
#include "tests/guest/both_ways.h"

namespace culprit::test {

TEST_CASE("handlers call CUDA 20,000 times a second while threads start and end", "[signals]") {
  Situation situation{"signal_storm", {}};
  situation.fake_driver_only = true;
  both_ways(situation);
}

TEST_CASE("a handler calls CUDA while its process ends", "[signals]") {
  for (const char* how : {"exit", "quick_exit", "_exit", "main-thread", "statics"}) {
    Situation situation{"handler_at_exit", {how}};
    situation.fake_driver_only = true;
    both_ways(situation);
  }
}

TEST_CASE("a handler calls CUDA while its thread ends", "[signals]") {
  for (const char* how : {"threads", "tls"}) {
    Situation situation{"handler_at_exit", {how}};
    situation.fake_driver_only = true;
    both_ways(situation);
  }
}

TEST_CASE("a handler makes the first CUDA call while the process ends", "[signals]") {
  for (const char* how : {"exit", "quick_exit", "_exit"}) {
    Situation situation{"handler_at_exit", {how, "first"}};
    situation.fake_driver_only = true;
    both_ways(situation);
  }
}

TEST_CASE("a handler that jumps out of calls leaves a program and a recording that go on", "[signals]") {
  for (const char* threads : {"1", "3"}) {
    Situation situation{"jump_out", {threads}};
    situation.fake_driver_only = true;
    const BothWays runs = both_ways(situation);
    check_live_or_dropped(runs);
  }
}

TEST_CASE("threads cancelled inside calls leave a program and a recording that go on", "[signals]") {
  Situation situation{"cancel_async", {}};
  situation.fake_driver_only = true;
  const BothWays runs = both_ways(situation);
  check_live_or_dropped(runs);
}

TEST_CASE("the handler for SIGBUS is seen by a program that asks for it, and by nothing else", "[signals]") {
  for (const char* mode : {"ask", "ignored", "once", "restored", "fork", "spawn", "sent"}) {
    INFO(mode);
    Situation situation{"bus_handler", {mode}};
    situation.fake_driver_only = true;
    const BothWays runs = both_ways(situation);
    if (!runs.ran || std::string(mode) != "ask") continue;
    // The limit that truncation_guard.h gives reasons for.
    CHECK(figure(runs.figures_alone, "default") == 1);
    CHECK(figure(runs.figures_under, "default") == 0);
  }
}

TEST_CASE("a timer switches user threads in the middle of calls, and program and recording go on", "[signals][users]") {
  for (const std::vector<std::string>& how : {std::vector<std::string>{"24"}, {"32", "jump"}}) {
    Situation situation{"user_threads", how};
    situation.fake_driver_only = true;
    situation.environment["GUEST_SECONDS"] = "0.5";
    const BothWays runs = both_ways(situation);
    check_live_or_dropped(runs);
  }
}

}  // namespace culprit::test
