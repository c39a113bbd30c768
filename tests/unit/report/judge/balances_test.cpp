// The balance of a device, and contexts without use, from the records of a dump.
#include <map>
#include <set>
#include <string>

#include "report/judge/balances.h"
#include "report/model/program_frames.h"
#include "tests/catch.h"
#include "tests/unit/report/fixture.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

DeviceRecord device(std::uint32_t ordinal, bool allocated) {
  DeviceRecord record = {};
  record.state = 1;
  record.ordinal = ordinal;
  record.uuid[0] = static_cast<std::uint8_t>(ordinal + 1);
  if (allocated) record.first = {1, 1 << 20, 2 << 20};
  return record;
}

ContextRecord context(std::uint8_t on, std::uint64_t bytes = 0, std::uint16_t flags = 0) {
  ContextRecord record = {};
  record.state = ContextState::kAlive;
  record.kind = Kind::kPrimaryContext;
  record.device = on;
  record.bytes = bytes;
  record.flags = flags;
  return record;
}

BalanceRecord balance(std::uint64_t in_use, Moment moment = Moment::kExit) {
  BalanceRecord record = {};
  record.state = 1;
  record.moment = moment;
  record.total_bytes = 1000 * kMiB;
  record.free_bytes = record.total_bytes - in_use;
  return record;
}

CallChargeRecord charge(DriverMemory what, std::int64_t bytes) {
  CallChargeRecord record = {};
  record.state = 1;
  record.what = what;
  record.bytes = bytes;
  return record;
}

std::map<std::string, std::int64_t> items_of(const Balance& one) {
  std::map<std::string, std::int64_t> items;
  for (const BalanceItem& item : one.items) items[balance_name(item.what)] = item.bytes;
  return items;
}

}  // namespace

TEST_CASE("the parts of a balance and the rest are what is in use", "[report][balance]") {
  Program program;
  program.dump.add_device(device(0, true));
  BalanceRecord record = balance(500 * kMiB);
  record.allocated = 90 * kMiB;
  record.in_blocks = 92 * kMiB;
  record.physical = 8 * kMiB;
  record.default_reserved = 64 * kMiB;
  record.default_used = 32 * kMiB;
  record.custom_reserved = record.custom_used = 10 * kMiB;
  record.graph_reserved = 6 * kMiB;
  record.graph_used = 2 * kMiB;
  record.taken[static_cast<int>(DriverMemory::kContexts)] = 200 * kMiB;
  record.taken[static_cast<int>(DriverMemory::kModules)] = 40 * kMiB;
  program.dump.add_balance(record);
  const Report report = program.report();
  REQUIRE(report.balances.size() == 1);
  const Balance& one = report.balances[0];
  CHECK(one.in_use == 500 * kMiB);
  CHECK(items_of(one) == std::map<std::string, std::int64_t>{{"allocations", (90 + 8 + 32 + 10 + 2) * kMiB},
                                                             {"blocks", 2 * kMiB},
                                                             {"pool-reserve", 32 * kMiB},
                                                             {"graph-pool-reserve", 4 * kMiB},
                                                             {"contexts", 200 * kMiB},
                                                             {"modules", 40 * kMiB},
                                                             {"rest", (500 - 142 - 2 - 32 - 4 - 240) * kMiB}});
  CHECK(one.items.back().what == BalancePart::kRest);
  CHECK(one.items.front().what == BalancePart::kContexts);
}

namespace {

std::uint16_t bit_of(DriverMemory what) { return static_cast<std::uint16_t>(1U << static_cast<unsigned>(what)); }

// NVML's account of the process at the moment of the balance.
ShareRecord share(std::uint64_t own, std::uint16_t unproven = 0) {
  ShareRecord record = {};
  record.state = 1;
  record.moment = Moment::kExit;
  record.unproven = unproven;
  record.account.own_bytes = own;
  return record;
}

}  // namespace

TEST_CASE("what other processes may have changed is not known, unless NVML's figure agrees", "[report][balance]") {
  const std::uint16_t streams = bit_of(DriverMemory::kStreams);
  struct Row {
    const char* name;
    ShareRecord share;
    std::uint32_t seen_others;
    std::uint64_t unmeasured;
    std::map<std::string, std::int64_t> items;  // of 900 MiB in use: 500 MiB of contexts and 34 MiB of streams
    bool streams_known;
  };
  const auto mib = [](std::int64_t bytes) { return bytes * static_cast<std::int64_t>(kMiB); };
  const std::map<std::string, std::int64_t> exact = {
      {"contexts", mib(500)}, {"streams", mib(34)}, {"rest", 0}, {"no-process", mib(366)}};
  const auto with_rest = [&](std::int64_t rest, bool known) {
    std::map<std::string, std::int64_t> items = {{"contexts", mib(500)}, {"rest", mib(rest)}};
    items["no-process"] = mib(900 - 500 - rest);
    if (known) items["streams"] = mib(34), items["no-process"] -= mib(34);
    return items;
  };
  const Row row =
      GENERATE_COPY(Row{"each charge by NVML", share(534 * kMiB), 3, 0, exact, true},
                    Row{"by cuMemGetInfo, the sum agrees", share(534 * kMiB, streams), 0, 0, exact, true},
                    Row{"within the blocks of the driver", share(538 * kMiB, streams), 0, 0, with_rest(4, true), true},
                    Row{"less was charged than the process has", share((534 + 228) * kMiB, streams), 0, 0,
                        with_rest(262, false), false},
                    Row{"more was charged", share((534 - 20) * kMiB, streams), 0, 0, with_rest(14, false), false},
                    Row{"the rest is that of calls without a reading", share((534 + 228) * kMiB, streams), 0, 1,
                        with_rest(228, true), true},
                    Row{"an answer named others", share(534 * kMiB, streams), 1, 0, with_rest(34, false), false},
                    Row{"a rest that no charge explains", share((534 + 228) * kMiB), 0, 0, with_rest(228, true), true});
  INFO(row.name);
  Program program;
  program.dump.add_device(device(0, true));
  BalanceRecord record = balance(900 * kMiB);
  record.taken[static_cast<int>(DriverMemory::kContexts)] = 500 * kMiB;
  record.taken[static_cast<int>(DriverMemory::kStreams)] = 34 * kMiB;
  record.unmeasured = row.unmeasured;
  program.dump.add_balance(record);
  ShareRecord of_the_moment = row.share;
  of_the_moment.seen_others = row.seen_others;
  program.dump.add_share(of_the_moment);
  program.dump.add_call_charge(charge(DriverMemory::kStreams, 34 * kMiB));
  const Report report = program.report();
  REQUIRE(report.balances.size() == 1);
  const Balance& one = report.balances[0];
  CHECK(items_of(one) == row.items);
  CHECK(one.is_not_known(BalancePart::kStreams) != row.streams_known);
  REQUIRE(report.call_charges.size() == 1);
  CHECK(report.call_charges[0].beside_others != row.streams_known);
}

TEST_CASE("without NVML's figure, parts of one reading are named", "[report][balance]") {
  const bool context_first = GENERATE(true, false);
  const auto problem = GENERATE(GpuProblem::kNone, GpuProblem::kNoRun);
  Program program;
  program.dump.add_device(device(0, true));
  program.dump.add_context(context(0, 500 * kMiB, context_first ? kContextFirst : kContextMeasured));
  BalanceRecord record = balance(540 * kMiB);
  record.taken[static_cast<int>(DriverMemory::kContexts)] = 500 * kMiB;
  record.taken[static_cast<int>(DriverMemory::kStreams)] = 34 * kMiB;
  record.taken[static_cast<int>(DriverMemory::kModules)] = 6 * kMiB;
  program.dump.add_balance(record);
  ShareRecord by_reading = share(540 * kMiB, bit_of(DriverMemory::kContexts) | bit_of(DriverMemory::kStreams));
  by_reading.account.problem = problem;
  program.dump.add_share(by_reading);
  const Report report = program.report();
  REQUIRE(report.balances.size() == 1);
  std::set<BalancePart> unproven;
  for (const BalanceItem& item : report.balances[0].unproven) unproven.insert(item.what);
  std::set<BalancePart> expected;
  if (problem != GpuProblem::kNone) expected.insert(BalancePart::kStreams);
  if (problem != GpuProblem::kNone && !context_first) expected.insert(BalancePart::kContexts);
  CHECK(unproven == expected);
  CHECK(report.balances[0].not_known.empty());
}

TEST_CASE("an account at exit leaves a first context what is its own", "[report][balance]") {
  struct Row {
    std::uint64_t own;
    std::uint64_t unmeasured;
    std::uint64_t bytes;
    bool others_included;
  };
  const Row row =
      GENERATE(Row{0, 0, 0, true}, Row{620 * kMiB, 0, 500 * kMiB, false}, Row{650 * kMiB, 3, 530 * kMiB, true});
  Program program;
  program.dump.add_device(device(0, true));
  program.dump.add_context(context(0, 900 * kMiB, kContextFirst));
  program.dump.add_context(context(0, 20 * kMiB, kContextMeasured));
  BalanceRecord record = balance(990 * kMiB);
  record.allocated = 100 * kMiB;
  record.taken[static_cast<int>(DriverMemory::kContexts)] = 920 * kMiB;
  record.unmeasured = row.unmeasured;
  program.dump.add_balance(record);
  ShareRecord of_the_moment = share(row.own, bit_of(DriverMemory::kContexts));
  of_the_moment.seen_others = 1;
  if (row.own == 0) of_the_moment.account.problem = GpuProblem::kLate;
  program.dump.add_share(of_the_moment);
  const Report report = program.report();
  REQUIRE(report.contexts.size() == 2);
  CHECK(report.contexts[0].bytes == row.bytes);
  CHECK(report.contexts[0].others_included == row.others_included);
  CHECK(report.contexts[1].bytes == 20 * kMiB);
}

TEST_CASE("more that is known than in use makes a negative rest", "[report][balance]") {
  Program program;
  program.dump.add_device(device(0, true));
  BalanceRecord record = balance(10 * kMiB);
  record.taken[static_cast<int>(DriverMemory::kStreams)] = 12 * kMiB;
  program.dump.add_balance(record);
  CHECK(program.report().balances.at(0).rest() == -2 * static_cast<std::int64_t>(kMiB));
}

TEST_CASE("the exit comes before out of memory and the peak, impossible balances are left out", "[report][balance]") {
  Program program;
  program.dump.add_device(device(0, true));
  program.dump.add_balance(balance(3, Moment::kPeak));
  program.dump.add_balance(balance(2, Moment::kOutOfMemory));
  program.dump.add_balance(balance(1));
  program.dump.add_balance(balance(1, static_cast<Moment>(77)));
  BalanceRecord hostile = balance(1);
  hostile.taken[1] = INT64_MIN;
  program.dump.add_balance(hostile);
  hostile = balance(1);
  hostile.allocated = ~0ULL;
  program.dump.add_balance(hostile);
  hostile = balance(1);
  hostile.free_bytes = hostile.total_bytes + 1;
  program.dump.add_balance(hostile);
  const Report report = program.report();
  REQUIRE(report.balances.size() == 3);
  CHECK(report.balances[0].moment == Moment::kExit);
  CHECK(report.balances[1].moment == Moment::kOutOfMemory);
  CHECK(report.balances[2].moment == Moment::kPeak);
}

TEST_CASE("a stray context: nothing else on its device, and allocations on another", "[report][balance]") {
  struct Row {
    const char* name;
    bool allocates_here;
    bool allocates_elsewhere;
    DriverMemory also_took;
    ContextState state;
    bool stray;
  };
  const Row row =
      GENERATE(Row{"stray", false, true, DriverMemory::kNone, ContextState::kAlive, true},
               Row{"it allocates there, too", true, true, DriverMemory::kNone, ContextState::kAlive, false},
               Row{"it allocates nowhere", false, false, DriverMemory::kNone, ContextState::kAlive, false},
               Row{"it runs kernels there", false, true, DriverMemory::kModules, ContextState::kAlive, false},
               Row{"it ended", false, true, DriverMemory::kNone, ContextState::kDestroyed, false});
  INFO(row.name);
  Program program;
  program.dump.add_device(device(0, row.allocates_here));
  program.dump.add_device(device(1, row.allocates_elsewhere));
  ContextRecord record = context(0, 524 * kMiB, kContextMeasured);
  record.state = row.state;
  program.dump.add_context(record);
  program.dump.add_context(context(1, 527 * kMiB, kContextFirst));
  if (row.also_took != DriverMemory::kNone) {
    CallChargeRecord charge = {};
    charge.state = 1;
    charge.what = row.also_took;
    charge.bytes = 5;
    program.dump.add_call_charge(charge);
  }
  const Report report = program.report();
  REQUIRE(report.contexts.size() == 2);
  CHECK(report.contexts[0].stray == row.stray);
  CHECK(report.contexts[0].bytes == 524 * kMiB);
  CHECK_FALSE(report.contexts[0].others_included);
  CHECK(report.contexts[1].others_included);
  CHECK(report.contexts[1].device == 1);
  if (row.stray) CHECK(report.contexts[0].allocates_on == std::vector<unsigned>{1});
}

TEST_CASE("a stray context with leftovers: one stretch of work, and then more on another device", "[report][balance]") {
  struct Row {
    const char* name;
    std::uint32_t made, launches, last_made;
    std::uint64_t live, peak;
    bool stray;
  };
  const Row row = GENERATE(Row{"left", 1, 1, 1, 2 * kMiB, 2 * kMiB, true},
                           Row{"left, and read once more", 1, 2, 1, 8 * kMiB, 60 * kMiB, true},
                           Row{"left in the middle", 1, 0, 2, 2 * kMiB, 2 * kMiB, true},
                           Row{"used again", 2, 1, 3, 2 * kMiB, 2 * kMiB, false},
                           Row{"launched on again", 1, 3, 1, 2 * kMiB, 2 * kMiB, false},
                           Row{"used last", 1, 1, 5, 2 * kMiB, 2 * kMiB, false},
                           Row{"too much is live", 1, 1, 1, 8 * kMiB + 1, 9 * kMiB, false},
                           Row{"it had more memory", 1, 1, 1, 0, 65 * kMiB, false},
                           Row{"of an older version", 0, 0, 0, 2 * kMiB, 2 * kMiB, false});
  INFO(row.name);
  Program program;
  DeviceRecord own = device(0, true);
  own.made_stretches = row.made;
  own.launch_stretches = row.launches;
  own.last_made = row.last_made;
  own.live_bytes = row.live;
  own.peak_live_bytes = row.peak;
  program.dump.add_device(own);
  DeviceRecord main = device(1, true);
  main.made_stretches = 2;
  main.last_made = 4;
  main.live_bytes = main.peak_live_bytes = 64 * kMiB;
  program.dump.add_device(main);
  program.dump.add_context(context(0, 527 * kMiB, kContextFirst));
  program.dump.add_context(context(1, 527 * kMiB, kContextFirst));
  CallChargeRecord code = {};
  code.state = 1;
  code.what = DriverMemory::kModules;
  code.bytes = 3 * kMiB;
  program.dump.add_call_charge(code);
  const Report report = program.report();
  REQUIRE(report.contexts.size() == 2);
  CHECK(report.contexts[0].stray == row.stray);
  CHECK(report.contexts[0].leftover_bytes == (row.stray ? row.live + 3 * kMiB : 0));
  CHECK_FALSE(report.contexts[1].stray);
}

TEST_CASE("calls that made the driver take memory, most bytes first", "[report][balance]") {
  Program program;
  program.dump.add_device(device(0, true));
  CallChargeRecord record = charge(DriverMemory::kModules, 2);
  record.stack = program.stack({"load", "main"});
  record.count = 7;
  program.dump.add_call_charge(record);
  record.what = DriverMemory::kGraphExecutables;
  record.bytes = 9;
  record.context = kNoIndex;
  program.dump.add_call_charge(record);
  record.what = static_cast<DriverMemory>(99);
  record.bytes = 1;
  program.dump.add_call_charge(record);
  const Report report = program.report();
  REQUIRE(report.call_charges.size() == 3);
  CHECK(report.call_charges[0].what == BalancePart::kGraphExecutables);
  CHECK(report.call_charges[0].ended);
  CHECK(report.call_charges[1].what == BalancePart::kModules);
  CHECK(report.call_charges[1].count == 7);
  CHECK_FALSE(report.call_charges[1].ended);
  CHECK(naming_frame(*report.call_charges[1].stack)->function == "load");
  CHECK(report.call_charges[2].what == BalancePart::kRest);
}

namespace {

// A process that runs: 3 MiB and a byte allocated, 5 MiB from a pool, a first context of 500 MiB, 40 MiB of code, and
// code of a context that ended.
Report running(Ended ended = Ended::kRunning) {
  Program program;
  program.dump.add_device(device(0, true));
  program.dump.add_device(device(1, false));
  const Ref stack = program.stack({"load", "main"});
  program.dump.add_allocation(live_allocation(stack, 3 * kMiB + 1));
  program.dump.add_allocation(live_allocation(stack, 5 * kMiB, Kind::kStreamOrdered));
  program.dump.add_allocation(live_allocation(stack, 7 * kMiB, Kind::kPinnedHost));
  program.dump.add_context(context(0, 500 * kMiB, kContextFirst));
  program.dump.add_call_charge(charge(DriverMemory::kContexts, 500 * kMiB));
  CallChargeRecord code = charge(DriverMemory::kModules, 40 * kMiB);
  program.dump.add_call_charge(code);
  code.context = kNoIndex;
  program.dump.add_call_charge(code);
  Report report = program.report();
  report.process.status.ended = ended;
  const Dump dump = Dump::from_bytes(program.dump.bytes().data(), program.dump.bytes().size(), "app.dump");
  report.present_use = read_present_use(dump, report, dump.call_charges());
  return report;
}

using Items = std::map<std::string, std::int64_t>;

}  // namespace

TEST_CASE("the balance of a running process: its records, and NVML's figure", "[report][balance]") {
  const Report report = running();
  const std::optional<Balance> alone = balance_now(report, 0, std::nullopt);
  REQUIRE(alone);
  CHECK(std::string(moment_name(alone->moment)) == "now");
  CHECK_FALSE(alone->has_rest());
  CHECK(alone->others_included);
  CHECK(items_of(*alone) ==
        Items{{"contexts", 500 * kMiB}, {"modules", 40 * kMiB}, {"allocations", 8 * kMiB + 1}, {"blocks", kMiB - 1}});

  const std::optional<Balance> charged = balance_now(report, 0, 560 * kMiB);
  REQUIRE(charged);
  CHECK(charged->in_use == 560 * kMiB);
  CHECK(charged->rest() == static_cast<std::int64_t>(11 * kMiB));
  CHECK(charged->explained() == static_cast<std::int64_t>(549 * kMiB));
  CHECK_FALSE(charged->others_included);
  CHECK_FALSE(charged->contexts_at_most);

  // The other device, with nothing on it; one that the process does not know.
  CHECK(balance_now(report, 1, std::nullopt)->items.empty());
  CHECK_FALSE(balance_now(report, 2, std::nullopt));
}

TEST_CASE("the first context has what others had then: NVML's figure leaves less for it", "[report][balance]") {
  const std::optional<Balance> balance = balance_now(running(), 0, 448 * kMiB);
  REQUIRE(balance);
  CHECK(balance->contexts_at_most);
  Items items = items_of(*balance);
  CHECK(items["contexts"] == static_cast<std::int64_t>(400 * kMiB - 1));
  CHECK(items["modules"] == 40 * kMiB);
  CHECK(items["rest"] == 0);
  // Less than the allocations alone: the rest is negative, as it is where more is known than in use.
  const std::optional<Balance> less = balance_now(running(), 0, 8 * kMiB);
  CHECK(items_of(*less).count("contexts") == 0);
  CHECK(less->rest() == -static_cast<std::int64_t>(40 * kMiB) - 1);
}

TEST_CASE("a process that has ended has no balance of now, and an impossible figure is none", "[report][balance]") {
  CHECK_FALSE(balance_now(running(Ended::kKilled), 0, std::nullopt));
  CHECK_FALSE(balance_now(running(), 0, ~0ULL)->has_rest());
}

TEST_CASE("hostile records make no balance of now", "[report][balance]") {
  Program program;
  program.dump.add_device(device(0, true));
  program.dump.add_allocation(live_allocation(program.stack({"f"}), ~0ULL));
  CallChargeRecord charge = {};
  charge.state = 1;
  charge.what = static_cast<DriverMemory>(99);
  charge.bytes = INT64_MAX;
  program.dump.add_call_charge(charge);
  charge.what = DriverMemory::kModules;
  program.dump.add_call_charge(charge);
  charge.bytes = INT64_MAX - 1;
  program.dump.add_call_charge(charge);
  Report report = program.report();
  report.process.status.ended = Ended::kRunning;
  const Dump dump = Dump::from_bytes(program.dump.bytes().data(), program.dump.bytes().size(), "app.dump");
  report.present_use = read_present_use(dump, report, dump.call_charges());
  CHECK_FALSE(balance_now(report, 0, std::nullopt));
}

TEST_CASE("the use of memory for executable graphs is given as far as it is known", "[report][balance]") {
  struct Row {
    const char* name;
    std::uint32_t live;
    std::uint64_t certain;  // MiB
    std::uint16_t flags;
    bool known;
    std::uint64_t at_least, at_most;  // MiB
  };
  const Row row = GENERATE(Row{"none lives", 0, 0, kBalanceExecutables, true, 0, 0},
                           Row{"all of them live", 40, 500, kBalanceExecutables, true, 500, 500},
                           Row{"some use memory of others, perhaps", 3, 200, kBalanceExecutables, true, 200, 500},
                           Row{"more than there is", 3, 900, kBalanceExecutables, true, 500, 500},
                           Row{"a dump of an earlier version", 0, 0, 0, false, 0, 0});
  INFO(row.name);
  Program program;
  program.dump.add_device(device(0, true));
  BalanceRecord record = balance(700 * kMiB);
  record.taken[static_cast<int>(DriverMemory::kGraphExecutables)] = 500 * kMiB;
  record.executables = row.live;
  record.executables_bytes = row.certain * kMiB;
  record.flags = row.flags;
  program.dump.add_balance(record);
  const ExecutableUse use = program.report().balances.at(0).executables;
  CHECK(use.known == row.known);
  CHECK(use.live == row.live);
  CHECK(use.at_least == row.at_least * kMiB);
  CHECK(use.at_most == row.at_most * kMiB);
}
