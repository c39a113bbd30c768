#include "interpose/dump/dump_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "interpose/system/restrictions.h"
#include "tests/catch.h"
#include "tests/unit/interpose/fixture.h"

using namespace culprit;
using format::ChunkType;
using format::Ref;
using format::StopReason;

namespace {

int fail_reserve_after = 0;
int failing_reserve(int, std::uint64_t, std::uint64_t) { return fail_reserve_after-- > 0 ? 0 : -ENOSPC; }
std::uint64_t small_file_limit(int resource) { return resource == RLIMIT_FSIZE ? 300 * 1024 : ~std::uint64_t{0}; }
int other_file(int, FileId* id) {
  *id = {1, 2, 0};
  return 0;
}

std::string string_at(DumpWriter& dump, Ref ref) {
  auto* record = dump.at<format::StringRecord>(ref);
  return std::string(reinterpret_cast<char*>(record + 1), record->bytes);
}

}  // namespace

TEST_CASE("a dump starts with its header and is private to its user") {
  TemporaryFolder folder;
  Zeroed<DumpWriter> dump;
  std::string path = folder.file("a.dump");
  REQUIRE(dump->start(path.c_str()) == 0);
  struct stat status;
  REQUIRE(stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0600);
  CHECK(static_cast<std::uint64_t>(status.st_size) == dump->file_size());
  CHECK(dump->file_size() >= format::kHeaderBytes);
  CHECK(std::memcmp(dump->header()->magic, format::kMagic, 8) == 0);
  CHECK(dump->header()->file_bytes == format::kHeaderBytes);
}

TEST_CASE("a name that is taken gets a number before its extension, and a symbolic link is never followed") {
  TemporaryFolder folder;
  std::string path = folder.file("a.dump");
  REQUIRE(symlink("/etc/hostname", path.c_str()) == 0);
  Zeroed<DumpWriter> first, second;
  REQUIRE(first->start(path.c_str()) == 0);
  REQUIRE(second->start(path.c_str()) == 0);
  CHECK(std::string(first->path()) == folder.file("a.1.dump"));
  CHECK(std::string(second->path()) == folder.file("a.2.dump"));
}

TEST_CASE("the number of a taken name comes before the extension of the file, never of a folder") {
  struct Row {
    const char *name, *second;
  };
  for (const Row& row : {Row{"a.b.dump", "a.b.1.dump"}, Row{"plain", "plain.1"}, Row{".hidden", ".hidden.1"},
                         Row{"f.d/plain", "f.d/plain.1"}, Row{"end.", "end.1."}}) {
    TemporaryFolder folder;
    Zeroed<DumpWriter> first, second;
    REQUIRE(first->start(folder.file(row.name).c_str()) == 0);
    REQUIRE(second->start(folder.file(row.name).c_str()) == 0);
    CHECK(std::string(second->path()) == folder.file(row.second));
  }
}

TEST_CASE("the folders of a dump's path are made, with the process's umask") {
  TemporaryFolder folder;
  Zeroed<DumpWriter> dump;
  const mode_t before = umask(027);
  CHECK(dump->start(folder.file("one//two/a.dump").c_str()) == 0);
  umask(before);
  CHECK(access(folder.file("one/two/a.dump").c_str(), F_OK) == 0);
  struct stat status;
  REQUIRE(stat(folder.file("one").c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0750);
}

TEST_CASE("a folder that cannot be made is the error of the dump") {
  TemporaryFolder folder;
  Zeroed<DumpWriter> first, second, third;
  CHECK(first->start("/proc/nonexistent/a.dump") == ENOENT);
  REQUIRE(std::ofstream(folder.file("file")).good());
  CHECK(second->start(folder.file("file/a.dump").c_str()) == ENOTDIR);
  CHECK(third->start((folder.file("x/") + std::string(300, 'n') + "/a.dump").c_str()) == ENAMETOOLONG);
}

TEST_CASE("a character device makes a dump in memory, and nothing with a suffix") {
  TemporaryFolder folder;
  std::string link = folder.file("link");
  REQUIRE(symlink("/dev/null", link.c_str()) == 0);
  for (const char* path : {"/dev/null", link.c_str()}) {
    Zeroed<DumpWriter> dump;
    REQUIRE(dump->start(path) == 0);
    CHECK_FALSE(dump->leaves_file());
    std::vector<Ref> refs;
    for (int i = 0; i < 3000; ++i) refs.push_back(dump->allocate_records(ChunkType::kAllocations, 32, nullptr));
    for (Ref ref : refs) REQUIRE(ref != 0);
    CHECK(string_at(*dump, dump->add_string("kept", 4)) == "kept");
    dump->close();
  }
  CHECK(access("/dev/null.1", F_OK) != 0);
  CHECK(access((link + ".1").c_str(), F_OK) != 0);
}

TEST_CASE("a path that cannot hold a dump is an error, and no file is made beside it") {
  TemporaryFolder folder;
  const std::string fifo = folder.file("fifo"), sub = folder.file("sub");
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  REQUIRE(mkdir(sub.c_str(), 0700) == 0);
  Zeroed<DumpWriter> first, second, third;
  CHECK(first->start(fifo.c_str()) == ESPIPE);
  CHECK(second->start(sub.c_str()) == EISDIR);
  CHECK(third->start((sub + "/").c_str()) == EISDIR);
  CHECK(access((fifo + ".1").c_str(), F_OK) != 0);
  CHECK(access((sub + ".1").c_str(), F_OK) != 0);
}

namespace {

struct rlimit descriptors_of_program;

int answer_limit(int, const struct rlimit* wanted, struct rlimit* former) {
  if (former != nullptr) *former = descriptors_of_program;
  if (wanted != nullptr) descriptors_of_program = *wanted;
  return 0;
}

}  // namespace

TEST_CASE("a dump takes no descriptor that the program could have") {
  TemporaryFolder folder;
  RealOs restore;
  const int next = dup(0);
  REQUIRE(next >= 0);
  close(next);
  const auto same_next = [&] {
    const int now = dup(0);
    close(now);
    return now == next;
  };
  struct rlimit limit;
  REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  Zeroed<DumpWriter> dump;
  SECTION("where the limit can be raised it has a number above it, also when it was closed") {
    struct rlimit less = limit;
    less.rlim_cur = 300;
    if (limit.rlim_max < 400) return;
    // Beside a thread, as TSan's runtime has one, no descriptor is kept in the first two seconds.
    using Entries = std::filesystem::directory_iterator;
    if (std::distance(Entries("/proc/self/task"), Entries()) != 1) return;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &less) == 0);
    REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0);
    CHECK(same_next());
    CHECK(fcntl(300, F_GETFD) == FD_CLOEXEC);
    REQUIRE(close_range(3, ~0U, 0) == 0);
    REQUIRE(use_up_room(*dump));
    CHECK(dump->allocate_records(ChunkType::kAllocations, 1, nullptr) != 0);
    CHECK(dup(0) == 3);
    close(3);
    CHECK(fcntl(300, F_GETFD) == FD_CLOEXEC);
    dump->close();
    CHECK(fcntl(300, F_GETFD) == -1);
    struct rlimit now;
    REQUIRE(getrlimit(RLIMIT_NOFILE, &now) == 0);
    CHECK(now.rlim_cur == 300);
    CHECK(now.rlim_max == limit.rlim_max);
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  SECTION("a limit that another thread sets meanwhile stays") {
    descriptors_of_program = {100, 1000};
    os.exchange_limit = answer_limit;
    os.duplicate_from = [](int, int) {
      descriptors_of_program = {500, 600};
      return -EMFILE;
    };
    REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0);
    CHECK(descriptors_of_program.rlim_cur == 500);
    CHECK(descriptors_of_program.rlim_max == 600);
    dump->close();
  }
  SECTION("a program with very many has it among its own, where the highest number is free") {
    os.exchange_limit = [](int, const struct rlimit*, struct rlimit*) { return -EPERM; };
    os.limit = [](int resource) { return resource == RLIMIT_NOFILE ? std::uint64_t{1} << 20 : ~std::uint64_t{0}; };
    if (limit.rlim_cur < 1024) return;
    REQUIRE(dup2(0, 1023) == 1023);
    REQUIRE(dup2(0, 1022) == 1022);
    REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0);
    CHECK(same_next());
    CHECK(fcntl(1024, F_GETFD) == FD_CLOEXEC);
    dump->close();
    close(1023);
    close(1022);
  }
  SECTION("where none can be had without taking it away the file is opened again when it grows") {
    os.exchange_limit = [](int, const struct rlimit*, struct rlimit*) { return -EPERM; };
    os.limit = [](int resource) { return resource == RLIMIT_NOFILE ? std::uint64_t{1024} : ~std::uint64_t{0}; };
    REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0);
    CHECK(same_next());
    CHECK(dump->allocate_records(ChunkType::kAllocations, 1, nullptr) != 0);
    CHECK(same_next());
    // When no file can be opened by name.
    os.open_file = [](const char*, int, unsigned) { return -EMFILE; };
    REQUIRE(use_up_room(*dump));
    const Ref ref = dump->allocate_records(ChunkType::kErrors, 1, nullptr);
    REQUIRE(ref != 0);
    dump->at<format::ErrorRecord>(ref)->type = format::ErrorType::kDoubleFree;
    struct stat status;
    REQUIRE(stat(dump->path(), &status) == 0);
    CHECK(static_cast<std::uint64_t>(status.st_size) == dump->file_size());
    std::ifstream file(dump->path(), std::ios::binary);
    file.seekg(ref * format::kRefUnit + offsetof(format::ErrorRecord, type));
    CHECK(file.get() == static_cast<int>(format::ErrorType::kDoubleFree));
    os.resize = [](const char*, std::uint64_t) { return -EPERM; };
    REQUIRE(use_up_room(*dump));
    CHECK(dump->allocate_records(ChunkType::kReleases, 1, nullptr) == 0);
    CHECK(dump->header()->stop_reason == StopReason::kNoDescriptor);
  }
}

TEST_CASE("a dump that was made long before its use makes no thread wait for a descriptor") {
  TemporaryFolder folder;
  RealOs restore;
  std::atomic<bool> done{false};
  // Beside it the kernel waits to enlarge the table of descriptors.
  std::thread other([&] {
    while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  });
  static int highest;
  highest = 0;
  os.duplicate_from = [](int fd, int least) {
    highest = std::max(highest, least);
    const int number = fcntl(fd, F_DUPFD_CLOEXEC, least);
    return number < 0 ? -errno : number;
  };
  Zeroed<DumpWriter> dump;
  const int error = dump->start(folder.file("a.dump").c_str());
  const std::uint64_t table = descriptor_table_seen();
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  dump->postpone_waits();
  const Ref ref = error == 0 ? dump->allocate_records(ChunkType::kAllocations, 1, nullptr) : 0;
  done = true;
  other.join();
  CHECK(error == 0);
  CHECK(ref != 0);
  CHECK(static_cast<std::uint64_t>(highest) < table);
  dump->close();
}

TEST_CASE("packed records keep their bytes across chunks") {
  TemporaryFolder folder;
  Zeroed<DumpWriter> dump;
  REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0);
  std::vector<Ref> refs;
  std::vector<std::string> texts;
  for (int i = 0; i < 3000; ++i) {
    texts.push_back("string number " + std::to_string(i) + std::string(static_cast<std::size_t>(i % 97), 'x'));
    refs.push_back(dump->add_string(texts.back().data(), texts.back().size()));
    REQUIRE(refs.back() != 0);
  }
  for (std::size_t i = 0; i < refs.size(); ++i) CHECK(string_at(*dump, refs[i]) == texts[i]);
  struct stat status;
  REQUIRE(stat(dump->path(), &status) == 0);
  CHECK(static_cast<std::uint64_t>(status.st_size) == dump->file_size());
  CHECK(dump->header()->file_bytes == dump->size());
}

TEST_CASE("records are numbered through all chunks of their type") {
  TemporaryFolder folder;
  Zeroed<DumpWriter> dump;
  REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0);
  std::uint32_t expected = 0;
  for (int i = 0; i < 2000; ++i) {
    std::uint32_t index = 12345;
    REQUIRE(dump->allocate_records(ChunkType::kModules, 1, &index) != 0);
    CHECK(index == expected++);
  }
}

TEST_CASE("a full disk stops recording with its reason and loses nothing written before") {
  TemporaryFolder folder;
  RealOs restore;
  Zeroed<DumpWriter> dump;
  REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0);
  Ref before = dump->add_string("kept", 4);
  REQUIRE(before != 0);
  REQUIRE(use_up_room(*dump));
  fail_reserve_after = 0;
  os.reserve = failing_reserve;
  CHECK(dump->allocate_records(ChunkType::kAllocations, 1, nullptr) == 0);
  CHECK(dump->stopped());
  CHECK(dump->header()->stop_reason == StopReason::kNoSpace);
  CHECK(dump->header()->stop_errno == ENOSPC);
  CHECK(string_at(*dump, before) == "kept");
  CHECK(dump->add_string("room is left in this chunk", 5) != 0);
}

TEST_CASE("a disk without room for more gets what is needed") {
  TemporaryFolder folder;
  RealOs restore;
  Zeroed<DumpWriter> dump;
  os.reserve = [](int fd, std::uint64_t offset, std::uint64_t bytes) {
    return bytes > 32 << 10 ? -ENOSPC : -posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  };
  os.limit = [](int resource) { return resource == RLIMIT_FSIZE ? std::uint64_t{300} << 10 : ~std::uint64_t{0}; };
  REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0);
  CHECK(dump->file_size() == format::kHeaderBytes);
  REQUIRE(dump->add_string("kept", 4) != 0);
  CHECK_FALSE(dump->stopped());
  CHECK(dump->file_size() == dump->size());
}

TEST_CASE("a dump reserves no more than its own limit") {
  TemporaryFolder folder;
  Zeroed<DumpWriter> dump;
  REQUIRE(dump->start(folder.file("a.dump").c_str(), 100 << 10) == 0);
  CHECK(dump->file_size() == 100 << 10);
}

TEST_CASE("the file size limit is looked at before growing: passing it would kill the target") {
  TemporaryFolder folder;
  RealOs restore;
  Zeroed<DumpWriter> dump;
  os.limit = small_file_limit;
  REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0);
  CHECK(dump->allocate_records(ChunkType::kAllocations, 1, nullptr) != 0);
  CHECK(dump->allocate_records(ChunkType::kErrors, 1, nullptr) != 0);
  CHECK(dump->allocate_records(ChunkType::kStacks, 1, nullptr) == 0);
  CHECK(dump->header()->stop_reason == StopReason::kFileSizeLimit);
}

TEST_CASE("a descriptor that the target closed and used again is never written to") {
  TemporaryFolder folder;
  RealOs restore;
  Zeroed<DumpWriter> dump;
  REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0);
  SECTION("the file is opened again by its name") {
    REQUIRE(dump->add_string("x", 1) != 0);
    REQUIRE(use_up_room(*dump));
    // Like a daemon: close everything, then open something else under the same numbers.
    int null = open("/dev/null", O_RDWR);
    REQUIRE(null >= 0);
    for (int fd = 3; fd < null; ++fd) {
      struct stat dump_status, fd_status;
      stat(dump->path(), &dump_status);
      if (fstat(fd, &fd_status) == 0 && fd_status.st_ino == dump_status.st_ino) dup2(null, fd);
    }
    CHECK(dump->allocate_records(ChunkType::kAllocations, 1, nullptr) != 0);
    CHECK_FALSE(dump->stopped());
  }
  SECTION("and if that is not possible, recording stops") {
    REQUIRE(use_up_room(*dump));
    os.identify = other_file;
    CHECK(dump->allocate_records(ChunkType::kAllocations, 1, nullptr) == 0);
    CHECK(dump->header()->stop_reason == StopReason::kFileReplaced);
  }
}

TEST_CASE("threads that write at once never share a record") {
  TemporaryFolder folder;
  Zeroed<DumpWriter> dump;
  REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0);
  std::vector<std::vector<Ref>> refs(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < refs.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        std::string text = std::to_string(t) + ":" + std::to_string(i);
        refs[t].push_back(dump->add_string(text.data(), text.size()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < refs.size(); ++t) {
    for (std::size_t i = 0; i < refs[t].size(); ++i)
      CHECK(string_at(*dump, refs[t][i]) == std::to_string(t) + ":" + std::to_string(i));
  }
}

TEST_CASE("at its limit a dump refuses what comes in great numbers, and has room for what is rare") {
  TemporaryFolder folder;
  Zeroed<DumpWriter> dump;
  constexpr std::uint64_t kLimit = 4 << 20;
  REQUIRE(dump->start(folder.file("a.dump").c_str(), kLimit) == 0);
  CHECK(dump->header()->size_limit == kLimit);
  const std::string frames(1024, 'f');
  const auto fill = [&](ChunkType type) {
    std::uint64_t bytes = 0;
    while (dump->append(type, frames.data(), frames.size(), nullptr, 0) != 0) bytes += frames.size();
    return bytes;
  };
  CHECK_FALSE(dump->has_news());
  const std::uint64_t stacks = fill(ChunkType::kStacks);
  CHECK(stacks > kLimit / 8 * 5);
  CHECK(stacks <= kLimit / 4 * 3);
  CHECK(dump->is_full(ChunkType::kStacks));
  CHECK_FALSE(dump->is_full(ChunkType::kAllocations));
  CHECK_FALSE(dump->stopped());
  CHECK(dump->take_news());
  CHECK_FALSE(dump->take_news());
  // Allocations use the rest, and leave a sixteenth.
  std::uint64_t allocations = 0;
  while (dump->allocate_records(ChunkType::kAllocations, 32, nullptr) != 0) ++allocations;
  CHECK(allocations > 50);
  CHECK(dump->size() <= kLimit / 16 * 15);
  CHECK(dump->is_full(ChunkType::kAllocations));
  CHECK_FALSE(dump->has_news());
  CHECK(dump->add_string("std::runtime_error", 18) != 0);
  for (ChunkType type : {ChunkType::kErrors, ChunkType::kThrows, ChunkType::kEvidence, ChunkType::kThreads,
                         ChunkType::kHolders, ChunkType::kReleases})
    CHECK(dump->allocate_records(type, 1, nullptr) != 0);
  while (dump->allocate_records(ChunkType::kReleases, 1, nullptr) != 0) {
  }
  CHECK(dump->size() <= kLimit);
  CHECK(dump->size() > kLimit - (64 << 10));
  CHECK(dump->header()->stop_reason == StopReason::kNone);
  struct stat status;
  REQUIRE(stat(dump->path(), &status) == 0);
  CHECK(static_cast<std::uint64_t>(status.st_size) == dump->size());
}

TEST_CASE("a dump that was cut off is noticed before it grows, and lost pages are replaced") {
  TemporaryFolder folder;
  Zeroed<DumpWriter> dump;
  REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0);
  Ref kept = dump->add_string("kept", 4);
  Ref lost = dump->allocate_records(ChunkType::kErrors, 1, nullptr);
  CHECK_FALSE(dump->check_truncated());
  int outside = 0;
  CHECK_FALSE(dump->replace_lost(&outside));
  const std::uint64_t size = dump->size();
  REQUIRE(truncate(dump->path(), 8192) == 0);
  SECTION("by a page that is not there any more") {
    CHECK(dump->replace_lost(dump->at<char>(lost)));
    dump->at<format::ErrorRecord>(lost)->type = format::ErrorType::kDoubleFree;
    CHECK(string_at(*dump, kept) == "kept");
  }
  SECTION("by the size of the file") { CHECK(dump->check_truncated()); }
  SECTION("when it grows") {
    CHECK(dump->allocate_records(ChunkType::kAllocations, 1, nullptr) == 0);
    struct stat status;
    REQUIRE(stat(dump->path(), &status) == 0);
    CHECK(static_cast<std::uint64_t>(status.st_size) < size);
  }
  CHECK(dump->stopped());
  CHECK(dump->header()->stop_reason == StopReason::kTruncated);
}
