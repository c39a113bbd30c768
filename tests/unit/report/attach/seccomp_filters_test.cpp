// The answers of a seccomp filter, known before a call is made under it.
#include "report/attach/seccomp_filters.h"

#include <linux/seccomp.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <sstream>

#include "tests/catch.h"
#include "tests/support/text.h"

using namespace culprit::report;

namespace {

sock_filter load(std::size_t offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset)); }
sock_filter answer(unsigned action) { return BPF_STMT(BPF_RET | BPF_K, action); }
sock_filter if_equal(long value, unsigned char yes, unsigned char no) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(value), yes, no);
}

constexpr std::size_t kNumber = offsetof(seccomp_data, nr);
constexpr std::size_t kArgument = offsetof(seccomp_data, args[2]);

// `action` for `call`, and it is allowed otherwise.
FilterProgram answers(long call, unsigned action) {
  return {load(kNumber), if_equal(call, 0, 1), answer(action), answer(SECCOMP_RET_ALLOW)};
}

}  // namespace

TEST_CASE("the worst answer of a seccomp filter counts", "[attach]") {
  CHECK(worst_answer(answers(SYS_openat, SECCOMP_RET_KILL_PROCESS), SYS_openat) == FilterAnswer::kKilled);
  CHECK(worst_answer(answers(SYS_openat, SECCOMP_RET_KILL_PROCESS), SYS_read) == FilterAnswer::kAllowed);
  CHECK(worst_answer(answers(SYS_read, SECCOMP_RET_KILL_THREAD), SYS_read) == FilterAnswer::kKilled);
  CHECK(worst_answer(answers(SYS_read, SECCOMP_RET_TRAP), SYS_read) == FilterAnswer::kTrapped);
  CHECK(worst_answer(answers(SYS_read, SECCOMP_RET_ERRNO | 1), SYS_read) == FilterAnswer::kError);
  CHECK(worst_answer(answers(SYS_read, SECCOMP_RET_TRACE), SYS_read) == FilterAnswer::kError);
  CHECK(worst_answer(answers(SYS_read, SECCOMP_RET_LOG), SYS_read) == FilterAnswer::kAllowed);
  CHECK(worst_answer(answers(SYS_read, 0x7fc00000), SYS_read) == FilterAnswer::kSupervised);
  CHECK(worst_answer(answers(SYS_read, 0x12340000), SYS_read) == FilterAnswer::kKilled);
  CHECK(worst_answer({}, SYS_read) == FilterAnswer::kUnknown);
}

TEST_CASE("a seccomp filter that tests an argument may give each of its answers", "[attach]") {
  const FilterProgram program = {load(kArgument), if_equal(7, 0, 1), answer(SECCOMP_RET_KILL_PROCESS),
                                 answer(SECCOMP_RET_ALLOW)};
  CHECK(worst_answer(program, SYS_mmap) == FilterAnswer::kKilled);
  // Of another processor's calls only.
  const FilterProgram foreign = {load(offsetof(seccomp_data, arch)), if_equal(0x40000003, 0, 1),
                                 answer(SECCOMP_RET_KILL_PROCESS), answer(SECCOMP_RET_ALLOW)};
  CHECK(worst_answer(foreign, SYS_mmap) == FilterAnswer::kAllowed);
  // The number goes through the memory and a calculation: 2 x number + 1 is compared.
  const FilterProgram calculated = {load(kNumber),
                                    BPF_STMT(BPF_ST, 3),
                                    BPF_STMT(BPF_LDX | BPF_MEM, 3),
                                    BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0),
                                    BPF_STMT(BPF_ALU | BPF_OR | BPF_K, 1),
                                    if_equal(2 * SYS_mmap + 1, 0, 1),
                                    answer(SECCOMP_RET_TRAP),
                                    answer(SECCOMP_RET_ALLOW)};
  CHECK(worst_answer(calculated, SYS_mmap) == FilterAnswer::kTrapped);
  CHECK(worst_answer(calculated, SYS_munmap) == FilterAnswer::kAllowed);
  // Two ways at each of 40 tests: the search ends, and says that it does not know.
  FilterProgram endless;
  for (int i = 0; i < 40; ++i) {
    endless.push_back(load(kArgument));
    endless.push_back(if_equal(i, 0, 1));
    endless.push_back(load(kArgument));
  }
  endless.push_back(answer(SECCOMP_RET_ALLOW));
  CHECK(worst_answer(endless, SYS_mmap) == FilterAnswer::kUnknown);
}

TEST_CASE("seccomp filters are judged by their answers to the library's calls", "[attach]") {
  CHECK(why_filters_forbid({}).empty());
  CHECK(why_filters_forbid({answers(SYS_execve, SECCOMP_RET_KILL_PROCESS)}).empty());
  CHECK(why_filters_forbid({answers(SYS_ppoll, SECCOMP_RET_ERRNO | 1)}).empty());
  using culprit::test::has;
  CHECK(has(why_filters_forbid({answers(SYS_openat, SECCOMP_RET_ERRNO | 1)}), "refuses calls"));
  CHECK(has(why_filters_forbid({answers(SYS_ppoll, SECCOMP_RET_TRAP), answers(SYS_openat, SECCOMP_RET_ERRNO)}),
            "traps calls of libculprit.so (ppoll)"));
  CHECK(has(why_filters_forbid({{answer(SECCOMP_RET_KILL_PROCESS)}}), "openat, read, fstat, newfstatat and 20 more"));
}

TEST_CASE("attach asks about each call that the library makes under a filter", "[attach]") {
  std::ifstream file(std::string(CULPRIT_SOURCE_DIR) + "/interpose/system/system_calls.txt");
  const std::vector<NeededCall>& calls = needed_calls();
  int found = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name, when;
    if (line.empty() || line[0] == '#' || !(words >> name >> when) || when != "always") continue;
    INFO(name);
    ++found;
    CHECK(std::any_of(calls.begin(), calls.end(), [&](const NeededCall& call) { return name == call.name; }));
  }
  CHECK(found > 10);
}
